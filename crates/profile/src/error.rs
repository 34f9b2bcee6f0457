//! Why there is no profile.

use thiserror::Error;

/// Why there is no profile.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The file cannot be read.
    #[error("cannot read profile `{path}`")]
    Read {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is of no known kind.
    #[error("`{path}` is no profile")]
    Unknown {
        /// The file.
        path: String,
        /// Why the kind that it looks like does not fit.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is of a known kind that has no speeds.
    #[error("`{path}` is no profile, but {problem}")]
    Foreign {
        /// The file.
        path: String,
        /// What it is.
        problem: &'static str,
    },
    /// A folder in which no file is a profile.
    #[error("the folder `{path}` has no profile in it")]
    NothingThere {
        /// The folder.
        path: String,
    },
    /// An entry makes no sense.
    #[error("profile `{path}`: {field}: {problem}")]
    Entry {
        /// The file.
        path: String,
        /// Which entry.
        field: String,
        /// What is wrong, and what would do.
        problem: String,
    },
    /// A database of a later version of Wharf.
    #[error("profile `{path}` has version {found}, and this Wharf knows versions up to {known}")]
    Version {
        /// The file.
        path: String,
        /// Its version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// The database is damaged, locked, or on a disk that is full.
    #[error("profile `{path}` cannot be used as a database")]
    Database {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
}

/// What is wrong with an entry, and what would do.
#[derive(Clone, Debug, PartialEq, Error)]
pub(crate) enum EntryProblem {
    /// Something is expected that is not there.
    #[error("expected {0}")]
    Expected(String),
    /// The same of a field.
    #[error("{field}: expected {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// What would do.
        expected: String,
    },
    /// A word that means nothing there.
    #[error("{field}: `{found}` is {problem}")]
    Word {
        /// The field.
        field: String,
        /// The word.
        found: String,
        /// What it is not.
        problem: String,
    },
    /// A number that cannot be there.
    #[error("{field}: {found} is {problem}")]
    Number {
        /// The field.
        field: String,
        /// The number.
        found: String,
        /// What it is not.
        problem: String,
    },
    /// A number of no field.
    #[error("{found} is {problem}")]
    Amount {
        /// The number.
        found: f64,
        /// What it is not.
        problem: &'static str,
    },
    /// A plan of another number of devices.
    #[error("the plan `{plan}` is not for so many devices")]
    Plan {
        /// The plan.
        plan: String,
    },
}

impl EntryProblem {
    pub(crate) fn field(field: &'static str, expected: impl Into<String>) -> Self {
        Self::Field { field, expected: expected.into() }
    }

    pub(crate) fn word(field: &str, found: &str, problem: impl Into<String>) -> Self {
        Self::Word { field: field.to_owned(), found: found.to_owned(), problem: problem.into() }
    }

    pub(crate) fn number(field: &str, found: impl ToString, problem: impl Into<String>) -> Self {
        Self::Number { field: field.to_owned(), found: found.to_string(), problem: problem.into() }
    }
}

impl ProfileError {
    /// What may help.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unknown { .. } | Self::Foreign { .. } | Self::NothingThere { .. } => Some(
                "a profile is a database or table of `wharf profile export`, Gavel's JSON of throughputs, Sia's \
                 folder of placements, or Crius's folder with `prof_database.json`; `default` is the built-in one",
            ),
            Self::Version { .. } => {
                Some("use the version of Wharf that wrote it, or export it there as JSON")
            }
            Self::Database { source, .. } if is_damaged(source) => Some(
                "it was cut off or overwritten: restore a copy, or recreate it with `wharf profile import`, `run` or `learn`",
            ),
            _ => None,
        }
    }
}

fn is_damaged(error: &rusqlite::Error) -> bool {
    let damages = [rusqlite::ErrorCode::DatabaseCorrupt, rusqlite::ErrorCode::NotADatabase];
    error.sqlite_error_code().is_some_and(|code| damages.contains(&code))
}
