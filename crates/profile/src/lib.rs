//! Profiles in files: a database of what is known of speeds, and the tables that it takes in and gives out.
//!
//! [`read`] tells the kind of a file by its content; [`load`] makes the table of speeds of it that runs use.

mod builtin;
mod choice;
pub mod database;
mod error;
mod folder;
mod format;
pub mod measured;
pub mod records;
mod tally;

use std::path::Path;

use wharf_perf::Profile;
use wharf_perf::cells::Cells;

pub use builtin::{BUILTIN, NONE, builtin};
pub use error::ProfileError;
pub use format::{Kind, write_csv, write_json, write_prices};
pub use records::{Change, Changes, Facts, Key, Price, Records};
pub use tally::Tally;

/// What was read, and what is to be said of it.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// Everything that is known.
    pub records: Records,
    /// Entries that contradict one another: one sentence each.
    pub notes: Vec<String>,
    /// Files of a folder that are no profiles, by name.
    pub left_out: Vec<String>,
}

/// How much of a profile is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// All of it.
    Everything,
    /// What runs use, which is all but communication times.
    Runs,
}

/// Reads a profile for a run: a database, a file of a known kind, a folder of those, or the built-in one by its name.
///
/// # Errors
/// [`ProfileError`] naming the file, and the entry where one is wrong.
pub fn load(path: &Path) -> Result<Profile, ProfileError> {
    if path.as_os_str() == BUILTIN && !path.exists() {
        return Ok(wharf_perf::analytic::profile());
    }
    if path.as_os_str() == NONE && !path.exists() {
        return Ok(Profile::default());
    }
    if path.is_file() && format::kind(path)? == Kind::Gavel {
        return format::gavel::parse(&format::text(path)?, &path.display().to_string());
    }
    read_scope(path, Scope::Runs).map(|read| read.records.profile())
}

/// Reads everything that is in a profile.
///
/// # Errors
/// As [`load`].
pub fn read(path: &Path) -> Result<Read, ProfileError> {
    read_scope(path, Scope::Everything)
}

/// The single measurements in a profile: only databases have them. Of a folder those of all its databases, by name.
///
/// # Errors
/// As [`load`].
pub fn measurements(path: &Path) -> Result<Vec<measured::Measured>, ProfileError> {
    let files = if path.is_dir() { folder::profiles(path)? } else { vec![path.to_owned()] };
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_file()) {
        if format::kind(file)? == Kind::Database {
            found.extend(database::measurements(file)?);
        }
    }
    Ok(found)
}

fn read_scope(path: &Path, scope: Scope) -> Result<Read, ProfileError> {
    if path.as_os_str() == BUILTIN && !path.exists() {
        return Ok(Read { records: builtin(), ..Read::default() });
    }
    if path.as_os_str() == NONE && !path.exists() {
        return Ok(Read::default());
    }
    if !path.is_dir() {
        return Ok(Read { records: read_file(path, scope, None)?, ..Read::default() });
    }
    folder::read(path, scope)
}

/// Reads a file of a known kind; `known` are cells of files before it.
fn read_file(path: &Path, scope: Scope, known: Option<&Cells>) -> Result<Records, ProfileError> {
    let shown = path.display().to_string();
    let source = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match format::kind(path)? {
        Kind::Database => database::read_scope(path, scope),
        Kind::Gavel => Ok(Records::of_profile(&format::gavel::parse(&format::text(path)?, &shown)?, &source)),
        Kind::Json => format::json::parse(&format::text(path)?, &shown),
        Kind::Csv => format::csv::parse(&format::text(path)?, &shown),
        Kind::Sia => format::sia::parse(&format::text(path)?, path),
        Kind::Cells => format::cells::parse(&format::text(path)?, &shown, known),
        Kind::Comm => format::comm::parse(&format::text(path)?, &shown),
        Kind::OtherTable => Err(ProfileError::Foreign {
            path: shown,
            problem: "a table without the columns `model`, `device_type`, `devices` and `iterations_per_s`",
        }),
    }
}
