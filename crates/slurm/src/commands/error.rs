//! Errors of the commands.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use wharf_client::ClientError;

use crate::grammar::Refusal;
use crate::grammar::hostlist::BadHostlist;

/// Why a command ends before its work is done.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// A refusal as Slurm's command prints it, with its exit code.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The head cannot be reached, or refuses the request.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Standard output cannot be written.
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
    /// The terminal's session failed.
    #[error(transparent)]
    Session(Box<dyn Error + Send + Sync>),
    /// Everything is printed; this is the exit code.
    #[error("exit code {0}")]
    Reported(u8),
}

impl CommandError {
    pub(super) fn failed(text: impl Into<String>) -> Self {
        Self::Refused(Refusal::failed(text))
    }
}

impl From<BadHostlist> for CommandError {
    fn from(error: BadHostlist) -> Self {
        Self::failed(error.to_string())
    }
}

/// Why `wharf mpi-agent` does not start a command.
#[derive(Debug, thiserror::Error)]
pub enum MpiError {
    /// The environment is not that of a task of a job on several nodes.
    #[error("this is started by mpirun within a job on several nodes")]
    Outside,
    /// The task's token cannot be read.
    #[error("cannot read `{}`", path.display())]
    Token {
        /// The token file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The host is not one of the job's.
    #[error("`{host}` is not a node of job {job}")]
    UnknownNode {
        /// The host that mpirun named.
        host: String,
        /// The job.
        job: u32,
        /// Addresses of the job's nodes.
        nodes: String,
    },
    /// The command cannot be started.
    #[error(transparent)]
    Command(#[from] CommandError),
}
