//! A process of Wharf that runs until it is stopped.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A daemon whose messages can be waited for.
pub(crate) struct Daemon {
    pub(crate) child: Child,
    stderr: Option<BufReader<ChildStderr>>,
}

impl Daemon {
    /// Starts one and waits until it says `ready`.
    pub(crate) fn start(command: &mut Command, ready: &str) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = child.stderr.take().map(BufReader::new);
        let mut daemon = Self { child, stderr };
        daemon.wait_for(ready);
        daemon
    }

    /// Starts one whose messages go where the command says.
    pub(crate) fn quiet(command: &mut Command) -> Self {
        Self { child: command.spawn().unwrap(), stderr: None }
    }

    /// Reads messages until one contains `text`.
    pub(crate) fn wait_for(&mut self, text: &str) {
        let stderr = self.stderr.as_mut().unwrap();
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "ended before it said `{text}`");
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // In good order, so that a worker's supervisor ends with it.
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}
