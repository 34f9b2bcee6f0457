//! Values of options with a grammar of their own.

use wharf_job::{NoNumber, UnitError};

/// Why a text is no value of an option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgError {
    /// There is no `=`, or nothing before it.
    #[error("expected {0}")]
    NoPair(&'static str),
    /// There is no `=`.
    #[error("`{0}` has no `=`; write NAME=VALUE")]
    NoEquals(String),
    /// A cause that does not exist.
    #[error("`{given}` is no cause; it can be {known}")]
    Cause {
        /// The text.
        given: String,
        /// The causes that there are.
        known: String,
    },
    /// A text that is no whole number.
    #[error("`{0}` is not a number")]
    Number(String),
    /// A number out of its range.
    #[error("a number from 1 to {0}")]
    Range(usize),
    /// A malformed duration, limit or size.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// A duration of zero.
    #[error("more than 0")]
    Zero,
    /// A malformed job id before a path.
    #[error("`{job}`: {error}; a local name with a colon begins with `./`")]
    Job {
        /// The text.
        job: String,
        /// What is wrong with it.
        error: NoNumber,
    },
    /// A job id without a path.
    #[error("the path is missing; write JOB:PATH")]
    NoPath,
}

/// `NAME=VALUE`
pub(super) fn pair(text: &str) -> Result<(String, String), ArgError> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) => Err(ArgError::NoPair("NAME=VALUE")),
        None => Err(ArgError::NoEquals(text.to_owned())),
    }
}

/// The error for a cause that is none of `known`.
pub(super) fn no_cause(given: &str, known: &[&str]) -> ArgError {
    ArgError::Cause { given: given.to_owned(), known: known.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pair_needs_a_name_and_keeps_its_value() {
        assert_eq!(pair("a= b=c "), Ok(("a".to_owned(), " b=c ".to_owned())));
        assert_eq!(pair("a="), Ok(("a".to_owned(), String::new())));
        assert_eq!(pair("=b"), Err(ArgError::NoPair("NAME=VALUE")));
        assert_eq!(pair("ab").unwrap_err().to_string(), "`ab` has no `=`; write NAME=VALUE");
    }
}
