//! Pilots on a real Slurm: four nodes with files that stand for GPUs. Where there is no Slurm, that is said.
//!
//! With `WHARF_PILOT=full` what takes a minute and more is checked as well: until Slurm itself has noticed that a node is gone.
mod direct;
mod lab;

use std::collections::BTreeSet;
use std::fs;

use nix::sys::signal::{Signal, kill};

use lab::Lab;
use serde_json::Value;
use wharf_pilot::{Filter, JobState, Queue, QueueError, RestQueue, RestTarget, Submission};
use wharf_testing::needs;
use wharf_testing::slurm::{Rest, Slurm, until};

/// Whether there is time for what takes a minute and more.
fn is_full() -> bool {
    std::env::var_os("WHARF_PILOT").is_some_and(|value| value == "full")
}

/// The trainer has made one step after the other, but for those that were cut off between being made and being saved.
#[track_caller]
fn assert_no_step_is_lost(lab: &Lab, count: u32) {
    let steps: Vec<u32> = lab.steps().into_iter().map(|(step, _)| step).collect();
    let goes_on = |pair: &[u32]| pair[1] == pair[0] + 1 || pair[1] == pair[0];
    assert!(steps.windows(2).all(goes_on), "{steps:?}");
    assert_eq!((steps.first(), steps.last()), (Some(&1), Some(&count)));
}

#[test]
fn pilots_grow_with_the_queue_and_shrink_to_nothing() {
    needs!(SLURM);
    let lab = Lab::new();
    let keeper = lab.pilots(&["--max", "4", "--pool", "slurm"]);
    lab.submit_waiting("go", &["--array", "1-10", "--output-file", "out-%a.txt"]);
    until("three pilots", || (lab.up().len() == 3 && lab.jobs("running") == 10).then_some(()));
    assert_eq!(lab.up(), ["slurm-0", "slurm-1", "slurm-2"]);
    assert_eq!(lab.slurm.jobs("RUNNING").len(), 3);

    // More work, more pilots, but never more than there may be.
    lab.submit_waiting("go", &["--array", "1-20", "--pool", "slurm", "--type", "gpu"]);
    until("a fourth pilot", || (lab.up().len() == 4 && lab.jobs("running") == 16).then_some(()));
    let status = lab.status();
    assert_eq!((&status["submitted"], &status["failures"]), (&4.into(), &0.into()), "{}", lab.said());
    // The keeper of pilots learns that a while after the head.
    let is_told = || lab.say(&["pilot", "status"]).contains("4 up, 0 starting, 0 pending");
    until("four pilots in the status", || is_told().then_some(()));

    lab.open("go");
    until("all jobs", || (lab.jobs("finished") == 30).then_some(()));
    lab.until_nothing_is_left();
    let nodes = lab.json(&["nodes", "--all"]);
    for node in nodes["nodes"].as_array().unwrap() {
        assert_eq!((&node["health"], &node["pool"]), (&"gone".into(), &"slurm".into()), "{node}");
    }
    let over = |pilots: &serde_json::Value| pilots.as_object().unwrap().is_empty().then_some(());
    until("the end of all pilots", || over(&lab.status()["pilots"]));
    let folder = lab.path("home/pilots/pilots");
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0, "nothing of them is left, no token neither");
    assert_eq!(fs::read_dir(lab.path("scratch")).unwrap().count(), 0);
    assert!(!lab.say(&["token", "list"]).contains(" token worker - slurm-"), "their tokens are revoked");

    // What left comes back under the same names.
    lab.submit_waiting("go", &["--gang", "4"]);
    until("one more job", || (lab.jobs("finished") == 31).then_some(()));
    assert_eq!(lab.json(&["nodes", "--all"])["nodes"].as_array().unwrap().len(), 4);
    assert_eq!(keeper.stop(), Some(143));
}

#[test]
fn cancelling_a_pilot_loses_nothing() {
    needs!(SLURM);
    let lab = Lab::new();
    let _keeper = lab.pilots(&["--max", "2"]);
    lab.submit_trainer(60);
    lab.until_step(15);
    let pilot = lab.slurm.jobs("RUNNING");
    assert_eq!(pilot.len(), 1);
    lab.slurm.run("scancel", &[&pilot[0]]);
    until("the trainer's end", || (lab.jobs("finished") == 1).then_some(()));
    assert_no_step_is_lost(&lab, 60);
    let job = lab.json(&["job", "0"]);
    assert_eq!(job["job"]["causes"], serde_json::json!({ "request": 1 }), "{job}");
    assert!(!job.to_string().contains("not known"), "its end was seen: {job}");
    assert_ne!(lab.slurm.jobs("all").len(), 1, "another pilot has gone on");
    lab.until_nothing_is_left();
}

#[test]
fn killed_node_is_left_and_its_work_continues_elsewhere() {
    needs!(SLURM);
    let lab = Lab::new();
    let _keeper = lab.pilots(&["--max", "2"]);
    lab.submit_trainer(50);
    lab.until_step(10);
    let node = lab.slurm.run("squeue", &["-h", "-t", "RUNNING", "-o", "%N"]).trim().to_owned();
    lab.slurm.cut_power(&node);
    until("the trainer's end", || (lab.jobs("finished") == 1).then_some(()));
    let steps = lab.steps();
    let nodes: BTreeSet<&String> = steps.iter().map(|(_, node)| node).collect();
    assert_eq!(nodes.len(), 2, "it has moved: {steps:?}");
    assert_no_step_is_lost(&lab, 50);
    if is_full() {
        let is_failed = || lab.slurm.jobs("NODE_FAIL").first().cloned();
        until("Slurm to notice", is_failed);
        lab.slurm.start_node(&node);
        lab.until_nothing_is_left();
    }
}

#[test]
fn job_that_takes_longer_than_its_pilot_moves_with_its_checkpoint() {
    needs!(SLURM);
    let lab = Lab::new();
    // Slurm counts in minutes; of this one eight seconds are left for work.
    let _keeper = lab.pilots(&["--max", "2", "--time-limit", "1m", "--leave-before", "52s"]);
    lab.submit_trainer(100);
    until("the trainer's end", || (lab.jobs("finished") == 1).then_some(()));
    assert_no_step_is_lost(&lab, 100);
    let job = lab.json(&["job", "0"]);
    let pilots = lab.slurm.jobs("all").len();
    assert!(pilots >= 2, "it needed more than one pilot: {job}");
    let ended = lab.slurm.run("squeue", &["-h", "-t", "TIMEOUT,FAILED,CANCELLED", "-o", "%i %T"]);
    assert_eq!(ended, "", "each pilot has left by itself");
    lab.until_nothing_is_left();
}

#[test]
fn allocation_of_several_nodes_holds_gangs() {
    needs!(SLURM);
    let lab = Lab::new();
    let _keeper = lab.pilots(&["--max", "1", "--nodes", "2"]);
    let script =
        "echo \"$NODE_RANK $CUDA_VISIBLE_DEVICES $SLURM_JOB_ID\"; until [ -e \"$0\" ]; do sleep 0.1; done";
    let gate = lab.path("go");
    let out = ["submit", "--gang", "2x4", "--output-file", "rank-%n.txt", "--", "sh", "-c"];
    lab.say(&[&out[..], &[script, gate.to_str().unwrap()]].concat());
    until("the gang", || (lab.jobs("running") == 1).then_some(()));
    assert_eq!(lab.up(), ["slurm-0-0", "slurm-0-1"]);
    let pilot = lab.slurm.jobs("RUNNING");
    assert_eq!(pilot.len(), 1, "both nodes are one allocation");
    lab.slurm.run("scancel", &[&pilot[0]]);
    until("another allocation", || lab.slurm.jobs("RUNNING").into_iter().find(|id| *id != pilot[0]));
    lab.open("go");
    until("the gang's end", || (lab.jobs("finished") == 1).then_some(()));
    for rank in 0..2 {
        let text = fs::read_to_string(lab.path(&format!("rank-{rank}.txt"))).unwrap();
        // Slurm has ended what the shell was waiting for as well, of which it complains.
        let mut said = text.lines().filter(|line| *line != "Terminated");
        assert!(said.all(|line| line == format!("{rank} 0,1,2,3 ")), "{text}");
    }
    lab.until_nothing_is_left();
}

#[test]
fn cancelling_an_allocation_of_several_nodes_loses_nothing() {
    needs!(SLURM);
    let lab = Lab::new();
    let _keeper = lab.pilots(&["--max", "2", "--nodes", "2"]);
    lab.submit_trainer(60);
    lab.until_step(15);
    let pilot = lab.slurm.jobs("RUNNING");
    assert_eq!(pilot.len(), 1);
    lab.slurm.run("scancel", &[&pilot[0]]);
    until("the trainer's end", || (lab.jobs("finished") == 1).then_some(()));
    assert_no_step_is_lost(&lab, 60);
    // The worker was there until its job had ended, and has said so.
    let job = lab.json(&["job", "0"]);
    assert_eq!(job["job"]["causes"], serde_json::json!({ "request": 1 }), "{job}");
    assert!(!job.to_string().contains("not known"), "its end was seen: {job}");
    lab.until_nothing_is_left();
}

#[test]
fn jobs_beyond_the_limits_of_a_group_ask_for_no_pilots() {
    needs!(SLURM);
    let lab = Lab::new();
    let gang = ["--gang", "4"];
    (0..3).for_each(|_| lab.submit_waiting("go", &gang));
    let user = lab.json(&["jobs"])["jobs"][0]["user"].as_str().unwrap().to_owned();
    fs::write(lab.path("limits.toml"), format!("[group.vision]\nusers = [\"{user}\"]\ndevices = 4\n"))
        .unwrap();
    lab.say(&["limits", "apply", "limits.toml"]);
    let _keeper = lab.pilots(&["--max", "4"]);
    until("one job", || (lab.jobs("running") == 1).then_some(()));
    lab.open("go");
    until("all jobs", || (lab.jobs("finished") == 3).then_some(()));
    assert_eq!(lab.status()["submitted"], 1, "one after the other in the same pilot: {}", lab.said());
    lab.until_nothing_is_left();
}

#[test]
fn failing_queue_is_left_alone() {
    needs!(SLURM);
    let lab = Lab::new();
    lab.submit_waiting("go", &["--array", "1-8"]);
    let keeper = lab.pilots(&["--partition", "nowhere"]);
    until("three failures", || (lab.failures() >= 3).then_some(()));
    let status = lab.status();
    // One at a time is tried.
    let is_one_at_a_time =
        |status: &Value| status["submitted"].as_u64().unwrap() <= status["failures"].as_u64().unwrap() + 1;
    assert!(is_one_at_a_time(&status), "{}", lab.said());
    assert!(status["trouble"].as_str().unwrap().contains("nvalid partition"), "{status}");
    assert!(lab.say(&["pilot", "status"]).contains("failures in a row"));
    assert!(lab.said().contains("no pilot is submitted for 4 s"), "{}", lab.said());
    assert_eq!(lab.slurm.jobs("all").len(), 0);
    keeper.stop();

    // Pilots that start and die: one at a time is tried, and not often. What is known outlasts the process.
    let _keeper = lab.pilots(&["--program", "/bin/false"]);
    until("one more failure", || (lab.failures() >= 4).then_some(()));
    let status = lab.status();
    assert!(is_one_at_a_time(&status), "{}", lab.said());
    assert!(status["trouble"].as_str().unwrap().contains("before its worker had joined"), "{status}");
    assert!(lab.slurm.jobs("PENDING,RUNNING").len() <= 1);
}

#[test]
fn keeper_of_pilots_may_be_killed_and_is_alone() {
    needs!(SLURM);
    let lab = Lab::new();
    let keeper = lab.pilots(&["--max", "1"]);
    lab.submit_waiting("go", &["--gang", "2"]);
    until("a pilot", || (lab.up().len() == 1 && lab.jobs("running") == 1).then_some(()));
    let second = lab.output(&["pilot", "slurm", "--gpus", "4"]);
    assert_eq!(second.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&second.stderr).contains("kept by another process"));
    kill(keeper.pid(), Signal::SIGKILL).unwrap();
    drop(keeper);

    // The next one finds the pilot, by its Slurm job alone.
    fs::remove_file(lab.path("home/pilots/status.json")).unwrap();
    let keeper = lab.pilots(&["--max", "1", "--keep"]);
    lab.submit_waiting("go", &["--gang", "4"]);
    until("the pilot to be known", || {
        let pilots = lab.output(&["pilot", "status", "--output", "json"]);
        let known: serde_json::Value = serde_json::from_slice(&pilots.stdout).ok()?;
        (known["status"]["pilots"].as_object()?.values().next()?["stage"] == "up").then_some(())
    });
    assert_eq!(lab.status()["submitted"], 0);
    assert_eq!(keeper.stop(), Some(143));
    assert_eq!(lab.slurm.jobs("RUNNING").len(), 1, "it was to be kept");

    let keeper = lab.pilots(&["--max", "1"]);
    until("the pilot to be known again", || (lab.status()["pid"] == keeper.0.id()).then_some(()));
    assert_eq!(keeper.stop(), Some(143));
    assert!(lab.slurm.jobs("PENDING,RUNNING").is_empty(), "it was not to be kept: {}", lab.said());
    until("the job to wait again", || (lab.jobs("waiting") == 2).then_some(()));
    assert!(lab.up().is_empty());
}

#[test]
fn slurmrestd_is_another_way() {
    needs!(SLURMRESTD);
    let mut lab = Lab::new();
    let address = lab.slurm.start_rest(Rest::Token);
    let token = lab.slurm.run("scontrol", &["token", "lifespan=3600"]);
    fs::write(lab.path("jwt"), token).unwrap();
    let token_file = lab.path("jwt");
    let rest = ["--rest", &address, "--rest-token-file", token_file.to_str().unwrap()];
    let bad = lab.pilots(&[&rest[..], &["--partition", "nowhere"]].concat());
    lab.submit_waiting("go", &["--array", "1-6"]);
    until("failures", || (lab.failures() >= 2).then_some(()));
    assert!(lab.status()["trouble"].as_str().unwrap().contains("nvalid partition"), "{}", lab.said());
    bad.stop();

    let _keeper = lab.pilots(&rest);
    until("two pilots", || (lab.up().len() == 2 && lab.jobs("running") == 6).then_some(()));
    lab.open("go");
    until("all jobs", || (lab.jobs("finished") == 6).then_some(()));
    lab.until_nothing_is_left();
}

#[test]
fn example_runs_and_cleans_up() {
    needs!(SLURM, PYTHON);
    let slurm = Slurm::start(2, 16, 2);
    let folder = tempfile::Builder::new().prefix("demo").tempdir().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/slurm-pilots/demo.sh");
    let mut command = slurm.command("sh");
    command.arg(demo).env("WHARF", env!("CARGO_BIN_EXE_wharf")).env("WHARF_HOME", folder.path());
    command.env("HEAD", &address).env("LISTEN", &address).env("GPUS", "2").env("WHARF_CONFIG", "/dev/null");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.matches("done: ").count(), 8, "{said}");
    assert!(slurm.jobs("PENDING,RUNNING").is_empty());
}

#[test]
fn slurmrestd_behind_a_socket_takes_lists_and_cancels() {
    needs!(SLURMRESTD);
    let mut slurm = Slurm::start(1, 16, 2);
    let socket = slurm.start_rest(Rest::Socket);
    let queue = RestQueue::new(RestTarget::Socket(socket.into()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut submission = Submission {
        script: "#!/bin/sh\nexec sleep 600\n".into(),
        name: "probe".into(),
        comment: "a word".into(),
        nodes: 1,
        gres: "gpu:1".into(),
        limit_min: 5,
        workdir: "/tmp".into(),
        output: "/dev/null".into(),
        env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into_iter().collect(),
        ..Submission::default()
    };
    // slurmrestd now and then closes a connection; Wharf puts questions again, but a submission is its caller's to repeat.
    let submit = |submission: &Submission| loop {
        match runtime.block_on(queue.submit(submission)) {
            Err(QueueError::Cut { .. }) => {}
            answer => return answer,
        }
    };
    let id = submit(&submission).unwrap();
    let state = || {
        let jobs = runtime.block_on(queue.list(&Filter::Name("probe".into()))).unwrap();
        let job = jobs.into_iter().find(|job| job.id == id).unwrap();
        assert_eq!(job.comment, "a word");
        job.state
    };
    until("the job to run", || (state() == JobState::Running).then_some(()));
    runtime.block_on(queue.cancel(&id)).unwrap();
    until("its end", || matches!(state(), JobState::Over(_)).then_some(()));
    assert_eq!(state(), JobState::Over("CANCELLED".into()));
    runtime.block_on(queue.cancel("999999")).unwrap();
    submission.partition = "nowhere".into();
    let refused = submit(&submission).unwrap_err().to_string();
    assert!(refused.contains("nvalid partition"), "{refused}");
}
