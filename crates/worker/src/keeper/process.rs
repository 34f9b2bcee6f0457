//! Processes: starting a task, signalling its group, and collecting children that have ended.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::protocol::{Start, output_file};
use crate::task::Exit;

/// As shells have it.
const CODE_NOT_FOUND: i32 = 127;
const CODE_NOT_EXECUTABLE: i32 = 126;
const CODE_SIGNAL_BASE: i32 = 128;

/// Starts a task as the leader of a process group of its own.
pub(crate) fn spawn(state_dir: &Path, start: &Start) -> Result<Pid, Exit> {
    let Some((program, arguments)) = start.command.split_first() else {
        return Err(Exit { error: "the command is empty".into(), ..Exit::code(CODE_NOT_FOUND) });
    };
    let output = open_output(state_dir, start)
        .map_err(|error| failure(&error, format_args!("open the output {}", start.output.display())))?;
    launch(start, program, arguments, output).map_err(|error| {
        if start.workdir.is_dir() {
            failure(&error, format_args!("start '{program}'"))
        } else {
            failure(&error, format_args!("enter the working directory {}", start.workdir.display()))
        }
    })
}

fn failure(error: &io::Error, what: std::fmt::Arguments<'_>) -> Exit {
    let code = if error.kind() == io::ErrorKind::NotFound { CODE_NOT_FOUND } else { CODE_NOT_EXECUTABLE };
    Exit { error: format!("cannot {what}: {error}"), ..Exit::code(code) }
}

/// The child is collected by [`reap`], as all are.
fn launch(start: &Start, program: &str, arguments: &[String], output: File) -> io::Result<Pid> {
    let child = Command::new(program)
        .args(arguments)
        .envs(&start.env)
        .current_dir(&start.workdir)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0)
        .spawn()?;
    i32::try_from(child.id()).map(Pid::from_raw).map_err(io::Error::other)
}

fn open_output(state_dir: &Path, start: &Start) -> io::Result<File> {
    let own = output_file(state_dir, start.task);
    if start.output.as_os_str().is_empty() {
        return append(&own);
    }
    let path = start.workdir.join(&start.output);
    let file = match check_kind(&path).and_then(|()| append(&path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
            append(&path)?
        }
        file => file?,
    };
    if file.metadata()?.is_file() {
        // So that the output is found when the task is forgotten. A task that was started before has its link already.
        match std::os::unix::fs::symlink(&path, own) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => (),
        }
    }
    Ok(file)
}

/// A pipe without a reader would stop the keeper.
fn check_kind(path: &Path) -> io::Result<()> {
    let kind = path.metadata()?.file_type();
    if kind.is_file() || kind.is_char_device() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a file nor a character device"))
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Signals all of a process group; false if there is nobody in it.
pub(crate) fn signal_group(group: Pid, signal: Option<Signal>) -> bool {
    // Any other error means that somebody is there.
    killpg(group, signal) != Err(Errno::ESRCH)
}

/// The signal that a task asks to be stopped with.
pub(crate) fn stop_signal(number: i32) -> Signal {
    Signal::try_from(number).unwrap_or(Signal::SIGTERM)
}

/// Children that have ended.
#[derive(Debug, Default)]
pub(crate) struct Reaped {
    pub(crate) ended: Vec<(Pid, Exit)>,
    /// There was one more whose name was not told, because a real-time signal ended it and nix has no name for that.
    pub(crate) nameless: bool,
}

/// Collects all children that have ended since the last time, adopted orphans included.
pub(crate) fn reap() -> Reaped {
    let mut reaped = Reaped::default();
    loop {
        match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => reaped.ended.push((pid, Exit::code(code))),
            Ok(WaitStatus::Signaled(pid, signal, _)) => {
                reaped.ended.push((pid, Exit::code(CODE_SIGNAL_BASE + signal as i32)));
            }
            Err(Errno::EINVAL) => reaped.nameless = true,
            Ok(WaitStatus::StillAlive) => return reaped,
            Ok(_) | Err(Errno::EINTR) => (),
            Err(_) => return reaped,
        }
    }
}

/// Whether there is such a process, zombies included.
pub(crate) fn exists(pid: Pid) -> bool {
    nix::sys::signal::kill(pid, None) != Err(Errno::ESRCH)
}
