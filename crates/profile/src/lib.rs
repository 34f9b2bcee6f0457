//! Profiles in files: the reference systems' own tables, turned into a [`Profile`].

mod format;

use std::path::Path;

use thiserror::Error;
use wharf_perf::Profile;

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
}

/// Reads a profile; the kind is told from the content.
///
/// # Errors
/// [`ProfileError`] naming the file, and the entry where one is wrong.
pub fn load(path: &Path) -> Result<Profile, ProfileError> {
    let shown = path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|source| ProfileError::Read { path: shown.clone(), source })?;
    format::gavel::parse(&text, &shown)
}
