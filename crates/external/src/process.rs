//! The program itself: found, started, asked, ended.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::time::Duration;
use std::{env, fs, thread};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use crate::message::Refusal;

/// Longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// How long a program that is not needed any more may take to end by itself.
const END: Duration = Duration::from_secs(1);

/// How much of an invalid answer is shown.
const SHOWN_MAX: usize = 200;

/// Lines of standard error that an error has: the end of a traceback.
const SAID_MAX: usize = 6;

/// Longest line of standard error that is kept together.
const LINE_BYTES_MAX: u64 = 4096;

/// The helper for policies in Python, put where programs find it.
const HELPER: &str = include_str!("../../../python/wharf/policy.py");

/// What is wrong with a program or its answers.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// There is no such file.
    #[error("there is no policy program `{}`", .0.display())]
    Missing(PathBuf),
    /// It is neither executable nor a Python program.
    #[error("policy program `{}` can neither be executed nor does its name end in `.py`", .0.display())]
    NotExecutable(PathBuf),
    /// It could not be started.
    #[error("policy program `{}` cannot be started", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It ended, or closed its output.
    #[error("the policy program ended instead of answering ({how}){}", last_words(said))]
    Ended {
        /// Its exit code or signal.
        how: String,
        /// The last lines that it wrote to standard error.
        said: Vec<String>,
    },
    /// It does not answer.
    #[error("the policy program has not answered within {} s", limit.as_secs_f64())]
    Silent {
        /// How long it was waited for.
        limit: Duration,
    },
    /// Its standard input or output failed.
    #[error("I/O error while talking to the policy program")]
    Speech(#[source] io::Error),
    /// An answer that is no JSON, or not of the protocol.
    #[error("invalid answer of the policy program: `{answer}`")]
    Answer {
        /// The beginning of its answer.
        answer: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// It has another protocol version.
    #[error("the policy program uses protocol {theirs}, expected {ours}")]
    Protocol {
        /// Its version.
        theirs: u32,
        /// The version here.
        ours: u32,
    },
    /// It refuses to continue.
    #[error("the policy program reported an error: {0}")]
    Refused(String),
}

/// The last lines of standard error, as the end of a message.
fn last_words(said: &[String]) -> String {
    if said.is_empty() { String::new() } else { format!(":\n  {}", said.join("\n  ")) }
}

/// A file that is run as a policy.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    is_python: bool,
}

impl Program {
    /// Whether a policy's name is the path of a program: it begins with `./`, `../` or `/`, or ends in `.py`. No policy of Wharf's own is
    /// named so.
    pub fn is_named(policy: &str) -> bool {
        ["./", "../", "/"].iter().any(|start| policy.starts_with(start)) || is_python(Path::new(policy))
    }

    /// The program at a path.
    ///
    /// # Errors
    /// [`Trouble`] where there is none, or none that can be run.
    pub fn find(path: &str) -> Result<Self, Trouble> {
        let missing = || Trouble::Missing(PathBuf::from(path));
        let found = fs::canonicalize(path).map_err(|_| missing())?;
        let data = fs::metadata(&found).map_err(|_| missing())?;
        let is_executable = {
            use std::os::unix::fs::PermissionsExt as _;
            data.is_file() && data.permissions().mode() & 0o111 != 0
        };
        let is_python = is_python(&found) && !is_executable;
        if !data.is_file() || !(is_executable || is_python) {
            return Err(Trouble::NotExecutable(found));
        }
        Ok(Self { path: found, is_python })
    }

    fn command(&self) -> Command {
        if !self.is_python {
            return Command::new(&self.path);
        }
        let mut command = Command::new("python3");
        command.arg(&self.path);
        command
    }
}

fn is_python(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "py")
}

/// A running program. It is ended when this is dropped.
pub(crate) struct Link {
    child: Child,
    questions: Option<ChildStdin>,
    answers: Receiver<io::Result<Vec<u8>>>,
    /// The last lines of standard error, once that is closed.
    errors: Receiver<Vec<String>>,
    limit: Duration,
    /// Questions so far; the first is the greeting.
    asked: u64,
    /// Whether standard error is not shown any more.
    is_muted: Arc<AtomicBool>,
    _helper: TempDir,
}

impl Link {
    /// Starts a program that has `limit` for each answer. Its standard error is this program's.
    pub(crate) fn start(program: &Program, limit: Duration) -> Result<Self, Trouble> {
        let failed = |source| Trouble::Start { path: program.path.clone(), source };
        let helper = helper().map_err(failed)?;
        let mut child = program
            .command()
            .env("PYTHONPATH", python_path(helper.path()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (last, errors) = channel();
        let is_muted = Arc::new(AtomicBool::new(false));
        if let Some(output) = child.stderr.take() {
            // The receiver may be gone.
            let is_muted = Arc::clone(&is_muted);
            thread::spawn(move || drop(last.send(pass_on(output, &is_muted))));
        }
        let (sender, answers) = sync_channel(1);
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || listen(output, &sender));
        }
        Ok(Self {
            questions: child.stdin.take(),
            child,
            answers,
            errors,
            limit,
            asked: 0,
            is_muted,
            _helper: helper,
        })
    }

    /// Puts a question and waits for the answer.
    pub(crate) fn ask<A: DeserializeOwned>(&mut self, question: &impl Serialize) -> Result<A, Trouble> {
        let mut line = serde_json::to_vec(question).map_err(|error| Trouble::Speech(error.into()))?;
        line.push(b'\n');
        self.asked += 1;
        let written = self.questions.as_mut().map_or(Ok(()), |pipe| pipe.write_all(&line));
        match written {
            // Its end tells more than the pipe that it has left.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(self.ended()),
            written => written.map_err(Trouble::Speech)?,
        }
        let answer = match self.answers.recv_timeout(self.limit) {
            Ok(answer) => answer.map_err(Trouble::Speech)?,
            Err(RecvTimeoutError::Timeout) => return Err(Trouble::Silent { limit: self.limit }),
            Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
        };
        understand(&answer)
    }

    /// How a program ended that has closed its output, or reads no more; one that continues all the same is killed.
    fn ended(&mut self) -> Trouble {
        drop(self.questions.take());
        let status = self.wait_for_end().and_then(|()| self.child.try_wait());
        let how = match status {
            Ok(Some(status)) => status.to_string(),
            Ok(None) => "it closed its output".to_owned(),
            Err(error) => error.to_string(),
        };
        // Children that it left behind may hold its standard error open, but are not waited for long.
        Trouble::Ended { how, said: self.errors.recv_timeout(END).unwrap_or_default() }
    }

    /// Waits until it has ended, for a moment.
    fn wait_for_end(&self) -> io::Result<()> {
        let process = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())?;
        let timeout = Timespec { tv_sec: END.as_secs() as i64, tv_nsec: 0 };
        poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&timeout))?;
        Ok(())
    }

    /// Closes its input, and kills it where it has not ended by itself soon after.
    fn finish(&mut self) {
        // Of a program that was only greeted, as in a check of its settings, the end states nothing.
        self.is_muted.store(self.asked < 2, Ordering::Relaxed);
        drop(self.questions.take());
        // Obsolete answers are skipped; the last one is the end of its output.
        while self.answers.recv_timeout(END).is_ok() {}
        // Where it is gone already there is nothing to kill.
        let _ = self.child.kill();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.finish();
        let _ = self.child.wait();
    }
}

/// Copies a program's standard error to that of this process, and returns its last lines.
fn pass_on(errors: ChildStderr, is_muted: &AtomicBool) -> Vec<String> {
    let mut last = VecDeque::new();
    let mut errors = BufReader::new(errors);
    loop {
        let mut line = Vec::new();
        match errors.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return last.into(),
            Ok(_) => {}
        }
        // A standard error that is closed keeps no program from going on.
        if !is_muted.load(Ordering::Relaxed) {
            let _ = io::stderr().write_all(&line);
        }
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if !text.is_empty() {
            last.push_back(text);
            if last.len() > SAID_MAX {
                last.pop_front();
            }
        }
    }
}

/// Passes on what a program says, line by line, until it ends.
fn listen(output: ChildStdout, sender: &SyncSender<io::Result<Vec<u8>>>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        let read = output.by_ref().take(ANSWER_BYTES_MAX).read_until(b'\n', &mut line);
        let said = match read {
            Ok(0) => return,
            Ok(_) if line.last() != Some(&b'\n') && line.len() as u64 == ANSWER_BYTES_MAX => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "its answer has no end"))
            }
            read => read.map(|_| line),
        };
        let is_over = said.is_err();
        if sender.send(said).is_err() || is_over {
            return;
        }
    }
}

fn understand<A: DeserializeOwned>(answer: &[u8]) -> Result<A, Trouble> {
    if let Ok(Refusal { error }) = serde_json::from_slice(answer) {
        return Err(Trouble::Refused(error));
    }
    serde_json::from_slice(answer).map_err(|source| {
        let text = String::from_utf8_lossy(answer);
        let text = text.trim_end();
        let cut = text.char_indices().nth(SHOWN_MAX).map(|(at, _)| format!("{}...", &text[..at]));
        Trouble::Answer { answer: cut.unwrap_or_else(|| text.to_owned()), source }
    })
}

/// A folder with the helper in it, as the package `wharf`.
fn helper() -> io::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("wharf-policy-").tempdir()?;
    let package = folder.path().join("wharf");
    fs::create_dir(&package)?;
    fs::write(package.join("__init__.py"), "")?;
    fs::write(package.join("policy.py"), HELPER)?;
    Ok(folder)
}

/// Where Python looks: first where the user says, then at the helper.
fn python_path(helper: &Path) -> OsString {
    let own = env::var_os("PYTHONPATH").filter(|own| !own.is_empty());
    let own = own.iter().flat_map(env::split_paths);
    let paths: Vec<PathBuf> = own.chain([helper.to_owned()]).collect();
    env::join_paths(paths).unwrap_or_else(|_| helper.as_os_str().to_owned())
}
