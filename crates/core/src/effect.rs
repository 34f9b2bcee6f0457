//! What comes in from outside, and what the outside must do.

use crate::cluster::NodeSpec;
use crate::ids::{JobId, NodeId};
use crate::job::JobSpec;
use crate::time::Time;

/// Something that the outside wants or tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// A node joins the cluster.
    AddNode(NodeSpec),
    /// A node cannot be reached any more.
    LoseNode(NodeId),
    /// A lost node is there again.
    ReturnNode(NodeId),
    /// A user submits a job.
    SubmitJob(JobSpec),
    /// A user does not want a job any more.
    CancelJob(JobId),
    /// A job's processes run; iterations begin at `ready`.
    JobLaunched {
        /// The job.
        job: JobId,
        /// The placement that this is about.
        generation: u32,
        /// When iterations begin.
        ready: Time,
    },
    /// A job gave its devices back.
    JobStopped {
        /// The job.
        job: JobId,
        /// The placement that this is about.
        generation: u32,
        /// Iterations that its last checkpoint holds.
        done: f64,
    },
    /// A job's processes ended by themselves.
    JobExited {
        /// The job.
        job: JobId,
        /// The placement that this is about.
        generation: u32,
        /// The exit code.
        code: i32,
    },
}

/// Something that the outside must do. It has no choice left to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Start a job's processes on its placement; answered by [`Command::JobLaunched`].
    Launch {
        /// The job.
        job: JobId,
        /// Which placement; a later one makes this stale.
        generation: u32,
    },
    /// Checkpoint and stop a job's processes; answered by [`Command::JobStopped`] (or [`Command::JobExited`], where
    /// the job was faster).
    Stop {
        /// The job.
        job: JobId,
        /// Which placement.
        generation: u32,
    },
}
