//! What decisions know of a job.

use super::site::{Kind, Shape};

/// Devices of a type, and how they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The type.
    pub kind: Kind,
    /// How many devices. In the middle of a search this may run ahead of `shape`.
    pub devices: u32,
    /// How they lie.
    pub shape: Shape,
}

impl Quota {
    /// Devices that lie like this.
    pub const fn new(kind: Kind, shape: Shape) -> Self {
        Self { kind, devices: shape.devices(), shape }
    }
}

/// A job. The caller, which does the accounting, keeps the progress up to date; decisions change quota and flags.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its row in the lookup.
    pub workload: u32,
    /// Samples per iteration.
    pub batch: f64,
    /// What it asked for, on as few nodes as hold it.
    pub asked: Quota,
    /// What it has, or would have.
    pub quota: Quota,
    /// When it was submitted.
    pub submitted_s: f64,
    /// When it should be done.
    pub deadline_s: f64,
    /// Iterations it has to make in all.
    pub iterations: f64,
    /// Iterations that are left.
    pub remaining: f64,
    /// Seconds for which it ran.
    pub executed_s: f64,
    /// Seconds of tuning that it still owes; 0 where none.
    pub debt_s: f64,
    /// Seconds of tuning that its progress has not paid yet, where it has to.
    pub lost_s: f64,
    /// How often it was given devices.
    pub reschedules: u32,
    /// Runs although an earlier job waits.
    pub is_opportunistic: bool,
    /// Waits while a later job runs.
    pub is_blocker: bool,
    /// Its deadline passed while it waited: it is never tried again.
    pub is_timed_out: bool,
    /// Is profiled, or waits for it: in no queue, and what it owns in the table is for that.
    pub is_profiling: bool,
}

impl Job {
    /// A job that was just submitted.
    pub fn new(workload: u32, batch: f64, asked: Quota, submitted_s: f64, iterations: f64) -> Self {
        Self {
            workload,
            batch,
            asked,
            quota: asked,
            submitted_s,
            deadline_s: f64::INFINITY,
            iterations,
            remaining: iterations,
            executed_s: 0.0,
            debt_s: 0.0,
            lost_s: 0.0,
            reschedules: 0,
            is_opportunistic: false,
            is_blocker: false,
            is_timed_out: false,
            is_profiling: false,
        }
    }
}
