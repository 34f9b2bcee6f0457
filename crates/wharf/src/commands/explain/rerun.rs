//! A run of a folder, simulated again from its command line.

use std::path::Path;

use clap::Parser as _;
use wharf_document::shell;
use wharf_report::Summary;
use wharf_report::files::FoundRun;
use wharf_sim::JobHistory;

use super::story::Story;
use crate::args::{Cli, Command};
use crate::commands::sim;
use crate::error::{CliError, translate};
use crate::output::Terminal;

/// Explains a job in a run that is simulated once more; the inner error says why that is not possible.
///
/// # Errors
/// Where the run's files cannot be read, or the run fails.
pub(super) fn explain(
    run: &FoundRun,
    job: &str,
    terminal: &Terminal,
) -> Result<Result<Story, String>, CliError> {
    let folder = run.folder().unwrap_or(Path::new(""));
    let page = run.open().map_err(|error| translate::file(&error, folder, folder))?;
    let Some(command) = page.digest.command else {
        return Ok(Err("its folder has no command line".to_owned()));
    };
    let words = shell::split(&command).filter(|words| words.first().is_some_and(|word| word == "wharf"));
    let parsed = words.map(Cli::try_parse_from);
    let Some(Ok(Cli { command: Command::Sim(args), .. })) = parsed else {
        return Ok(Err(format!("`{command}` is not a command line of `wharf sim`")));
    };
    let batch = sim::resolve(&args, terminal)?;
    let mut history = JobHistory::new(super::find_job(&batch, job)?);
    let (outcome, _) = batch.simulate(&run.summary.policy, &mut history)?;
    let again = batch.summary(&run.summary.policy, &outcome, 0.0);
    if figures(&again) != figures(&run.summary) {
        return Ok(Err("its trace, cluster or program has changed: the run comes out otherwise".to_owned()));
    }
    Ok(Ok(Story::new(&batch, &run.summary.policy, &history, &outcome)))
}

/// What must be equal in a run that is the same.
fn figures(run: &Summary) -> (u64, u64, Option<f64>, Option<f64>, u64, u64) {
    (run.jobs, run.finished, run.avg_jct_s, run.makespan_s, run.preemptions, run.events)
}
