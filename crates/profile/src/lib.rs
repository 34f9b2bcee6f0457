//! Profiles in files: a database of what is known of speeds, and the tables that it takes in and gives out.
//!
//! [`read`] tells the kind of a file by its content; [`load`] makes the table of speeds of it that runs use.

mod builtin;
pub mod database;
mod error;
mod format;
pub mod records;

use std::path::{Path, PathBuf};

use wharf_perf::Profile;

pub use builtin::{BUILTIN, NONE, builtin};
pub use error::ProfileError;
pub use format::{Kind, write_csv, write_json, write_prices};
pub use records::{Change, Changes, Facts, Key, Price, Records};

/// What was read, and what is to be said of it.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// Everything that is known.
    pub records: Records,
    /// Files that were left out, entries that contradict one another: one sentence each.
    pub notes: Vec<String>,
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
    read(path).map(|read| read.records.profile())
}

/// Reads everything that is in a profile.
///
/// # Errors
/// As [`load`].
pub fn read(path: &Path) -> Result<Read, ProfileError> {
    if path.as_os_str() == BUILTIN && !path.exists() {
        return Ok(Read { records: builtin(), notes: vec![] });
    }
    if path.as_os_str() == NONE && !path.exists() {
        return Ok(Read::default());
    }
    if !path.is_dir() {
        return Ok(Read { records: read_file(path)?, notes: vec![] });
    }
    if path.join(format::crius::TIMES).is_file() {
        let speeds = format::crius::read(path)?.speeds();
        return Ok(Read { records: Records::of_profile(&speeds, format::crius::TIMES), notes: vec![] });
    }
    let mut read = Read::default();
    let mut is_found = false;
    for part in entries(path)? {
        let Some(records) = read_part(&part, &mut read.notes)? else { continue };
        is_found = true;
        let replaced = read.records.add(records).changed.len();
        if replaced > 0 {
            let entries = if replaced == 1 { "entry" } else { "entries" };
            read.notes.push(format!("`{}` replaces {replaced} {entries} of files before it", part.display()));
        }
    }
    if is_found { Ok(read) } else { Err(ProfileError::NothingThere { path: path.display().to_string() }) }
}

/// What a folder has, by name.
fn entries(path: &Path) -> Result<Vec<PathBuf>, ProfileError> {
    let failed = |source| ProfileError::Read { path: path.display().to_string(), source };
    let mut parts = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        parts.push(entry.map_err(failed)?.path());
    }
    parts.sort();
    Ok(parts)
}

/// A file of a folder, or a folder of Sia's within it; `None` where it is no business of ours.
fn read_part(part: &Path, notes: &mut Vec<String>) -> Result<Option<Records>, ProfileError> {
    if part.is_dir() {
        let mut records = Records::default();
        // What was measured placement by placement counts more than what is only about their number.
        for file in entries(part)?.iter().rev().filter(|file| format::sia::is_table(file)) {
            records.add(read_file(file)?);
        }
        return Ok((!records.is_empty()).then_some(records));
    }
    let ending = part.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if !format::ENDINGS.contains(&ending) {
        return Ok(None);
    }
    if matches!(format::kind(part)?, Kind::OtherTable) {
        notes.push(format!("`{}` is left out: it has no speeds", part.display()));
        return Ok(None);
    }
    read_file(part).map(Some)
}

fn read_file(path: &Path) -> Result<Records, ProfileError> {
    let shown = path.display().to_string();
    let source = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match format::kind(path)? {
        Kind::Database => database::read(path),
        Kind::Gavel => Ok(Records::of_profile(&format::gavel::parse(&format::text(path)?, &shown)?, &source)),
        Kind::Json => format::json::parse(&format::text(path)?, &shown),
        Kind::Csv => format::csv::parse(&format::text(path)?, &shown),
        Kind::Sia => format::sia::parse(&format::text(path)?, path),
        Kind::OtherTable => Err(ProfileError::Foreign {
            path: shown,
            problem: "a table without the columns `model`, `device_type`, `devices` and `iterations_per_s`",
        }),
    }
}
