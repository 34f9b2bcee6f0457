//! Errors of replays.

use wharf_client::ClientError;
use wharf_policy::UnknownPolicy;
use wharf_sim::{BadSetting, PresetError, RunError};

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The head does not answer, or refuses.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The plan cannot be simulated.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The policy does not exist.
    #[error(transparent)]
    Policy(#[from] UnknownPolicy),
    /// A setting has a value that it cannot have.
    #[error(transparent)]
    Setting(#[from] BadSetting),
    /// The built-in rules cannot be loaded.
    #[error(transparent)]
    Preset(#[from] PresetError),
    /// The built-in rules are those of another system.
    #[error("the default preset is not Wharf's own")]
    ForeignPreset,
    /// A setting is a property of the machines.
    #[error("`{key}` cannot be set: it is a property of the machines")]
    MachineProperty {
        /// The setting.
        key: &'static str,
    },
    /// A job requests something that a head does not store.
    #[error(
        "cannot submit job `{job}`: a cluster runs requests of whole devices with CPUs and memory for each, this one has more"
    )]
    Request {
        /// The job.
        job: String,
    },
    /// A cluster has something that declared nodes cannot have.
    #[error(
        "cannot replay on this cluster: its nodes must have devices of one type, without named resources, and no licences"
    )]
    MixedCluster,
    /// No job starts in the simulation.
    #[error("the replay starts no job: {0}")]
    NoLaunch(NoLaunch),
    /// The trial job has not run.
    #[error("cannot measure the start cost")]
    StartCost {
        /// The phase of the trial job.
        phase: &'static str,
        /// Its output.
        output: String,
    },
}

/// Why a simulation starts no job.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoLaunch {
    /// The rounds end before the first submission.
    #[error("its rounds end after {cutoff_s:.1} s, the first job is submitted at {first_s:.1} s")]
    BeforeFirst {
        /// The end of the rounds, in seconds.
        cutoff_s: f64,
        /// The first submission, in seconds.
        first_s: f64,
    },
    /// The policy starts no job in these rounds.
    #[error("policy `{policy}` starts no job within {cutoff_s:.1} s, when its rounds end")]
    WithinRounds {
        /// The policy.
        policy: &'static str,
        /// The end of the rounds, in seconds.
        cutoff_s: f64,
    },
    /// The policy starts no job at all.
    #[error("policy `{policy}` starts none of the {jobs} jobs")]
    Never {
        /// The policy.
        policy: &'static str,
        /// Number of jobs.
        jobs: usize,
    },
}
