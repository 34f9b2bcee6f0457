//! Runs what a provider says, and keeps a full log of each node.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

/// Answers to the launcher's own questions are short; more is a mistake.
const ANSWER_MAX: u64 = 1 << 20;
/// How much of the end of a log is shown or checked.
const TAIL: u64 = 8 << 10;

/// The log of a node.
#[derive(Clone, Debug)]
pub struct Log {
    path: PathBuf,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code; 128 and its number where a signal ended it.
    pub code: i32,
    /// What it answered, where that was asked for.
    pub answer: String,
    /// The end of what it said on standard error, and of its output where that was not asked for.
    pub said: String,
}

/// Handling of a program's input and output.
#[derive(Clone, Copy, Debug, Default)]
pub struct Use<'a> {
    /// What it reads; nothing of it is logged.
    pub input: Option<&'a str>,
    /// Its output is an answer, and not logged.
    pub is_asked: bool,
}

/// A program cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It is not there, or the system refuses.
    #[error("cannot run `{program}`: {source}")]
    Start {
        /// Which.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// The log cannot be written.
    #[error("cannot write `{}`: {source}", path.display())]
    Log {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Log {
    /// In a file, behind what is there already.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&self.path)
    }

    /// Adds a line that states what follows.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn title(&self, text: &str) -> Result<(), RunError> {
        let written = self.open().and_then(|mut file| writeln!(file, "=== {text}"));
        written.map_err(|source| RunError::Log { path: self.path.clone(), source })
    }

    /// Runs a program to its end; its output goes into the log. It is killed where the caller gives up.
    ///
    /// # Errors
    /// [`RunError`]
    pub async fn run(&self, argv: &[OsString], with: Use<'_>) -> Result<Ended, RunError> {
        let log = |source| RunError::Log { path: self.path.clone(), source };
        let mut file = self.open().map_err(log)?;
        let start = file.seek(SeekFrom::End(0)).map_err(log)?;
        let Some((program, args)) = argv.split_first() else {
            return Ok(Ended { code: 0, answer: String::new(), said: String::new() });
        };
        let failed = |source| RunError::Start { program: program.to_string_lossy().into_owned(), source };
        // Into the file and not through a pipe: a connection that ssh keeps holds its end open.
        let mut command = Command::new(program);
        command.args(args).kill_on_drop(true).stderr(file.try_clone().map_err(log)?);
        command.stdin(if with.input.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(if with.is_asked { Stdio::piped() } else { file.try_clone().map_err(log)?.into() });
        let mut child = command.spawn().map_err(failed)?;
        if let (Some(input), Some(mut pipe)) = (with.input, child.stdin.take()) {
            // A program that does not want it states this by its exit code.
            let _ = pipe.write_all(input.as_bytes()).await;
        }
        let mut answer = Vec::new();
        if let Some(pipe) = child.stdout.take() {
            pipe.take(ANSWER_MAX).read_to_end(&mut answer).await.map_err(failed)?;
        }
        let status = child.wait().await.map_err(failed)?;
        // Without its arguments: they can contain secrets.
        let (program, log_file) = (program.to_string_lossy(), self.path.display());
        tracing::debug!(program = %program, code = code(status), log = %log_file, "program ended");
        let said = tail(&mut file, start).map_err(log)?;
        Ok(Ended { code: code(status), answer: String::from_utf8_lossy(&answer).into_owned(), said })
    }
}

/// What a shell would say.
#[must_use]
pub fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

/// The end of a file, from `start` on.
fn tail(file: &mut File, start: u64) -> io::Result<String> {
    let end = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(start.max(end.saturating_sub(TAIL))))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
