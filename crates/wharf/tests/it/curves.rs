//! The stored history of metrics: unbroken through everything that interrupts a job, bounded whatever trainers report.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster::{Cluster, Daemon};

/// Nothing here takes as long, even on a machine that does something else.
const PATIENCE: Duration = Duration::from_secs(120);
/// Steps of the trainers: every one of them is stored.
const STEPS: u64 = 400;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn head(cluster: &Cluster) -> Daemon {
    let listen = format!("127.0.0.1:{}", cluster.port);
    let policy = ["--policy", "srtf", "--set", "min_run_s=0", "--set", "restart_s=0.1"];
    let words = ["head", "--listen", &listen, "--allow-root", "--lost-after", "2"];
    cluster.daemon(&[&words[..], &policy].concat(), "listens on")
}

fn worker(cluster: &Cluster, node: &str) -> Daemon {
    cluster.daemon(&["worker", "--node", node, "--devices", "v100:1"], "accepted this worker")
}

/// Submits a trainer and returns its number.
fn submit(cluster: &Cluster, pause: &str, gate: &str) -> String {
    let folder = cluster.folder.path().display().to_string();
    let script = root().join("crates/wharf/tests/it/curves.py").display().to_string();
    let path = format!("PYTHONPATH={}", root().join("python").display());
    let run = ["--env", &path, "--checkpoint-dir", "kept-%j", "--", "python3", &script, &folder];
    let length = ["--iterations", "100000", "--iteration-ms", "100"];
    let steps = STEPS.to_string();
    let words = [&["submit"][..], &length, &run, &[steps.as_str(), pause, gate]].concat();
    let output = cluster.command(&words).current_dir(cluster.folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn job(cluster: &Cluster, id: &str) -> Value {
    serde_json::from_str(&cluster.say(&["job", id, "--output", "json"])).unwrap()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// Waits until the trainer runs and has reported so many iterations.
fn until_done(cluster: &Cluster, id: &str, iterations: f64) {
    until(&format!("{iterations} iterations"), || {
        let job = job(cluster, id);
        let done = job["job"]["iterations_done"].as_f64().unwrap();
        job["job"]["phase"] == "running" && done >= iterations
    });
}

fn until_over(cluster: &Cluster, id: &str) {
    until("the end", || job(cluster, id)["job"]["phase"] == "finished");
}

/// The points of a metric by step: their values as texts, and their runs.
fn points(cluster: &Cluster, id: &str, name: &str) -> Vec<(u64, String, u64)> {
    let csv = cluster.say(&["metrics", id, "--name", name, "--output", "csv"]);
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("job,metric,step,time_s,value,run"));
    let point = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        (cells[2].parse().unwrap(), cells[4].to_owned(), cells[5].parse().unwrap())
    };
    lines.map(point).collect()
}

/// The supervisor of a node's tasks.
fn supervisors(cluster: &Cluster, node: &str) -> String {
    let pattern = format!("wharf supervisor.*{}.*{node}", cluster.folder.path().display());
    let found = Command::new("pgrep").args(["-f", &pattern]).output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    assert_eq!(found.split_whitespace().count(), 1, "{pattern}: {found}");
    found
}

/// The machine of a node loses power: its agent, its supervisor and the trainer are gone at once.
fn power_off(cluster: &Cluster, node: &str, mut agent: Daemon, id: &str) {
    let folder = cluster.folder.path().display().to_string();
    agent.kill();
    let supervisors =
        Command::new("pgrep").args(["-f", &format!("wharf supervisor.*{folder}.*{node}")]).output().unwrap();
    let supervisors = String::from_utf8(supervisors.stdout).unwrap();
    assert!(!supervisors.trim().is_empty(), "no supervisor of {node}");
    let trainer = std::fs::read_to_string(cluster.path(&format!("{id}.pid"))).unwrap();
    for process in supervisors.split_whitespace().chain([trainer.trim()]) {
        assert!(Command::new("kill").args(["-KILL", process]).status().unwrap().success());
    }
}

fn node_of(cluster: &Cluster, id: &str) -> String {
    job(cluster, id)["job"]["nodes"][0].as_str().unwrap().to_owned()
}

#[test]
fn curve_is_unbroken_through_requeue_preemption_node_loss_and_head_restart() {
    let cluster = Cluster::new();
    let mut first_head = head(&cluster);
    let mut workers = vec![("n1", worker(&cluster, "n1"))];
    let whole = submit(&cluster, "0.002", "-1");
    until_over(&cluster, &whole);

    let broken = submit(&cluster, "0.02", "210");
    until_done(&cluster, &broken, 50.0);
    cluster.say(&["requeue", &broken]);
    until_done(&cluster, &broken, 100.0);

    // The head dies while the trainer continues.
    first_head.kill();
    let _head = head(&cluster);
    until_done(&cluster, &broken, 150.0);

    // A job that is shorter takes the only device.
    cluster.say(&["submit", "--wait", "--iterations", "1", "--iteration-ms", "10", "--", "true"]);

    // Its node loses power between two checkpoints; another one takes over from the last one.
    until("the trainer waits", || cluster.path("lost").exists());
    until_done(&cluster, &broken, 200.0);
    workers.push(("n2", worker(&cluster, "n2")));
    let lost = node_of(&cluster, &broken);
    let index = workers.iter().position(|(name, _)| *name == lost).unwrap();
    let (name, agent) = workers.swap_remove(index);
    power_off(&cluster, name, agent, &broken);
    until("another node", || node_of(&cluster, &broken) != lost);
    until_over(&cluster, &broken);

    for name in ["loss", "accuracy"] {
        let values = |id: &str| {
            points(&cluster, id, name).into_iter().map(|(step, value, _)| (step, value)).collect::<Vec<_>>()
        };
        let (found, expected) = (values(&broken), values(&whole));
        assert_eq!(found, expected, "{name}");
        let every = if name == "loss" { 1 } else { 10 };
        assert_eq!(
            found.iter().map(|(step, _)| *step).collect::<Vec<_>>(),
            (every..=STEPS).step_by(every as usize).collect::<Vec<_>>()
        );
    }
    let found = points(&cluster, &broken, "loss");
    let runs: std::collections::BTreeSet<u64> = found.iter().map(|point| point.2).collect();
    assert!(runs.len() >= 4, "requeue, preemption and node loss begin another run each: {runs:?}");
    assert_eq!(
        points(&cluster, &broken, "accuracy")[9],
        (100, "nan".to_owned(), points(&cluster, &broken, "accuracy")[9].2)
    );
    let document: Value =
        serde_json::from_str(&cluster.say(&["metrics", &broken, "--output", "json"])).unwrap();
    assert_eq!(document["jobs"][0]["metrics"][0]["points"][9]["value"], "nan");
    assert!(cluster.say(&["metrics", &broken]).contains("1-400"));
}

/// The resident memory of a process in MiB, now and at most.
fn memory_mib(process: &str) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let kib = |name: &str| line(name).trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap();
    (kib("VmRSS:") / 1024, kib("VmHWM:") / 1024)
}

fn bytes(cluster: &Cluster, prefix: &str) -> u64 {
    let head = cluster.path("head");
    let folder = if head.exists() { head } else { cluster.folder.path().to_owned() };
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let own = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    own.map(|entry| entry.metadata().unwrap().len()).sum()
}

#[test]
#[expect(clippy::print_stderr, reason = "figures of the test")]
fn a_million_reports_and_ten_thousand_names_cost_bounded_memory_and_disk() {
    let cluster = Cluster::new();
    let head = head(&cluster);
    let worker = worker(&cluster, "n1");
    let supervisor = supervisors(&cluster, "n1").trim().to_owned();
    let processes = [head.child.id().to_string(), worker.child.id().to_string(), supervisor];
    let before = processes.each_ref().map(|process| memory_mib(process).0);
    let journal = bytes(&cluster, "journal.sqlite");

    let script = root().join("crates/wharf/tests/it/flood.py").display().to_string();
    let path = format!("PYTHONPATH={}", root().join("python").display());
    let id = cluster.say(&["submit", "--env", &path, "--", "python3", &script]).trim().to_owned();
    until_over(&cluster, &id);
    let document: Value = serde_json::from_str(&cluster.say(&["metrics", &id, "--output", "json"])).unwrap();
    let metrics = document["jobs"][0]["metrics"].as_array().unwrap();
    let counts: Vec<usize> =
        metrics.iter().map(|metric| metric["points"].as_array().unwrap().len()).collect();
    assert_eq!(metrics.len(), 64);
    assert!(counts.iter().all(|count| *count <= 513), "{counts:?}");
    let loss = metrics.iter().find(|metric| metric["name"] == "loss").unwrap();
    // The first point of every bucket of steps, and the last of all.
    let steps: Vec<u64> =
        loss["points"].as_array().unwrap().iter().map(|point| point["step"].as_u64().unwrap()).collect();
    let stride = steps[1] - steps[0] + 1;
    let mut expected: Vec<u64> = (0..1_000_000).step_by(stride as usize).map(|step| step.max(1)).collect();
    expected.push(1_000_000);
    assert_eq!(steps, expected, "stride {stride}");
    assert!(document["jobs"][0]["refused"]["values"].as_u64().unwrap() > 0);
    let remarks = job(&cluster, &id)["job"]["remarks"].to_string();
    assert!(remarks.contains("at most 64 metrics"), "{remarks}");
    assert!(cluster.say(&["logs", &id]).contains("is not stored"), "the trainer was warned");

    let after = processes.each_ref().map(|process| memory_mib(process).1);
    let (stored, journal) = (bytes(&cluster, "metrics.sqlite"), bytes(&cluster, "journal.sqlite") - journal);
    let points: usize = counts.iter().sum();
    eprintln!(
        "head {} to {} MiB, agent {} to {}, supervisor {} to {}; {points} points in {} KiB; journal grown by {} KiB",
        before[0],
        after[0],
        before[1],
        after[1],
        before[2],
        after[2],
        stored / 1024,
        journal / 1024
    );
    for (before, after) in before.iter().zip(after) {
        assert!(after < before + 40, "from {before} to {after} MiB");
    }
    assert!(stored < 8 << 20, "{stored} bytes of metrics");
    assert!(journal < 1 << 20, "{journal} bytes of journal");
}
