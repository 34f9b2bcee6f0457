//! A real cluster on this machine: a head, workers, jobs, and what survives being killed.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

pub(crate) use crate::daemon::Daemon;

/// A head and its folder; everything ends with it.
pub(crate) struct Cluster {
    pub(crate) folder: TempDir,
    pub(crate) port: u16,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { folder: tempfile::tempdir().unwrap(), port }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wharf"));
        command.args(words).env("WHARF_HOME", self.folder.path()).stdin(Stdio::null());
        // What commands keep for their user.
        command.env("XDG_STATE_HOME", self.path("user-state"));
        command
    }

    pub(crate) fn daemon(&self, words: &[&str], ready: &str) -> Daemon {
        Daemon::start(&mut self.command(words), ready)
    }

    pub(crate) fn head(&self) -> Daemon {
        let listen = format!("127.0.0.1:{}", self.port);
        // Tests run as root, too.
        self.daemon(&["head", "--listen", &listen, "--allow-root"], "listens on")
    }

    pub(crate) fn worker(&self, node: &str) -> Daemon {
        self.daemon(&["worker", "--node", node, "--devices", "v100:4"], "accepted this worker")
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// What a command prints, which must succeed.
    pub(crate) fn say(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn pipe(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }
}

/// Waits until the other side opens the pipe, and says something.
pub(crate) fn write(pipe: &Path, text: &str) {
    std::fs::OpenOptions::new().write(true).open(pipe).unwrap().write_all(text.as_bytes()).unwrap();
}

#[test]
fn jobs_run_in_gangs_with_logs_exit_codes_and_dependencies() {
    let cluster = Cluster::new();
    let _head = cluster.head();
    let _workers = [cluster.worker("left"), cluster.worker("right")];

    let failed = cluster.run(&["submit", "--wait", "--", "sh", "-c", "echo on $WHARF_DEVICES; exit 3"]);
    assert_eq!(failed.status.code(), Some(3));
    assert_eq!(cluster.say(&["logs", "0"]), "on 0\n");

    let script = "echo rank $NODE_RANK of $WORLD_SIZE";
    cluster.say(&["submit", "--wait", "--gang", "8", "--", "sh", "-c", script]);
    assert_eq!(cluster.say(&["logs", "1"]), "rank 0 of 2\n");
    assert_eq!(cluster.say(&["logs", "--rank", "1", "1"]), "rank 1 of 2\n");

    // A job that holds everything, one that waits behind it, one that waits for that one, one that never can.
    let gates = [cluster.pipe("gate-0"), cluster.pipe("gate-1")];
    let wait = format!("read line < {}/gate-$NODE_RANK", cluster.folder.path().display());
    cluster.say(&["submit", "--gang", "8", "--name", "gate", "--", "sh", "-c", &wait]);
    cluster.say(&["submit", "--gang", "4", "--name", "behind", "--", "true"]);
    cluster.say(&["submit", "--after-ok", "3", "--name", "after", "--", "true"]);
    cluster.say(&["submit", "--after-ok", "0", "--name", "never", "--", "true"]);
    assert!(cluster.say(&["explain", "3"]).starts_with("needs 4 devices, 0 that it may use are free\n"));
    assert!(cluster.say(&["explain", "4"]).starts_with("waits for the end of job 3\n"));
    assert_eq!(cluster.say(&["explain", "5"]), "it was cancelled\n");
    gates.iter().for_each(|gate| write(gate, "go\n"));
    let held = cluster.run(&["submit", "--wait", "--after-any", "4", "--", "true"]);
    assert_eq!(held.status.code(), Some(0));
    let jobs = cluster.say(&["jobs", "--all", "--output", "json"]);
    let jobs: serde_json::Value = serde_json::from_str(&jobs).unwrap();
    let phases: Vec<&str> =
        jobs["jobs"].as_array().unwrap().iter().map(|job| job["phase"].as_str().unwrap()).collect();
    assert_eq!(phases, ["failed", "finished", "finished", "finished", "finished", "cancelled", "finished"]);
}

#[test]
fn running_jobs_survive_the_death_of_head_and_worker() {
    let cluster = Cluster::new();
    let mut head = cluster.head();
    let mut worker = cluster.worker("only");
    let (started, gate) = (cluster.pipe("started"), cluster.pipe("gate"));
    let script = format!("echo once; echo > {}; read line < {}; exit 7", started.display(), gate.display());
    let mut client = cluster.command(&["submit", "--wait", "--", "sh", "-c", &script]);
    let client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::fs::read(&started).unwrap();

    head.kill();
    let _head = cluster.head();
    worker.wait_for("accepted this worker");
    assert!(cluster.say(&["jobs"]).contains("running"), "the journal knows it");

    worker.kill();
    let _worker = cluster.worker("only");
    write(&gate, "go\n");
    let waited = cluster.run(&["submit", "--wait", "--after-any", "0", "--", "true"]);
    assert_eq!(waited.status.code(), Some(0));
    assert_eq!(cluster.say(&["logs", "0"]), "once\n", "it ran once");
    assert!(cluster.say(&["explain", "0"]).contains("exit code 7"), "its exit code was not lost");
    let client = client.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&client.stderr).into_owned();
    assert_eq!(client.status.code(), Some(7), "a client that waits outlasts the head: {errors}");
}

#[test]
fn shell_trainer_reports_steps_and_receives_a_stop() {
    let cluster = Cluster::new();
    let _head = cluster.head();
    let _worker = cluster.worker("only");
    let started = cluster.pipe("started");
    // The signal that stops it reaches also the `wharf step` that runs just then, which is therefore asked again.
    let script = format!(
        "trap : TERM; $0 step 5 --checkpointed 4 --metric loss=0.25; echo first $?; echo > {}; \
         code=0; until [ $code = 10 ]; do $0 step 6; code=$?; done; echo then $code",
        started.display()
    );
    cluster.say(&["submit", "--", "sh", "-c", &script, env!("CARGO_BIN_EXE_wharf")]);
    std::fs::read(&started).unwrap();
    cluster.say(&["cancel", "0"]);
    cluster.run(&["submit", "--wait", "--after-any", "0", "--", "true"]);
    let said = cluster.say(&["logs", "0"]);
    assert!(said.starts_with("first 0\n") && said.ends_with("then 10\n"), "{said}");
}

#[test]
fn elements_of_arrays_have_names() {
    let cluster = Cluster::new();
    let _head = cluster.head();
    assert_eq!(cluster.say(&["submit", "--array", "1-7:2", "--name", "swarm", "--", "true"]), "0\n");
    let json = cluster.say(&["submit", "--array", "0-1", "--held", "--output", "json", "--", "true"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["job_ids"], serde_json::json!([4]));
    assert_eq!(json["arrays"], serde_json::json!([{ "job_id": 4, "count": 2, "indexes": "0-1" }]));
    cluster.say(&["submit", "--after-any", "0_3", "--", "true"]);
    assert!(cluster.say(&["explain", "6"]).starts_with("waits for the end of job 0_3\n"));

    cluster.say(&["cancel", "0_3"]);
    let ids = |state: &str| {
        let jobs = cluster.say(&["jobs", "--state", state, "--output", "plain"]);
        jobs.lines().skip(1).map(|line| line.split('\t').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids("cancelled"), ["0_3"], "one element only");
    cluster.say(&["cancel", "0"]);
    assert_eq!(ids("cancelled"), ["0_1", "0_3", "0_5", "0_7"], "all of it");
    cluster.say(&["cancel", "--all"]);
    assert!(ids("held").is_empty() && ids("waiting").is_empty());
    let none = cluster.run(&["job", "0_2"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("the array 0 has the indexes 1-7:2"));
}

#[test]
fn job_that_cannot_start_has_a_reason() {
    let cluster = Cluster::new();
    let mut head = cluster.head();
    let _worker = cluster.worker("only");
    let failed = cluster.run(&["submit", "--wait", "--", "./no-such-program"]);
    assert_eq!(failed.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("job 0: cannot start"));
    head.kill();
    let _head = cluster.head();
    for command in ["explain", "job"] {
        assert!(cluster.say(&[command, "0"]).contains("No such file"), "{command}: the journal knows it");
    }
}

#[test]
fn network_interface_that_a_node_lacks_is_reported_by_worker_and_job() {
    let cluster = Cluster::new();
    let _head = cluster.head();
    let refused =
        cluster.run(&["worker", "--node", "only", "--devices", "v100:4", "--network-interface", "ib9"]);
    assert_eq!(refused.status.code(), Some(3));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        told.contains("error: network interface `ib9` does not exist on this node, which has "),
        "{told}"
    );
    assert!(told.contains("hint: set one of them with `--network-interface`"), "{told}");

    let _worker = cluster.worker("only");
    let submit = |name: &str| {
        let words =
            ["submit", "--wait", "--network-interface", name, "--", "sh", "-c", "echo $NCCL_SOCKET_IFNAME"];
        cluster.run(&words)
    };
    let failed = submit("ib9");
    let told = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_ne!(failed.status.code(), Some(0));
    assert!(told.contains("network interface `ib9` does not exist on this node, which has "), "{told}");
    assert!(told.contains("set `network_interface` of the job to one of them, or leave it out"), "{told}");
    assert_eq!(submit("lo").status.code(), Some(0));
    assert_eq!(cluster.say(&["logs", "1"]), "lo\n");
}

#[test]
fn invalid_input_is_rejected_with_a_clear_error() {
    let cluster = Cluster::new();
    let alone = cluster.run(&["jobs"]);
    assert_eq!(alone.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&alone.stderr).contains("hint: start one with `wharf head`"));

    let _head = cluster.head();
    let unknown = cluster.run(&["job", "9"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("there is no job 9"));

    // What no node can hold is reported at submission; what only waits for others is not.
    let _worker = cluster.worker("only");
    let reason = "cannot start on the current nodes: needs 8 devices, the working nodes have 4 that it may use together";
    let taken = cluster.run(&["submit", "--gang", "8", "--", "true"]);
    let told = String::from_utf8_lossy(&taken.stderr).into_owned();
    assert!(taken.status.success() && told.contains(&format!("warning: job 0 waits: {reason}")), "{told}");
    let taken = cluster.run(&["submit", "--gang", "4", "--", "true"]);
    assert_eq!((taken.status.code(), String::from_utf8_lossy(&taken.stderr).as_ref()), (Some(0), ""));

    std::fs::write(cluster.path("token"), "wrong").unwrap();
    let stranger = cluster.run(&["jobs"]);
    assert_eq!(stranger.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&stranger.stderr).contains("the token is wrong, or was revoked"));
}
