//! Traces out, and what a format could not hold.

use std::fmt;
use std::io::{self, BufWriter, Write};

use wharf_core::JobSpec;

use crate::Trace;
use crate::format::Format;

/// A field that the written format cannot hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The field, by its native column name.
    pub field: &'static str,
    /// Why it is lost, or changed.
    pub reason: &'static str,
    /// How many jobs have it.
    pub job_count: usize,
    /// The first of them.
    pub first_job: Box<str>,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, reason, job_count, first_job } = self;
        let jobs = if *job_count == 1 { "job" } else { "jobs" };
        write!(f, "{field} of {job_count} {jobs} is lost ({reason}), first of job `{first_job}`")
    }
}

/// Losses by field, in the order they first occur.
#[derive(Debug, Default)]
pub(crate) struct Losses(Vec<Loss>);

impl Losses {
    pub(crate) fn note(&mut self, field: &'static str, reason: &'static str, job: &str) {
        match self.0.iter_mut().find(|loss| loss.field == field) {
            Some(loss) => loss.job_count += 1,
            None => self.0.push(Loss { field, reason, job_count: 1, first_job: job.into() }),
        }
    }

    pub(crate) fn into_list(self) -> Vec<Loss> {
        self.0
    }
}

/// Writes a trace and returns what the format could not hold: nothing for Wharf's own formats.
///
/// Numbers are written so that they read back as the same bits. The writer is buffered here. Requests beside devices are written by Wharf's
/// own formats only.
pub fn write_trace(trace: &Trace, format: Format, out: &mut dyn Write) -> io::Result<Vec<Loss>> {
    const BUFFER_BYTES: usize = 1 << 16;
    let is_native = [Format::NATIVE_CSV, Format::NATIVE_JSONL].contains(&format);
    // Other formats have no columns for requests; no file has lines for several groups of tasks, or amounts of nodes.
    let is_lost = |job: &JobSpec| {
        job.gang.needs.as_deref().is_some_and(|needs| {
            let has_more =
                !needs.groups.is_empty() || !needs.request.node.is_zero() || needs.request.tasks_per_node > 0;
            if is_native { has_more } else { !needs.is_plain() }
        })
    };
    // A list of requests need not have times; a trace must.
    let has_no_length = |job: &&JobSpec| job.gang.needs.is_some() && job.iterations == 0.0;
    if let Some(job) = trace.jobs.iter().find(has_no_length) {
        let message = format!("job {} has no length", job.name);
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    if let Some(job) = trace.jobs.iter().find(|job| is_lost(job)) {
        let message = format!(
            "job {} asks for more than devices, which the format {format} has no columns for",
            job.name
        );
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    let mut buffered = BufWriter::with_capacity(BUFFER_BYTES, out);
    let encode = format.codec().encode.ok_or_else(|| {
        let reason = format!("the format {format} is only read");
        io::Error::new(io::ErrorKind::Unsupported, reason)
    })?;
    let losses = encode(trace, &mut buffered)?;
    buffered.flush()?;
    Ok(losses)
}
