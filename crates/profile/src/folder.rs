//! Folders of profiles: all files by name, later ones win; Crius's three files first, where they are there.

use std::path::{Path, PathBuf};

use crate::error::ProfileError;
use crate::format::{self, Kind, crius, sia};
use crate::records::Records;
use crate::{Read, Scope, read_file};

/// Reads all profiles of a folder, and states which files were left out.
pub(crate) fn read(path: &Path, scope: Scope) -> Result<Read, ProfileError> {
    let mut read = Read::default();
    let is_crius = path.join(crius::TIMES).is_file();
    if is_crius {
        read.records.cells = Some(crius::read(path)?);
    }
    let mut is_found = is_crius;
    for part in entries(path)? {
        let name = part.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if is_crius && crius::FILES.contains(&name.as_str()) {
            continue;
        }
        let records = match read_part(&part, scope, &read.records)? {
            Part::Records(records) => records,
            Part::NoProfile => {
                read.left_out.push(name);
                continue;
            }
            Part::Nothing => continue,
        };
        is_found = true;
        let replaced = read.records.add(*records).changed.len();
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

/// Files of a folder that may be profiles, by name.
pub(crate) fn profiles(path: &Path) -> Result<Vec<PathBuf>, ProfileError> {
    Ok(entries(path)?.into_iter().filter(|part| has_known_ending(part)).collect())
}

fn has_known_ending(part: &Path) -> bool {
    let ending = part.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    format::ENDINGS.contains(&ending)
}

/// What a part of a folder is.
enum Part {
    /// Something of a profile.
    Records(Box<Records>),
    /// A table or document of something else.
    NoProfile,
    /// No business of ours.
    Nothing,
}

/// A file of a folder, or a folder of Sia's within it.
fn read_part(part: &Path, scope: Scope, known: &Records) -> Result<Part, ProfileError> {
    if part.is_dir() {
        let mut records = Records::default();
        // What was measured placement by placement counts more than what is only about their number.
        for file in entries(part)?.iter().rev().filter(|file| sia::is_table(file)) {
            records.add(read_file(file, scope, None)?);
        }
        return Ok(if records.is_empty() { Part::Nothing } else { Part::Records(Box::new(records)) });
    }
    if !has_known_ending(part) {
        return Ok(Part::Nothing);
    }
    match format::kind(part)? {
        Kind::OtherTable => Ok(Part::NoProfile),
        Kind::Comm if scope == Scope::Runs => Ok(Part::Nothing),
        kind => match read_file(part, scope, known.cells.as_ref()) {
            Ok(records) => Ok(Part::Records(Box::new(records))),
            Err(error) if kind == Kind::Gavel && is_of_another_shape(&error) => Ok(Part::NoProfile),
            Err(error) => Err(error),
        },
    }
}

/// Whether a document is whole, but has something else in it.
fn is_of_another_shape(error: &ProfileError) -> bool {
    let ProfileError::Unknown { source, .. } = error else { return false };
    source.downcast_ref::<serde_json::Error>().is_some_and(serde_json::Error::is_data)
}
