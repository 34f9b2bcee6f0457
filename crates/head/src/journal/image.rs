//! Images of nodes and jobs as a snapshot keeps them, and what the head knows beside the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wharf_core::{DeviceSet, GaveWay, JobId, JobImage, NodeId, NodeImage, Phase, Reshapes, Time};
use wharf_curve::Number;
use wharf_proto::{Cause, Plan};

use crate::jobs::accepted_requests::AcceptedRequests;
use crate::jobs::amendments::Amended;
use crate::jobs::failures::FailureHistory;
use crate::journal::record::{EndRecord, NodeRecord, Record, of_shares, to_share};
use crate::journal::spec_record::SpecRecord;
use crate::journal::victim_record::ChosenRecord;
use crate::policy::active_policy::PolicyChoice;
use crate::policy::limits::AppliedLimits;

/// What the head stores beside the engine's state: a fold over the journal's records.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HeadState {
    /// Held jobs.
    pub(crate) holds: BTreeSet<u32>,
    /// How many failures were forgiven.
    pub(crate) retries: BTreeMap<u32, u32>,
    /// Iterations that the last checkpoint held when the job was last stopped.
    pub(crate) checkpoints: BTreeMap<u32, f64>,
    /// Arrays: the first element, and how many there are.
    pub(crate) arrays: BTreeMap<u32, u32>,
    /// Why the last run of a job came to nothing, where its worker said so; also of jobs that have ended.
    pub(crate) reasons: BTreeMap<u32, String>,
    /// The failures of jobs, those that have ended included.
    pub(crate) failures: BTreeMap<u32, FailureHistory>,
    /// Jobs that wait after a failure, and until when, in seconds.
    pub(crate) delays: BTreeMap<u32, f64>,
    /// The parallel plans of the placements that jobs have or had last, as stages, data and tensor.
    pub(crate) plans: BTreeMap<u32, (u32, u32, u32)>,
    /// What trainers told last, of jobs that have had a run.
    pub(crate) metrics: BTreeMap<u32, BTreeMap<String, Number>>,
    /// Iterations that trainers reported last in runs that have ended, and how many there were to make (0: not known).
    pub(crate) reported: BTreeMap<u32, (f64, f64)>,
    /// Remarks on the metrics of jobs.
    pub(crate) remarks: BTreeMap<u32, Vec<String>>,
    /// What is different about jobs since they were submitted.
    pub(crate) amended: BTreeMap<u32, Amended>,
    /// On whose account jobs are booked, by the first job of their array or their own.
    pub(crate) accounts: BTreeMap<u32, Arc<str>>,
    /// Why nodes get no jobs.
    pub(crate) node_reasons: BTreeMap<u32, String>,
    /// Nodes that are about to leave, or have left.
    pub(crate) left: BTreeMap<u32, bool>,
    /// Policy; `None` before one has been set.
    pub(crate) policy: Option<PolicyChoice>,
    /// Limits; `None` before any have been set.
    pub(crate) limits: Option<AppliedLimits>,
    /// Requests that are answered as before if they are repeated.
    pub(crate) accepted: AcceptedRequests,
    /// All incarnations whose records this state contains or is known to lack; the present one last.
    pub(crate) incarnations: Vec<String>,
}

impl HeadState {
    pub(crate) fn apply(&mut self, record: &Record) {
        match *record {
            Record::JobNoted { job, ref reason } => {
                self.reasons.insert(job, reason.clone());
            }
            Record::JobPlaced { job, .. } => {
                self.reasons.remove(&job);
                if let Some(amended) = self.amended.get_mut(&job) {
                    amended.steps.clear();
                }
            }
            Record::JobAmended { job, ref amended } => {
                self.amended.entry(job).or_default().extend(amended);
            }
            Record::HoldWanted { job } => {
                self.holds.insert(job);
            }
            Record::HoldLifted { job } => {
                self.holds.remove(&job);
            }
            Record::JobRetried { job } => *self.retries.entry(job).or_default() += 1,
            Record::JobStopped { job, done } | Record::JobSaved { job, done } => {
                self.checkpoints.insert(job, done);
            }
            Record::JobReleased { job } => {
                self.delays.remove(&job);
            }
            Record::JobCaused { job, ref cause, node, code } => {
                let failures = self.failures.entry(job).or_default();
                *failures.counts.entry(cause.clone()).or_default() += 1;
                failures.last.clone_from(cause);
                (failures.node, failures.code, failures.signal) = (node, code, None);
            }
            Record::JobSignalled { job, signal } => {
                self.failures.entry(job).or_default().signal = Some(signal);
            }
            Record::JobDelayed { job, until } => {
                self.delays.insert(job, until);
            }
            Record::JobMeasured { job, ref metrics, ref remarks } => {
                self.metrics.insert(job, metrics.clone());
                self.remarks.remove(&job);
                self.remarks.extend((!remarks.is_empty()).then(|| (job, remarks.clone())));
            }
            Record::JobWatched { job, iterations, total, .. } if iterations > 0.0 => {
                self.reported.insert(job, (iterations, total.unwrap_or(0.0)));
            }
            Record::JobPlanned { job, plan } => {
                self.plans.remove(&job);
                self.plans.extend(plan.map(|plan| (job, plan)));
            }
            Record::NodeNoted { node, ref reason } if reason.is_empty() => {
                self.node_reasons.remove(&node);
            }
            Record::NodeNoted { node, ref reason } => {
                self.node_reasons.insert(node, reason.clone());
            }
            Record::NodeLeft { node, is_over } => {
                self.left.insert(node, is_over);
            }
            Record::NodeCame { node } => {
                self.left.remove(&node);
            }
            Record::JobEnded { job, end } => self.end(job, end == EndRecord::Finished),
            Record::ArraySubmitted { job, .. } => {
                self.arrays.insert(job, record.jobs().len() as u32);
            }
            Record::PolicySet { ref choice, .. } => self.policy = Some(choice.clone()),
            Record::LimitsSet { ref limits } => self.limits = Some(limits.clone()),
            Record::RequestAccepted { ref request } => self.accepted.add(request.clone()),
            Record::IncarnationBegan { ref incarnation, ref lost, .. } => {
                self.incarnations.extend(lost.clone());
                self.incarnations.push(incarnation.clone());
            }
            _ => {}
        }
    }

    /// Drops the records of a job that has ended; a failure of one that finished is not why it ended.
    pub(crate) fn end(&mut self, job: u32, is_finished: bool) {
        if let Some(failures) = self.failures.get_mut(&job).filter(|_| is_finished) {
            failures.last.clear();
        }
        self.holds.remove(&job);
        self.retries.remove(&job);
        self.checkpoints.remove(&job);
        self.delays.remove(&job);
    }

    /// The name of the policy in force; empty before one has been set.
    pub(crate) fn policy_name(&self) -> &str {
        self.policy.as_ref().map_or("", |choice| &choice.name)
    }

    /// A job does not wait until a time any more.
    pub(crate) fn end_delay(&mut self, job: JobId) {
        self.delays.remove(&job.0);
    }

    /// A job has a new run: the failure of the last one is not its present reason.
    pub(crate) fn clear_reason(&mut self, job: JobId) {
        self.reasons.remove(&job.0);
    }

    /// Stores the iterations in the checkpoint that a job continues from.
    pub(crate) fn set_checkpoint(&mut self, job: JobId, done: f64) {
        self.checkpoints.insert(job.0, done);
    }

    /// Adds a submitted array.
    pub(crate) fn add_array(&mut self, first: u32, count: u32) {
        self.arrays.insert(first, count);
    }

    /// A job, or all elements of the array that begins with it.
    pub(crate) fn whole(&self, job: u32) -> Range<u32> {
        job..job.saturating_add(self.arrays.get(&job).copied().unwrap_or(1))
    }

    /// Jobs by the first job of their array.
    pub(crate) fn by_array(&self, jobs: &[JobId]) -> BTreeMap<u32, Vec<u32>> {
        let mut arrays: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        jobs.iter().for_each(|job| arrays.entry(self.first_of(job.0)).or_default().push(job.0));
        arrays
    }

    /// How often a cause has ended runs of a job.
    pub(crate) fn failure_count(&self, job: JobId, cause: Cause) -> u32 {
        self.failures.get(&job.0).map_or(0, |failures| failures.count(cause))
    }

    /// The last cause that ended a run of a job.
    pub(crate) fn last_cause(&self, job: JobId) -> Cause {
        self.failures.get(&job.0).map_or(Cause::NoCause, FailureHistory::cause)
    }

    /// Whether a job that is run again is delayed: after every failure of its own, and where machines fail it again.
    pub(crate) fn is_delayed_after(&self, job: JobId, cause: Cause) -> bool {
        let count = |cause| self.failure_count(job, cause);
        let machines = || count(Cause::LostWorker).saturating_add(count(Cause::NodeAway));
        cause.is_own() || cause.is_infrastructure() && machines() > 1
    }

    /// The parallel plan of a job where it is placed, or was last.
    pub(crate) fn plan_of(&self, job: JobId) -> Option<Plan> {
        self.plans.get(&job.0).map(|&(stages, data, tensor)| Plan { stages, data, tensor })
    }

    /// Whether a node has left for good.
    pub(crate) fn is_gone(&self, node: NodeId) -> bool {
        self.left.get(&node.0) == Some(&true)
    }

    /// Books a job, or an array by its first job, on an account.
    pub(crate) fn book(&mut self, first: u32, account: &str) {
        if !account.is_empty() {
            // Most jobs are on the same few accounts.
            let known = self.accounts.values().next_back().filter(|known| ***known == *account).cloned();
            self.accounts.insert(first, known.unwrap_or_else(|| account.into()));
        }
    }

    /// Account of a job; empty if not set.
    pub(crate) fn account(&self, job: u32) -> &str {
        self.accounts.get(&self.first_of(job)).map_or("", |account| &**account)
    }

    /// The first element of a job's array, or the job itself.
    pub(crate) fn first_of(&self, job: u32) -> u32 {
        let before = self.arrays.range(..=job).next_back();
        before.filter(|&(&first, &count)| job < first + count).map_or(job, |(&first, _)| first)
    }

    /// Whether a job belongs to an array.
    pub(crate) fn is_element(&self, job: u32) -> bool {
        self.arrays.contains_key(&self.first_of(job))
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NodeImageRecord {
    spec: NodeRecord,
    is_there: bool,
    is_cordoned: bool,
    #[serde(default)]
    is_closed: bool,
    broken: Vec<u32>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
    /// Whether it has left, or is about to; absent: neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<bool>,
}

impl NodeImageRecord {
    pub(crate) fn of(image: &NodeImage) -> Self {
        Self {
            spec: NodeRecord::of(&image.spec),
            is_there: image.is_there,
            is_cordoned: image.is_cordoned,
            is_closed: image.is_closed,
            broken: image.broken.iter().collect(),
            reason: String::new(),
            left: None,
        }
    }

    /// The same with why it gets no jobs, and whether it has left.
    pub(super) fn noted(self, reason: Option<&String>, left: Option<bool>) -> Self {
        Self { reason: reason.cloned().unwrap_or_default(), left, ..self }
    }

    /// Puts what the head knows of a node beside what the engine does.
    pub(super) fn apply_to(&self, node: u32, head_state: &mut HeadState) {
        head_state.apply(&Record::NodeNoted { node, reason: self.reason.clone() });
        head_state.left.extend(self.left.map(|is_over| (node, is_over)));
    }

    pub(crate) fn to_core(&self) -> NodeImage {
        let mut broken = DeviceSet::EMPTY;
        self.broken.iter().for_each(|&device| broken.insert(device));
        let Self { is_there, is_cordoned, is_closed, .. } = *self;
        NodeImage { spec: self.spec.to_core(), is_there, is_cordoned, is_closed, broken }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PhaseRecord {
    Waiting,
    Held,
    Placed,
    Running,
    Stopping,
    Ended(EndRecord),
}

type Shares = Vec<(u32, Vec<u32>)>;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct JobImageRecord {
    spec: SpecRecord,
    phase: PhaseRecord,
    generation: u32,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    placement: Option<Shares>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    first_start: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    end: Option<f64>,
    preemptions: u32,
    done: f64,
    since: f64,
    /// Absent before the first launch.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    iteration_s: Option<f64>,
    attained_s: f64,
    placed_at: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    saved_at: Option<f64>,
    /// When, to whom and why it last made room.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    gave_way: Option<(f64, Option<u32>, ChosenRecord)>,
    /// Shrinks, grows, changes of type, moves.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    reshapes: Option<[u32; 4]>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    left: Option<Shares>,
    leaving_generation: u32,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    ending: Option<EndRecord>,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    is_held_by_someone: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    retries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    checkpointed: Option<f64>,
    /// Elements of the array that begins with this job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    array: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    struck: Option<FailureHistory>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    delayed: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    account: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    plan: Option<(u32, u32, u32)>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    metrics: Option<BTreeMap<String, Number>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    remarks: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    amended: Option<Amended>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    reported: Option<(f64, f64)>,
}

impl JobImageRecord {
    pub(crate) fn of(image: &JobImage, job: u32, head_state: &HeadState) -> Self {
        let phase = match image.phase {
            Phase::Waiting => PhaseRecord::Waiting,
            Phase::Held => PhaseRecord::Held,
            Phase::Placed => PhaseRecord::Placed,
            Phase::Running => PhaseRecord::Running,
            Phase::Stopping => PhaseRecord::Stopping,
            Phase::Ended(end) => PhaseRecord::Ended(EndRecord::of(end)),
        };
        Self {
            spec: SpecRecord::of(&image.spec),
            phase,
            generation: image.generation,
            placement: image.placement.as_deref().map(of_shares),
            first_start: image.first_start.map(Time::seconds),
            end: image.end.map(Time::seconds),
            preemptions: image.preemptions,
            done: image.done,
            since: image.since.seconds(),
            iteration_s: image.iteration_s.is_finite().then_some(image.iteration_s),
            attained_s: image.attained_s,
            placed_at: image.placed_at.seconds(),
            saved_at: Some(image.saved_at.seconds()),
            gave_way: image
                .gave_way
                .map(|gave| (gave.at.seconds(), gave.to.map(|to| to.0), ChosenRecord::of(gave.chosen))),
            reshapes: Some(of_reshapes(image.reshapes)).filter(|counts| *counts != [0; 4]),
            left: image.left.as_deref().map(of_shares),
            leaving_generation: image.leaving_generation,
            ending: image.ending.map(EndRecord::of),
            is_held_by_someone: head_state.holds.contains(&job),
            retries: head_state.retries.get(&job).copied(),
            checkpointed: head_state.checkpoints.get(&job).copied(),
            array: head_state.arrays.get(&job).copied(),
            reason: head_state.reasons.get(&job).cloned(),
            struck: head_state.failures.get(&job).cloned(),
            delayed: head_state.delays.get(&job).copied(),
            account: head_state.accounts.get(&job).map(|account| account.to_string()),
            plan: head_state.plans.get(&job).copied(),
            metrics: head_state.metrics.get(&job).cloned(),
            remarks: head_state.remarks.get(&job).cloned().unwrap_or_default(),
            amended: head_state.amended.get(&job).cloned(),
            reported: head_state.reported.get(&job).copied(),
        }
    }

    /// The job's image, and into `head_state` what the head stores of it; `None` where a number is not one.
    pub(crate) fn to_core(&self, job: u32, head_state: &mut HeadState) -> Option<JobImage> {
        if self.is_held_by_someone {
            head_state.holds.insert(job);
        }
        head_state.retries.extend(self.retries.map(|count| (job, count)));
        head_state.checkpoints.extend(self.checkpointed.map(|done| (job, done)));
        head_state.arrays.extend(self.array.map(|count| (job, count)));
        head_state.failures.extend(self.struck.clone().map(|struck| (job, struck)));
        head_state.delays.extend(self.delayed.map(|until| (job, until)));
        head_state.plans.extend(self.plan.map(|plan| (job, plan)));
        head_state.metrics.extend(self.metrics.clone().map(|metrics| (job, metrics)));
        head_state.remarks.extend((!self.remarks.is_empty()).then(|| (job, self.remarks.clone())));
        head_state.amended.extend(self.amended.clone().map(|amended| (job, amended)));
        head_state.reported.extend(self.reported.map(|reported| (job, reported)));
        head_state.book(job, self.account.as_deref().unwrap_or_default());
        head_state.reasons.extend(self.reason.clone().map(|reason| (job, reason)));
        let phase = match self.phase {
            PhaseRecord::Waiting => Phase::Waiting,
            PhaseRecord::Held => Phase::Held,
            PhaseRecord::Placed => Phase::Placed,
            PhaseRecord::Running => Phase::Running,
            PhaseRecord::Stopping => Phase::Stopping,
            PhaseRecord::Ended(end) => Phase::Ended(end.to_core()),
        };
        let shares = |shares: &Option<Shares>| shares.as_ref().map(|all| all.iter().map(to_share).collect());
        let moment =
            |time_s: Option<f64>| time_s.map_or(Some(None), |time_s| Time::try_new(time_s).map(Some));
        Some(JobImage {
            spec: self.spec.to_core().ok()?,
            placement: shares(&self.placement),
            phase,
            generation: self.generation,
            first_start: moment(self.first_start)?,
            end: moment(self.end)?,
            preemptions: self.preemptions,
            done: self.done,
            since: Time::try_new(self.since)?,
            iteration_s: self.iteration_s.unwrap_or(f64::INFINITY),
            attained_s: self.attained_s,
            placed_at: Time::try_new(self.placed_at)?,
            saved_at: Time::try_new(self.saved_at.unwrap_or(self.placed_at))?,
            gave_way: match self.gave_way {
                Some((at, to, chosen)) => {
                    let (at, to) = (Time::try_new(at)?, to.map(JobId));
                    Some(GaveWay { at, to, chosen: chosen.to_core() })
                }
                None => None,
            },
            reshapes: to_reshapes(self.reshapes.unwrap_or_default()),
            left: shares(&self.left),
            leaving_generation: self.leaving_generation,
            ending: self.ending.map(EndRecord::to_core),
        })
    }
}

fn of_reshapes(counts: Reshapes) -> [u32; 4] {
    [counts.shrinks, counts.grows, counts.type_changes, counts.moves]
}

fn to_reshapes([shrinks, grows, type_changes, moves]: [u32; 4]) -> Reshapes {
    Reshapes { shrinks, grows, type_changes, moves }
}
