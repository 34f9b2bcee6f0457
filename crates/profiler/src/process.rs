//! The Python process that measures: it receives requests and sends answers as lines of JSON.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tempfile::TempDir;

use crate::ProfilerError;

/// How much is shown of what the process said when it broke down.
const LAST_LINES: usize = 6;

/// Ends the process, and the answers with it.
#[derive(Clone)]
pub struct Interrupt(Arc<(Mutex<Child>, AtomicBool)>);

impl Interrupt {
    /// Ends the process; its end is no failure then.
    pub fn interrupt(&self) {
        self.0.1.store(true, Ordering::SeqCst);
        self.end();
    }

    fn is_interrupted(&self) -> bool {
        self.0.1.load(Ordering::SeqCst)
    }

    fn end(&self) {
        // It may have ended by itself.
        let _ = self.0.0.lock().unwrap_or_else(PoisonError::into_inner).kill();
    }

    fn wait(&self) -> std::io::Result<ExitStatus> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).wait()
    }
}

/// The process. It ends with this.
pub struct Profiler {
    child: Interrupt,
    requests: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    said: PathBuf,
    _folder: TempDir,
}

impl Profiler {
    /// Starts `wharf.profiler`, whose package is in the directory `python` of `folder`.
    ///
    /// # Errors
    /// [`ProfilerError`] if the interpreter cannot be started.
    pub fn start(python: &Path, folder: TempDir) -> Result<Self, ProfilerError> {
        let said = folder.path().join("stderr");
        let errors = std::fs::File::create(&said)
            .map_err(|source| ProfilerError::Write { path: said.clone(), source })?;
        let mut command = Command::new(python);
        command.args(["-m", "wharf.profiler"]).env("PYTHONPATH", search_path(folder.path()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        // Ctrl-C is for us to hear: the process is ended, and states nothing of it.
        command.process_group(0);
        let mut child =
            command.spawn().map_err(|source| ProfilerError::Start { python: python.to_owned(), source })?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(ProfilerError::Unconnected);
        };
        let child = Interrupt(Arc::new((Mutex::new(child), AtomicBool::new(false))));
        let answers = BufReader::new(answers).lines();
        Ok(Self { child, requests, answers, said, _folder: folder })
    }

    /// Sends a message. If the receiver is gone, the next answer contains the reason.
    pub fn send(&mut self, request: &Value) {
        let _ = writeln!(self.requests, "{request}").and_then(|()| self.requests.flush());
    }

    /// Ends the process from another thread.
    #[must_use]
    pub fn handle(&self) -> Interrupt {
        self.child.clone()
    }

    /// The next answer; `None` at the end, and after an interruption.
    ///
    /// # Errors
    /// [`ProfilerError`] if the process fails, or refuses the request.
    pub fn next_answer(&mut self) -> Result<Option<Value>, ProfilerError> {
        let Some(line) = self.answers.next() else { return self.ended() };
        let line = line.map_err(|error| ProfilerError::Message(error.to_string()))?;
        let answer: Value =
            serde_json::from_str(&line).map_err(|error| ProfilerError::Message(error.to_string()))?;
        match answer.get("wrong").and_then(Value::as_str) {
            Some(wrong) => Err(ProfilerError::Refused(wrong.to_owned())),
            None => Ok(Some(answer)),
        }
    }

    fn ended(&self) -> Result<Option<Value>, ProfilerError> {
        let status = self.child.wait();
        if self.child.is_interrupted() || status.as_ref().is_ok_and(ExitStatus::success) {
            return Ok(None);
        }
        let said = std::fs::read_to_string(&self.said).unwrap_or_default();
        let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        let output = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n  ");
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        Err(ProfilerError::Failed { status, output })
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        self.child.end();
        let _ = self.child.wait();
    }
}

/// Ours first: what is carried fits this program.
fn search_path(folder: &Path) -> std::ffi::OsString {
    let own = folder.join("python");
    let others = std::env::var_os("PYTHONPATH").unwrap_or_default();
    let all = std::iter::once(own.clone()).chain(std::env::split_paths(&others));
    std::env::join_paths(all.filter(|path| !path.as_os_str().is_empty())).unwrap_or(own.into_os_string())
}
