//! What all runtimes' command lines have in common: words, and what could not be put into any.

use super::{Contained, Mount};

/// A command line, and what of the spec is not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Argv {
    pub(crate) words: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

impl Argv {
    pub(super) fn push(&mut self, word: impl Into<String>) {
        self.words.push(word.into());
    }

    /// An option and its value as two words.
    pub(super) fn pair(&mut self, option: &str, value: impl Into<String>) {
        self.words.extend([option.to_owned(), value.into()]);
    }

    /// An option and its value as one word.
    pub(super) fn glued(&mut self, option: &str, value: impl std::fmt::Display) {
        self.words.push(format!("{option}={value}"));
    }

    pub(super) fn flag(&mut self, option: &str, is_given: bool) {
        if is_given {
            self.words.push(option.to_owned());
        }
    }

    /// States that a field means nothing to the runtime, where it was given.
    pub(super) fn unsupported(&mut self, contained: &Contained, field: &str, is_given: bool) {
        if is_given {
            self.warnings.push(format!("{} has no `{field}`: it is ignored", contained.runtime.word()));
        }
    }
}

/// Why no command line can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArgvError {
    #[error("cannot mount `{0}` with {1}: the path contains both `:` and `,`; use a symbolic link")]
    Path(String, &'static str),
    #[error("`{0}` is a volume name, which {1} does not support; use a path that contains `/`")]
    Volume(String, &'static str),
}

/// Refuses volumes, which only engines have.
pub(super) fn refuse_volumes<'a>(
    contained: &Contained,
    mut mounts: impl Iterator<Item = &'a Mount>,
) -> Result<(), ArgvError> {
    match mounts.find(|mount| mount.is_volume()) {
        Some(mount) => Err(ArgvError::Volume(mount.src.clone(), contained.runtime.word())),
        None => Ok(()),
    }
}
