//! Commands beside a running job: with pipes, with a terminal, and their end when clients or tasks leave.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, Daemon, write};

/// More than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster with one job that runs until told otherwise.
struct Beside {
    gate: PathBuf,
    worker: Daemon,
    _head: Daemon,
    cluster: Cluster,
}

impl Beside {
    fn new() -> Self {
        let cluster = Cluster::new();
        let head = cluster.head();
        let worker = cluster.worker("only");
        let (started, gate) = (cluster.pipe("started"), cluster.pipe("gate"));
        let script = format!("echo > {}; read line < {}", started.display(), gate.display());
        cluster.say(&["submit", "--gang", "2", "--", "sh", "-c", &script]);
        std::fs::read(&started).unwrap();
        // The worker knows before the head that it runs.
        until("the job to run", || cluster.say(&["jobs"]).contains("running"));
        Self { gate, worker, _head: head, cluster }
    }

    fn exec(&self, words: &[&str]) -> Command {
        let mut command = self.cluster.command(&[&["exec"], words].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, words: &[&str], input: &[u8]) -> Output {
        let mut child = self.exec(words).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // A command that does not read it all has its reasons.
                let _ = stdin.write_all(input);
            });
            child.wait_with_output().unwrap()
        })
    }

    /// A command that says its process id and stays.
    fn stay(&self) -> (Child, String) {
        let mut child = self.exec(&["0", "--", "sh", "-c", "echo $$; exec sleep 600"]).spawn().unwrap();
        let mut pid = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut pid).unwrap();
        let pid = pid.trim().to_owned();
        assert!(runs(&pid));
        (child, pid)
    }

    /// Runs in a terminal and does what the lines say.
    fn in_terminal(&self, words: &[&str], lines: &[&str]) -> String {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/terminal.py");
        let exec = self.exec(words);
        let mut python = Command::new("python3");
        python.arg(script).arg(exec.get_program()).args(exec.get_args());
        python.env("WHARF_HOME", self.cluster.folder.path());
        let mut child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        lines.iter().for_each(|line| writeln!(stdin, "{line}").unwrap());
        drop(stdin);
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        child.wait().unwrap();
        said
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // So that the supervisor has nothing to keep.
        let _ = self.cluster.run(&["cancel", "0"]);
        let _ = self.cluster.run(&["submit", "--wait", "--after-any", "0", "--", "true"]);
    }
}

fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

pub(crate) fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what} did not come about");
        std::thread::yield_now();
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn exec_has_the_tasks_surroundings_and_passes_everything_on() {
    let mut beside = Beside::new();
    let script = "echo $WHARF_JOB_ID on $WHARF_DEVICES in $PWD; cat; echo oops >&2; exit 5";
    let words = ["0", "--", "sh", "-c", script];
    let here = std::env::current_dir().unwrap();
    let expected = format!("0 on 0,1 in {}\nhello", here.display());
    let check = |beside: &Beside| {
        let output = beside.run(&words, b"hello");
        assert_eq!((text(&output.stdout), text(&output.stderr)), (expected.as_str(), "oops\n"));
        assert_eq!(output.status.code(), Some(5));
    };
    check(&beside);

    // More than any buffer on the way holds, in both directions.
    let long = vec![b'x'; 5_000_000];
    let counted = beside.run(&["0", "--", "wc", "-c"], &long);
    assert_eq!(text(&counted.stdout).trim(), "5000000");
    let echoed = beside.run(&["0", "--", "cat"], &long);
    assert!(echoed.stdout == long, "{} bytes came back", echoed.stdout.len());
    // One that reads nothing does not hold up its client.
    assert_eq!(beside.run(&["0", "--", "true"], &long).status.code(), Some(0));

    let absent = beside.run(&["0", "--", "no-such-program"], b"");
    assert_eq!(absent.status.code(), Some(127));
    assert!(text(&absent.stderr).contains("cannot start 'no-such-program'"));

    // A worker that came later knows as much.
    beside.worker.kill();
    beside.worker = beside.cluster.worker("only");
    check(&beside);
}

#[test]
fn exec_ends_with_its_client_and_with_its_task() {
    let beside = Beside::new();
    let (mut client, pid) = beside.stay();
    client.kill().unwrap();
    client.wait().unwrap();
    until("the end of a command without a client", || !runs(&pid));

    let (client, pid) = beside.stay();
    write(&beside.gate, "go\n");
    let output = client.wait_with_output().unwrap();
    assert!(!output.status.success());
    until("the end of a command without a task", || !runs(&pid));

    // The head hears of the end a moment later than those who watch the processes.
    until("the end of the job", || beside.run(&["0", "--", "true"], b"").status.code() == Some(2));
    let late = beside.run(&["0", "--", "true"], b"");
    assert!(text(&late.stderr).contains("job 0 does not run"), "{}", text(&late.stderr));
    assert_eq!(beside.run(&["9", "--", "true"], b"").status.code(), Some(2));
}

#[test]
fn exec_pty_is_a_terminal_of_its_own() {
    let beside = Beside::new();
    let script = "trap 'stty size; exit 7' WINCH; echo at $(stty size); while :; do sleep 0.05; done";
    let said = beside.in_terminal(
        &["--pty", "0", "--", "sh", "-c", script],
        &["wait at 40 100", "size 50 120", "wait 50 120"],
    );
    assert_eq!(said, "7 restored\n");

    // A shell, which has control of its terminal: a signal typed there is the command's.
    let said = beside.in_terminal(
        &["--pty", "0"],
        &[
            "type echo I am $((6 * 7)) in job $WHARF_JOB_ID",
            "wait 42 in job 0",
            // A signal that is typed before the command has the terminal is the shell's, which ignores it.
            "type sh -c 'echo up to $((40 + 2)); exec sleep 600'",
            "wait up to 42",
            "type \u{3}",
            "type exit 9",
        ],
    );
    assert_eq!(said, "9 restored\n");

    let script = "echo ready; sleep 600";
    let said = beside.in_terminal(&["--pty", "0", "--", "sh", "-c", script], &["wait ready", "signal 15"]);
    assert_eq!(said, "143 restored\n");
    let rank = beside.run(&["--rank", "3", "0", "--", "true"], b"");
    assert!(text(&rank.stderr).contains("no task of rank 3"));
}
