//! What happened to a job in a simulation: `wharf sim --explain JOB` and `wharf explain --run DIR JOB`.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Parser as _;
use serde::Serialize;
use wharf_document::shell;
use wharf_report::files::{FoundRun, find_runs};
use wharf_sim::sweep::SweepPlan;
use wharf_study::story::{self, Story};
use wharf_study::{Batch, NotRepeatable, StudyError};

use super::{sim, sweep};
use crate::args::{Cli, Command, OutputFormat};
use crate::error::{CliError, translate};
use crate::exit::Exit;
use crate::output::Terminal;

/// Plans of sweeps, by command line.
type Plans = BTreeMap<String, SweepPlan>;

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
    let stories = batch.policies.iter().map(|policy| Story::simulated(batch, policy, job));
    show(stories.collect::<Result<_, StudyError>>()?, terminal)
}

/// Explains a job in the runs of a folder.
///
/// # Errors
/// Where there are no runs, or none has such a job.
pub(super) fn recorded(folder: &Path, job: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let mut plans = Plans::new();
    let runs = find_runs(folder).map_err(|error| translate::stored(&error))?;
    let stories = runs.iter().map(|run| of_run(run, job, &mut plans, terminal));
    show(stories.collect::<Result<_, StudyError>>()?, terminal)
}

/// Simulates a run again, which gives wait reasons; where that is not possible, reads its events.
fn of_run(run: &FoundRun, job: &str, plans: &mut Plans, terminal: &Terminal) -> Result<Story, StudyError> {
    let why = match again(run, job, plans, terminal) {
        Ok(story) => return Ok(story),
        Err(error) => error.to_string(),
    };
    terminal.note(&format!("`{}` cannot be simulated again: {why}", run.summary.policy));
    story::read(run, job)
}

/// Explains a job in a run that is simulated once more, from its command line.
fn again(run: &FoundRun, job: &str, plans: &mut Plans, terminal: &Terminal) -> Result<Story, CliError> {
    let command = story::command(run)?;
    let words = shell::split(&command).filter(|words| words.first().is_some_and(|word| word == "wharf"));
    let (batch, policy) = match words.map(Cli::try_parse_from) {
        Some(Ok(Cli { command: Command::Sim(args), .. })) => {
            (sim::resolve(&args, terminal)?, run.summary.policy.clone())
        }
        Some(Ok(Cli { command: Command::Sweep(args), .. })) => {
            if !plans.contains_key(&command) {
                plans.insert(command.clone(), sweep::plan(&args)?);
            }
            let planned = plans.get(&command).ok_or(NotRepeatable::NotInScenario);
            planned.and_then(|plan| story::planned(plan, run)).map_err(StudyError::from)?
        }
        _ => return Err(StudyError::from(NotRepeatable::OtherCommand(command)).into()),
    };
    Ok(story::simulate_again(&batch, &policy, run, job)?)
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
