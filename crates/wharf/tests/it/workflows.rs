//! `examples/workflows`: the scripts run as users run them, on this machine.
//!
//! Always: the script of the Crius runtime under one policy. With `WHARF_WORKFLOWS=full`: all of them.

use std::path::Path;

use crate::marked::Marked;
use crate::sandbox::program;

/// Runs a script of a workflow and returns its output.
#[track_caller]
fn run(marked: &Marked, script: &str, variables: &[(&str, &str)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/workflows").join(script);
    let mut command = marked.as_marked(path);
    command.arg("results").env("WHARF", program()).envs(variables.iter().copied());
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{script}: {told}");
    String::from_utf8(output.stdout).unwrap()
}

fn is_full() -> bool {
    std::env::var("WHARF_WORKFLOWS").as_deref() == Ok("full")
}

#[test]
fn crius_runtime_replays_its_trace_under_each_policy() {
    let marked = Marked::new();
    let policies = if is_full() { "crius gavel fcfs" } else { "fcfs" };
    let printed =
        run(&marked, "crius-runtime/orchestrate.sh", &[("POLICIES", policies), ("TIME_SCALE", "300")]);
    for policy in policies.split(' ') {
        let text = std::fs::read_to_string(marked.path("results").join(policy).join("summary.json")).unwrap();
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(summary["runs"][0]["finished"], 5, "{policy}: {printed}");
        let log = std::fs::read_to_string(marked.path(&format!("results/output_{policy}.log"))).unwrap();
        assert!(printed.contains(&log) && log.contains("launches and preemptions"), "{policy}: {log}");
    }
    marked.assert_nothing_left();
}

#[test]
fn crius_daemons_replay_the_trace_on_workers_that_run_already() {
    if !is_full() {
        return;
    }
    let marked = Marked::new();
    run(&marked, "crius-runtime/daemons.sh", &[("ROUNDS", "20"), ("TIME_SCALE", "120")]);
    let text = std::fs::read_to_string(marked.path("results/daemons/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(summary["runs"][0]["finished"], 5, "{summary:#}");
    marked.assert_nothing_left();
}

#[test]
fn muri_run_replays_its_jobs_under_names_of_muri() {
    if !is_full() {
        return;
    }
    let marked = Marked::new();
    run(&marked, "muri-cluster/run.sh", &[("TIME_SCALE", "120")]);
    for (scheduler, policy) in [
        ("fifo", "fifo"),
        ("Tiresias", "tiresias"),
        ("sjf-bsbf", "sjf-bsbf"),
        ("multi-resource-blossom-same-gpu", "muri-s"),
    ] {
        let text =
            std::fs::read_to_string(marked.path("results").join(scheduler).join("summary.json")).unwrap();
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&summary["runs"][0]["finished"], &summary["runs"][0]["policy"]),
            (&6.into(), &policy.into())
        );
    }
    marked.assert_nothing_left();
}

#[test]
fn muri_cluster_takes_jobs_and_deletes_one_while_it_runs() {
    if !is_full() {
        return;
    }
    let marked = Marked::new();
    let listed = run(&marked, "muri-cluster/cluster.sh", &[("TIME_SCALE", "120")]);
    let count =
        |state: &str| listed.lines().filter(|line| line.split('\t').any(|cell| cell == state)).count();
    assert_eq!((count("finished"), count("cancelled")), (8, 1), "{listed}");
    assert!(marked.path("results/report.html").is_file());
    marked.assert_nothing_left();
}
