//! A run of a folder, simulated again from its command line.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;

use wharf_report::Summary;
use wharf_report::files::FoundRun;
use wharf_sim::JobHistory;
use wharf_sim::sweep::{PlannedRun, SweepPlan};

use super::{Story, find_job};
use crate::{Batch, NotRepeatable, StudyError};

/// The command line that made a stored run.
///
/// # Errors
/// If the run cannot be read or has none.
pub fn command(run: &FoundRun) -> Result<String, StudyError> {
    let page = run.open().map_err(StudyError::Stored)?;
    Ok(page.digest.command.ok_or(NotRepeatable::NoCommand)?)
}

/// The batch and the policy that a stored run has in the plan of its sweep.
///
/// # Errors
/// If the plan does not have it any more.
pub fn planned(plan: &SweepPlan, run: &FoundRun) -> Result<(Batch, String), NotRepeatable> {
    let planned = find_planned(plan, run).ok_or(NotRepeatable::NotInScenario)?;
    Ok((batch_of(planned), planned.policy.clone()))
}

/// Explains a job in a stored run that is simulated once more.
///
/// # Errors
/// If there is no such job, the run fails, or it has other results than the stored ones.
pub fn simulate_again(batch: &Batch, policy: &str, run: &FoundRun, job: &str) -> Result<Story, StudyError> {
    let label = &run.summary.policy;
    let mut history = JobHistory::new(find_job(batch, job)?);
    let (outcome, _) = batch.prepare_run(policy)?.simulate(&mut history)?;
    let again = batch.summary(label, &outcome, 0.0);
    if figures(&again) != figures(&run.summary) {
        return Err(NotRepeatable::Changed.into());
    }
    Ok(Story::new(batch, label, &history, &outcome))
}

/// A sweep's run: that of the key which its folder is named after, or else the only one with its labels.
fn find_planned<'a>(plan: &'a SweepPlan, run: &FoundRun) -> Option<&'a PlannedRun> {
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
        failures: run.failures.iter().map(|list| (run.policy.clone(), list.clone())).collect(),
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
