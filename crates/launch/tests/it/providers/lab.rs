//! A folder of a test's own, and programs with an environment of their own.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

pub(crate) use wharf_testing::slurm::until;

/// States that a test is within the environment that it has made.
pub(crate) const WITHIN: &str = "WHARF_TEST_WITHIN";

/// A folder.
pub(crate) struct Lab {
    folder: TempDir,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// The cluster's file.
    pub(crate) fn file(&self, text: &str) -> PathBuf {
        self.write("c.yaml", text)
    }
}

/// Runs a test of this program again, within an environment: variables are a process's, not a test's.
#[track_caller]
pub(crate) fn within(test: &str, env: &[(&str, &OsStr)]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(WITHIN, "yes").envs(env.iter().copied());
    let ended = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned() + &String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && said.contains("1 passed"), "{said}");
}

/// Runs a program to its end.
pub(crate) fn run(program: &str, words: &[&str]) -> Output {
    Command::new(program).args(words).stdin(Stdio::null()).output().unwrap()
}
