//! `wharf trace convert` and the commands that change a trace: one path from the input to the output.

use wharf_trace::{Edit, JobFilter, ReadOptions};

use super::{output_format, write};
use crate::args::{TraceFilterArgs, TraceIo, TraceResampleArgs, TraceScaleArgs, TraceSliceArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::input::{self, is_standard};
use crate::output::{Terminal, counted};

/// Reads a trace, changes it where `edit` states this, and writes it.
///
/// # Errors
/// An input that cannot be read, a change that leaves no job, an output that cannot be written.
pub(super) fn execute(
    io: &TraceIo,
    edit: impl FnOnce(usize) -> Option<Edit>,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let format = io.from.as_deref().map(input::format).transpose()?;
    let to = output_format(io.to.as_deref(), &io.target)?;
    let options = ReadOptions { format, skip_invalid: io.skip_invalid, only_completed: io.only_completed };
    let mut trace = input::trace(&io.input, options, terminal)?;
    let count = trace.jobs.len();
    if let Some(edit) = edit(count) {
        let file = if is_standard(&io.input) { "stdin".into() } else { io.input.display().to_string() };
        edit.apply(&mut trace).map_err(|error| {
            CliError::new(ErrorKind::Input, format!("{file}: {error}"))
                .hint("`wharf trace stats` shows sizes, models, lengths and times of a trace")
        })?;
    }
    write(&trace, to, &io.target, terminal)?;
    terminal.detail(&format!("{} read, {} written as {to}", counted(count, "job"), trace.jobs.len()));
    Ok(Exit::Ok)
}

pub(super) fn slice(args: &TraceSliceArgs) -> Option<Edit> {
    args.jobs.map(Edit::Positions).or(args.time.map(Edit::Window))
}

pub(super) fn filter(args: &TraceFilterArgs) -> Edit {
    Edit::Filter(JobFilter {
        users: args.user.clone(),
        models: args.model.clone(),
        device_types: args.device_types.clone(),
        pools: args.pool.clone(),
        devices: args.devices.unwrap_or_default(),
        duration_s: args.duration.unwrap_or_default(),
    })
}

pub(super) fn scale(args: &TraceScaleArgs) -> Edit {
    Edit::Scale { arrivals: args.arrivals, durations: args.durations, devices: args.devices }
}

pub(super) fn resample(args: &TraceResampleArgs, count: usize) -> Edit {
    Edit::Resample { jobs: args.jobs.unwrap_or(count), seed: args.seed }
}
