//! Commands whose processes, and all that they start, can be found again by a variable in their environment.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::sandbox::program;

/// The variable. Its value is the path of the test's own folder, which no other test has.
const MARK: &str = "WHARF_TEST_MARK";
/// Processes that are on their way out are gone by then.
const PATIENCE: Duration = Duration::from_secs(20);

/// A folder of its own with a home for a cluster.
pub(crate) struct Marked {
    folder: TempDir,
}

impl Marked {
    pub(crate) fn new() -> Self {
        let marked = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(marked.path("tmp")).unwrap();
        marked
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.as_marked(program());
        command.args(words);
        command
    }

    /// Any program, with the mark and the folders of this test.
    pub(crate) fn as_marked(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).stdin(Stdio::null()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("WHARF_HOME", self.path("home")).env("TMPDIR", self.path("tmp"));
        command.env(MARK, self.folder.path()).env("WHARF_CONFIG", "/dev/null");
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// What a command prints, which must succeed.
    #[track_caller]
    pub(crate) fn say(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The document that a command prints.
    #[track_caller]
    pub(crate) fn json(&self, words: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.say(&[words, &["--output", "json"]].concat())).unwrap()
    }

    /// A command that continues, with what it says on standard error.
    pub(crate) fn start(&self, words: &[&str]) -> Going {
        let mut child = self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Going { child, stderr }
    }

    /// A named pipe: opening it for reading waits for a writer.
    pub(crate) fn pipe(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    /// Processes that carry the mark, by their command lines.
    fn processes(&self) -> Vec<String> {
        self.processes_with("")
    }

    /// Those of them that also have a variable that begins so.
    pub(crate) fn processes_with(&self, start: &str) -> Vec<String> {
        let mark = format!("{MARK}={}", self.folder.path().display()).into_bytes();
        let is_marked = |folder: &Path| {
            let environ = fs::read(folder.join("environ")).unwrap_or_default();
            let mut variables = environ.split(|byte| *byte == 0);
            variables.clone().any(|variable| variable == mark)
                && variables.any(|variable| variable.starts_with(start.as_bytes()))
        };
        let folders = fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
        let told = |folder: PathBuf| fs::read_to_string(folder.join("cmdline")).unwrap_or_default();
        folders.filter(|folder| is_marked(folder)).map(told).collect()
    }

    /// Nothing that was started here is left.
    #[track_caller]
    pub(crate) fn assert_nothing_left(&self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.processes().is_empty() {
            assert!(Instant::now() < deadline, "left behind: {:?}", self.processes());
            std::thread::yield_now();
        }
        let left: Vec<_> =
            fs::read_dir(self.path("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        // A test that failed half-way has not stopped its cluster.
        let _ = self.command(&["local", "--stop"]).stderr(Stdio::null()).status();
    }
}

/// A command that continues.
pub(crate) struct Going {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Going {
    /// Reads messages until one contains `text`.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert_ne!(self.stderr.read_line(&mut line).unwrap(), 0, "ended before it said `{text}`");
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// How it ended, and what it printed.
    pub(crate) fn end(self) -> (Option<i32>, String) {
        let output = self.child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }
}
