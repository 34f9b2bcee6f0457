//! What the logs of real clusters have in common: jobs that state when they came, what they held and for how long.

use std::sync::Arc;

use wharf_core::{ArrayElement, Gang, JobSpec, Needs, Time};

use super::Shared;
use crate::row::RowCheck;

/// Reasons to leave a row out, in the words of all logs.
pub(super) const NO_GPU: &str = "no GPU asked for";
pub(super) const NEVER_STARTED: &str = "never started";
pub(super) const NO_END: &str = "no end recorded, so that the length is unknown";
pub(super) const NO_TIME: &str = "ran for no time";
pub(super) const BACKWARDS: &str = "ends before it starts";
pub(super) const NO_SUBMIT: &str = "no submission recorded";

/// What is done to jobs, in the words of all logs.
pub(crate) const ENDED_BADLY: &str =
    "failed, killed or cancelled, but kept: the devices were held for as long";
pub(crate) const NOT_COMPLETED: &str = "failed, killed or cancelled";
pub(super) const PART_OF_GPU: &str = "a part of a GPU asked for, a whole one given for each part";

/// Counts a job that failed, or was killed or cancelled; `None` where only others are wanted.
pub(super) fn end_badly(row: &mut RowCheck<'_>, name: usize, shared: &Shared) -> Option<()> {
    if shared.only_completed {
        row.drop(name, NOT_COMPLETED);
        return None;
    }
    row.adapt(name, ENDED_BADLY);
    Some(())
}

/// A job of a log.
pub(super) struct Logged<'a> {
    pub(super) name: &'a str,
    pub(super) user: Option<Arc<str>>,
    /// The part of the cluster that it ran in: a virtual cluster, or a partition.
    pub(super) pool: Option<Arc<str>>,
    pub(super) array: Option<ArrayElement>,
    pub(super) submit_s: f64,
    pub(super) devices: u32,
    pub(super) device_types: Arc<[Arc<str>]>,
    pub(super) duration_s: f64,
    /// The length that its owner asked for, where the log has it.
    pub(super) declared_s: Option<f64>,
    /// The column to blame for a duration that cannot be.
    pub(super) duration_column: usize,
}

/// Why a job of such a length is left out, if it is.
pub(super) fn length_problem(seconds: f64) -> Option<&'static str> {
    if seconds > 0.0 {
        None
    } else if seconds < 0.0 {
        Some(BACKWARDS)
    } else {
        Some(NO_TIME)
    }
}

impl<'a> Logged<'a> {
    /// A job of any user, pool and device type.
    pub(super) fn new(
        shared: &mut Shared,
        name: &'a str,
        submit_s: f64,
        devices: u32,
        duration_s: f64,
        duration_column: usize,
    ) -> Self {
        let device_types = shared.list(None);
        let (user, pool, array, declared_s) = (None, None, None, None);
        Self {
            name,
            user,
            pool,
            array,
            submit_s,
            devices,
            device_types,
            duration_s,
            declared_s,
            duration_column,
        }
    }

    /// The job, with its length: its iterations are unknown, so they last a second each.
    pub(super) fn into_job(self, row: &mut RowCheck<'_>) -> Option<JobSpec> {
        const SECOND_MS: f64 = 1000.0;
        row.check_solo(self.duration_column, self.duration_s, SECOND_MS);
        if row.is_bad {
            return None;
        }
        let submit = Time::try_new(self.submit_s)?;
        let mut job = JobSpec::new(self.name, submit, self.devices, self.duration_s, SECOND_MS);
        job.user = self.user;
        let needs = self.pool.map(|pool| Arc::new(Needs { pool: Some(pool), ..Needs::default() }));
        job.gang = Gang { device_types: self.device_types, needs, ..job.gang };
        job.duration_s = Some(self.declared_s.unwrap_or(self.duration_s));
        job.array = self.array;
        Some(job)
    }
}
