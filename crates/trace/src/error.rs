//! Why a trace cannot be read.

use thiserror::Error;

use crate::finding::Finding;
use crate::format::Format;
use crate::source::SourceError;

/// Why a trace cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// There is no text: no such file, a directory, not text, cut in the middle.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// No known format has such a first line.
    #[error("cannot detect the trace format of `{file}`: no known format begins with {first_line}")]
    UnknownFormat {
        /// The path as given.
        file: String,
        /// An excerpt of the first line.
        first_line: String,
    },
    /// A line is wrong.
    #[error("{0}")]
    Invalid(Box<Finding>),
}

impl TraceError {
    /// How to repair it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Source(error) => error.hint().map(str::to_owned),
            Self::Invalid(finding) => finding.hint.clone(),
            Self::UnknownFormat { .. } => {
                let known: Vec<_> = Format::all().iter().map(|format| format.name()).collect();
                Some(format!(
                    "begin the file with a header line, or name its format; known are {}",
                    known.join(", ")
                ))
            }
        }
    }

    /// What is wrong with which line, where a line is to blame.
    pub fn finding(&self) -> Option<&Finding> {
        match self {
            Self::Invalid(finding) => Some(finding),
            _ => None,
        }
    }
}
