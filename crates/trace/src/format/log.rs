//! What the logs of real clusters have in common: jobs that say when they came, what they held and for how long.

use std::io::{self, Write};
use std::sync::Arc;

use wharf_core::{Gang, JobSpec, Time};

use crate::Trace;
use crate::row::RowCheck;
use crate::write::Loss;

/// Reasons to leave a row out, in the words of all logs.
pub(super) const NO_GPU: &str = "no GPU asked for";
pub(super) const NEVER_STARTED: &str = "never started";
pub(super) const NO_END: &str = "no end recorded, so that nobody knows how long it ran";
pub(super) const NO_TIME: &str = "ran for no time";
pub(super) const NO_SUBMIT: &str = "no submission recorded";

/// What is done to jobs, in the words of all logs.
pub(super) const ENDED_BADLY: &str =
    "failed, killed or cancelled, but kept: the devices were held for as long";
pub(super) const PART_OF_GPU: &str = "a part of a GPU asked for, a whole one given for each part";

/// A job of a log.
pub(super) struct Logged<'a> {
    pub(super) name: &'a str,
    pub(super) user: Option<Arc<str>>,
    pub(super) submit_s: f64,
    pub(super) devices: u32,
    pub(super) device_types: Arc<[Arc<str>]>,
    pub(super) duration_s: f64,
    /// The column to blame for a duration that cannot be.
    pub(super) duration_column: usize,
}

impl Logged<'_> {
    /// The job, as long as it was: nobody knows its iterations, so they last a second each.
    pub(super) fn into_job(self, row: &mut RowCheck<'_>) -> Option<JobSpec> {
        const SECOND_MS: f64 = 1000.0;
        row.check_solo(self.duration_column, self.duration_s, SECOND_MS);
        if row.is_bad {
            return None;
        }
        let submit = Time::try_new(self.submit_s)?;
        let mut job = JobSpec::new(self.name, submit, self.devices, self.duration_s, SECOND_MS);
        job.user = self.user;
        job.gang = Gang { device_types: self.device_types, ..job.gang };
        job.duration_s = Some(self.duration_s);
        Some(job)
    }
}

/// The writer of formats that are only read.
pub(super) fn read_only(_: &Trace, _: &mut dyn Write) -> io::Result<Vec<Loss>> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this format is only read"))
}
