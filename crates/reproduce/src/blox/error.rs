//! Why a run cannot be simulated.

use crate::InputError;

/// An input that this mechanism cannot run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BloxError {
    /// The cluster has no device.
    #[error("the cluster has no devices")]
    NoDevices,
    /// A node with more devices than Wharf handles.
    #[error("node {node} has {devices} devices, more than Wharf handles in one node")]
    LargeNode {
        /// The node.
        node: String,
        /// Its devices.
        devices: u32,
    },
    /// A job asks for no devices.
    #[error("job {job} asks for no devices")]
    NoGang {
        /// The job.
        job: String,
    },
    /// A job finds no place even on the empty cluster.
    #[error(
        "job {job} needs {devices} devices, which this mechanism never finds: it takes all devices of node after node, \
         and they must add up to exactly that"
    )]
    NoPlace {
        /// The job.
        job: String,
        /// What it asks for.
        devices: u32,
    },
    /// A job's length is not a number of seconds.
    #[error("job {job} has {iterations} iterations of {iteration_ms} ms, which is no length")]
    NoLength {
        /// The job.
        job: String,
        /// Its iterations.
        iterations: f64,
        /// Its iteration time.
        iteration_ms: f64,
    },
    /// A job that needs more rounds than can be counted through.
    #[error("job {job} takes {seconds:e} s, too many rounds to go through")]
    TooLong {
        /// The job.
        job: String,
        /// Its length.
        seconds: f64,
    },
    /// Tracked jobs that the trace does not have.
    #[error("job {last} is to be tracked, but the trace ends before it, with {jobs} jobs")]
    Window {
        /// The last tracked job, from 0.
        last: u32,
        /// The trace's jobs.
        jobs: usize,
    },
}

impl InputError for BloxError {
    fn job(&self) -> Option<&str> {
        match self {
            Self::NoGang { job }
            | Self::NoPlace { job, .. }
            | Self::NoLength { job, .. }
            | Self::TooLong { job, .. } => Some(job),
            _ => None,
        }
    }
}
