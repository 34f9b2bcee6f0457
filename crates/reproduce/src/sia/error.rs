//! What this mechanism cannot run.

use std::path::PathBuf;

use crate::InputError;

/// Why a replay cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum SiaError {
    /// Only recorded allocations are replayed.
    #[error("preset `sia` replays recorded allocations: give them with --set allocations=FILE")]
    NoAllocations,
    /// The tables of step times are missing.
    #[error("preset `sia` needs the applications' tables: give their folder with --set profiles=FOLDER")]
    NoProfiles,
    /// A file that cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A table that is not one.
    #[error("`{}` line {line}: {problem}", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// What is wrong.
        problem: String,
    },
    /// A line of the log that is not a round.
    #[error("`{}` line {line} is not a round of Sia's simulator", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A job's application has no numbers in the preset, or no tables.
    #[error("job `{job}` trains `{application}`, which preset and profiles know nothing of")]
    UnknownApplication {
        /// The job.
        job: String,
        /// What it trains.
        application: String,
    },
    /// The trace has not the batch size that the job runs with.
    #[error("job `{job}` has no batch size, which policy `gavel` keeps")]
    NoBatchSize {
        /// The job.
        job: String,
    },
    /// The log gives devices that the cluster does not have.
    #[error(
        "the log gives job `{job}` node {node} of `{device_type}` at {time_s} s, which the cluster does not have or has too few devices in"
    )]
    NoSuchNode {
        /// The job.
        job: String,
        /// The device type.
        device_type: String,
        /// The node, counted within its type from 0.
        node: u32,
        /// When.
        time_s: u64,
    },
    /// A speed that no table tells.
    #[error("the tables tell no step time of job `{job}`: {place}")]
    NoStepTime {
        /// The job.
        job: String,
        /// What it trains, on which devices, with how many samples each.
        place: String,
    },
    /// A batch size beyond what was measured.
    #[error(
        "the tables have no gradients of job `{job}` ({application}) at {batch} samples in epoch {epoch}"
    )]
    NoGradients {
        /// The job.
        job: String,
        /// What it trains.
        application: String,
        /// Samples of a step.
        batch: u32,
        /// The epoch.
        epoch: usize,
    },
}

impl InputError for SiaError {
    fn job(&self) -> Option<&str> {
        match self {
            Self::UnknownApplication { job, .. }
            | Self::NoBatchSize { job }
            | Self::NoSuchNode { job, .. }
            | Self::NoStepTime { job, .. }
            | Self::NoGradients { job, .. } => Some(job),
            _ => None,
        }
    }

    fn is_usage(&self) -> bool {
        true
    }
}
