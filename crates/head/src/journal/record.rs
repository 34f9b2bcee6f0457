//! What the journal keeps: wire types of their own, so that core types make no promise about their shape.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use wharf_core::{
    Detail, DeviceSet, Event, JobEnd, JobId, JobSpec, NodeId, NodeShare, NodeSpec, State, StopReason, Time,
};
use wharf_curve::Number;

use crate::jobs::accepted_requests::AcceptedRequest;
use crate::jobs::amendments::Amended;
use crate::journal::spec_record::SpecRecord;
use crate::journal::victim_record::ChosenRecord;
use crate::policy::active_policy::PolicyChoice;
use crate::policy::limits::AppliedLimits;

/// One line of the journal: an event with everything that the fold needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Record {
    NodeJoined {
        node: u32,
        spec: NodeRecord,
    },
    NodeLost {
        node: u32,
    },
    NodeReturned {
        node: u32,
    },
    NodeCordoned {
        node: u32,
    },
    NodeOpened {
        node: u32,
    },
    NodeClosed {
        node: u32,
    },
    NodeReopened {
        node: u32,
    },
    DeviceLost {
        node: u32,
        device: u32,
    },
    DeviceReturned {
        node: u32,
        device: u32,
    },
    JobSubmitted {
        job: u32,
        spec: Box<SpecRecord>,
    },
    /// Elements have consecutive ids; their indexes are kept as first and last of each run.
    ArraySubmitted {
        job: u32,
        spec: Box<SpecRecord>,
        indexes: Vec<(u32, u32)>,
    },
    /// Ids that are never given to jobs.
    IdsSkipped {
        job: u32,
        count: u32,
    },
    JobPlaced {
        job: u32,
        generation: u32,
        shares: Vec<(u32, Vec<u32>)>,
    },
    JobLaunched {
        job: u32,
        ready: f64,
        iteration_s: f64,
    },
    JobRated {
        job: u32,
        iteration_s: f64,
    },
    JobSaved {
        job: u32,
        done: f64,
    },
    JobGaveWay {
        job: u32,
        to: Option<u32>,
        chosen: ChosenRecord,
    },
    JobStopping {
        job: u32,
        why: WhyRecord,
    },
    JobReplaced {
        job: u32,
        by: u32,
    },
    JobStopped {
        job: u32,
        done: f64,
    },
    JobHeld {
        job: u32,
    },
    JobReleased {
        job: u32,
    },
    JobReprioritised {
        job: u32,
        priority: i32,
    },
    JobEnded {
        job: u32,
        end: EndRecord,
    },
    /// The job is held, in addition to its other wait reasons.
    HoldWanted {
        job: u32,
    },
    /// It has no holder any more.
    HoldLifted {
        job: u32,
    },
    /// A failure was forgiven.
    JobRetried {
        job: u32,
    },
    /// What a worker said of a task that could not be run.
    JobNoted {
        job: u32,
        reason: String,
    },
    /// Why a run came to its end before the job was done, in a word; where, and with which exit code.
    JobCaused {
        job: u32,
        cause: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<i32>,
    },
    /// The signal that ended the run whose cause was told last.
    JobSignalled {
        job: u32,
        signal: i32,
    },
    /// It made no progress any more, and what was found out about that.
    JobStalled {
        job: u32,
        reason: String,
    },
    /// It waits until then: after a failure, or because it is to begin no earlier.
    JobDelayed {
        job: u32,
        until: f64,
    },
    /// Usage of a finished run: watched time, and idle device time within it, in
    /// seconds, and the iterations that its trainer told last.
    JobWatched {
        job: u32,
        watched_s: f64,
        idle_s: f64,
        iterations: f64,
        /// Iterations that it had to make, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<f64>,
    },
    /// What its trainer told last of everything but iterations, when a run was over.
    JobMeasured {
        job: u32,
        metrics: BTreeMap<String, Number>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        remarks: Vec<String>,
    },
    /// How long the iterations of a run took that has ended, on devices of one type, under which plan.
    JobTimed {
        job: u32,
        device_type: String,
        devices: u32,
        nodes: u32,
        plan: Option<(u32, u32, u32)>,
        iterations: f64,
        span_s: f64,
    },
    /// The parallel plan that it is launched with from now on, as stages, data and tensor; none: as it likes.
    JobPlanned {
        job: u32,
        plan: Option<(u32, u32, u32)>,
    },
    /// What is different about it from now on.
    JobAmended {
        job: u32,
        amended: Amended,
    },
    /// A user has changed it: cancelled, held, released, requeued or reprioritised it, and so on.
    JobChanged {
        job: u32,
        change: String,
        by: String,
    },
    /// The same for all elements of the array that it is the first of.
    ArrayChanged {
        job: u32,
        change: String,
        by: String,
    },
    /// Why a node gets no jobs; empty: no reason any more.
    NodeNoted {
        node: u32,
        reason: String,
    },
    /// A node is about to leave, or has left.
    NodeLeft {
        node: u32,
        is_over: bool,
    },
    /// A node that had left is there again.
    NodeCame {
        node: u32,
    },
    /// The policy was set.
    PolicySet {
        choice: PolicyChoice,
        by: String,
    },
    /// Limits were applied.
    LimitsSet {
        limits: AppliedLimits,
    },
    /// A request with a key was accepted.
    RequestAccepted {
        request: AcceptedRequest,
    },
    /// The head continues from a state that may lack acknowledged requests, or begins.
    IncarnationBegan {
        incarnation: String,
        /// Another incarnation that wrote what this state lacks, as far as workers have reported it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lost: Option<String>,
        reason: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeRecord {
    name: String,
    device_type: String,
    devices: u32,
    cpus: u32,
    memory_gib: u32,
    switch: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pool: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WhyRecord {
    Preempted,
    Moved,
    NodeLost,
    Cancelled,
    TimeLimit,
    Requeued,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EndRecord {
    Finished,
    Failed { code: i32 },
    Cancelled,
    TimedOut,
    Rejected,
}

/// A record that does not describe a possible event.
#[derive(Debug, thiserror::Error)]
#[error("a time is not finite")]
pub(crate) struct BadRecord;

impl Record {
    /// The record of an event that was just folded into `state`.
    pub(crate) fn of(event: &Event, state: &State) -> Self {
        match *event {
            Event::NodeJoined { node } => {
                Self::NodeJoined { node: node.0, spec: NodeRecord::of(&state.topology().node(node).spec) }
            }
            Event::NodeLost { node } => Self::NodeLost { node: node.0 },
            Event::NodeReturned { node } => Self::NodeReturned { node: node.0 },
            Event::NodeCordoned { node } => Self::NodeCordoned { node: node.0 },
            Event::NodeOpened { node } => Self::NodeOpened { node: node.0 },
            Event::NodeClosed { node } => Self::NodeClosed { node: node.0 },
            Event::NodeReopened { node } => Self::NodeReopened { node: node.0 },
            Event::DeviceLost { node, device } => Self::DeviceLost { node: node.0, device },
            Event::DeviceReturned { node, device } => Self::DeviceReturned { node: node.0, device },
            Event::ArraySubmitted { first, count } => {
                let index = |id| state.spec(JobId(id)).array.as_ref().map_or(0, |element| element.index);
                let spec = JobSpec { array: None, ..state.spec(first).clone() };
                Self::ArraySubmitted {
                    job: first.0,
                    spec: Box::new(SpecRecord::of(&spec)),
                    indexes: runs((first.0..first.0 + count).map(index)),
                }
            }
            Event::JobSubmitted { job } => {
                Self::JobSubmitted { job: job.0, spec: Box::new(SpecRecord::of(state.spec(job))) }
            }
            Event::IdsSkipped { first, count } => Self::IdsSkipped { job: first.0, count },
            Event::JobPlaced { job, generation } => {
                let shares = state.schedule().placement(job).unwrap_or_default();
                Self::JobPlaced { job: job.0, generation, shares: of_shares(shares) }
            }
            Event::JobLaunched { job, ready, iteration_s } => {
                Self::JobLaunched { job: job.0, ready: ready.seconds(), iteration_s }
            }
            Event::JobRated { job, iteration_s } => Self::JobRated { job: job.0, iteration_s },
            Event::JobSaved { job, done } => Self::JobSaved { job: job.0, done },
            Event::JobGaveWay { job, to, chosen } => {
                let to = to.map(|to| to.0);
                Self::JobGaveWay { job: job.0, to, chosen: ChosenRecord::of(chosen) }
            }
            Event::JobStopping { job, why } => Self::JobStopping { job: job.0, why: WhyRecord::of(why) },
            Event::JobReplaced { job, by } => Self::JobReplaced { job: job.0, by: by.0 },
            Event::JobStopped { job, done } => Self::JobStopped { job: job.0, done },
            Event::JobHeld { job } => Self::JobHeld { job: job.0 },
            Event::JobReleased { job } => Self::JobReleased { job: job.0 },
            Event::JobReprioritised { job, priority } => Self::JobReprioritised { job: job.0, priority },
            Event::JobEnded { job, end } => Self::JobEnded { job: job.0, end: EndRecord::of(end) },
        }
    }

    /// The jobs that it is about, by id.
    pub(crate) fn jobs(&self) -> Range<u32> {
        match self {
            Self::NodeJoined { .. }
            | Self::NodeLost { .. }
            | Self::NodeReturned { .. }
            | Self::NodeCordoned { .. }
            | Self::NodeOpened { .. }
            | Self::NodeClosed { .. }
            | Self::NodeReopened { .. }
            | Self::DeviceLost { .. }
            | Self::DeviceReturned { .. }
            | Self::NodeNoted { .. }
            | Self::NodeLeft { .. }
            | Self::NodeCame { .. }
            | Self::PolicySet { .. }
            | Self::LimitsSet { .. }
            | Self::RequestAccepted { .. }
            | Self::IncarnationBegan { .. } => 0..0,
            Self::IdsSkipped { job, count } => *job..job.saturating_add(*count),
            Self::ArraySubmitted { job, indexes, .. } => {
                let length = |&(first, last): &(u32, u32)| last.saturating_sub(first).saturating_add(1);
                let count = indexes.iter().map(length).fold(0, u32::saturating_add);
                *job..job.saturating_add(count)
            }
            Self::JobSubmitted { job, .. }
            | Self::JobPlaced { job, .. }
            | Self::JobLaunched { job, .. }
            | Self::JobRated { job, .. }
            | Self::JobSaved { job, .. }
            | Self::JobGaveWay { job, .. }
            | Self::JobStopping { job, .. }
            | Self::JobReplaced { job, .. }
            | Self::JobStopped { job, .. }
            | Self::JobHeld { job }
            | Self::JobReleased { job }
            | Self::JobReprioritised { job, .. }
            | Self::JobEnded { job, .. }
            | Self::HoldWanted { job }
            | Self::HoldLifted { job }
            | Self::JobRetried { job }
            | Self::JobNoted { job, .. }
            | Self::JobChanged { job, .. }
            | Self::ArrayChanged { job, .. }
            | Self::JobCaused { job, .. }
            | Self::JobSignalled { job, .. }
            | Self::JobStalled { job, .. }
            | Self::JobDelayed { job, .. }
            | Self::JobPlanned { job, .. }
            | Self::JobAmended { job, .. }
            | Self::JobMeasured { job, .. }
            | Self::JobTimed { job, .. }
            | Self::JobWatched { job, .. } => *job..job.saturating_add(1),
        }
    }

    /// Folds the recorded event into a state.
    pub(crate) fn replay(&self, now: Time, state: &mut State) -> Result<(), BadRecord> {
        let mut apply = |event: Event, detail: Detail<'_>| state.apply(now, &event, detail);
        match self {
            Self::NodeJoined { node, spec } => {
                apply(Event::NodeJoined { node: NodeId(*node) }, Detail::Node(spec.to_core()));
            }
            Self::NodeLost { node } => apply(Event::NodeLost { node: NodeId(*node) }, Detail::None),
            Self::NodeReturned { node } => apply(Event::NodeReturned { node: NodeId(*node) }, Detail::None),
            Self::NodeCordoned { node } => apply(Event::NodeCordoned { node: NodeId(*node) }, Detail::None),
            Self::NodeOpened { node } => apply(Event::NodeOpened { node: NodeId(*node) }, Detail::None),
            Self::NodeClosed { node } => apply(Event::NodeClosed { node: NodeId(*node) }, Detail::None),
            Self::NodeReopened { node } => apply(Event::NodeReopened { node: NodeId(*node) }, Detail::None),
            Self::DeviceLost { node, device } => {
                apply(Event::DeviceLost { node: NodeId(*node), device: *device }, Detail::None);
            }
            Self::DeviceReturned { node, device } => {
                apply(Event::DeviceReturned { node: NodeId(*node), device: *device }, Detail::None);
            }
            Self::ArraySubmitted { job, spec, indexes } => {
                let indexes: Vec<u32> = indexes.iter().flat_map(|&(first, last)| first..=last).collect();
                let event = Event::ArraySubmitted { first: JobId(*job), count: indexes.len() as u32 };
                apply(event, Detail::Array(spec.to_core()?, &indexes));
            }
            Self::JobSubmitted { job, spec } => {
                apply(Event::JobSubmitted { job: JobId(*job) }, Detail::Spec(spec.to_core()?));
            }
            Self::IdsSkipped { job, count } => {
                apply(Event::IdsSkipped { first: JobId(*job), count: *count }, Detail::None);
            }
            Self::JobPlaced { job, generation, shares } => {
                let shares: Vec<NodeShare> = shares.iter().map(to_share).collect();
                let event = Event::JobPlaced { job: JobId(*job), generation: *generation };
                apply(event, Detail::Placement(&shares));
            }
            Self::JobLaunched { job, ready, iteration_s } => {
                let ready = Time::try_new(*ready).ok_or(BadRecord)?;
                apply(
                    Event::JobLaunched { job: JobId(*job), ready, iteration_s: *iteration_s },
                    Detail::None,
                );
            }
            Self::JobRated { job, iteration_s } => {
                apply(Event::JobRated { job: JobId(*job), iteration_s: *iteration_s }, Detail::None);
            }
            Self::JobSaved { job, done } => {
                apply(Event::JobSaved { job: JobId(*job), done: *done }, Detail::None);
            }
            Self::JobGaveWay { job, to, chosen } => {
                let (to, chosen) = (to.map(JobId), chosen.to_core());
                apply(Event::JobGaveWay { job: JobId(*job), to, chosen }, Detail::None);
            }
            Self::JobStopping { job, why } => {
                apply(Event::JobStopping { job: JobId(*job), why: why.to_core() }, Detail::None);
            }
            Self::JobReplaced { job, by } => {
                apply(Event::JobReplaced { job: JobId(*job), by: JobId(*by) }, Detail::None);
            }
            Self::JobStopped { job, done } => {
                apply(Event::JobStopped { job: JobId(*job), done: *done }, Detail::None);
            }
            Self::JobHeld { job } => apply(Event::JobHeld { job: JobId(*job) }, Detail::None),
            Self::JobReleased { job } => apply(Event::JobReleased { job: JobId(*job) }, Detail::None),
            Self::JobReprioritised { job, priority } => {
                apply(Event::JobReprioritised { job: JobId(*job), priority: *priority }, Detail::None);
            }
            Self::JobEnded { job, end } => {
                apply(Event::JobEnded { job: JobId(*job), end: end.to_core() }, Detail::None);
            }
            // The head's own, unknown to the engine.
            Self::PolicySet { .. }
            | Self::LimitsSet { .. }
            | Self::RequestAccepted { .. }
            | Self::IncarnationBegan { .. }
            | Self::HoldWanted { .. }
            | Self::HoldLifted { .. }
            | Self::JobRetried { .. }
            | Self::JobNoted { .. }
            | Self::JobChanged { .. }
            | Self::ArrayChanged { .. }
            | Self::JobCaused { .. }
            | Self::JobSignalled { .. }
            | Self::JobStalled { .. }
            | Self::JobDelayed { .. }
            | Self::JobPlanned { .. }
            | Self::JobAmended { .. }
            | Self::JobMeasured { .. }
            | Self::JobTimed { .. }
            | Self::JobWatched { .. }
            | Self::NodeLeft { .. }
            | Self::NodeCame { .. }
            | Self::NodeNoted { .. } => {}
        }
        Ok(())
    }
}

pub(crate) fn of_shares(shares: &[NodeShare]) -> Vec<(u32, Vec<u32>)> {
    shares.iter().map(|share| (share.node.0, share.devices.iter().collect())).collect()
}

/// First and last of each run of consecutive numbers.
fn runs(numbers: impl Iterator<Item = u32>) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => runs.push((number, number)),
        }
    }
    runs
}

pub(crate) fn to_share((node, devices): &(u32, Vec<u32>)) -> NodeShare {
    let mut set = DeviceSet::EMPTY;
    for &device in devices {
        set.insert(device);
    }
    NodeShare::new(NodeId(*node), set)
}

impl NodeRecord {
    pub(crate) fn device_type(&self) -> &str {
        &self.device_type
    }

    pub(crate) fn of(spec: &NodeSpec) -> Self {
        Self {
            name: spec.name.to_string(),
            device_type: spec.device_type.to_string(),
            devices: spec.devices,
            cpus: spec.cpus,
            memory_gib: spec.memory_gib,
            switch: spec.switch,
            pool: spec.pool.to_string(),
        }
    }

    pub(crate) fn to_core(&self) -> NodeSpec {
        NodeSpec {
            name: self.name.as_str().into(),
            device_type: self.device_type.as_str().into(),
            devices: self.devices,
            cpus: self.cpus,
            memory_gib: self.memory_gib,
            switch: self.switch,
            pool: self.pool.as_str().into(),
            details: None,
        }
    }
}

impl WhyRecord {
    fn of(why: StopReason) -> Self {
        match why {
            StopReason::Preempted => Self::Preempted,
            StopReason::Moved => Self::Moved,
            StopReason::NodeLost => Self::NodeLost,
            StopReason::Cancelled => Self::Cancelled,
            StopReason::TimeLimit => Self::TimeLimit,
            StopReason::Requeued => Self::Requeued,
        }
    }

    fn to_core(self) -> StopReason {
        match self {
            Self::Preempted => StopReason::Preempted,
            Self::Moved => StopReason::Moved,
            Self::NodeLost => StopReason::NodeLost,
            Self::Cancelled => StopReason::Cancelled,
            Self::TimeLimit => StopReason::TimeLimit,
            Self::Requeued => StopReason::Requeued,
        }
    }
}

impl EndRecord {
    pub(crate) fn of(end: JobEnd) -> Self {
        match end {
            JobEnd::Finished => Self::Finished,
            JobEnd::Failed { code } => Self::Failed { code },
            JobEnd::Cancelled => Self::Cancelled,
            JobEnd::TimedOut => Self::TimedOut,
            JobEnd::Rejected => Self::Rejected,
        }
    }

    pub(crate) fn to_core(self) -> JobEnd {
        match self {
            Self::Finished => JobEnd::Finished,
            Self::Failed { code } => JobEnd::Failed { code },
            Self::Cancelled => JobEnd::Cancelled,
            Self::TimedOut => JobEnd::TimedOut,
            Self::Rejected => JobEnd::Rejected,
        }
    }
}
