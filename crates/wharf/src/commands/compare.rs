//! `wharf compare`, and `wharf report` of runs in folders.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use wharf_report::files::{FoundRun, find_runs};
use wharf_report::{Comparison, Report, Summary, winners};

use super::sim::command_line;
use crate::args::{CompareArgs, OutputFormat, ReportArgs};
use crate::error::{CliError, translate};
use crate::exit::Exit;
use crate::output::{Terminal, counted};
use wharf_study::page;

/// Prints the comparison, and writes the page where asked to.
///
/// # Errors
/// Where a folder holds no run, or one that cannot be read.
pub(super) fn execute(args: &CompareArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let found = find(&args.runs, terminal)?;
    if let Some(to) = &args.report {
        write_page(&found, to, terminal)?;
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
    write_page(&found, &args.to, terminal)?;
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
        found.extend(find_runs(folder).map_err(|error| translate::stored(&error))?);
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

/// Writes a page.
fn write_page(found: &[FoundRun], to: &Path, terminal: &Terminal) -> Result<(), CliError> {
    let progress = terminal.progress(found.len() as u64, "runs");
    let written = page::write("", found, to, command_line(), &|| progress.add(1))?;
    progress.finish();
    if !written.versions.is_empty() {
        terminal.warn(&versions_differ(&written));
    }
    terminal.note(&format!("the report of {} is `{}`", counted(found.len(), "run"), to.display()));
    Ok(())
}

/// The warning about runs of several versions.
pub(super) fn versions_differ(written: &page::Written) -> String {
    format!(
        "the runs were made by different versions of Wharf ({}): differences may come from that",
        written.versions.join(", ")
    )
}
