//! A whole cluster within one command: `wharf local` and `wharf run`, and that nothing of it stays behind.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::marked::Marked;

#[test]
fn detached_cluster_serves_until_it_is_stopped_and_continues_later() {
    let marked = Marked::new();
    let start = ["local", "--detach", "--worker", "v100:2", "--worker", "big=a40:4"];
    marked.say(&start);
    let nodes = marked.json(&["nodes"]);
    let node =
        |index: usize| (nodes["nodes"][index]["name"].clone(), nodes["nodes"][index]["devices"].clone());
    assert_eq!((node(0), node(1)), (("n0".into(), 2.into()), ("big".into(), 4.into())));

    let again = marked.run(&["local"]);
    assert_eq!(again.status.code(), Some(2));
    let told = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(
        told.contains("a cluster already runs in") && told.contains("hint: or stop it: wharf local"),
        "{told}"
    );

    let run = marked.run(&["run", "--gang", "4", "--", "sh", "-c", "echo on $WHARF_NODE; exit 5"]);
    assert_eq!((run.status.code(), String::from_utf8_lossy(&run.stdout).as_ref()), (Some(5), "on big\n"));

    // A job that is stopped with the cluster, and runs again when that is back.
    let started = marked.pipe("started");
    let script = format!("echo $WHARF_GENERATION > {}; exec sleep 600", started.display());
    marked.say(&["submit", "--", "sh", "-c", &script]);
    assert_eq!(std::fs::read_to_string(&started).unwrap(), "1\n");
    // A head that stops before its worker reports the start repeats the launch under the same generation.
    while marked.json(&["job", "1"])["job"]["phase"] != "running" {}
    marked.say(&["local", "--stop"]);
    marked.assert_nothing_left();
    marked.say(&start);
    assert_eq!(std::fs::read_to_string(&started).unwrap(), "2\n", "it was not lost");
    marked.say(&["local", "--stop"]);
    marked.assert_nothing_left();
}

#[test]
fn interrupted_cluster_gives_grace_and_cleans_up() {
    let marked = Marked::new();
    let mut local = marked.start(&["local", "--worker", "cpu:1"]);
    local.wait_for("Ctrl-C stops it");
    let (started, saved) = (marked.pipe("started"), marked.path("saved"));
    let script = format!(
        "trap 'echo saved > {}; exit 0' TERM; echo > {}; while :; do sleep 0.1; done",
        saved.display(),
        started.display()
    );
    marked.say(&["submit", "--", "sh", "-c", &script]);
    std::fs::read(&started).unwrap();
    local.signal(Signal::SIGINT);
    assert_eq!(local.end().0, Some(130));
    assert_eq!(std::fs::read_to_string(saved).unwrap(), "saved\n");
    marked.assert_nothing_left();
}

#[test]
fn second_interruption_does_not_wait_for_the_grace() {
    let marked = Marked::new();
    let mut local = marked.start(&["local", "--worker", "cpu:1"]);
    local.wait_for("Ctrl-C stops it");
    let started = marked.pipe("started");
    let script = format!("trap '' TERM; echo > {}; while :; do sleep 0.1; done", started.display());
    marked.say(&["submit", "--", "sh", "-c", &script]);
    std::fs::read(&started).unwrap();
    let began = Instant::now();
    local.signal(Signal::SIGINT);
    local.wait_for("stopping");
    local.signal(Signal::SIGINT);
    assert_eq!(local.end().0, Some(130));
    assert!(began.elapsed() < Duration::from_secs(9), "the grace is ten seconds");
    marked.assert_nothing_left();
}

#[test]
fn run_without_a_cluster_has_its_own() {
    let marked = Marked::new();
    let run = marked.run(&[
        "run",
        "--devices",
        "gpu:2",
        "--gang",
        "2",
        "--",
        "sh",
        "-c",
        "echo $WHARF_DEVICES; exit 3",
    ]);
    assert_eq!((run.status.code(), String::from_utf8_lossy(&run.stdout).as_ref()), (Some(3), "0,1\n"));
    assert_eq!(marked.run(&["run", "--", "true"]).status.code(), Some(0));
    let elsewhere = marked
        .command(&["run", "--devices", "gpu:1", "--", "true"])
        .env("WHARF_HEAD", "127.0.0.1:1")
        .output();
    assert_eq!(elsewhere.unwrap().status.code(), Some(0), "its own workers know its own head");
    assert_eq!(marked.run(&["run", "--", "/no/such/program"]).status.code(), Some(127), "as a shell has it");
    let wide = marked.run(&["run", "--devices", "gpu:2", "--gang", "3", "--", "true"]);
    assert_eq!(wide.status.code(), Some(2));
    let told = String::from_utf8_lossy(&wide.stderr).into_owned();
    assert!(
        told.contains("the job needs 3 devices, but there are 2") && told.contains("hint: declare more"),
        "{told}"
    );
    marked.assert_nothing_left();
}

#[test]
fn interrupted_run_cancels_the_job() {
    let marked = Marked::new();
    let started = marked.pipe("started");
    let script =
        format!("trap 'echo bye; exit 0' TERM; echo > {}; while :; do sleep 0.1; done", started.display());
    let run = marked.start(&["run", "--", "sh", "-c", &script]);
    std::fs::read(&started).unwrap();
    run.signal(Signal::SIGINT);
    let (code, said) = run.end();
    assert_eq!(code, Some(130));
    assert!(said.ends_with("bye\n"), "its last words were shown: {said}");
    marked.assert_nothing_left();
}

#[test]
fn nodes_and_jobs_are_shown_and_changed() {
    let marked = Marked::new();
    marked.say(&["local", "--detach", "--worker", "v100:2"]);
    let started = marked.pipe("started");
    let script = format!("echo > {}; exec sleep 600", started.display());
    marked.say(&["submit", "--gang", "2", "--name", "first", "--", "sh", "-c", &script]);
    std::fs::read(&started).unwrap();
    marked.say(&["submit", "--gang", "2", "--name", "second", "--", "true"]);

    let top = marked.say(&["top", "--once"]);
    for part in ["n0    up      v100  ■■       0/2   0", "0    first  running", "1    second  waiting"] {
        assert!(top.contains(part), "no `{part}` in\n{top}");
    }
    assert!(marked.say(&["jobs", "--state", "waiting"]).contains("needs 2 devices"), "it says why");
    assert_eq!(marked.json(&["jobs", "--name", "fir"])["jobs"].as_array().unwrap().len(), 1);
    assert!(marked.say(&["job", "0"]).contains("placed on n0:0,1"));
    assert_eq!(marked.json(&["node", "n0"])["node"]["free"], 0);
    let unknown = marked.run(&["node", "n1"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("hint: `wharf nodes` lists them all"));
    assert_eq!(marked.run(&["node", "cordon", "n9"]).status.code(), Some(2));

    marked.say(&["report", "--to", "so-far.html"]);
    let page = std::fs::read_to_string(marked.path("so-far.html")).unwrap();
    assert!(page.contains("first") && page.contains("Jobs on devices"));

    let health = || marked.json(&["node", "n0"])["node"]["health"].clone();
    marked.say(&["cancel", "1"]);
    marked.say(&["node", "drain", "n0", "--reason", "new driver"]);
    assert!(marked.say(&["nodes"]).contains("new driver"), "others read why");
    assert_ne!(health(), "up");
    marked.say(&["node", "resume", "n0"]);
    std::fs::read(&started).unwrap();
    assert_eq!(health(), "up", "and the job that had to leave is back");
    marked.say(&["node", "cordon", "n0"]);
    assert_ne!(health(), "up");

    marked.say(&["cancel", "--all"]);
    assert_eq!(marked.json(&["jobs", "--state", "waiting,running"])["jobs"].as_array().unwrap().len(), 0);
    marked.say(&["local", "--stop"]);
    marked.assert_nothing_left();
}
