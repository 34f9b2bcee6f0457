//! A cluster of real daemons on this machine.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

pub(crate) struct Cluster {
    workers: Vec<Daemon>,
    head: Daemon,
    home: Home,
}

/// A cluster's folder, and the program that runs it.
struct Home {
    folder: TempDir,
    program: PathBuf,
}

/// A daemon that ends in good order.
pub(crate) struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

impl Cluster {
    pub(crate) fn start(workers: u32, slots: u32, words: &[&str]) -> Self {
        Self::start_program(Path::new(env!("CARGO_BIN_EXE_wharf")), workers, slots, words)
    }

    /// A cluster of another version of the program.
    pub(crate) fn start_program(program: &Path, workers: u32, slots: u32, words: &[&str]) -> Self {
        let home = Home { folder: tempfile::tempdir().unwrap(), program: program.to_owned() };
        let head = daemon(&home, &["head", "--listen", "127.0.0.1:0"], "listens on");
        let mut cluster = Self { workers: Vec::new(), head, home };
        cluster.workers = cluster.add_workers("n", workers, slots, words);
        cluster
    }

    /// More workers; they end when what is returned is dropped.
    pub(crate) fn add_workers(&self, name: &str, count: u32, slots: u32, words: &[&str]) -> Vec<Daemon> {
        let start = |index| {
            let (node, devices) = (format!("{name}{index}"), format!("cpu:{slots}"));
            let all = [&["worker", "--node", &node, "--devices", &devices], words].concat();
            daemon(&self.home, &all, "accepted this worker")
        };
        (0..count).map(start).collect()
    }

    fn command(&self, words: &[&str]) -> Command {
        command(&self.home, words)
    }

    /// What a command prints.
    pub(crate) fn say(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Submits an array of `/bin/true` without output, with these options, and returns its first job.
    pub(crate) fn submit_array(&self, count: u32, options: &[&str]) -> u32 {
        let array = format!("0-{}", count - 1);
        let words = ["submit", "--array", &array, "--output-file", "/dev/null", "--export", "NONE"];
        let words = [&words[..], options, &["--output", "json", "--", "/bin/true"]].concat();
        let said: serde_json::Value = serde_json::from_str(&self.say(&words)).unwrap();
        said["job_ids"][0].as_u64().unwrap().try_into().unwrap()
    }

    /// Runs an array and states how long that took, from its submission to its end.
    pub(crate) fn run_array(&self, count: u32, options: &[&str]) -> Duration {
        let began = Instant::now();
        let array = self.submit_array(count, options).to_string();
        self.say(&[
            "submit",
            "--wait",
            "--after-any",
            &array,
            "--output-file",
            "/dev/null",
            "--",
            "/bin/true",
        ]);
        began.elapsed()
    }

    /// Runs something while no job can start.
    pub(crate) fn hold(&self, run: impl FnOnce()) {
        let nodes: Vec<String> = (0..self.workers.len()).map(|index| format!("n{index}")).collect();
        nodes.iter().for_each(|node| drop(self.say(&["node", "cordon", node])));
        run();
        nodes.iter().for_each(|node| drop(self.say(&["node", "resume", node])));
    }

    /// Submits an array to a pool and returns when all of it runs.
    pub(crate) fn run_until_running(&self, count: u32, pool: &str) {
        let array = format!("0-{}", count - 1);
        self.say(&[
            "submit",
            "--array",
            &array,
            "--pool",
            pool,
            "--output-file",
            "/dev/null",
            "--",
            "/bin/true",
        ]);
        loop {
            let said: serde_json::Value =
                serde_json::from_str(&self.say(&["jobs", "--state", "running", "--output", "json"])).unwrap();
            if said["jobs"].as_array().unwrap().len() >= count as usize {
                return;
            }
        }
    }

    /// The head's memory now.
    pub(crate) fn head_mb(&self) -> u64 {
        self.status_mb("VmRSS:")
    }

    /// The most memory that the head has had.
    pub(crate) fn head_peak_mb(&self) -> u64 {
        self.status_mb("VmHWM:")
    }

    fn status_mb(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.head.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    }
}

fn command(home: &Home, words: &[&str]) -> Command {
    let mut command = Command::new(&home.program);
    command.args(words).env("WHARF_HOME", home.folder.path()).stdin(Stdio::null());
    command
}

fn daemon(home: &Home, words: &[&str], ready: &str) -> Daemon {
    let mut child = command(home, words).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(ready) {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "{words:?} ended before it was ready");
    }
    // What it says later is read, so that it never waits for that.
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    Daemon(child)
}
