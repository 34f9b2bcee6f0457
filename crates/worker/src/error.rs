//! What can go wrong with a worker or its supervisor as a whole. What goes wrong with a task is requested to the head instead.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use crate::launch::interface::UnknownInterface;

/// An error with its causes, as the head and the log of a task receive it.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Why a worker cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The state directory cannot be made or used.
    #[error("cannot use the state directory {}", path.display())]
    StateDir {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Another worker runs with the same state directory.
    #[error("another worker (pid {holder}) uses the state directory {}", path.display())]
    InUse {
        /// The state directory.
        path: PathBuf,
        /// The other worker's process, as it wrote it down.
        holder: String,
    },
    /// The machine does not have the configured network interface.
    #[error(transparent)]
    Interface(#[from] UnknownInterface),
    /// The head's address cannot be understood.
    #[error("'{address}' is not the address of a head")]
    HeadAddress {
        /// What was given.
        address: String,
        /// What is wrong with it.
        #[source]
        source: wharf_proto::tonic::transport::Error,
    },
    /// The token has characters that cannot be sent.
    #[error("the token contains invalid characters")]
    Token,
    /// The head does not let this worker in.
    #[error("the head rejected this worker: {reason}")]
    Refused {
        /// What the head said.
        reason: String,
    },
    /// The supervisor did not start or does not answer.
    #[error("the supervisor does not {what}; see its log {}", log.display())]
    Supervisor {
        /// What it does not do.
        what: &'static str,
        /// Where it writes what happens to it.
        log: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A supervisor of another version still holds tasks.
    #[error("a supervisor of another version (protocol {found}, not {wanted}, pid {pid}) still holds tasks")]
    SupervisorVersion {
        /// Its protocol.
        found: u32,
        /// The version of this worker.
        wanted: u32,
        /// Its process.
        pid: u32,
    },
}

/// Why a supervisor cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// A file or socket of the state directory cannot be used.
    #[error("cannot {what} {}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Another supervisor holds the state directory.
    #[error("another supervisor holds {}", path.display())]
    InUse {
        /// The state directory.
        path: PathBuf,
    },
    /// The system refuses what every supervisor needs.
    #[error("cannot {what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}
