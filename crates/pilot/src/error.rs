//! What keeps pilots from being had.

use std::io;
use std::path::PathBuf;

use wharf_client::ClientError;

use crate::queue::QueueError;

/// Why pilots cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum PilotError {
    /// A setting makes no sense.
    #[error("{setting}: {reason}")]
    Setting {
        /// Its name.
        setting: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A file or directory of the pilots is not accessible.
    #[error("cannot {what} `{}`", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("`{}` is malformed", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// Another process manages pilots for this head.
    #[error("pilots of this head are kept by another process (`{}` is locked)", path.display())]
    InUse {
        /// The lock.
        path: PathBuf,
    },
    /// The batch system does not do its part.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The head does not do its part.
    #[error(transparent)]
    Head(#[from] ClientError),
    /// A pilot was not started by the batch system.
    #[error("`{variable}` is not set: run this command inside a Slurm job")]
    Outside {
        /// What is missing.
        variable: &'static str,
    },
    /// A job cannot be handed to Slurm as it is.
    #[error("{field}: {reason}")]
    Job {
        /// The field of the job file.
        field: &'static str,
        /// Why not.
        reason: String,
    },
    /// A container cannot be run by Slurm as the job has it.
    #[error(transparent)]
    Container(#[from] crate::container::Refused),
}

impl PilotError {
    pub(crate) fn file(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { what, path, source }
    }
}
