//! A head and three workers as processes of their own, which can be killed and come back.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const WORKERS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// One process of the cluster, which is there or was killed.
struct Daemon {
    name: String,
    words: Vec<String>,
    child: Option<Child>,
}

pub(crate) struct Cluster {
    folder: TempDir,
    /// The head, then the workers.
    daemons: Vec<Mutex<Daemon>>,
}

impl Cluster {
    pub(crate) fn start(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("task.sh"), include_str!("task.sh")).unwrap();
        File::create(folder.path().join("ledger")).unwrap();
        let listen = format!("127.0.0.1:{}", free_port(seed));
        let head = daemon("head", &["head", "--listen", &listen, "--policy", "srtf"]);
        let names = (0..WORKERS).map(|index| format!("worker{index}"));
        let workers = names.map(|name| daemon(&name, &["worker", "--node", &name, "--devices", "v100:4"]));
        let daemons = std::iter::once(head).chain(workers).map(Mutex::new).collect();
        let cluster = Self { folder, daemons };
        cluster.restart(0);
        cluster.wait_until("the head listens", || cluster.said(0).contains("listens on"));
        for index in 1..=WORKERS {
            cluster.restart(index);
        }
        for index in 1..=WORKERS {
            cluster
                .wait_until("a worker is accepted", || cluster.said(index).contains("accepted this worker"));
        }
        cluster
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wharf"));
        command.args(words).env("WHARF_HOME", self.folder.path()).stdin(Stdio::null());
        command.env("WHARF", env!("CARGO_BIN_EXE_wharf"));
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// A document from a head that may be dead at the moment.
    pub(crate) fn ask(&self, words: &[&str]) -> Value {
        let mut answer = None;
        self.wait_until(&format!("{words:?} is answered"), || {
            let output = self.run(words);
            answer = output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap());
            answer.is_some()
        });
        answer.unwrap()
    }

    /// What a daemon has said in all its lives.
    pub(crate) fn said(&self, index: usize) -> String {
        std::fs::read_to_string(self.path(&self.daemons[index].lock().unwrap().name)).unwrap()
    }

    /// Kills a daemon without warning. One that had ended by itself is a failure of its own.
    pub(crate) fn kill(&self, index: usize) {
        let mut daemon = self.daemons[index].lock().unwrap();
        let name = daemon.name.clone();
        if let Some(mut child) = daemon.child.take() {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "{name} ended by itself: {ended:?}\n{}", read(&self.path(&name)));
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(crate) fn restart(&self, index: usize) {
        let mut daemon = self.daemons[index].lock().unwrap();
        if daemon.child.is_some() {
            return;
        }
        let log = OpenOptions::new().create(true).append(true).open(self.path(&daemon.name)).unwrap();
        let words: Vec<&str> = daemon.words.iter().map(String::as_str).collect();
        let child = self.command(&words).stderr(log).stdout(Stdio::null()).spawn().unwrap();
        daemon.child = Some(child);
    }

    /// Starts all that is dead.
    pub(crate) fn revive(&self) {
        (0..=WORKERS).for_each(|index| self.restart(index));
    }

    pub(crate) fn wait_until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            if begin.elapsed() > PATIENCE {
                self.keep();
                panic!("not within {PATIENCE:?}: {what}");
            }
            pause(LOOK_INTERVAL);
        }
    }

    /// Keeps the folder for the analysis of a failure.
    pub(crate) fn keep(&self) {
        let kept = std::env::temp_dir().join(format!("wharf-chaos-{}", std::process::id()));
        let copied = Command::new("cp").arg("-rT").arg(self.folder.path()).arg(&kept).status();
        // The output may have no reader.
        let _ =
            writeln!(std::io::stderr(), "the cluster's folder is kept in {} ({copied:?})", kept.display());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // In good order and the workers first, so that their supervisors end with them.
        for daemon in self.daemons.iter().rev() {
            let Some(mut child) = daemon.lock().ok().and_then(|mut daemon| daemon.child.take()) else {
                continue;
            };
            let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM);
            let _ = child.wait();
        }
    }
}

fn daemon(name: &str, words: &[&str]) -> Daemon {
    let words = words.iter().map(|&word| word.to_owned()).collect();
    Daemon { name: format!("{name}.log"), words, child: None }
}

/// A port that no outgoing connection is given while the head is dead: below those that systems choose from.
fn free_port(seed: u64) -> u16 {
    let first = u64::from(std::process::id()) * 31 + seed * 7;
    let ports = (0..10_000).map(|step| 20_000 + ((first + step) % 10_000) as u16);
    ports.into_iter().find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok()).unwrap()
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| error.to_string())
}

/// Lets time pass, which is what the load and the faults are made of.
pub(crate) fn pause(time: Duration) {
    let (_sender, receiver) = mpsc::channel::<()>();
    let _ = receiver.recv_timeout(time);
}
