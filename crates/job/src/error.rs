//! What is wrong with a job as its owner wrote it.

use wharf_document::decode::Problem;
use wharf_document::node::Place;

use crate::check::CheckError;

/// A field with a value that cannot be, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct FieldError {
    /// The path to the field: `gang.min`, `steps[1].command`.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

impl FieldError {
    /// An error of a field.
    pub fn new(field: &str, message: impl Into<String>) -> Self {
        Self { field: field.to_owned(), message: message.into() }
    }
}

impl From<CheckError> for FieldError {
    fn from(error: CheckError) -> Self {
        Self { field: error.field, message: error.problem.to_string() }
    }
}

/// Why no jobs can be made of a document or of flags.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// A part of a document is wrong.
    #[error("{}", located(name, problem))]
    Document {
        /// The name of the document.
        name: String,
        /// What is wrong, and where.
        problem: Problem,
    },
    /// A flag is wrong.
    #[error(transparent)]
    Flag(#[from] FieldError),
    /// Flags refer to a job by its name.
    #[error("`{0}` is not a job id")]
    NotAnId(String),
    /// A document without jobs.
    #[error("`{0}` has no jobs")]
    NoJobs(String),
    /// A name or a command for several jobs.
    #[error("`{name}` has {count} jobs; a name or command cannot apply to all")]
    Several {
        /// The name of the document.
        name: String,
        /// The number of its jobs.
        count: usize,
    },
}

impl JobError {
    /// The fix, where one is known.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Document { problem, .. } => problem.hint.as_deref(),
            Self::Flag(_) => None,
            Self::NotAnId(_) => Some("names refer only to jobs of the same file"),
            Self::NoJobs(_) => Some("print an example with `wharf submit --example yaml`"),
            Self::Several { .. } => Some("change the file, or submit a file with one job"),
        }
    }

    /// Whether the command line is wrong, and not a document.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Flag(_) | Self::NotAnId(_) | Self::Several { .. })
    }
}

/// The line of an error in a document: `FILE:LINE:COLUMN: FIELD: MESSAGE`.
fn located(name: &str, problem: &Problem) -> String {
    let Problem { place: Place { line, column }, field, message, .. } = problem;
    let place = if *line > 0 { format!("{name}:{line}:{column}") } else { name.to_owned() };
    let field = if field.is_empty() { String::new() } else { format!("{field}: ") };
    format!("{place}: {field}{message}")
}
