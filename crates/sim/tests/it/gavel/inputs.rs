//! Inputs that are odd, or that this mechanism cannot run: each is refused with a reason, or run as documented.

use wharf_core::{ClusterSpec, JobSpec, Time};
use wharf_perf::{Locality, Place, Profile, Workload};
use wharf_sim::{NoRecorder, Outcome, Preset, RunError, RunSpec, Settings, check, run};
use wharf_trace::{Trace, parse_cluster};

/// Speeds of `A` and `B` on one and two devices of v100 and k80; `B` does not fit a k80, `C` fits nothing.
fn profile() -> Profile {
    let mut profile = Profile::default();
    let workload = |model: &str| Workload { model: model.into(), batch_size: Some(8) };
    for (model, v100, k80) in [("A", 4.0, 1.0), ("B", 2.0, 0.0), ("C", 0.0, 0.0)] {
        for devices in [1, 2] {
            for (device_type, speed) in [("v100", v100), ("k80", k80)] {
                let place = Place { device_type: device_type.into(), devices, locality: Locality::Packed };
                profile.insert(workload(model), place.clone(), speed * f64::from(devices));
                if model == "A" {
                    let half = speed * f64::from(devices) * 0.75;
                    profile.insert_pair(workload(model), workload(model), place, [half, half]);
                }
            }
        }
    }
    profile
}

fn job(name: &str, submit: f64, devices: u32, iterations: f64, model: &str) -> JobSpec {
    JobSpec {
        model: Some(model.into()),
        batch_size: Some(8),
        ..JobSpec::new(name, Time::from_seconds(submit), devices, iterations, 0.0)
    }
}

fn with<T>(
    jobs: Vec<JobSpec>,
    cluster: &ClusterSpec,
    policy: &str,
    settings: &[(&str, &str)],
    rounds: Option<u64>,
    act: impl FnOnce(&RunSpec<'_>) -> T,
) -> T {
    let preset = Preset::load("gavel").expect("it is built in");
    let mut chosen = Settings::default();
    settings.iter().for_each(|(key, value)| chosen.set(key, value));
    let trace = Trace { name: "t".into(), jobs };
    act(&RunSpec {
        trace: &trace,
        cluster,
        policy,
        preset: &preset,
        settings: &chosen,
        seed: 0,
        profile: Some(&profile()),
        rounds,
        failures: None,
    })
}

fn simulate(jobs: Vec<JobSpec>, cluster: &str, policy: &str) -> Result<Outcome, RunError> {
    let cluster = parse_cluster(cluster).expect("a short form");
    with(jobs, &cluster, policy, &[], None, |spec| run(spec, &mut NoRecorder))
}

#[test]
fn job_that_cannot_run_is_refused_with_a_reason() {
    for (bad, cluster, policy, expected) in [
        (job("x", 0.0, 1, 0.0, "A"), "v100:1", "fifo", "job `x` has 0 iterations, expected more than 0"),
        (job("x", 0.0, 0, 9.0, "A"), "v100:1", "fifo", "job `x` asks for no devices"),
        (
            job("x", 0.0, 2, 9.0, "B"),
            "v100:1,k80:4",
            "isolated",
            "job `x` needs 2 devices of one type that it runs on, and no type has more than 1",
        ),
        (
            job("x", 0.0, 1, 9.0, "C"),
            "v100:1",
            "isolated",
            "job `x` (`C` (batch size 8) on 1 devices) has speed 0 on every type of the cluster",
        ),
        (
            job("x", 0.0, 1, 9.0, "A"),
            "v100:1,h100:1",
            "fifo",
            "job `x`: the profile has no speed of `A` (batch size 8) on 1 devices of type `h100`; it knows types k80, v100 \
             and 1, 2 devices",
        ),
        (
            job("x", 0.0, 1, 9.0, "Z"),
            "v100:1",
            "fifo",
            "job `x`: the profile has no speed of `Z` (batch size 8) on 1 devices of type `v100`; it does not know this \
             workload",
        ),
        (
            job("x", 0.0, 2, 9.0, "A"),
            "v100:2",
            "allox",
            "job `x` needs 2 devices, and AlloX knows jobs of one device only",
        ),
        (
            JobSpec::new("x", Time::ZERO, 1, 9.0, 100.0),
            "v100:2",
            "fifo",
            "job `x` names no model, so no profile can tell its speed",
        ),
    ] {
        let error = simulate(vec![bad, job("good", 0.0, 1, 9.0, "A")], cluster, policy).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn names_and_settings_are_checked() {
    let cluster = parse_cluster("v100:2").unwrap();
    let jobs = || vec![job("x", 0.0, 1, 9.0, "A")];
    let missing = std::env::temp_dir().join("wharf-no-such-allocations.json");
    let missing = missing.to_string_lossy();
    for (policy, key, value, expected) in [
        ("srtf", "alpha", "1", "policy `srtf` cannot run under preset `gavel`"),
        ("fifo", "alpha", "2", "alpha"),
        ("fifo", "round_s", "0", "round_s"),
        ("fifo", "restart_s", "0", "`restart_s` is not a setting of policy `fifo` under preset `gavel`"),
        ("fifo", "allocations", &*missing, "cannot read allocations"),
    ] {
        let checked = with(jobs(), &cluster, policy, &[(key, value)], None, check);
        let message = checked.unwrap_err().to_string();
        assert!(message.contains(expected), "{policy} {key}={value}: {message}");
    }
}

#[test]
fn allocations_must_fit_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let cluster = parse_cluster("v100:2").unwrap();
    for (text, expected) in [
        (r#"{"t":0.0,"x":{"y":{"v100":1.0}}}"#, ", entry 1: the trace has no job or pair of jobs `y`"),
        (r#"{"t":0.0,"x":{"x":{"a100":1.0}}}"#, ", entry 1: the cluster has no type `a100`"),
        (r#"{"t":0.0,"x":{"x":{"v100":-1.0}}}"#, ", entry 1: `x` has -1 of `v100`, expected 0 or more"),
        (r#"{"t":7.0,"x":{"x":{"v100":1.0}}}"#, ", entry 1: it is for 7 s, and the run is at 0 s"),
        ("", ": there is none for 0 s, after the last"),
        ("\n[]", ", entry 2: invalid length 0"),
    ] {
        std::fs::write(&path, text).unwrap();
        let shown = path.display().to_string();
        let jobs = vec![job("x", 0.0, 1, 9.0, "A")];
        let ran =
            with(jobs, &cluster, "fifo", &[("allocations", &shown)], None, |spec| run(spec, &mut NoRecorder));
        let message = ran.unwrap_err().to_string();
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn all_policies_end_on_gangs_of_several_sizes() {
    let jobs = || -> Vec<JobSpec> {
        let of = |index: u32| {
            let model = if index.is_multiple_of(3) { "B" } else { "A" };
            let submit = f64::from(index / 4) * 500.0;
            job(&index.to_string(), submit, 1 + index % 2, 1000.0 + 517.0 * f64::from(index), model)
        };
        (0..14).map(of).collect()
    };
    for policy in wharf_reproduce::gavel::Policy::ALL {
        let mut jobs = jobs();
        if policy.name == "allox" {
            jobs.iter_mut().for_each(|job| job.gang = wharf_core::Gang::fixed(1));
        }
        if policy.name.ends_with("-slos") {
            jobs[3].deadline = Some(Time::from_seconds(4000.0));
            jobs[4].deadline = Some(Time::from_seconds(501.0));
        }
        let outcome = simulate(jobs, "v100:3,k80:3", policy.name)
            .unwrap_or_else(|error| panic!("{}: {error}", policy.name));
        let unfinished = outcome.jobs.iter().filter(|job| job.end.is_none()).count();
        assert_eq!(unfinished, 0, "{}", policy.name);
        assert!(outcome.tally.cost.is_some_and(|cost| cost > 0.0), "{}", policy.name);
    }
}

#[test]
fn a_run_can_end_after_some_rounds() {
    let cluster = parse_cluster("v100:1").unwrap();
    let jobs = vec![job("a", 0.0, 1, 1e6, "A"), job("b", 0.0, 1, 1e6, "A"), job("late", 1e7, 1, 1e6, "A")];
    let outcome = with(jobs, &cluster, "isolated", &[], Some(5), |spec| run(spec, &mut NoRecorder)).unwrap();
    assert_eq!(outcome.tally.rounds, 5);
    assert_eq!(outcome.tally.over, Some(Time::from_seconds(1800.0)));
    assert!(outcome.jobs.iter().all(|job| job.end.is_none()));
    assert_eq!(outcome.jobs.iter().map(|job| job.run_s).sum::<f64>(), 1800.0);
    assert_eq!(outcome.jobs[2].queue_s, 0.0, "it has not arrived");
}

#[test]
fn policy_that_never_starts_a_job_is_reported() {
    // `fifo` gives the last type by name, on which this job stands still, indefinitely.
    let mut profile = Profile::default();
    let workload = Workload { model: "A".into(), batch_size: Some(8) };
    for (device_type, speed) in [("k80", 1.0), ("v100", 0.0)] {
        let place = Place { device_type: device_type.into(), devices: 1, locality: Locality::Packed };
        profile.insert(workload.clone(), place, speed);
    }
    let cluster = parse_cluster("v100:1,k80:1").unwrap();
    let error = with(vec![job("x", 0.0, 1, 9.0, "A")], &cluster, "fifo", &[], None, |spec| {
        run(&RunSpec { profile: Some(&profile), ..*spec }, &mut NoRecorder).unwrap_err()
    });
    assert!(error.to_string().contains("job `x` waits, and fifo never gives it devices"), "{error}");
}

#[test]
fn ten_thousand_arrivals_at_once_are_run_or_refused() {
    let jobs =
        || -> Vec<JobSpec> { (0..10_000).map(|index| job(&index.to_string(), 0.0, 1, 1e6, "A")).collect() };
    let cluster = parse_cluster("v100:64,k80:64").unwrap();
    for policy in ["fifo-perf", "isolated", "max-min-fairness-perf"] {
        let outcome =
            with(jobs(), &cluster, policy, &[], Some(3), |spec| run(spec, &mut NoRecorder)).unwrap();
        let started = outcome.jobs.iter().filter(|job| job.first_start.is_some()).count();
        assert!(started >= 128, "{policy}: {started}");
    }
    let refused =
        with(jobs(), &cluster, "gandiva", &[], Some(3), |spec| run(spec, &mut NoRecorder)).unwrap_err();
    assert!(refused.to_string().contains("jobs at a time make more than 4000000 pairs"), "{refused}");
}
