//! A run of a folder, simulated again from its command line.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;

use clap::Parser as _;
use wharf_document::shell;
use wharf_report::Summary;
use wharf_report::files::FoundRun;
use wharf_sim::JobHistory;
use wharf_sim::sweep::{Plan, PlannedRun};

use super::story::Story;
use crate::args::{Cli, Command};
use crate::commands::{sim, sweep};
use crate::error::{CliError, translate};
use crate::output::Terminal;
use crate::runner::Batch;

/// Plans of sweeps, by command line.
pub(super) type Plans = BTreeMap<String, Plan>;

/// Explains a job in a run that is simulated once more; the inner error says why that is not possible.
///
/// # Errors
/// Where the run's files cannot be read, or the run fails.
pub(super) fn explain(
    run: &FoundRun,
    job: &str,
    plans: &mut Plans,
    terminal: &Terminal,
) -> Result<Result<Story, String>, CliError> {
    let folder = run.folder().unwrap_or(Path::new(""));
    let page = run.open().map_err(|error| translate::file(&error, folder, folder))?;
    let Some(command) = page.digest.command else {
        return Ok(Err("its folder has no command line".to_owned()));
    };
    let words = shell::split(&command).filter(|words| words.first().is_some_and(|word| word == "wharf"));
    let label = &run.summary.policy;
    let (batch, policy) = match words.map(Cli::try_parse_from) {
        Some(Ok(Cli { command: Command::Sim(args), .. })) => (sim::resolve(&args, terminal)?, label.clone()),
        Some(Ok(Cli { command: Command::Sweep(args), .. })) => {
            if !plans.contains_key(&command) {
                plans.insert(command.clone(), sweep::plan(&args)?);
            }
            let planned = plans.get(&command).and_then(|plan| find_planned(plan, run));
            match planned {
                Some(planned) => (batch_of(planned), planned.policy.clone()),
                None => return Ok(Err("the scenario has changed: it does not have this run".to_owned())),
            }
        }
        _ => return Ok(Err(format!("`{command}` is not a command line of `wharf sim` or `wharf sweep`"))),
    };
    let mut history = JobHistory::new(super::find_job(&batch, job)?);
    let (outcome, _) = batch.simulate(&policy, &mut history)?;
    let again = batch.summary(label, &outcome, 0.0);
    if figures(&again) != figures(&run.summary) {
        return Ok(Err("its trace, cluster or program has changed: the run comes out otherwise".to_owned()));
    }
    Ok(Ok(Story::new(&batch, label, &history, &outcome)))
}

/// A sweep's run: that of the key which its folder is named after, or else the only one with its labels.
fn find_planned<'a>(plan: &'a Plan, run: &FoundRun) -> Option<&'a PlannedRun> {
    let key = run.folder().and_then(Path::file_name);
    let is_keyed = |planned: &&PlannedRun| key.is_some_and(|key| *key == *planned.key.to_string());
    let Summary { policy, trace, preset, cluster, seed, .. } = &run.summary;
    let is_labelled = |planned: &&PlannedRun| {
        (&planned.policy, &planned.trace.name, &planned.preset.name, &planned.cluster.name, &planned.seed)
            == (policy, trace, preset, cluster, seed)
    };
    plan.runs.iter().find(is_keyed).or_else(|| {
        let mut labelled = plan.runs.iter().filter(is_labelled);
        labelled.next().filter(|_| labelled.next().is_none())
    })
}

fn batch_of(run: &PlannedRun) -> Batch {
    Batch {
        trace: run.trace.value.clone(),
        cluster_name: run.cluster.name.clone(),
        cluster: run.cluster.value.clone(),
        preset: run.preset.value.clone(),
        settings: BTreeMap::from([(run.policy.clone(), run.settings.clone())]),
        limits: None,
        seed: run.seed,
        profile: run.profile.clone(),
        rounds: None,
        measure: None,
        policies: vec![run.policy.clone()],
        threads: NonZeroUsize::MIN,
        again: BTreeMap::new(),
    }
}

/// What must be equal in a run that is the same.
fn figures(run: &Summary) -> (u64, u64, Option<f64>, Option<f64>, u64, u64) {
    (run.jobs, run.finished, run.avg_jct_s, run.makespan_s, run.preemptions, run.events)
}
