//! Other programs: found in PATH, run with argument vectors, and quoted when they fail.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// The last so many bytes of what a failed program said are told.
const SAID_MAX: usize = 2_000;

/// What runs, and whether more may be begun.
struct Running {
    group: Option<Pid>,
    is_interrupted: bool,
}

static RUNNING: Mutex<Running> = Mutex::new(Running { group: None, is_interrupted: false });

/// Ends the program that runs and begins no other, but for what cleans up: whatever is being done fails soon, and leaves nothing
/// half-made.
pub fn interrupt() {
    let Ok(mut running) = RUNNING.lock() else { return };
    running.is_interrupted = true;
    if let Some(group) = running.group {
        // It may have ended just now.
        let _ = killpg(group, Signal::SIGTERM);
    }
}

/// Whether an interruption was requested.
pub(crate) fn is_interrupted() -> bool {
    RUNNING.lock().is_ok_and(|running| running.is_interrupted)
}

/// Why a program could not do its part.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// It is not in PATH.
    #[error("`{program}` is required but not in PATH; install {package}")]
    Missing {
        /// The program.
        program: String,
        /// What it comes with.
        package: &'static str,
    },
    /// It cannot be run.
    #[error("cannot run `{program}`: {error}")]
    Unrunnable {
        /// The program.
        program: String,
        /// What the system says.
        error: io::Error,
    },
    /// Interrupted.
    #[error("interrupted")]
    Interrupted,
    /// It failed.
    #[error("`{line}` failed ({status}){said}")]
    Failed {
        /// Program and arguments.
        line: String,
        /// How it ended.
        status: String,
        /// What it said last, behind a colon.
        said: String,
    },
}

/// The path of a program, where PATH has one.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::var_os("PATH")?;
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(is_program)
}

/// A program to be run.
pub(crate) struct Tool {
    program: &'static str,
    args: Vec<OsString>,
    /// It cleans up, and is always run.
    is_cleaning: bool,
}

impl Tool {
    pub(crate) fn new(program: &'static str) -> Self {
        Self { program, args: Vec::new(), is_cleaning: false }
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// It cleans up, also after an interruption.
    pub(crate) fn cleaning(mut self) -> Self {
        self.is_cleaning = true;
        self
    }

    /// Runs it and returns what it writes to standard output.
    pub(crate) fn output(self) -> Result<String, ToolError> {
        self.fed(&[])
    }

    /// As [`Tool::output`], with its input. That is how secrets get there: neither arguments nor errors have them.
    pub(crate) fn fed(self, input: &[u8]) -> Result<String, ToolError> {
        let mut command = self.command()?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.begin(&mut command)?;
        if let Some(mut pipe) = child.stdin.take() {
            // A program that does not want its input states why itself.
            let _ = pipe.write_all(input);
        }
        let output = child.wait_with_output().map_err(|error| self.unrunnable(error));
        let output = self.over(output)?;
        if !output.status.success() {
            return Err(self.failed(output.status, &String::from_utf8_lossy(&output.stderr)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs it for people to watch: all that it says goes to standard error.
    pub(crate) fn shown(self) -> Result<(), ToolError> {
        let mut command = self.command()?;
        command.stdin(Stdio::null()).stdout(Stdio::from(io::stderr()));
        let status = self.begin(&mut command)?.wait().map_err(|error| self.unrunnable(error));
        let status = self.over(status)?;
        if status.success() { Ok(()) } else { Err(self.failed(status, "")) }
    }

    /// Whether it succeeds; what it says does not matter.
    pub(crate) fn holds(self) -> Result<bool, ToolError> {
        match self.output() {
            Ok(_) => Ok(true),
            Err(ToolError::Failed { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn command(&self) -> Result<Command, ToolError> {
        let missing =
            || ToolError::Missing { program: self.program.to_owned(), package: package(self.program) };
        let mut command = Command::new(find(self.program).ok_or_else(missing)?);
        command.args(&self.args);
        Ok(command)
    }

    /// Starts it as a group of its own, so that its own children end with it.
    fn begin(&self, command: &mut Command) -> Result<Child, ToolError> {
        let mut running = RUNNING.lock().map_err(|_| ToolError::Interrupted)?;
        if running.is_interrupted && !self.is_cleaning {
            return Err(ToolError::Interrupted);
        }
        let child = command.process_group(0).spawn().map_err(|error| self.unrunnable(error))?;
        let pid = i32::try_from(child.id()).ok().map(Pid::from_raw);
        running.group = pid.filter(|_| !self.is_cleaning);
        Ok(child)
    }

    /// Its end; what an interruption made of it does not count.
    fn over<T>(&self, ended: Result<T, ToolError>) -> Result<T, ToolError> {
        if let Ok(mut running) = RUNNING.lock() {
            running.group = None;
            if running.is_interrupted && !self.is_cleaning {
                return Err(ToolError::Interrupted);
            }
        }
        ended
    }

    fn unrunnable(&self, error: io::Error) -> ToolError {
        ToolError::Unrunnable { program: self.program.to_owned(), error }
    }

    fn failed(&self, status: std::process::ExitStatus, said: &str) -> ToolError {
        let words = self.args.iter().map(|arg| arg.to_string_lossy());
        let line = std::iter::once(self.program.into()).chain(words).collect::<Vec<_>>().join(" ");
        let mut from = said.len().saturating_sub(SAID_MAX);
        while !said.is_char_boundary(from) {
            from += 1;
        }
        let said = said[from..].trim();
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        ToolError::Failed { line, status: status.to_string(), said }
    }
}

/// What a program is a part of.
fn package(program: &str) -> &'static str {
    match program {
        "podman" => "podman",
        "docker" => "docker",
        "ch-image" | "ch-convert" | "ch-run" => "charliecloud",
        "apptainer" => "apptainer",
        "mksquashfs" | "unsquashfs" => "squashfs-tools",
        "debootstrap" => "debootstrap",
        "conda" => "conda, or activate the environment whose conda it is",
        _ => "it with the system's package manager",
    }
}
