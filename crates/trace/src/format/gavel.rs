//! The traces of the Gavel simulator (OSDI'20): tab-separated, without a header, one job a line.
//!
//! A job's name is the number of its line, from 0. How long an iteration takes is not told: only a profile can tell.
//! An older form with seven columns, which today's published reader refuses, is read as well.

use std::io::{self, Write};

use wharf_core::{Gang, JobSpec, Time};
use wharf_perf::Workload;

use super::{Codec, Recognise, Roles, Shared, Syntax};
use crate::Trace;
use crate::finding::{Note, Rule};
use crate::placed::Placed;
use crate::row::{Column, RowCheck, Schema, UnknownColumns};
use crate::text::{shown, write_number};
use crate::write::{Loss, Losses};

pub(super) static CODEC: Codec = Codec {
    name: "gavel",
    about: "tab-separated rows of the Gavel simulator, without a header",
    extension: "trace",
    syntax: Syntax::Placed(Placed::Tabs { layouts: LAYOUTS, number: JOB_ID }),
    schema: &SCHEMA,
    roles: Roles {
        id: JOB_ID,
        submit: ARRIVAL_TIME,
        devices: SCALE_FACTOR,
        device_types: None,
        model: JOB_TYPE,
        stages: JOB_TYPE,
    },
    merge: None,
    decode,
    recognise: Recognise::Text(is_row),
    log: None,
    encode: Some(encode),
};

const JOB_TYPE: usize = 0;
const NEEDS_DATA_DIR: usize = 4;
const TOTAL_STEPS: usize = 5;
const SCALE_FACTOR: usize = 6;
const PRIORITY_WEIGHT: usize = 7;
const SLO: usize = 8;
const ARRIVAL_TIME: usize = 9;
/// Not in the file: the line's number.
const JOB_ID: usize = 10;

static SCHEMA: Schema = Schema {
    columns: &[
        Column { name: "job_type", required: true },
        Column { name: "command", required: false },
        Column { name: "working_directory", required: false },
        Column { name: "num_steps_arg", required: false },
        Column { name: "needs_data_dir", required: false },
        Column { name: "total_steps", required: true },
        Column { name: "scale_factor", required: true },
        Column { name: "priority_weight", required: false },
        Column { name: "SLO", required: false },
        Column { name: "arrival_time", required: true },
        Column { name: "job_id", required: false },
    ],
    any_of: &[],
    unknown: UnknownColumns::Error,
};

/// Which column each field of a line is, distinguished by their number: today's form, and the older one.
const LAYOUTS: &[&[usize]] = &[&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], &[0, 1, 3, 4, 5, 9, 6]];

/// Whether a line looks like a job of this format.
fn is_row(text: &str) -> bool {
    let line = text.lines().next().unwrap_or_default();
    let fields: Vec<&str> = line.trim_end_matches(['\r', '\n']).split('\t').collect();
    let Some(layout) = LAYOUTS.iter().find(|layout| layout.len() == fields.len()) else { return false };
    let is_number = |column: usize| {
        let place = layout.iter().position(|&known| known == column);
        place.is_some_and(|place| fields[place].trim().parse::<f64>().is_ok())
    };
    is_number(TOTAL_STEPS) || is_number(SCALE_FACTOR) || is_number(ARRIVAL_TIME)
}

fn decode(row: &mut RowCheck<'_>, shared: &mut Shared) -> Option<JobSpec> {
    let name = row.name(JOB_ID);
    let label = row.name(JOB_TYPE);
    let iterations = row.iterations(TOTAL_STEPS);
    let devices = row.gang(SCALE_FACTOR);
    let weight = if row.has(PRIORITY_WEIGHT) { row.weight(PRIORITY_WEIGHT) } else { Some(1.0) };
    let submit = row.submit(ARRIVAL_TIME, 1.0);
    let deadline = decode_slo(row, submit);
    check_flag(row);
    if row.is_bad {
        return None;
    }
    let Workload { model, batch_size } = Workload::from_label(label?);
    Some(JobSpec {
        name: name?.into(),
        user: None,
        submit: submit?,
        gang: Gang { device_types: shared.list(None), ..Gang::fixed(devices?) },
        iterations: iterations?,
        iteration_ms: 0.0,
        duration_s: None,
        model: Some(shared.names.get(&model)),
        batch_size,
        stages: None,
        priority: 0,
        weight: weight?,
        deadline,
        array: None,
        row: 0,
    })
}

/// Seconds from the arrival in which the job should be done; below zero where there is no such wish.
fn decode_slo(row: &mut RowCheck<'_>, submit: Option<Time>) -> Option<Time> {
    let slo_s = row.number(SLO).filter(|slo_s| *slo_s >= 0.0)?;
    if slo_s == 0.0 {
        let note = Note::warning(Rule::DeadlineBeforeSubmit, "found 0: the job is late when it arrives");
        row.warn(SLO, note.hint("write -1 for a job without a deadline"));
    }
    submit.map(|submit| Time::from_seconds(submit.seconds() + slo_s))
}

/// The published reader fails at anything but a whole number; what it says does not matter here.
fn check_flag(row: &mut RowCheck<'_>) {
    let Some(text) = row.raw(NEEDS_DATA_DIR) else { return };
    if !matches!(text, "0" | "1") {
        let note = Note::warning(Rule::NotAnInteger, format!("found {}, expected 0 or 1", shown(text)));
        row.warn(NEEDS_DATA_DIR, note.hint("are the columns in the right order?"));
    }
}

fn encode(trace: &Trace, out: &mut dyn Write) -> io::Result<Vec<Loss>> {
    let mut losses = Losses::default();
    for (index, job) in trace.jobs.iter().enumerate() {
        note_losses(job, index, &mut losses);
        write_row(job, out)?;
    }
    Ok(losses.into_list())
}

fn write_row(job: &JobSpec, out: &mut dyn Write) -> io::Result<()> {
    let model = job.model.as_deref().unwrap_or("unknown").replace(['\t', '\n', '\r'], " ");
    match job.batch_size {
        Some(batch_size) => write!(out, "{model} (batch size {batch_size})")?,
        None => out.write_all(model.as_bytes())?,
    }
    // Commands are not kept; the published simulator does not check them.
    write!(out, "\t-\t-\t-\t0\t")?;
    write_number(out, job.iterations)?;
    write!(out, "\t{}\t", job.gang.devices)?;
    write_number(out, job.weight)?;
    out.write_all(b"\t")?;
    write_number(out, job.deadline.map_or(-1.0, |deadline| deadline.since(job.submit)))?;
    out.write_all(b"\t")?;
    write_number(out, job.submit.seconds())?;
    writeln!(out)
}

fn note_losses(job: &JobSpec, index: usize, losses: &mut Losses) {
    let gang = &job.gang;
    let checks = [
        ("job_id", *job.name != *index.to_string(), "jobs are called by the number of their line"),
        ("user", job.user.is_some(), "the format has no users"),
        ("model", job.model.is_none(), "the format needs one"),
        ("iteration_ms", job.iteration_ms != 0.0, "a profile is needed"),
        ("duration_s", job.duration_s.is_some(), "the format has no durations"),
        ("device_types", !gang.device_types.is_empty(), "the format has no device types"),
        ("stages", job.stages.is_some(), "the format has no stages"),
        ("priority", job.priority != 0, "the format has weights only"),
        ("array", job.array.is_some(), "the format has no job arrays"),
        ("pool", gang.pool().is_some(), "the format has no pools"),
        (
            "devices_min, devices_max",
            gang.devices_min != gang.devices || gang.devices_max != gang.devices,
            "the format has no elastic jobs",
        ),
    ];
    for (field, is_lost, reason) in checks {
        if is_lost {
            losses.note(field, reason, &job.name);
        }
    }
}
