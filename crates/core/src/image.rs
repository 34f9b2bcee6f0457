//! The whole state as plain values, so that a snapshot can be kept and read without replaying what led to it.

use crate::cluster::{ClusterSpec, DeviceSet, NodeShare, NodeSpec};
use crate::event::JobEnd;
use crate::ids::{JobId, NodeId};
use crate::job::JobSpec;
use crate::reshape::Reshapes;
use crate::state::{GaveWay, JobState, Phase, State};
use crate::time::Time;

/// A node with what changes about it.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeImage {
    /// What was declared.
    pub spec: NodeSpec,
    /// Whether it is there.
    pub is_there: bool,
    /// Whether it gets no new jobs.
    pub is_cordoned: bool,
    /// Whether it is reserved.
    pub is_closed: bool,
    /// Devices that must not be used.
    pub broken: DeviceSet,
}

/// A job with everything that its life has come to. The names are those of [`JobState`].
#[derive(Clone, Debug, PartialEq)]
pub struct JobImage {
    /// The request.
    pub spec: JobSpec,
    /// Its devices in the schedule.
    pub placement: Option<Box<[NodeShare]>>,
    /// Where it is in its life.
    pub phase: Phase,
    /// Counts its placements.
    pub generation: u32,
    /// When it first had devices.
    pub first_start: Option<Time>,
    /// When it ended.
    pub end: Option<Time>,
    /// How often the scheduler stopped it before its end.
    pub preemptions: u32,
    /// Iterations done at `since`.
    pub done: f64,
    /// From when on iterations are made.
    pub since: Time,
    /// How long an iteration takes; infinite before the first launch.
    pub iteration_s: f64,
    /// Seconds with devices, up to `placed_at`.
    pub attained_s: f64,
    /// When it last got devices.
    pub placed_at: Time,
    /// When its work was last safe.
    pub saved_at: Time,
    /// How it last made room for another.
    pub gave_way: Option<GaveWay>,
    /// How often it was started on other devices than the last time.
    pub reshapes: Reshapes,
    /// The devices that it gives back, or gave back last.
    pub left: Option<Box<[NodeShare]>>,
    /// The placement that it is leaving.
    pub leaving_generation: u32,
    /// How it ends as soon as it has stopped.
    pub ending: Option<JobEnd>,
}

impl State {
    /// A node as it is.
    pub fn node_image(&self, node: NodeId) -> NodeImage {
        NodeImage {
            spec: self.topology().node(node).spec.clone(),
            is_there: self.schedule().is_there(node),
            is_cordoned: self.schedule().is_cordoned(node),
            is_closed: self.schedule().is_closed(node),
            broken: self.schedule().broken(node),
        }
    }

    /// A job as it is.
    pub fn job_image(&self, job: JobId) -> JobImage {
        let life = self.job(job);
        JobImage {
            spec: self.spec(job).clone(),
            placement: self.schedule().placement(job).map(Into::into),
            phase: life.phase,
            generation: life.generation,
            first_start: life.first_start,
            end: life.end,
            preemptions: life.preemptions,
            done: life.done,
            since: life.since,
            iteration_s: life.iteration_s,
            attained_s: life.attained_s,
            placed_at: life.placed_at,
            saved_at: life.saved_at,
            gave_way: life.gave_way,
            reshapes: life.reshapes,
            left: life.left.clone(),
            leaving_generation: life.leaving_generation,
            ending: life.ending,
        }
    }

    /// The state that these are images of: nodes and jobs by id.
    pub fn from_images(
        slots: usize,
        nodes: impl IntoIterator<Item = NodeImage>,
        jobs: impl IntoIterator<Item = JobImage>,
    ) -> Self {
        let nodes: Vec<NodeImage> = nodes.into_iter().collect();
        let specs = nodes.iter().map(|image| image.spec.clone()).collect();
        let mut state = Self::new(&ClusterSpec::of(specs), slots);
        for image in jobs {
            state.add_image(image);
        }
        for (index, image) in nodes.iter().enumerate() {
            state.set_node(NodeId::from_index(index), image);
        }
        state
    }
}

impl JobImage {
    /// Splits what a job asked for, its life and its placement.
    pub(crate) fn into_parts(self) -> (JobSpec, JobState, Option<Box<[NodeShare]>>) {
        let life = JobState {
            phase: self.phase,
            generation: self.generation,
            first_start: self.first_start,
            end: self.end,
            preemptions: self.preemptions,
            done: self.done,
            since: self.since,
            iteration_s: self.iteration_s,
            attained_s: self.attained_s,
            placed_at: self.placed_at,
            saved_at: self.saved_at,
            gave_way: self.gave_way,
            reshapes: self.reshapes,
            left: self.left,
            leaving_generation: self.leaving_generation,
            ending: self.ending,
        };
        (self.spec, life, self.placement)
    }
}
