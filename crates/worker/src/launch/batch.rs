//! The process that becomes a batch script, and the one that waits on the other nodes of its gang.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{dup2_stdin, getpid};

/// As shells have it.
const CODE_NOT_FOUND: u8 = 127;
const CODE_NOT_EXECUTABLE: u8 = 126;

/// Executes a batch script with its input and further variables; without one, waits until it is requested to end. Returns the exit code: of
/// a script only where it cannot be executed, which is told on standard error.
pub fn batch_main(input: Option<&Path>, variables: &[(&str, OsString)], command: &[String]) -> u8 {
    let Some((script, arguments)) = command.split_first() else { return wait() };
    let failed = |what: String, error: &io::Error| {
        // There is no other place to report it.
        let _ = writeln!(io::stderr(), "wharf: cannot {what}: {error}");
        if error.kind() == io::ErrorKind::NotFound { CODE_NOT_FOUND } else { CODE_NOT_EXECUTABLE }
    };
    if let Some(path) = input {
        let opened = File::open(path).and_then(|file| Ok(dup2_stdin(file)?));
        if let Err(error) = opened {
            return failed(format!("read the input {}", path.display()), &error);
        }
    }
    let mut command = Command::new(script);
    command.args(arguments).env("SLURM_TASK_PID", getpid().to_string());
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    let error = command.exec();
    failed(format!("start the batch script '{script}'"), &error)
}

/// Keeps its place until it is stopped: that is no failure.
fn wait() -> u8 {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1] {
        signals.add(signal);
    }
    match signals.thread_block().and_then(|()| signals.wait()) {
        Ok(_) => 0,
        Err(_) => CODE_NOT_EXECUTABLE,
    }
}
