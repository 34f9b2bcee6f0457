//! A head, a Slurm, and the keeper of pilots between the two.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use wharf_testing::slurm::{Slurm, until};

/// How pilots are kept in tests: everything happens soon.
const SOON: [&str; 12] = [
    "--interval",
    "0.2s",
    "--idle-timeout",
    "1500ms",
    "--young",
    "1s",
    "--backoff",
    "1s",
    "--backoff-max",
    "1h",
    "--max-pending",
    "4",
];

/// A trainer that counts to `$1`, tells and saves each step, and appends it to `$2`.
const TRAINER: &str = r#"
i=$(cat "$WHARF_CHECKPOINT_DIR/i" 2>/dev/null || echo 0)
while [ "$i" -lt "$1" ]; do
  sleep 0.1
  i=$((i + 1))
  echo "$i $WHARF_NODE" >> "$2"
  echo "$i" > "$WHARF_CHECKPOINT_DIR/new" && mv "$WHARF_CHECKPOINT_DIR/new" "$WHARF_CHECKPOINT_DIR/i"
  "$WHARF" step "$i" --checkpointed "$i" 2>/dev/null || exit 0
done
"#;

/// A process that ends with this value.
pub(crate) struct Daemon(pub(crate) Child);

impl Daemon {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id().cast_signed())
    }

    /// Tells it to end and waits for that.
    pub(crate) fn stop(mut self) -> Option<i32> {
        kill(self.pid(), Signal::SIGTERM).unwrap();
        self.0.wait().unwrap().code()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill(self.pid(), Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

/// All of it. Slurm goes first, and with it everything that runs in it.
pub(crate) struct Lab {
    pub(crate) slurm: Slurm,
    _head: Daemon,
    folder: TempDir,
}

impl Lab {
    /// A Slurm with four nodes of four devices each, and a head that gives nodes up after a few seconds.
    pub(crate) fn new() -> Self {
        let slurm = Slurm::start(4, 16, 4);
        let folder = tempfile::Builder::new().prefix("lab").tempdir().unwrap();
        fs::create_dir(folder.path().join("scratch")).unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let home = folder.path().join("home");
        let mut command = slurm.command(env!("CARGO_BIN_EXE_wharf"));
        command.args(["head", "--listen", &address, "--lost-after", "2"]).env("WHARF_HOME", &home);
        let log = fs::File::create(folder.path().join("head.log")).unwrap();
        let head = Daemon(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        let lab = Self { slurm, _head: head, folder };
        until("the head", || lab.wharf(&["nodes"]).output().unwrap().status.success().then_some(()));
        lab
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn wharf(&self, words: &[&str]) -> Command {
        let mut command = self.slurm.command(env!("CARGO_BIN_EXE_wharf"));
        command.args(words).env("WHARF_HOME", self.path("home")).env("WHARF_CONFIG", "/dev/null");
        command.current_dir(self.folder.path());
        command
    }

    pub(crate) fn output(&self, words: &[&str]) -> Output {
        self.wharf(words).output().unwrap()
    }

    /// What a command prints, which must succeed.
    #[track_caller]
    pub(crate) fn say(&self, words: &[&str]) -> String {
        let output = self.output(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let mut words = words.to_vec();
        words.extend(["--output", "json"]);
        serde_json::from_str(&self.say(&words)).unwrap()
    }

    /// Begins to keep pilots of four devices each.
    pub(crate) fn pilots(&self, more: &[&str]) -> Daemon {
        let scratch = self.path("scratch");
        let mut words = vec!["pilot", "slurm", "--gpus", "4", "--type", "gpu"];
        words.extend(["--scratch", scratch.to_str().unwrap()]);
        words.extend(SOON.iter().chain(more));
        let log = fs::OpenOptions::new().append(true).create(true).open(self.path("pilots.log")).unwrap();
        Daemon(self.wharf(&words).stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    /// What those who keep pilots have said so far.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.path("pilots.log")).unwrap_or_default()
    }

    pub(crate) fn status(&self) -> Value {
        self.json(&["pilot", "status"])["status"].clone()
    }

    /// Recorded failures in a row.
    pub(crate) fn failures(&self) -> u64 {
        let output = self.output(&["pilot", "status", "--output", "json"]);
        let status: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        status.and_then(|status| status["status"]["failures"].as_u64()).unwrap_or(0)
    }

    /// Nodes that are up, by name.
    pub(crate) fn up(&self) -> Vec<String> {
        let nodes = self.json(&["nodes"]);
        let nodes = nodes["nodes"].as_array().unwrap().iter().filter(|node| node["health"] == "up");
        let mut names: Vec<String> = nodes.map(|node| node["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }

    /// Jobs in that state.
    pub(crate) fn jobs(&self, state: &str) -> usize {
        self.json(&["jobs", "--all", "--state", state])["jobs"].as_array().unwrap().len()
    }

    /// Submits a job that waits for a file of that name, or several.
    pub(crate) fn submit_waiting(&self, file: &str, options: &[&str]) {
        let gate = self.path(file);
        let script = format!("until [ -e {} ]; do sleep 0.1; done", gate.display());
        let mut words = vec!["submit"];
        words.extend(options);
        words.extend(["--", "sh", "-c", &script]);
        self.say(&words);
    }

    /// Lets those that wait for a file continue.
    pub(crate) fn open(&self, file: &str) {
        fs::write(self.path(file), "").unwrap();
    }

    /// Submits a trainer of so many steps of a tenth of a second.
    pub(crate) fn submit_trainer(&self, steps: u32) {
        let (steps, file) = (steps.to_string(), self.path("steps"));
        let program = format!("WHARF={}", env!("CARGO_BIN_EXE_wharf"));
        let words =
            ["submit", "--name", "trainer", "--gang", "4", "--checkpoint-dir", "ck", "--env", &program];
        let command = ["--", "sh", "-c", TRAINER, "trainer", &steps, file.to_str().unwrap()];
        self.say(&[&words[..], &command[..]].concat());
    }

    /// The steps that the trainer has made so far: their numbers, and on which node.
    pub(crate) fn steps(&self) -> Vec<(u32, String)> {
        let text = fs::read_to_string(self.path("steps")).unwrap_or_default();
        let step =
            |line: &str| line.split_once(' ').map(|(step, node)| (step.parse().unwrap(), node.to_owned()));
        text.lines().filter_map(step).collect()
    }

    /// Waits until the trainer has made so many steps.
    #[track_caller]
    pub(crate) fn until_step(&self, count: u32) {
        until("the trainer", || self.steps().last().filter(|(step, _)| *step >= count).map(drop));
    }

    /// Waits until nothing of pilots is left, in Slurm and in the head.
    #[track_caller]
    pub(crate) fn until_nothing_is_left(&self) {
        until("the end of all pilots", || {
            let live = self.slurm.jobs("PENDING,RUNNING,COMPLETING");
            (live.is_empty() && self.json(&["nodes"])["nodes"].as_array().unwrap().is_empty()).then_some(())
        });
    }
}
