//! Why a run cannot be simulated.

use crate::InputError;

/// An input that this mechanism cannot run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MuriError {
    /// The cluster has no device.
    #[error("the cluster has no devices")]
    NoDevices,
    /// Nodes differ in their number of devices.
    #[error(
        "node {node} has {devices} devices where others have {expected}: this mechanism needs equal nodes"
    )]
    UnequalNodes {
        /// The first node that differs.
        node: String,
        /// Its devices.
        devices: u32,
        /// The devices of the nodes before it.
        expected: u32,
    },
    /// A job asks for no devices.
    #[error("job {job} asks for no devices")]
    NoGang {
        /// The job.
        job: String,
    },
    /// A job can never run on this cluster.
    #[error("job {job} needs {devices} devices at once, more than the cluster can give it")]
    TooLarge {
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
    /// The policy needs stage times that the job does not have.
    #[error("job {job} has no usable stage times, which {policy} needs")]
    NoStages {
        /// The job.
        job: String,
        /// The policy's name.
        policy: &'static str,
    },
    /// A group size that the interleaving model does not cover.
    #[error("packing_num is {value}, not 1 to 4")]
    GroupSize {
        /// The setting.
        value: usize,
    },
    /// A number of resources that the interleaving model does not cover.
    #[error("multi_resource is {value}, not 3 or 4")]
    Resources {
        /// The preset's number.
        value: u32,
    },
    /// A variant that the published code does not have.
    #[error("{policy} has no variant {variant}")]
    NoVariant {
        /// The policy's name.
        policy: &'static str,
        /// The request.
        variant: &'static str,
    },
}

impl InputError for MuriError {
    fn job(&self) -> Option<&str> {
        match self {
            Self::NoGang { job }
            | Self::TooLarge { job, .. }
            | Self::NoLength { job, .. }
            | Self::NoStages { job, .. } => Some(job),
            _ => None,
        }
    }

    fn hint(&self) -> Option<&'static str> {
        matches!(self, Self::TooLarge { .. })
            .then_some("`wharf trace lint FILE --cluster CLUSTER` lists every job that does not fit")
    }
}
