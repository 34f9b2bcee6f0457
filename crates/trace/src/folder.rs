//! Folders as their owners publish them: which file inside holds the jobs.

use std::path::{Path, PathBuf};

use crate::format::Format;

/// The log in a folder and its format; `None` for a file, and for a folder without any.
pub(crate) fn find_log(path: &Path, format: Option<Format>) -> Option<(PathBuf, Format)> {
    if !path.is_dir() {
        return None;
    }
    let wanted = Format::all().iter().copied().filter(|known| format.is_none_or(|format| format == *known));
    wanted.into_iter().find_map(|format| Some((find(path, format.codec().log?.file?)?, format)))
}

/// A table next to a log, however the log is called.
pub(crate) fn find_beside(log: &Path, name: &str) -> Option<PathBuf> {
    find(log.parent().unwrap_or(Path::new("")), name)
}

/// A file by name, plain or compressed.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    [name.to_owned(), format!("{name}.gz")]
        .map(|name| folder.join(name))
        .into_iter()
        .find(|path| path.is_file())
}
