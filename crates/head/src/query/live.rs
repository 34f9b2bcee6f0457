//! A cluster's present and past, for simulations that continue from there or do it over.

use std::collections::{BTreeMap, BTreeSet};

use wharf_core::{JobId, JobImage, NodeId, NodeImage, Phase, Regime, State, Time};
use wharf_policy::governor::Limits;
use wharf_proto::dependency::Kind as DependencyKind;
use wharf_proto::{Exported, ExportedJob, PolicyChange};

use crate::dispatcher::Dispatcher;
use crate::jobs::wire;
use crate::journal::{HeadState, JobImageRecord, JournalError, NodeImageRecord};
use crate::policy::active_policy::PolicyChoice;
use crate::policy::limits::{AppliedLimits, govern};
use crate::query::{exported_images, views};

/// Everything that is not over, and the latest of what is.
///
/// Older clients read nodes and jobs as JSON; `is_typed` is what all others request.
pub(crate) fn export(
    dispatcher: &Dispatcher,
    past_max: usize,
    is_typed: bool,
) -> Result<Exported, JournalError> {
    let state = dispatcher.engine.state();
    let over = state.jobs().filter(|(_, _, life)| life.is_ended()).count();
    let mut skipped = over.saturating_sub(past_max);
    let mut jobs = Vec::new();
    for (job, _, life) in state.jobs() {
        if life.is_ended() && skipped > 0 {
            skipped -= 1;
            continue;
        }
        jobs.push(export_job(dispatcher, job, is_typed));
    }
    let nodes =
        || (0..state.topology().nodes().len()).map(|index| state.node_image(NodeId::from_index(index)));
    let (mut node_texts, mut node_images) = (Vec::new(), Vec::new());
    if is_typed {
        node_images.extend(nodes().map(|image| exported_images::of_node(&image)));
    } else {
        node_texts.extend(nodes().map(|image| text(&NodeImageRecord::of(&image))));
    }
    let applied = dispatcher.log.state.limits.clone().unwrap_or_default();
    Ok(Exported {
        limits: applied.text,
        limits_applied_s: applied.at_s,
        now_s: dispatcher.now().seconds(),
        epoch_unix_s: dispatcher.clock.epoch_unix_s(),
        policies: views::policies(dispatcher)?.changes,
        nodes: node_texts,
        node_images,
        jobs,
    })
}

fn text(image: &impl serde::Serialize) -> String {
    // Plain values always have a text.
    serde_json::to_string(image).unwrap_or_default()
}

fn export_job(dispatcher: &Dispatcher, job: JobId, is_typed: bool) -> ExportedJob {
    let state = dispatcher.engine.state();
    let edges = dispatcher.jobs.dependencies_of(job);
    let is_open = |id: u32| JobId(id) >= state.next_job() || !state.job(JobId(id)).is_ended();
    let open: Vec<_> = edges.iter().filter(|edge| is_open(edge.job)).collect();
    let is_held = state.job(job).phase == Phase::Held;
    // Jobs that depend on a failure, or on a missing job, are not counted on.
    let is_not_expected = open
        .iter()
        .any(|edge| edge.kind == DependencyKind::AfterNotOk || JobId(edge.job) >= state.next_job());
    let image = state.job_image(job);
    // Without the head's own state: texts of failures are for the jobs' owners.
    let as_text = || text(&JobImageRecord::of(&image, job.0, &HeadState::default()));
    ExportedJob {
        job_id: job.0,
        image: if is_typed { String::new() } else { as_text() },
        state: is_typed.then(|| exported_images::of_job(&image)),
        waits_for: open.iter().map(|edge| edge.job).collect(),
        is_stuck: is_held
            && (is_not_expected || open.is_empty() || dispatcher.log.state.holds.contains(&job.0)),
        is_declared: dispatcher.spec(job).is_some_and(|told| wire::declares_length(told, state.spec(job))),
        iterations_done: dispatcher.tasks.progress(job).map(|told| told.iterations),
        array_job: dispatcher.log.state.first_of(job.0),
    }
}

/// A cluster as it was exported.
#[derive(Debug)]
pub struct Live {
    /// The present.
    pub now: Time,
    /// When the engine's time began.
    pub epoch_unix_s: f64,
    /// Who decides and decided, the latest last: since when, and what.
    pub policies: Vec<(Time, PolicyChoice)>,
    /// The limits in force.
    limits: Limits,
    applied: AppliedLimits,
    /// All nodes, by id.
    pub nodes: Vec<NodeImage>,
    /// Jobs, by id.
    pub jobs: Vec<LiveJob>,
}

/// A job as it was exported.
#[derive(Debug)]
pub struct LiveJob {
    /// Its id in the head.
    pub id: u32,
    /// The first element of its array, or itself.
    pub array_job: u32,
    /// Everything that its life has come to.
    pub image: JobImage,
    /// Jobs whose ends it waits for, by their ids in the head.
    pub waits_for: Vec<u32>,
    /// It is held, and no end of another job will change that.
    pub is_stuck: bool,
    /// Its owner said how long it takes, or at most.
    pub is_declared: bool,
}

/// An export that cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error("cannot parse the head's export; it may be from another version of Wharf")]
pub struct BadExport;

impl Live {
    /// Reads an export.
    ///
    /// # Errors
    /// [`BadExport`] where the head is of another version.
    pub fn read(exported: Exported) -> Result<Self, BadExport> {
        let Exported { now_s, epoch_unix_s, policies, nodes, jobs, limits, limits_applied_s, node_images } =
            exported;
        // Earlier heads have texts only.
        if !nodes.is_empty() {
            return Err(BadExport);
        }
        let applied = AppliedLimits { text: limits, at_s: limits_applied_s, ..AppliedLimits::default() };
        let choice = |change: PolicyChange| {
            let since = Time::try_new((change.time_s - epoch_unix_s).max(0.0)).ok_or(BadExport)?;
            let settings = change.settings.into_iter().collect();
            Ok((since, PolicyChoice { name: change.policy, settings }))
        };
        let now = Time::try_new(now_s).ok_or(BadExport)?;
        Ok(Self {
            now,
            epoch_unix_s,
            policies: policies.into_iter().map(choice).collect::<Result<_, _>>()?,
            limits: AppliedLimits::parse(Some(&applied)).map_err(|_| BadExport)?,
            applied,
            nodes: node_images.into_iter().map(exported_images::to_node).collect(),
            jobs: jobs.into_iter().map(|job| LiveJob::read(job, now)).collect::<Result<_, _>>()?,
        })
    }

    /// Who decides.
    pub fn policy(&self) -> PolicyChoice {
        self.policies.last().map(|(_, choice)| choice.clone()).unwrap_or_default()
    }

    /// Puts the limits in force around who decides. What jobs that have ended have used up is not counted.
    pub fn govern(&self, regime: Regime) -> Regime {
        govern(regime, &self.limits, Some(&self.applied), self.epoch_unix_s)
    }

    /// The state with the jobs that are not over, numbered from 0 in their order; and their ids in the head.
    pub fn present(&self) -> (State, Vec<u32>) {
        let live = self.jobs.iter().filter(|job| !matches!(job.image.phase, Phase::Ended(_)));
        let (ids, images): (Vec<u32>, Vec<JobImage>) = live.map(|job| (job.id, job.image.clone())).unzip();
        (State::from_images(1, self.nodes.clone(), images), ids)
    }

    /// Jobs that wait for others and will be let go, by their numbers in [`Live::present`].
    pub fn waits(&self, ids: &[u32]) -> BTreeMap<JobId, BTreeSet<JobId>> {
        let number = |id: u32| ids.binary_search(&id).ok().map(JobId::from_index);
        let held = self.jobs.iter().filter(|job| job.image.phase == Phase::Held && !job.is_stuck);
        held.filter_map(|job| {
            let others = job.waits_for.iter().filter_map(|&id| number(id)).collect();
            Some((number(job.id)?, others))
        })
        .collect()
    }
}

impl LiveJob {
    fn read(exported: ExportedJob, now: Time) -> Result<Self, BadExport> {
        let mut image = exported.state.and_then(exported_images::to_job).ok_or(BadExport)?;
        // What a trainer tells is nearer to the truth than what was expected of it.
        if let Some(done) = exported.iterations_done.filter(|_| image.phase == Phase::Running) {
            (image.done, image.since) = (done, now);
        }
        Ok(Self {
            id: exported.job_id,
            array_job: exported.array_job,
            image,
            waits_for: exported.waits_for,
            is_stuck: exported.is_stuck,
            is_declared: exported.is_declared,
        })
    }
}
