//! What commands need of the process that runs them.

use std::error::Error;
use std::io;

use wharf_client::Client;
use wharf_proto::ExecOpen;

/// Where messages and tables go.
pub trait Console: Send + Sync {
    /// Prints lines on standard output.
    ///
    /// # Errors
    /// If they cannot be written.
    fn print(&self, lines: &[String]) -> io::Result<()>;

    /// Prints a line on standard error, which may be closed.
    fn note(&self, line: &str);
}

/// A user's terminal.
pub trait Terminal {
    /// Connects the terminal to a command in a task, and returns the command's exit code.
    fn session(
        &self,
        client: &Client,
        open: ExecOpen,
    ) -> impl Future<Output = Result<u8, Box<dyn Error + Send + Sync>>>;
}
