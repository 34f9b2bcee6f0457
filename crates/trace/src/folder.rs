//! Folders as their owners publish them: which file inside holds the jobs.

use std::path::{Path, PathBuf};

use crate::format::Format;

/// A folder with a public log in it.
#[derive(Debug)]
pub(crate) struct Folder {
    /// The file with the jobs.
    pub(crate) main: PathBuf,
    /// Its format.
    pub(crate) format: Format,
    /// A second table that says who submitted which job, and when.
    pub(crate) jobs: Option<PathBuf>,
}

/// What to look for, the best first.
const KNOWN: [(&str, Format, Option<&str>); 3] = [
    ("pai_task_table.csv", Format::Pai, Some("pai_job_table.csv")),
    ("cluster_log.csv", Format::Helios, None),
    ("cluster_job_log", Format::Philly, None),
];

impl Folder {
    /// The log in a folder; `None` for a file, and for a folder without any.
    pub(crate) fn resolve(path: &Path, format: Option<Format>) -> Option<Self> {
        if !path.is_dir() {
            return None;
        }
        let wanted = KNOWN.into_iter().filter(|(_, known, _)| format.is_none_or(|format| format == *known));
        wanted.into_iter().find_map(|(name, format, jobs)| {
            let main = find(path, name)?;
            Some(Self { main, format, jobs: jobs.and_then(|name| find(path, name)) })
        })
    }
}

/// A file by name, plain or compressed.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    [name.to_owned(), format!("{name}.gz")]
        .map(|name| folder.join(name))
        .into_iter()
        .find(|path| path.is_file())
}
