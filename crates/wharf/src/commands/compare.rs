//! `wharf compare`, and `wharf report` of runs in folders.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use wharf_report::files::{FoundRun, find_runs};
use wharf_report::html::{Page, PageRun};
use wharf_report::{Comparison, FileError, Report, Summary, winners};

use super::sim::command_line;
use crate::args::{CompareArgs, OutputFormat, ReportArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::output::{Terminal, counted};
use crate::runner::PageFile;

/// Prints the comparison, and writes the page where asked to.
///
/// # Errors
/// Where a folder holds no run, or one that cannot be read.
pub(super) fn execute(args: &CompareArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let found = find(&args.runs, terminal)?;
    if let Some(to) = &args.report {
        write_page("", &found, to, terminal)?;
    }
    let runs: Vec<Summary> = found.into_iter().map(|run| run.summary).collect();
    let comparison = Comparison::new(&runs);
    match terminal.format {
        OutputFormat::Json => terminal.json(&comparison)?,
        OutputFormat::Plain | OutputFormat::Csv => {
            terminal.rows(&comparison.table(&wharf_report::Metric::ALL).to_plain())?
        }
        OutputFormat::Table => terminal.data(&to_text(&runs, &comparison))?,
    }
    Ok(Exit::Ok)
}

/// Writes a page about runs in folders.
///
/// # Errors
/// As [`execute`].
pub(super) fn report(args: &ReportArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let found = find(&args.runs, terminal)?;
    write_page("", &found, &args.to, terminal)?;
    Ok(Exit::Ok)
}

fn to_text(runs: &[Summary], comparison: &Comparison) -> String {
    let has_seeds = comparison.rows.iter().any(|row| row.seeds.len() > 1);
    let mut text = match has_seeds {
        true => {
            comparison.compact_table().to_text()
                + "mean ± half of the 95 % confidence interval over seeds (Student's t); * best mean\n"
        }
        false => Report::new(runs.to_vec()).to_text(),
    };
    if !comparison.winners.is_empty() {
        text += &format!("\n{}", winners::table(&comparison.winners).to_text());
        for note in winners::notes(&comparison.winners, &comparison.left_out) {
            text += &format!("{note}\n");
        }
    }
    text
}

fn find(folders: &[PathBuf], terminal: &Terminal) -> Result<Vec<FoundRun>, CliError> {
    let mut found: Vec<FoundRun> = Vec::new();
    for folder in folders {
        found.extend(find_runs(folder).map_err(|error| failed(&error))?);
    }
    let mut known = BTreeSet::new();
    if let Some(again) = found.iter().find(|run| !known.insert(run.summary.labels())) {
        let Summary { policy, trace, seed, .. } = &again.summary;
        terminal.warn(&format!(
            "`{policy}` on `{trace}` with seed {seed} occurs more than once; only the first run counts"
        ));
    }
    Ok(found)
}

/// Writes a page; `title` may be empty.
pub(super) fn write_page(
    title: &str,
    found: &[FoundRun],
    to: &Path,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let file = PageFile::new(to)?;
    let progress = terminal.progress(found.len() as u64, "runs");
    let mut runs: Vec<PageRun> = Vec::with_capacity(found.len());
    for run in found {
        runs.push(run.open().map_err(|error| failed(&error))?.within(found.len()));
        progress.add(1);
    }
    progress.finish();
    let mut versions: Vec<&str> = runs.iter().map(|run| run.digest.wharf.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    if versions.len() > 1 {
        terminal.warn(&format!(
            "the runs were made by different versions of Wharf ({}): differences may come from that",
            versions.join(", ")
        ));
    }
    let title = if title.is_empty() { named(&runs) } else { title.to_owned() };
    let page = Page { title, commands: vec![command_line()], runs, tables: vec![] };
    file.write(&wharf_report::html::render(&page))?.commit()?;
    terminal.note(&format!("the report of {} is `{}`", counted(found.len(), "run"), to.display()));
    Ok(())
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

pub(super) fn failed(error: &FileError) -> CliError {
    let told = CliError::from_error(ErrorKind::Input, error);
    match error.hint() {
        Some(hint) => told.hint(hint),
        None => told,
    }
}
