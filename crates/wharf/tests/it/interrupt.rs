//! Ctrl-C: the code of the signal, and nothing left behind.

use std::io::Read as _;
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::sandbox::Sandbox;

/// Waits until the command has written something: it is then in the middle of its work.
fn wait_for_partial_output(sandbox: &Sandbox, child: &mut Child) {
    let is_partial = |name: &String| name.contains(".partial-");
    while !sandbox.names(".").iter().any(is_partial) {
        assert!(child.try_wait().unwrap().is_none(), "ended before it could be interrupted");
        std::thread::yield_now();
    }
}

fn interrupt(sandbox: &Sandbox, words: &str, signal: Signal) -> (Option<i32>, String) {
    let mut child = sandbox.command(words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_partial_output(sandbox, &mut child);
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
    let status = child.wait().unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    (status.code(), stderr)
}

#[test]
fn interrupted_simulation_cleans_up() {
    let sandbox = Sandbox::new();
    sandbox.wharf("trace generate --jobs 20000 --load 3 --devices 64 --to big.csv").ok();
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let words = "sim --trace big.csv --cluster 8x8 --policy fifo,srtf,las,tiresias --out out";
        assert_eq!(interrupt(&sandbox, words, signal), (Some(code), "interrupted\n".to_owned()));
        assert_eq!(sandbox.names("."), ["big.csv", "jobs.csv"]);
    }
}

#[test]
fn interrupted_generation_cleans_up() {
    let sandbox = Sandbox::new();
    let words = "trace generate --jobs 1000000 --to big.csv";
    assert_eq!(interrupt(&sandbox, words, Signal::SIGINT), (Some(130), "interrupted\n".to_owned()));
    assert_eq!(sandbox.names("."), ["jobs.csv"]);
}

#[test]
fn interrupted_sweep_keeps_what_is_finished() {
    let sandbox = Sandbox::new();
    let generate = "{ generate = { jobs = 20000, devices = 64, load = 3 } }";
    let scenario = format!(
        "[[matrix]]\npolicies = [\"fifo\"]\ntraces = [\"jobs.csv\", {generate}]\nclusters = [\"8x8\"]\nseeds = [0, 1, 2, 3]\n"
    );
    sandbox.write("long.toml", &scenario);
    let mut child =
        sandbox.command("sweep long.toml --jobs 1 --out out").stderr(Stdio::piped()).spawn().unwrap();
    let runs = sandbox.path().join("out/runs");
    while !runs.is_dir() || sandbox.names("out/runs").iter().all(|name| name.starts_with('.')) {
        assert!(child.try_wait().unwrap().is_none(), "ended before it could be interrupted");
        std::thread::yield_now();
    }
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    let hint = "hint: finished runs are kept in `out`; the same command continues\n";
    assert_eq!(stderr, format!("interrupted\n{hint}"));
    assert_eq!(sandbox.names("out"), ["runs"]);
    assert!(sandbox.names("out/runs").iter().all(|name| !name.starts_with('.')), "nothing is half done");
    let again = sandbox.wharf("sweep long.toml --out out");
    assert!(again.stderr.contains("of them stored earlier"), "{}", again.stderr);
}
