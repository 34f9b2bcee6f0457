//! Why a run cannot be simulated.

use crate::InputError;

/// An input that this mechanism cannot run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CriusError {
    /// The cluster has no device.
    #[error("the cluster has no devices")]
    NoDevices,
    /// There are no tables.
    #[error("this preset takes all speeds from the tables that come with Crius, and there are none")]
    NoCells,
    /// A job does not state what it trains.
    #[error("job `{job}` names no model or no batch size, so no table can tell its speed")]
    NoModel {
        /// The job.
        job: String,
    },
    /// A job asks for no devices.
    #[error("job `{job}` asks for no devices")]
    NoGang {
        /// The job.
        job: String,
    },
    /// A job asks for devices that no node has.
    #[error("job `{job}` asks for devices of type `{device_type}`, and the cluster has {known}")]
    NoType {
        /// The job.
        job: String,
        /// The type; empty where it asks for none.
        device_type: String,
        /// What there is.
        known: String,
    },
}

impl InputError for CriusError {
    fn job(&self) -> Option<&str> {
        match self {
            Self::NoModel { job } | Self::NoGang { job } | Self::NoType { job, .. } => Some(job),
            _ => None,
        }
    }

    fn hint(&self) -> Option<&'static str> {
        matches!(self, Self::NoCells).then_some(
            "give the folder with `prof_database.json` and the tables beside it: `--profile FOLDER`",
        )
    }
}
