//! Why a run cannot be simulated.

use crate::InputError;

/// An input that this mechanism cannot run.
#[derive(Debug, thiserror::Error)]
pub enum GavelError {
    /// The cluster has no device.
    #[error("the cluster has no devices")]
    NoDevices,
    /// There are no speeds.
    #[error("this preset takes all speeds from a profile, and there is none")]
    NoProfile,
    /// A job asks for no devices.
    #[error("job `{job}` asks for no devices")]
    NoGang {
        /// The job.
        job: String,
    },
    /// A job has nothing to do.
    #[error("job `{job}` has {iterations} iterations, expected more than 0")]
    NoLength {
        /// The job.
        job: String,
        /// Its iterations.
        iterations: f64,
    },
    /// A job does not state what it trains.
    #[error("job `{job}` names no model, so no profile can tell its speed")]
    NoModel {
        /// The job.
        job: String,
    },
    /// The profile does not know the job on a type.
    #[error(
        "job `{job}`: the profile has no speed of {workload} on {devices} devices of type `{device_type}`; {known}"
    )]
    NoSpeed {
        /// The job.
        job: String,
        /// What it trains.
        workload: String,
        /// Its gang.
        devices: u32,
        /// The type.
        device_type: String,
        /// What the profile does know of it.
        known: String,
    },
    /// A job can never run on this cluster.
    #[error(
        "job `{job}` needs {devices} devices of one type that it runs on, and no type has more than {most}"
    )]
    TooLarge {
        /// The job.
        job: String,
        /// What it asks for.
        devices: u32,
        /// The most devices of a type that it runs on.
        most: u32,
    },
    /// A job runs nowhere.
    #[error("job `{job}` ({workload} on {devices} devices) has speed 0 on every type of the cluster")]
    NoFit {
        /// The job.
        job: String,
        /// What it trains.
        workload: String,
        /// Its gang.
        devices: u32,
    },
    /// AlloX cannot place gangs.
    #[error("job `{job}` needs {devices} devices, and AlloX knows jobs of one device only")]
    OneDeviceOnly {
        /// The job.
        job: String,
        /// What it asks for.
        devices: u32,
    },
    /// A preset's price is missing.
    #[error("the preset has no price of type `{device_type}`, which {policy} needs")]
    NoPrice {
        /// The type.
        device_type: String,
        /// The policy's name.
        policy: &'static str,
    },
    /// More pairs than are kept.
    #[error(
        "{jobs} jobs at a time make more than {most} pairs; use a policy without packing, or another preset"
    )]
    TooManyPairs {
        /// Jobs at the same time.
        jobs: usize,
        /// The most pairs.
        most: usize,
    },
    /// Time stands still.
    #[error(
        "nothing can run any more: job `{job}` waits, and {policy} never gives it devices that it can use; the published \
         simulator would wait indefinitely"
    )]
    Stalled {
        /// The first job that waits.
        job: String,
        /// The policy's name.
        policy: &'static str,
    },
    /// Recorded allocations cannot be read.
    #[error("cannot read allocations `{path}`")]
    ReadAllocations {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Recorded allocations are not as expected.
    #[error("allocations `{path}`{place}: {problem}")]
    Allocations {
        /// The file.
        path: String,
        /// Which of them, where it is one.
        place: String,
        /// What is wrong, and what would do.
        problem: String,
    },
}

impl InputError for GavelError {
    fn job(&self) -> Option<&str> {
        match self {
            Self::NoGang { job }
            | Self::NoLength { job, .. }
            | Self::NoModel { job }
            | Self::NoSpeed { job, .. }
            | Self::TooLarge { job, .. }
            | Self::NoFit { job, .. }
            | Self::OneDeviceOnly { job, .. } => Some(job),
            _ => None,
        }
    }

    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoProfile => {
                Some("give one with `--profile PATH`, such as Gavel's `simulation_throughputs.json`")
            }
            Self::NoSpeed { .. } | Self::NoModel { .. } => Some(
                "add it to the profile, drop the job, or use the preset `wharf`, which estimates what is not measured",
            ),
            Self::TooLarge { .. } | Self::NoFit { .. } => {
                Some("drop the job, or use a cluster that can hold it")
            }
            Self::OneDeviceOnly { .. } => Some("`allox` under the preset `wharf` also takes gangs"),
            Self::TooManyPairs { .. } => Some("the preset `wharf` packs without a list of pairs"),
            Self::Allocations { .. } => {
                Some("a recording fits only the trace, cluster, policy and seed that it was made with")
            }
            _ => None,
        }
    }
}
