//! Errors of installations.

use std::io;
use std::path::{Path, PathBuf};

use wharf_staging::StagingError;

/// Why something cannot be installed or removed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The prefix cannot be written into a service.
    #[error("`--prefix {}` cannot be in a service", .0.display())]
    Prefix(PathBuf),
    /// There is no such root directory.
    #[error("the directory `{}` does not exist", .0.display())]
    NoRoot(PathBuf),
    /// The system refused to read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The system refused to write.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file cannot be put in its place.
    #[error(transparent)]
    Staging(#[from] StagingError),
    /// The configuration is malformed.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Config {
        /// The configuration file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// The system user cannot be created.
    #[error("cannot make the system user `{user}`")]
    User {
        /// Name of the user.
        user: &'static str,
        /// What each program reported.
        reports: Vec<String>,
    },
}

impl InstallError {
    pub(crate) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read { path: path.to_owned(), source }
    }

    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.to_owned(), source }
    }
}
