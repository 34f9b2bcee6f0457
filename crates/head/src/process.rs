//! One job's process: started, told to stop, waited for.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// The process group of a running job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessGroup(Pid);

/// Starts a command in its own process group, with the indexes of its devices in its environment.
pub(crate) fn start(
    command: &[OsString],
    devices: &str,
    name: &str,
) -> std::io::Result<(Child, ProcessGroup)> {
    let (program, arguments) =
        command.split_first().ok_or_else(|| std::io::Error::from(std::io::ErrorKind::InvalidInput))?;
    let mut process = Command::new(program);
    process
        .args(arguments)
        .env("CUDA_VISIBLE_DEVICES", devices)
        .env("WHARF_DEVICES", devices)
        .env("WHARF_JOB", name)
        .process_group(0);
    // In a group of its own a process that reads from the terminal would be stopped by it.
    if std::io::stdin().is_terminal() {
        process.stdin(Stdio::null());
    }
    let child = process.spawn()?;
    let group = ProcessGroup(Pid::from_raw(child.id().cast_signed()));
    Ok((child, group))
}

impl ProcessGroup {
    /// Asks all its processes to end.
    pub(crate) fn terminate(self) {
        self.signal(Signal::SIGTERM);
    }

    /// Ends all its processes.
    pub(crate) fn kill(self) {
        self.signal(Signal::SIGKILL);
    }

    fn signal(self, signal: Signal) {
        // The only failure is that the group is gone, which is what is wanted.
        let _ = killpg(self.0, signal);
    }
}

/// The exit code as a shell tells it: 128 and the signal's number where there was one.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
