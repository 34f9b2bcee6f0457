//! The Python process that measures: carried in the binary, asked and answering in lines of JSON.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tempfile::TempDir;

use crate::carried;
use crate::error::{CliError, ErrorKind};
use crate::interrupt;

/// How much is shown of what the process said when it broke down.
const LAST_LINES: usize = 6;

/// The process. It ends with this.
pub(super) struct Profiler {
    child: Arc<Mutex<Child>>,
    requests: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    said: PathBuf,
    _folder: TempDir,
}

impl Profiler {
    /// Starts it. A signal ends it from now on, and answers end with it.
    pub(super) fn start(python: &Path) -> Result<Self, CliError> {
        let folder = tempfile::tempdir().map_err(|error| CliError::write(&std::env::temp_dir(), error))?;
        carried::unpack(folder.path(), carried::SDK)?;
        carried::unpack(folder.path(), carried::PROFILER)?;
        let said = folder.path().join("stderr");
        let errors = std::fs::File::create(&said).map_err(|error| CliError::write(&said, error))?;
        let mut command = Command::new(python);
        command.args(["-m", "wharf.profiler"]).env("PYTHONPATH", search_path(folder.path()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        // Ctrl-C is for us to hear: the process is ended, and says nothing of it.
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| {
            CliError::input(format!("cannot start `{}`", python.display()))
                .caused_by(error)
                .hint("`--python` names a Python that has JAX")
        })?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(CliError::new(ErrorKind::Internal, "cannot connect to the profiler"));
        };
        let child = Arc::new(Mutex::new(child));
        let shared = Arc::clone(&child);
        interrupt::handle_with(move || end(&shared));
        let answers = BufReader::new(answers).lines();
        Ok(Self { child, requests, answers, said, _folder: folder })
    }

    /// Sends a message. If the receiver is gone, the next answer contains the reason.
    pub(super) fn say(&mut self, request: &Value) {
        let _ = writeln!(self.requests, "{request}").and_then(|()| self.requests.flush());
    }

    /// The next answer; `None` at the end, and when a signal came.
    pub(super) fn next(&mut self) -> Result<Option<Value>, CliError> {
        let Some(line) = self.answers.next() else { return self.ended() };
        let broken = |error: &dyn std::error::Error| {
            CliError::new(ErrorKind::Internal, format!("invalid message from the profiler: {error}"))
        };
        let line = line.map_err(|error| broken(&error))?;
        let answer: Value = serde_json::from_str(&line).map_err(|error| broken(&error))?;
        match answer.get("wrong").and_then(Value::as_str) {
            Some(wrong) => Err(CliError::input(wrong)),
            None => Ok(Some(answer)),
        }
    }

    fn ended(&self) -> Result<Option<Value>, CliError> {
        let status = self.child.lock().unwrap_or_else(PoisonError::into_inner).wait();
        if interrupt::handled().is_some() || status.as_ref().is_ok_and(std::process::ExitStatus::success) {
            return Ok(None);
        }
        let said = std::fs::read_to_string(&self.said).unwrap_or_default();
        let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n  ");
        let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        Err(CliError::input(format!("the profiler failed ({how}):\n  {last}")))
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        end(&self.child);
        let _ = self.child.lock().unwrap_or_else(PoisonError::into_inner).wait();
    }
}

fn end(child: &Mutex<Child>) {
    // It may have ended by itself.
    let _ = child.lock().unwrap_or_else(PoisonError::into_inner).kill();
}

/// Ours first: what is carried fits this program.
fn search_path(folder: &Path) -> std::ffi::OsString {
    let own = folder.join("python");
    let others = std::env::var_os("PYTHONPATH").unwrap_or_default();
    let all = std::iter::once(own.clone()).chain(std::env::split_paths(&others));
    std::env::join_paths(all.filter(|path| !path.as_os_str().is_empty())).unwrap_or(own.into_os_string())
}
