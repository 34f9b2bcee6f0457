//! What the journal keeps: wire types of their own, so that core types make no promise about their shape.

use serde::{Deserialize, Serialize};
use wharf_core::{
    Detail, DeviceSet, Event, Gang, JobEnd, JobId, JobSpec, NodeId, NodeShare, NodeSpec, State, StopReason,
    Time,
};

/// One line of the journal: an event with everything that the fold needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Record {
    NodeJoined { node: u32, spec: NodeRecord },
    NodeLost { node: u32 },
    NodeReturned { node: u32 },
    JobSubmitted { job: u32, spec: Box<SpecRecord> },
    JobPlaced { job: u32, generation: u32, shares: Vec<(u32, Vec<u32>)> },
    JobLaunched { job: u32, ready: f64, iteration_s: f64 },
    JobRated { job: u32, iteration_s: f64 },
    JobStopping { job: u32, why: WhyRecord },
    JobStopped { job: u32, done: f64 },
    JobHeld { job: u32 },
    JobReleased { job: u32 },
    JobReprioritised { job: u32, priority: i32 },
    JobEnded { job: u32, end: EndRecord },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeRecord {
    name: String,
    device_type: String,
    devices: u32,
    cpus: u32,
    memory_gib: u32,
    switch: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SpecRecord {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    submit_s: f64,
    devices: u32,
    devices_min: u32,
    devices_max: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    device_types: Vec<String>,
    iterations: f64,
    iteration_ms: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    duration_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    batch_size: Option<u32>,
    priority: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WhyRecord {
    Preempted,
    Moved,
    NodeLost,
    Cancelled,
    Requeued,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EndRecord {
    Finished,
    Failed { code: i32 },
    Cancelled,
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
            Event::JobSubmitted { job } => {
                Self::JobSubmitted { job: job.0, spec: Box::new(SpecRecord::of(state.spec(job))) }
            }
            Event::JobPlaced { job, generation } => {
                let shares = state.schedule().placement(job).unwrap_or_default();
                let shares =
                    shares.iter().map(|share| (share.node.0, share.devices.iter().collect())).collect();
                Self::JobPlaced { job: job.0, generation, shares }
            }
            Event::JobLaunched { job, ready, iteration_s } => {
                Self::JobLaunched { job: job.0, ready: ready.seconds(), iteration_s }
            }
            Event::JobRated { job, iteration_s } => Self::JobRated { job: job.0, iteration_s },
            Event::JobStopping { job, why } => Self::JobStopping { job: job.0, why: WhyRecord::of(why) },
            Event::JobStopped { job, done } => Self::JobStopped { job: job.0, done },
            Event::JobHeld { job } => Self::JobHeld { job: job.0 },
            Event::JobReleased { job } => Self::JobReleased { job: job.0 },
            Event::JobReprioritised { job, priority } => Self::JobReprioritised { job: job.0, priority },
            Event::JobEnded { job, end } => Self::JobEnded { job: job.0, end: EndRecord::of(end) },
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
            Self::JobSubmitted { job, spec } => {
                apply(Event::JobSubmitted { job: JobId(*job) }, Detail::Spec(spec.to_core()?));
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
            Self::JobStopping { job, why } => {
                apply(Event::JobStopping { job: JobId(*job), why: why.to_core() }, Detail::None);
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
        }
        Ok(())
    }
}

fn to_share((node, devices): &(u32, Vec<u32>)) -> NodeShare {
    let mut set = DeviceSet::EMPTY;
    for &device in devices {
        set.insert(device);
    }
    NodeShare { node: NodeId(*node), devices: set }
}

impl NodeRecord {
    fn of(spec: &NodeSpec) -> Self {
        Self {
            name: spec.name.to_string(),
            device_type: spec.device_type.to_string(),
            devices: spec.devices,
            cpus: spec.cpus,
            memory_gib: spec.memory_gib,
            switch: spec.switch,
        }
    }

    fn to_core(&self) -> NodeSpec {
        NodeSpec {
            name: self.name.as_str().into(),
            device_type: self.device_type.as_str().into(),
            devices: self.devices,
            cpus: self.cpus,
            memory_gib: self.memory_gib,
            switch: self.switch,
        }
    }
}

impl SpecRecord {
    fn of(spec: &JobSpec) -> Self {
        Self {
            name: spec.name.to_string(),
            user: spec.user.as_deref().map(str::to_owned),
            submit_s: spec.submit.seconds(),
            devices: spec.gang.devices,
            devices_min: spec.gang.devices_min,
            devices_max: spec.gang.devices_max,
            device_types: spec.gang.device_types.iter().map(|name| name.to_string()).collect(),
            iterations: spec.iterations,
            iteration_ms: spec.iteration_ms,
            duration_s: spec.duration_s,
            model: spec.model.as_deref().map(str::to_owned),
            batch_size: spec.batch_size,
            priority: spec.priority,
        }
    }

    fn to_core(&self) -> Result<JobSpec, BadRecord> {
        let submit = Time::try_new(self.submit_s).ok_or(BadRecord)?;
        let gang = Gang {
            devices: self.devices,
            devices_min: self.devices_min,
            devices_max: self.devices_max,
            device_types: self.device_types.iter().map(|name| name.as_str().into()).collect(),
        };
        Ok(JobSpec {
            user: self.user.as_deref().map(Into::into),
            gang,
            duration_s: self.duration_s,
            model: self.model.as_deref().map(Into::into),
            batch_size: self.batch_size,
            priority: self.priority,
            ..JobSpec::new(&self.name, submit, self.devices, self.iterations, self.iteration_ms)
        })
    }
}

impl WhyRecord {
    fn of(why: StopReason) -> Self {
        match why {
            StopReason::Preempted => Self::Preempted,
            StopReason::Moved => Self::Moved,
            StopReason::NodeLost => Self::NodeLost,
            StopReason::Cancelled => Self::Cancelled,
            StopReason::Requeued => Self::Requeued,
        }
    }

    fn to_core(self) -> StopReason {
        match self {
            Self::Preempted => StopReason::Preempted,
            Self::Moved => StopReason::Moved,
            Self::NodeLost => StopReason::NodeLost,
            Self::Cancelled => StopReason::Cancelled,
            Self::Requeued => StopReason::Requeued,
        }
    }
}

impl EndRecord {
    fn of(end: JobEnd) -> Self {
        match end {
            JobEnd::Finished => Self::Finished,
            JobEnd::Failed { code } => Self::Failed { code },
            JobEnd::Cancelled => Self::Cancelled,
            JobEnd::Rejected => Self::Rejected,
        }
    }

    fn to_core(self) -> JobEnd {
        match self {
            Self::Finished => JobEnd::Finished,
            Self::Failed { code } => JobEnd::Failed { code },
            Self::Cancelled => JobEnd::Cancelled,
            Self::Rejected => JobEnd::Rejected,
        }
    }
}
