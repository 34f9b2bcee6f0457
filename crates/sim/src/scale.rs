//! Time made shorter: a workload whose days pass in minutes, and everything about its policy that is a time.
//!
//! All of it is here, so that a replay and the simulation beside it cannot disagree on what was made shorter.

use wharf_core::{JobSpec, Time};
use wharf_policy::{KnobInfo, PolicyInfo, Settings};
use wharf_trace::Trace;

use crate::preset::Rules;

/// A workload in which everything happens `factor` times sooner and takes a `factor`-th of the time. Jobs have less work, in iterations
/// as long as before: speeds, whether of a job, a profile or an estimate, stay as they are.
#[must_use]
pub fn scale_trace(trace: &Trace, factor: f64) -> Trace {
    let jobs = trace.jobs.iter().map(|job| scale_job(job, factor)).collect();
    Trace { name: trace.name.clone(), jobs }
}

fn scale_job(job: &JobSpec, factor: f64) -> JobSpec {
    let time = |time: Time| Time::from_seconds(time.seconds() / factor);
    JobSpec {
        submit: time(job.submit),
        deadline: job.deadline.map(time),
        iterations: job.iterations / factor,
        duration_s: job.duration_s.map(|duration_s| duration_s / factor),
        ..job.clone()
    }
}

/// The settings with which a policy does in the shorter time what it did in the longer: every knob that is a time is
/// there, whether it was set or had its default.
#[must_use]
pub fn scale_settings(policy: &PolicyInfo, rules: &Rules, settings: &Settings, factor: f64) -> Settings {
    let mut scaled = settings.clone();
    // Of the rules' times, only this one is there on real machines. A policy's own default for it goes first.
    let round_s = rules.round_s.to_string();
    scaled.set("round_s", &scale_value(settings.get("round_s").unwrap_or(&round_s), factor));
    for knob in policy.knobs.iter().filter(|knob| is_time(knob)) {
        scaled.set(knob.name, &scale_value(settings.get(knob.name).unwrap_or(knob.default), factor));
    }
    scaled
}

/// Whether a knob is a time, or device-seconds. Its name states this: that is a rule, which a test holds against what
/// each knob tells people that it takes.
fn is_time(knob: &KnobInfo) -> bool {
    ["_s", "_h"].iter().any(|unit| knob.name.ends_with(unit))
}

/// Each number of a value such as `3250:7200`. What is no number stays, and is refused where it is used.
fn scale_value(value: &str, factor: f64) -> String {
    let part = |part: &str| match part.trim().parse::<f64>() {
        Ok(number) => (number / factor).to_string(),
        Err(_) => part.to_owned(),
    };
    value.split(':').map(part).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use wharf_core::ClusterSpec;
    use wharf_trace::{GangMix, GeneratorSettings, Rate, generate};

    use super::*;
    use crate::preset::Preset;
    use crate::{NoRecorder, RunSpec, run};

    fn rules() -> Rules {
        *Preset::load("wharf").unwrap().rules().unwrap()
    }

    #[test]
    fn knobs_that_are_times_are_named_so() {
        for policy in wharf_reproduce::policies() {
            for knob in policy.knobs {
                let says = |word: &str| knob.values.contains(word);
                let takes_time = says("second") || says("minute") || says("hour") || says("day");
                assert_eq!(is_time(knob), takes_time, "{} of {}: {}", knob.name, policy.name, knob.values);
            }
        }
    }

    #[test]
    fn settings_have_every_time_scaled() {
        for (policy, set, key, expected) in [
            ("fifo", "backfill=easy", "round_s", "30"),
            ("fifo", "backfill=easy", "backfill", "easy"),
            ("tiresias", "gputime=off", "queue_limits_s", "325:720"),
            ("tiresias", "queue_limits_s=50", "queue_limits_s", "5"),
            ("muri-s", "packing_num=2", "round_s", "36"),
            ("muri-s", "packing_num=2", "packing_num", "2"),
            ("muri-s", "round_s=60", "round_s", "6"),
            ("las", "quantum_s=often", "quantum_s", "often"),
        ] {
            let settings = Settings::parse([set]).unwrap();
            let scaled = scale_settings(wharf_reproduce::find(policy).unwrap(), &rules(), &settings, 10.0);
            assert_eq!(scaled.get(key), Some(expected), "{policy} with {set}: {key}");
        }
    }

    #[test]
    fn a_scaled_run_is_the_same_run_sooner() {
        let settings = GeneratorSettings {
            seed: 3,
            job_count: 60,
            rate: Rate::Load { devices: 16, load: 1.2 },
            gangs: GangMix::philly().at_most(8).unwrap(),
            ..GeneratorSettings::default()
        };
        let trace = generate(&settings).unwrap();
        let cluster = ClusterSpec::uniform("v100", 2, 8);
        let preset = Preset::load("wharf").unwrap();
        let jcts = |trace: &Trace, policy: &str, settings: &Settings| {
            let spec = RunSpec {
                trace,
                cluster: &cluster,
                policy,
                preset: &preset,
                settings,
                seed: 1,
                profile: None,
                rounds: None,
                failures: None,
            };
            let outcome = run(&spec, &mut NoRecorder).unwrap();
            outcome.jobs.iter().map(|job| job.jct_s().unwrap()).collect::<Vec<f64>>()
        };
        // A power of two, so that no number is rounded.
        let factor = 64.0;
        // The only one with a time that cannot be set: the levels of its service.
        for policy in wharf_reproduce::policies().filter(|policy| policy.name != "gittins") {
            let long = jcts(&trace, policy.name, &Settings::default());
            let mut settings = scale_settings(policy, &rules(), &Settings::default(), factor);
            settings.set("restart_s", &(rules().costs.restart_s / factor).to_string());
            let short = jcts(&scale_trace(&trace, factor), policy.name, &settings);
            for (job, (long, short)) in long.iter().zip(&short).enumerate() {
                let differs = (long / factor - short).abs() / short;
                assert!(differs < 1e-6, "{}: job {job} took {long} and {short}", policy.name);
            }
        }
    }
}
