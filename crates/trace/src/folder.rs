//! Folders as their owners publish them: which file inside holds the jobs.

use std::path::{Path, PathBuf};

use crate::format::Format;

/// The names of logs, the best first.
const LOGS: [(&str, Format); 3] = [
    ("pai_task_table.csv", Format::Pai),
    ("cluster_log.csv", Format::Helios),
    ("cluster_job_log", Format::Philly),
];

/// The table of users and submissions that belongs to a PAI task table.
const JOB_TABLE: &str = "pai_job_table.csv";

/// The log in a folder and its format; `None` for a file, and for a folder without any.
pub(crate) fn find_log(path: &Path, format: Option<Format>) -> Option<(PathBuf, Format)> {
    if !path.is_dir() {
        return None;
    }
    let wanted = LOGS.into_iter().filter(|(_, known)| format.is_none_or(|format| format == *known));
    wanted.into_iter().find_map(|(name, format)| Some((find(path, name)?, format)))
}

/// The job table next to a task table, however the task table is called.
pub(crate) fn find_job_table(tasks: &Path) -> Option<PathBuf> {
    find(tasks.parent().unwrap_or(Path::new("")), JOB_TABLE)
}

/// A file by name, plain or compressed.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    [name.to_owned(), format!("{name}.gz")]
        .map(|name| folder.join(name))
        .into_iter()
        .find(|path| path.is_file())
}
