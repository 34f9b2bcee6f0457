//! Errors of studies.

use std::io;
use std::path::{Path, PathBuf};

use wharf_report::FileError;
use wharf_sim::RunError;
use wharf_staging::StagingError;

/// Why a study cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A policy is listed without a name.
    #[error("`--policy` has an empty name")]
    NamelessPolicy,
    /// A policy is listed twice.
    #[error("policy `{0}` is listed twice")]
    RepeatedPolicy(String),
    /// A run cannot be simulated.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Output cannot be staged or put in its place.
    #[error(transparent)]
    Staging(#[from] StagingError),
    /// A file cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file, at its final place.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A result cannot be written as its file.
    #[error(transparent)]
    Output(FileError),
    /// A stored run cannot be read.
    #[error(transparent)]
    Stored(FileError),
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A document cannot be written.
    #[error("cannot write JSON")]
    Json(#[source] serde_json::Error),
    /// The program cannot read its own file.
    #[error("cannot read the executable")]
    Executable(#[source] io::Error),
    /// The trace has no such job.
    #[error("there is no job `{job}` in trace `{trace}`")]
    UnknownJob {
        /// The job.
        job: String,
        /// The trace.
        trace: String,
        /// The name that is closest to it.
        nearest: Option<String>,
    },
    /// The events of a run have no such job.
    #[error("there is no job `{job}` in `{}`", path.display())]
    NotInEvents {
        /// The job.
        job: String,
        /// The file of events.
        path: PathBuf,
    },
    /// A run's directory is unknown.
    #[error("the folder of run `{policy}` is unknown")]
    NoFolder {
        /// The policy of the run.
        policy: String,
    },
    /// A run was stored without events.
    #[error("cannot explain job `{job}` under `{policy}`: {} has no events.jsonl", folder.display())]
    NoEvents {
        /// The job.
        job: String,
        /// The policy of the run.
        policy: String,
        /// The directory of the run.
        folder: PathBuf,
    },
    /// A line of a file of events is malformed.
    #[error("cannot read events {}: line {line}: {reason}", path.display())]
    Malformed {
        /// The file of events.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A stored run cannot be simulated again.
    #[error(transparent)]
    NotRepeatable(#[from] NotRepeatable),
}

/// Why a stored run cannot be simulated again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRepeatable {
    /// The run was stored without its command line.
    #[error("its folder has no command line")]
    NoCommand,
    /// The scenario of the sweep does not have the run any more.
    #[error("the scenario has changed: it does not have this run")]
    NotInScenario,
    /// Another command made the run.
    #[error("`{0}` is not a command line of `wharf sim` or `wharf sweep`")]
    OtherCommand(String),
    /// The run has other results than the stored ones.
    #[error("its trace, cluster or program has changed: the run comes out otherwise")]
    Changed,
}

impl StudyError {
    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.to_owned(), source }
    }
}
