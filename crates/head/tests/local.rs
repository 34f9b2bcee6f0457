//! Real processes under the engine: gangs, order, exit codes, interruption.

use std::ffi::OsString;

use wharf_core::{ClusterSpec, JobEnd, JobSpec, Time};
use wharf_head::{JobResult, LocalCluster, LocalError, LocalJob};
use wharf_perf::{Costs, Model, Order, Sharing};
use wharf_policy::{BuildArgs, Settings, Strategy};

fn cluster(devices: u32) -> LocalCluster {
    let settings = Settings::default();
    let args = BuildArgs { settings: &settings, placement: Strategy::default(), seed: 0 };
    let fifo = (wharf_policy::find("fifo").expect("exists").build)(&args).expect("builds");
    let costs =
        Costs { restart_s: 0.0, spread_slowdown: 0.0, switch_slowdown: 0.0, interleave_factors: [1.0; 3] };
    let model = Model::new(costs, Sharing::None, Order::Best);
    LocalCluster::new(ClusterSpec::uniform("gpu", 1, devices), fifo, Box::new(model))
}

fn job(name: &str, gang: u32, script: &str) -> LocalJob {
    let command = ["sh", "-c", script].iter().map(OsString::from).collect();
    LocalJob { spec: JobSpec::new(name, Time::ZERO, gang, 1.0, 1000.0), command }
}

#[test]
fn jobs_wait_for_their_gangs_and_see_their_devices() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let say = |text: &str| format!("echo {text} $WHARF_DEVICES >> {}", log.display());
    for name in ["a", "b"] {
        let pipe = folder.path().join(name);
        assert!(std::process::Command::new("mkfifo").arg(pipe).status().expect("mkfifo runs").success());
    }
    // Two of four devices each: the first two together, the wide one alone, the last one after it.
    let meet = |own: &str, other: &str| {
        let path = folder.path().display();
        format!("(echo > {path}/{own} &) ; read line < {path}/{other}; {}", say(own))
    };
    let jobs = vec![
        job("a", 2, &meet("a", "b")),
        job("b", 2, &meet("b", "a")),
        job("wide", 4, &say("wide")),
        job("last", 1, &say("last")),
    ];
    let results = cluster(4).run(jobs).expect("runs");
    assert!(results.iter().all(|result| *result == JobResult { end: JobEnd::Finished, exit_code: Some(0) }));
    let text = std::fs::read_to_string(&log).expect("a log");
    let mut lines: Vec<&str> = text.lines().collect();
    lines[..2].sort_unstable();
    assert_eq!(lines, ["a 0,1", "b 2,3", "wide 0,1,2,3", "last 0"]);
}

#[test]
fn exit_codes_and_signals_are_passed_on() {
    let results =
        cluster(2).run(vec![job("three", 1, "exit 3"), job("killed", 1, "kill -9 $$")]).expect("runs");
    assert_eq!(results[0], JobResult { end: JobEnd::Failed { code: 3 }, exit_code: Some(3) });
    assert_eq!(results[1], JobResult { end: JobEnd::Failed { code: 137 }, exit_code: Some(137) });
}

#[test]
fn interruption_stops_what_runs_and_what_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    // A named pipe: opening it to read waits until the job opens it to write.
    let started = folder.path().join("started");
    assert!(std::process::Command::new("mkfifo").arg(&started).status().expect("mkfifo runs").success());
    let cluster = cluster(1);
    let interrupt = cluster.interrupter();
    let pipe = started.clone();
    let watcher = std::thread::spawn(move || {
        std::fs::read(pipe).expect("the job writes");
        interrupt();
    });
    let jobs =
        vec![job("runs", 1, &format!("echo > {}; sleep 600", started.display())), job("waits", 1, "exit 0")];
    let results = cluster.run(jobs).expect("ends");
    watcher.join().expect("watched");
    assert_eq!(results[0], JobResult { end: JobEnd::Cancelled, exit_code: Some(143) });
    assert_eq!(results[1], JobResult { end: JobEnd::Cancelled, exit_code: None });
}

#[test]
fn impossible_gangs_and_programs_are_named() {
    let error = cluster(2).run(vec![job("wide", 3, "true")]).expect_err("too wide");
    assert_eq!(error.to_string(), "job `wide` needs 3 devices, but there are 2");
    let missing = LocalJob { command: vec!["/no/such/program".into()], ..job("lost", 1, "") };
    let error = cluster(2).run(vec![job("stopped", 1, "sleep 600"), missing]).expect_err("no program");
    assert!(matches!(error, LocalError::Start { program, .. } if program == "/no/such/program"));
}
