//! Traces out, and what a format could not hold.

use std::fmt;
use std::io::{self, BufWriter, Write};

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
/// Numbers are written so that they read back as the same bits. The writer is buffered here. Requests for parts of devices have no form but
/// that of their log, which is only read.
pub fn write_trace(trace: &Trace, format: Format, out: &mut dyn Write) -> io::Result<Vec<Loss>> {
    const BUFFER_BYTES: usize = 1 << 16;
    if trace.jobs.iter().any(|job| job.gang.portion().is_some()) {
        let message =
            "requests for parts of devices are only read; read the file as `openb` to write its jobs";
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
