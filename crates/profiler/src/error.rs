//! Errors of measurements.

use std::io;
use std::path::PathBuf;

use wharf_client::ClientError;
use wharf_profile::ProfileError;

/// Why nothing can be measured or learnt.
#[derive(Debug, thiserror::Error)]
pub enum ProfilerError {
    /// A file of the profiler cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Python cannot be started.
    #[error("cannot start `{}`", python.display())]
    Start {
        /// The interpreter.
        python: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The process has no pipes.
    #[error("cannot connect to the profiler")]
    Unconnected,
    /// A line of the process is not a message.
    #[error("invalid message from the profiler: {0}")]
    Message(String),
    /// A message has another shape than expected.
    #[error("the profiler's {what}: {reason}")]
    Shape {
        /// Which message.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The profiler refuses the request.
    #[error("{0}")]
    Refused(String),
    /// The process failed.
    #[error("the profiler failed ({status}):\n  {output}")]
    Failed {
        /// How it ended.
        status: String,
        /// Its last lines.
        output: String,
    },
    /// The database cannot be used.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The head does not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// No operators were measured that a description could be derived from.
    #[error("no operators of {model} were measured on {device_type}")]
    NoOperators {
        /// The model.
        model: String,
        /// The device type.
        device_type: String,
    },
}
