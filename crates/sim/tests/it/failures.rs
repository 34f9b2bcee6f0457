//! Nodes that never come back, or never stay: every simulation ends.

use wharf_core::{ClusterSpec, JobSpec, Time};
use wharf_sim::{FailureList, NoRecorder, Outcome, Preset, RunError, RunSpec, Settings, run};
use wharf_trace::Trace;

fn simulate(policy: &str, settings: &[&str], failures: Option<&str>) -> Result<Outcome, RunError> {
    let job =
        |name, submit_s, devices| JobSpec::new(name, Time::from_seconds(submit_s), devices, 10_000.0, 1000.0);
    let trace = Trace { name: "story".into(), jobs: vec![job("small", 0.0, 1), job("large", 5.0, 4)] };
    let cluster = ClusterSpec::uniform("gpu", 2, 2);
    let preset = Preset::load("wharf").expect("built in");
    let settings = Settings::parse(settings.iter().copied()).expect("key=value");
    let failures = failures.map(|text| FailureList::parse("failures.csv", text, &cluster)).transpose()?;
    let spec = RunSpec {
        trace: &trace,
        cluster: &cluster,
        policy,
        preset: &preset,
        settings: &settings,
        seed: 1,
        profile: None,
        rounds: None,
        failures: failures.as_ref(),
    };
    run(&spec, &mut NoRecorder)
}

#[test]
fn node_that_never_comes_back_leaves_jobs_unfinished_under_every_policy() {
    for policy in wharf_reproduce::policies() {
        for mechanism in ["mechanism=events", "mechanism=rounds"] {
            let outcome =
                simulate(policy.name, &[mechanism], Some("time_s,node,event\n1,1,down")).expect("a run");
            let ended: Vec<bool> = outcome.jobs.iter().map(|job| job.end.is_some()).collect();
            assert_eq!(ended, [true, false], "{} {mechanism}", policy.name);
        }
    }
}

#[test]
fn nodes_that_never_stay_are_an_error() {
    for rates in [
        ["node_mtbf_h=0.001", "node_repair_h=1"],
        // Faster than the clock can tell.
        ["node_mtbf_h=1e-300", "node_repair_h=1e-300"],
    ] {
        let stalled = simulate("srtf", &rates, None);
        assert!(matches!(stalled, Err(RunError::Stalled { .. })), "{rates:?}");
    }
    // Slow and laborious is no reason to give up.
    let outcome = simulate("srtf", &["node_mtbf_h=0.5", "node_repair_h=0.1"], None).expect("a run");
    assert!(outcome.jobs.iter().all(|job| job.end.is_some()));
}

#[test]
fn failure_file_that_has_not_been_read_is_an_error() {
    let unread =
        simulate("srtf", &["failures=nodes.csv"], None).expect_err("its content is not in the specification");
    assert_eq!(unread.to_string(), "the failure file `nodes.csv` has not been read");
}
