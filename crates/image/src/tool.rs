//! Other programs: found in PATH, run with argument vectors, and quoted when they fail.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The last so many bytes of what a failed program said are told.
const SAID_MAX: usize = 2_000;

/// Why a program could not do its part.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// It is not in PATH.
    #[error("`{program}` is needed for that and is not in PATH; install {package}")]
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
}

impl Tool {
    pub(crate) fn new(program: &'static str) -> Self {
        Self { program, args: Vec::new() }
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
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
        let mut child = command.spawn().map_err(|error| self.unrunnable(error))?;
        if let Some(mut pipe) = child.stdin.take() {
            // A program that does not want its input says why itself.
            let _ = pipe.write_all(input);
        }
        let output = child.wait_with_output().map_err(|error| self.unrunnable(error))?;
        if !output.status.success() {
            return Err(self.failed(output.status, &String::from_utf8_lossy(&output.stderr)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs it for people to watch: all that it says goes to standard error.
    pub(crate) fn shown(self) -> Result<(), ToolError> {
        let mut command = self.command()?;
        let status = command.stdin(Stdio::null()).stdout(Stdio::from(io::stderr())).status();
        let status = status.map_err(|error| self.unrunnable(error))?;
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
