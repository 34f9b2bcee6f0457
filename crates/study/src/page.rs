//! A page about stored runs.

use std::path::Path;

use wharf_report::Summary;
use wharf_report::files::FoundRun;
use wharf_report::html::{Page, PageRun, render};

use crate::{PageFile, StudyError};

/// What there is to say about a page that has been written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Versions of Wharf that made the runs, if there are several.
    pub versions: Vec<String>,
}

/// Writes a page about runs; without a title it is named after the policies and traces. `on_read` is called after each run.
///
/// # Errors
/// If a run cannot be read, or the page cannot be written.
pub fn write(
    title: &str,
    found: &[FoundRun],
    to: &Path,
    command: String,
    on_read: &dyn Fn(),
) -> Result<Written, StudyError> {
    let file = PageFile::new(to)?;
    let mut runs: Vec<PageRun> = Vec::with_capacity(found.len());
    for run in found {
        runs.push(run.open().map_err(StudyError::Stored)?.within(found.len()));
        on_read();
    }
    let mut versions: Vec<String> = runs.iter().map(|run| run.digest.wharf.clone()).collect();
    versions.sort_unstable();
    versions.dedup();
    if versions.len() == 1 {
        versions.clear();
    }
    let title = if title.is_empty() { named(&runs) } else { title.to_owned() };
    let page = Page { title, commands: vec![command], runs, tables: vec![] };
    file.write(&render(&page))?.commit()?;
    Ok(Written { versions })
}

/// The policies and traces, or how many there are.
fn named(runs: &[PageRun]) -> String {
    let distinct = |label: fn(&Summary) -> &str, word: &str| {
        let mut names: Vec<&str> = Vec::new();
        for name in runs.iter().map(|run| label(&run.summary)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if names.len() > 3 { format!("{} {word}", names.len()) } else { names.join(", ") }
    };
    format!("{} on {}", distinct(|run| &run.policy, "policies"), distinct(|run| &run.trace, "traces"))
}
