//! The recorded run of Blox's published simulator, job by job and round by round.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use wharf_core::{ClusterSpec, JobId, JobSpec, NodeShare, Time};
use wharf_sim::{NoRecorder, Outcome, Preset, Recorder, RunError, RunSpec, Settings, check, run};
use wharf_testing::{needs, reference};
use wharf_trace::Trace;

const ROUND_S: f64 = 300.0;

/// A file of the recorded run.
fn recorded(data: &Path, what: &str) -> BTreeMap<u64, Value> {
    let path = data.join(format!("bx3_0_60_Las_accept_all_load_3.0_{what}.json"));
    let value: BTreeMap<String, Value> =
        serde_json::from_slice(&std::fs::read(path).expect("a recording")).expect("JSON");
    value.into_iter().map(|(key, value)| (key.parse().expect("a number"), value)).collect()
}

fn cluster() -> ClusterSpec {
    ClusterSpec::uniform("gpu", 32, 4)
}

fn simulate(trace: &Trace, policy: &str, set: &[&str], recorder: &mut dyn Recorder) -> Outcome {
    let preset = Preset::load("blox").expect("a preset");
    let settings = Settings::parse(set.iter().copied()).expect("settings");
    let spec = RunSpec {
        trace,
        cluster: &cluster(),
        policy,
        preset: &preset,
        settings: &settings,
        seed: 1,
        profile: None,
        rounds: None,
        failures: None,
    };
    run(&spec, recorder).expect("a run")
}

/// Counts, for each round, the jobs that were suspended in it.
#[derive(Default)]
struct Suspensions(BTreeMap<u64, u64>);

impl Recorder for Suspensions {
    fn preempted(&mut self, time: Time, _: JobId) {
        *self.0.entry(time.seconds() as u64).or_default() += 1;
    }
}

#[test]
fn las_recording_same_jobs_and_rounds() {
    needs!(REFERENCE);
    let data = reference("blox");
    let trace = wharf_trace::read_trace(&data.join("job_stream_seed1_load3.json"), None).expect("a trace");
    assert_eq!(trace.jobs.len(), 626);
    let mut suspensions = Suspensions::default();
    let outcome = simulate(&trace, "las", &["track=0..60"], &mut suspensions);

    let (ends, starts) = (recorded(&data, "job_stats"), recorded(&data, "responsivness"));
    assert_eq!((ends.len(), starts.len()), (61, 61));
    for (job, record) in outcome.jobs.iter().enumerate().take(61) {
        let ours = [record.submit, record.end.expect("it ended")].map(Time::seconds);
        assert_eq!(serde_json::json!(ours.map(|time| time as u64)), ends[&(job as u64)], "end of job {job}");
        // The reference tells a start when the first round is over.
        let start = record.first_start.expect("it started").seconds() + ROUND_S;
        let ours = [record.submit.seconds(), start].map(|time| time as u64);
        assert_eq!(serde_json::json!(ours), starts[&(job as u64)], "start of job {job}");
        let attained = &recorded_attained(&data)[&(job as u64)];
        assert_eq!(record.run_s, *attained, "service of job {job}");
    }

    let expected: BTreeMap<u64, u64> = recorded(&data, "custom_metrics")
        .into_iter()
        .map(|(time, value)| (time, value["num_preemptions"].as_u64().expect("a count")))
        .filter(|(_, count)| *count > 0)
        .collect();
    assert_eq!(suspensions.0, expected, "suspensions by round");
    // The reference looks once more when the last tracked job is done.
    assert_eq!(outcome.event_count + 1, recorded(&data, "cluster_stats").len() as u64);
}

fn recorded_attained(data: &Path) -> BTreeMap<u64, f64> {
    let service = |value: Value| value["tracked_metrics"]["attained_service"].as_f64().expect("seconds");
    recorded(data, "run_time_stats").into_iter().map(|(job, value)| (job, service(value))).collect()
}

/// Watches that no device is given twice.
struct Devices(BTreeMap<JobId, Vec<NodeShare>>);

impl Recorder for Devices {
    fn wants_timeline(&self) -> bool {
        true
    }
    fn started(&mut self, _: Time, job: JobId, placement: &[NodeShare], _: &[JobId]) {
        for share in placement {
            let others = self.0.values().flatten().filter(|other| other.node == share.node);
            for other in others {
                assert!(other.devices.intersection(share.devices).is_empty(), "{job}: a device twice");
            }
        }
        self.0.insert(job, placement.to_vec());
    }
    fn preempted(&mut self, _: Time, job: JobId) {
        self.0.remove(&job);
    }
    fn finished(&mut self, _: Time, job: JobId) {
        self.0.remove(&job);
    }
}

/// More jobs than fit, of all sizes that can be placed.
fn crowd(count: u32) -> Trace {
    let job = |index: u32| {
        let devices = [1, 2, 4, 8, 1, 1, 16, 3][index as usize % 8];
        let length = f64::from((index * 7919) % 20_011 + 1) / 7.0;
        let submit = Time::from_seconds(f64::from(index * 13));
        JobSpec::new(&index.to_string(), submit, devices, length, 1000.0)
    };
    Trace { name: "crowd".to_owned(), jobs: (0..count).map(job).collect() }
}

#[test]
fn every_policy_finishes_a_crowd_and_conserves_time() {
    let trace = crowd(400);
    for policy in ["las", "fifo", "srtf", "tiresias", "blox/las"] {
        let outcome = simulate(&trace, policy, &[], &mut Devices(BTreeMap::new()));
        for (record, spec) in outcome.jobs.iter().zip(&trace.jobs) {
            let jct = record.jct_s().expect("it ended");
            assert!((jct - record.queue_s - record.run_s).abs() < 1e-6, "{policy} {record:?}");
            assert_eq!(record.run_s, (spec.solo_s() / ROUND_S).ceil() * ROUND_S, "{policy} {record:?}");
        }
        let held: f64 = outcome.jobs.iter().map(|job| f64::from(job.devices) * job.run_s).sum();
        assert!((held - outcome.busy_device_s).abs() < 1e-3, "{policy}");
        assert!(!outcome.spans.is_empty() && !outcome.timeline.is_empty());
    }
    let las = simulate(&trace, "las", &[], &mut NoRecorder);
    assert_eq!(las.jobs, simulate(&trace, "tiresias", &[], &mut NoRecorder).jobs);
}

#[test]
fn rounds_end_a_run_and_jumps_change_nothing() {
    let mut trace = crowd(40);
    // A lone long job is jumped through; its pace is no exact number.
    trace.jobs.push(JobSpec::new("long", Time::from_seconds(1e6), 1, 1e9, 0.7));
    let whole = simulate(&trace, "las", &[], &mut NoRecorder);
    let long = whole.jobs[40];
    assert_eq!(long.run_s, (1e9 * 0.0007 / ROUND_S).ceil() * ROUND_S);
    let (preset, settings) = (Preset::load("blox").unwrap(), Settings::default());
    let spec = RunSpec {
        trace: &trace,
        cluster: &cluster(),
        policy: "las",
        preset: &preset,
        settings: &settings,
        seed: 1,
        profile: None,
        rounds: Some(4000),
        failures: None,
    };
    let cut = run(&spec, &mut NoRecorder).unwrap();
    assert_eq!(cut.event_count, 4000);
    assert_eq!(cut.jobs[40].end, None);
    // Seen in round 3334, the run ends with round 4000.
    assert_eq!(cut.jobs[40].run_s, (4000.0 - 3334.0) * ROUND_S);
    assert_eq!(cut.jobs[..40], whole.jobs[..40]);
}

#[test]
fn job_that_cannot_run_is_refused() {
    let job = |devices, iterations, iteration_ms| Trace {
        name: "t".to_owned(),
        jobs: vec![JobSpec::new("a", Time::ZERO, devices, iterations, iteration_ms)],
    };
    let (preset, cluster) = (Preset::load("blox").unwrap(), cluster());
    for (trace, policy, set, expected) in [
        (job(0, 1.0, 1.0), "las", "", "job a asks for no devices"),
        (job(6, 1.0, 1.0), "las", "", "job a needs 6 devices, which this mechanism never finds"),
        (job(129, 1.0, 1.0), "las", "", "job a needs 129 devices"),
        (job(1, -1.0, 1.0), "las", "", "job a has -1 iterations of 1 ms, which is no length"),
        (job(1, 1e30, 1e3), "las", "", "too many rounds to go through"),
        (job(1, 1.0, 1.0), "las", "track=0..1", "job 1 is to be tracked, but the trace ends before it"),
        (job(1, 1.0, 1.0), "optimus", "", "policy `optimus` cannot run under preset `blox`"),
        (
            job(1, 1.0, 1.0),
            "las",
            "restart_s=1",
            "`restart_s` is not a setting of policy `las` under preset `blox`",
        ),
    ] {
        let settings = Settings::parse((!set.is_empty()).then_some(set)).unwrap();
        let spec = RunSpec {
            trace: &trace,
            cluster: &cluster,
            policy,
            preset: &preset,
            settings: &settings,
            seed: 1,
            profile: None,
            rounds: None,
            failures: None,
        };
        let error: RunError = check(&spec).expect_err(expected);
        assert!(error.to_string().contains(expected), "{error}, not {expected}");
    }
}
