//! Why a run cannot be simulated.

use crate::InputError;

/// An input that this mechanism cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FgdError {
    /// The cluster has no device.
    #[error("the cluster has no devices")]
    NoDevices,
    /// A job that is no request for CPUs, memory and parts of devices.
    #[error("job {job} does not say what part of a device it needs")]
    NoPortion {
        /// The job.
        job: String,
    },
    /// No job asks for a device, so that no number of them makes up the load.
    #[error("no job of the trace asks for a device")]
    NoDemand,
}

impl InputError for FgdError {
    fn job(&self) -> Option<&str> {
        match self {
            Self::NoPortion { job } => Some(job),
            Self::NoDevices | Self::NoDemand => None,
        }
    }

    fn hint(&self) -> Option<&'static str> {
        matches!(self, Self::NoPortion { .. })
            .then_some("pods have CPUs, memory and parts of GPUs: read `openb_pod_list_*.csv` with `--format openb-pods`")
    }
}
