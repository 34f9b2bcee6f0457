//! What happened to a job in a simulation: `wharf sim --explain JOB` and `wharf explain --run DIR JOB`.

mod events;
mod rerun;
mod story;

use std::path::Path;

use serde::Serialize;
use wharf_core::JobId;
use wharf_report::files::{FoundRun, find_runs};
use wharf_sim::JobHistory;

use crate::args::OutputFormat;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;
use crate::runner::Batch;
use rerun::Plans;
use story::Story;

/// The document that `--output json` prints.
#[derive(Serialize)]
struct Document {
    schema: u32,
    runs: Vec<Story>,
}

/// Simulates each policy and explains a job under it.
///
/// # Errors
/// Where there is no such job, or a run fails.
pub(super) fn simulated(batch: &Batch, job: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let id = find_job(batch, job)?;
    let explain = |policy: &String| {
        let mut history = JobHistory::new(id);
        let (outcome, _) = batch.simulate(policy, &mut history)?;
        Ok(Story::new(batch, policy, &history, &outcome))
    };
    let stories: Result<Vec<Story>, CliError> = batch.policies.iter().map(explain).collect();
    show(stories?, terminal)
}

/// Explains a job in the runs of a folder.
///
/// # Errors
/// Where there are no runs, or none has such a job.
pub(super) fn recorded(folder: &Path, job: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let mut plans = Plans::new();
    let runs = find_runs(folder).map_err(|error| super::compare::failed(&error))?;
    let stories: Result<Vec<Story>, CliError> =
        runs.iter().map(|run| of_run(run, job, &mut plans, terminal)).collect();
    show(stories?, terminal)
}

/// Simulates a run again, which gives wait reasons; where that is not possible, reads its events.
fn of_run(run: &FoundRun, job: &str, plans: &mut Plans, terminal: &Terminal) -> Result<Story, CliError> {
    let why = match rerun::explain(run, job, plans, terminal) {
        Ok(Ok(story)) => return Ok(story),
        Ok(Err(why)) => why,
        Err(error) => error.to_string(),
    };
    terminal.note(&format!("`{}` cannot be simulated again: {why}", run.summary.policy));
    events::read(run, job)
}

fn find_job(batch: &Batch, job: &str) -> Result<JobId, CliError> {
    let jobs = &batch.trace.jobs;
    let found = jobs.iter().position(|spec| &*spec.name == job);
    found.map(JobId::from_index).ok_or_else(|| {
        CliError::input(format!("there is no job `{job}` in trace `{}`", batch.trace.name))
            .hint_nearest(job, jobs.iter().map(|spec| &*spec.name))
    })
}

fn show(runs: Vec<Story>, terminal: &Terminal) -> Result<Exit, CliError> {
    if terminal.format == OutputFormat::Json {
        terminal.json(&Document { schema: 1, runs })?;
    } else {
        let texts: Vec<String> = runs.iter().map(Story::text).collect();
        terminal.data(&texts.join("\n"))?;
    }
    Ok(Exit::Ok)
}
