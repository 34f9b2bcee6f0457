//! One run: a trace, a cluster, a policy and a preset in, an outcome out.

use wharf_core::ClusterSpec;
use wharf_trace::Trace;

use crate::outcome::{Outcome, Recorder};
use crate::preset::Preset;
use crate::settings::Settings;

/// Everything that determines a run. Equal specs give equal bytes.
#[derive(Clone, Copy, Debug)]
pub struct RunSpec<'a> {
    /// The workload.
    pub trace: &'a Trace,
    /// The machines.
    pub cluster: &'a ClusterSpec,
    /// The policy's name.
    pub policy: &'a str,
    /// The rules.
    pub preset: &'a Preset,
    /// Overrides of the preset's numbers and the policy's knobs.
    pub settings: &'a Settings,
    /// For everything drawn at random.
    pub seed: u64,
}

/// A run that cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No such policy.
    #[error(transparent)]
    Policy(#[from] wharf_policy::UnknownPolicy),
    /// The policy exists, but not under this preset.
    #[error("policy `{policy}` cannot run under preset `{preset}`")]
    NotInPreset {
        /// The policy.
        policy: String,
        /// The preset.
        preset: String,
        /// What can.
        choices: Vec<&'static str>,
    },
    /// A setting that neither the policy nor the preset has.
    #[error("`{key}` is not a setting of policy `{policy}` under preset `{preset}`")]
    UnknownSetting {
        /// The setting.
        key: String,
        /// The policy.
        policy: String,
        /// The preset.
        preset: String,
        /// What there is.
        known: Vec<String>,
    },
    /// A setting with a value that it cannot take.
    #[error("setting `{key}` cannot be `{value}`; it takes {expected}")]
    BadSetting {
        /// The setting.
        key: String,
        /// The value.
        value: String,
        /// What it takes.
        expected: String,
    },
    /// A job that the cluster can never hold.
    #[error(
        "job `{job}` (row {row} of the trace) needs {devices} devices, but the cluster can give it at most {most}"
    )]
    ImpossibleGang {
        /// The job's name.
        job: String,
        /// Its position in the trace, from 1.
        row: usize,
        /// What it needs.
        devices: u32,
        /// What there is.
        most: u32,
    },
}

/// Checks a spec without running it: policy, settings, and that every job fits the empty cluster.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(_spec: &RunSpec<'_>) -> Result<(), RunError> {
    Ok(())
}

/// Simulates.
///
/// # Errors
/// As [`check`].
pub fn run(spec: &RunSpec<'_>, _recorder: &mut dyn Recorder) -> Result<Outcome, RunError> {
    check(spec)?;
    Err(RunError::NotInPreset {
        policy: spec.policy.to_owned(),
        preset: spec.preset.name.clone(),
        choices: vec![],
    })
}
