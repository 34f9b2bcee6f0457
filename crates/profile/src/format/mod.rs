//! The tables that there are, and how they are distinguished.

pub(crate) mod cells;
pub(crate) mod comm;
pub(crate) mod crius;
pub(crate) mod csv;
pub(crate) mod exact;
pub(crate) mod gavel;
pub(crate) mod json;
pub(crate) mod row;
pub(crate) mod sia;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

pub use csv::{write_csv, write_prices};
pub use json::write_json;

use crate::database;
use crate::error::ProfileError;

/// How files end that are checked in a folder.
pub(crate) const ENDINGS: &[&str] = &["csv", "db", "json", "sqlite", "wharf"];

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A database, of Wharf or foreign.
    Database,
    /// Wharf's JSON.
    Json,
    /// Wharf's CSV, of speeds or of prices.
    Csv,
    /// Gavel's JSON of throughputs.
    Gavel,
    /// A table of Sia's `placements-TYPE.csv` or `scalability-TYPE.csv`.
    Sia,
    /// A table of Crius's: times of cells, of plans, or memory.
    Cells,
    /// Crius's table of communication times.
    Comm,
    /// Another CSV.
    OtherTable,
}

/// How much of a file states what it is.
const HEAD_BYTES: u64 = 512;

/// The kind of a file, by how it begins.
pub(crate) fn kind(path: &Path) -> Result<Kind, ProfileError> {
    let mut head = Vec::new();
    File::open(path)
        .and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head))
        .map_err(|source| ProfileError::Read { path: path.display().to_string(), source })?;
    if head.starts_with(database::MAGIC) {
        return Ok(Kind::Database);
    }
    let text = String::from_utf8_lossy(&head);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if text.starts_with(['{', '[']) {
        return Ok(if text.contains(json::MARK) { Kind::Json } else { Kind::Gavel });
    }
    let header = text.lines().next().unwrap_or_default();
    let columns: Vec<&str> = header.split(',').map(str::trim).collect();
    if csv::is_ours(header) {
        Ok(Kind::Csv)
    } else if sia::is_header(header) && sia::is_table(path) {
        Ok(Kind::Sia)
    } else if cells::is_header(&columns) {
        Ok(Kind::Cells)
    } else if comm::is_header(&columns) {
        Ok(Kind::Comm)
    } else if header.contains(',') {
        Ok(Kind::OtherTable)
    } else {
        let problem = if head.is_empty() { "the file is empty" } else { "unknown format" };
        Err(ProfileError::Unknown { path: path.display().to_string(), source: problem.into() })
    }
}

/// All of a file.
pub(crate) fn text(path: &Path) -> Result<String, ProfileError> {
    std::fs::read_to_string(path)
        .map_err(|source| ProfileError::Read { path: path.display().to_string(), source })
}
