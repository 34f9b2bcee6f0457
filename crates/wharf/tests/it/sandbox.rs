//! A folder of its own and an environment without surprises for each test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// Two jobs that fit `1x2`, and one that needs both devices.
pub(crate) const TRACE: &str = "\
job_id,submit_s,devices,iterations,iteration_ms
a,0,1,100,1000
b,10,2,50,1000
c,20,1,10,1000
";

/// A folder that a test has for itself.
pub(crate) struct Sandbox {
    folder: TempDir,
}

/// How a command ended and what it said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    pub(crate) fn from(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout.clone()).unwrap(),
            stderr: String::from_utf8(output.stderr.clone()).unwrap(),
        }
    }

    /// The standard output of a command that must have succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self.stdout
    }

    /// The standard error of a command that must have failed in this way, without data.
    #[track_caller]
    pub(crate) fn fails(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        assert_eq!(self.stdout, "");
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self.stderr
    }
}

impl Sandbox {
    /// A folder with [`TRACE`] as `jobs.csv`.
    pub(crate) fn new() -> Self {
        let sandbox = Self { folder: tempfile::tempdir().unwrap() };
        sandbox.write("jobs.csv", TRACE);
        sandbox
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.path().join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The names in a folder of the sandbox, sorted.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path().join(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A command of Wharf, its words separated by blanks.
    pub(crate) fn command(&self, words: &str) -> Command {
        self.hermetic(Command::new(program()), words)
    }

    /// The command with nothing of the machine's environment but the search path.
    fn hermetic(&self, mut command: Command, words: &str) -> Command {
        command.args(words.split_whitespace()).current_dir(self.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("WHARF_CONFIG", "/dev/null");
        command.stdin(Stdio::null());
        command
    }

    /// Runs a command of Wharf.
    pub(crate) fn wharf(&self, words: &str) -> Said {
        Said::from(&self.command(words).output().unwrap())
    }

    /// Runs a line of shell in which `$WHARF` is the program.
    pub(crate) fn shell(&self, line: &str) -> Said {
        let mut command = self.hermetic(Command::new("sh"), "-c");
        Said::from(&command.arg(line).env("WHARF", program()).output().unwrap())
    }
}

pub(crate) fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_wharf"))
}
