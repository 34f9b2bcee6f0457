//! What happened. Every change of the state is one of these.

use std::fmt;

use crate::cluster::{NodeShare, NodeSpec};
use crate::ids::{JobId, NodeId};
use crate::job::JobSpec;
use crate::time::Time;

/// A change, in the past tense. Small and `Copy`: specs and placements are in the state's tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A node became part of the cluster ([`Detail::Node`]).
    NodeJoined {
        /// The node.
        node: NodeId,
    },
    /// A node cannot be used any more.
    NodeLost {
        /// The node.
        node: NodeId,
    },
    /// A lost node can be used again.
    NodeReturned {
        /// The node.
        node: NodeId,
    },
    /// A node gets no new jobs; those on it continue.
    NodeCordoned {
        /// The node.
        node: NodeId,
    },
    /// A cordoned node may get jobs again.
    NodeOpened {
        /// The node.
        node: NodeId,
    },
    /// A node is kept for a reservation, or for a job that has waited too long; those on it continue.
    NodeClosed {
        /// The node.
        node: NodeId,
    },
    /// A node that was kept may get any job again.
    NodeReopened {
        /// The node.
        node: NodeId,
    },
    /// A device must not be used any more.
    DeviceLost {
        /// The node.
        node: NodeId,
        /// The device's index in it.
        device: u32,
    },
    /// A lost device can be used again.
    DeviceReturned {
        /// The node.
        node: NodeId,
        /// The device's index in it.
        device: u32,
    },
    /// A job entered the system ([`Detail::Spec`]).
    JobSubmitted {
        /// The job.
        job: JobId,
    },
    /// All elements of an array entered the system, with consecutive ids ([`Detail::Array`]).
    ArraySubmitted {
        /// The first element.
        first: JobId,
        /// How many elements there are.
        count: u32,
    },
    /// Ids are left out: an earlier copy of the state may have given them to jobs that this one does not contain.
    IdsSkipped {
        /// The first of them.
        first: JobId,
        /// How many.
        count: u32,
    },
    /// A job was given devices ([`Detail::Placement`]).
    JobPlaced {
        /// The job.
        job: JobId,
        /// Counts the job's placements; what refers to an older one is stale.
        generation: u32,
    },
    /// A job's processes run; iterations are made from `ready` on.
    JobLaunched {
        /// The job.
        job: JobId,
        /// When the restart is over and iterations begin.
        ready: Time,
        /// How long an iteration takes.
        iteration_s: f64,
    },
    /// A running job became faster or slower, because its neighbours changed.
    JobRated {
        /// The job.
        job: JobId,
        /// How long an iteration takes now.
        iteration_s: f64,
    },
    /// A running job saved its work.
    JobSaved {
        /// The job.
        job: JobId,
        /// Iterations that the checkpoint holds.
        done: f64,
    },
    /// A placed job was chosen to make room; it is requested to stop next.
    JobGaveWay {
        /// The job.
        job: JobId,
        /// The job that gets its devices, where it is one.
        to: Option<JobId>,
        /// Why this one.
        chosen: Chosen,
    },
    /// A placed job was requested to give its devices back.
    JobStopping {
        /// The job.
        job: JobId,
        /// On whose account.
        why: StopReason,
    },
    /// Of the devices that a job was requested to give back, some were given to another in the same decision.
    JobReplaced {
        /// The job that gives them back.
        job: JobId,
        /// The first of those that get them.
        by: JobId,
    },
    /// A job gave its devices back and waits again.
    JobStopped {
        /// The job.
        job: JobId,
        /// Iterations that its last checkpoint holds.
        done: f64,
    },
    /// A waiting job must not start for now.
    JobHeld {
        /// The job.
        job: JobId,
    },
    /// A held job may start again.
    JobReleased {
        /// The job.
        job: JobId,
    },
    /// A job became more or less urgent.
    JobReprioritised {
        /// The job.
        job: JobId,
        /// Its priority from now on.
        priority: i32,
    },
    /// A job has ended.
    JobEnded {
        /// The job.
        job: JobId,
        /// How.
        end: JobEnd,
    },
}

// A million jobs make several million events: they must stay small.
const _: () = assert!(size_of::<Event>() <= 24);

/// Why a placed job has to give its devices back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The policy gave the devices to another job.
    Preempted,
    /// The policy moves it to other devices, or regroups it.
    Moved,
    /// A node of its gang was lost.
    NodeLost,
    /// Its user does not want it any more.
    Cancelled,
    /// It has run as long as it may.
    TimeLimit,
    /// It was requeued, or it failed and is retried.
    Requeued,
}

/// Why a job was the one that had to make room for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// It comes last in the policy's order.
    LastInOrder,
    /// Of those that come later, it has the lowest priority.
    LowestPriority,
    /// Of those that are equal in that, it loses the least work.
    LeastUnsavedWork,
    /// Of those that are equal in that too, it has the fewest devices.
    FewestDevices,
    /// Its owner has more than a fair share.
    AboveShare,
    /// The policy's new schedule has no place for it.
    NotInRound,
    /// It ran on devices that no other job could use, and is preempted by a job that can.
    Opportunistic,
    /// It continues with other devices.
    Reshaped,
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LastInOrder => "last in order",
            Self::LowestPriority => "lowest priority",
            Self::LeastUnsavedWork => "least unsaved work",
            Self::FewestDevices => "fewest devices",
            Self::AboveShare => "above share",
            Self::NotInRound => "not selected for this round",
            Self::Opportunistic => "it ran opportunistically",
            Self::Reshaped => "it continues on other devices",
        })
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// All its work is done.
    Finished,
    /// Its command ended with this code.
    Failed {
        /// The exit code.
        code: i32,
    },
    /// It was cancelled.
    Cancelled,
    /// It was stopped when it had run as long as it may.
    TimedOut,
    /// No placement in this cluster could ever hold it.
    Rejected,
}

/// What an event brings along beside its ids.
#[derive(Clone, Debug, PartialEq)]
pub enum Detail<'a> {
    /// Nothing.
    None,
    /// The spec of a submitted job.
    Spec(JobSpec),
    /// The spec that all elements of a submitted array share, and the elements' indexes.
    Array(JobSpec, &'a [u32]),
    /// The devices of a placed job.
    Placement(&'a [NodeShare]),
    /// The spec of a node that joined.
    Node(NodeSpec),
}
