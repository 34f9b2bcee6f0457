//! The Standard Workload Format of the Parallel Workloads Archive, version 2.2: 18 columns, `-1` where nothing is known.
//!
//! Processors are devices. Lines with `;` are comments; the fields in them describe the machine, not jobs.

use wharf_core::JobSpec;

use super::log::{self, Logged};
use super::{Codec, LogSource, Recognise, Roles, Shared, Syntax};
use crate::finding::{Note, Rule};
use crate::placed::Placed;
use crate::row::{Column, RowCheck, Schema, UnknownColumns};

pub(super) static CODEC: Codec = Codec {
    name: "swf",
    about: "Standard Workload Format, processors as devices",
    extension: "swf",
    syntax: Syntax::Placed(Placed::Spaces),
    schema: &SCHEMA,
    roles: Roles { id: JOB, submit: SUBMIT, devices: REQUESTED, device_types: None, model: 0, stages: 0 },
    merge: None,
    decode,
    recognise: Recognise::Text(is_log),
    log: Some(LogSource::ROWS),
    encode: None,
};

const JOB: usize = 0;
const SUBMIT: usize = 1;
const RUN_TIME: usize = 3;
const ALLOCATED: usize = 4;
const REQUESTED: usize = 7;
const REQUESTED_TIME: usize = 8;
const STATUS: usize = 10;
const USER: usize = 11;
const PARTITION: usize = 15;

static SCHEMA: Schema = Schema {
    columns: &[
        Column { name: "job", required: true },
        Column { name: "submit_time", required: true },
        Column { name: "wait_time", required: true },
        Column { name: "run_time", required: true },
        Column { name: "allocated_processors", required: true },
        Column { name: "cpu_time", required: true },
        Column { name: "memory", required: true },
        Column { name: "requested_processors", required: true },
        Column { name: "requested_time", required: true },
        Column { name: "requested_memory", required: true },
        Column { name: "status", required: true },
        Column { name: "user", required: true },
        Column { name: "group", required: true },
        Column { name: "executable", required: true },
        Column { name: "queue", required: true },
        Column { name: "partition", required: true },
        Column { name: "preceding_job", required: true },
        Column { name: "think_time", required: true },
    ],
    any_of: &[],
    unknown: UnknownColumns::Error,
};

/// Whether a text begins with comments, or with a row, of this format.
fn is_log(text: &str) -> bool {
    let is_comment = |line: &&str| line.trim_start().starts_with(';');
    let row = text.lines().find(|line| !line.trim().is_empty() && !is_comment(line));
    let is_row = |row: &str| {
        let fields: Vec<&str> = row.split_ascii_whitespace().collect();
        fields.len() == SCHEMA.columns.len() && fields.iter().all(|field| field.parse::<f64>().is_ok())
    };
    text.starts_with(';') || row.is_some_and(is_row)
}

fn decode(row: &mut RowCheck<'_>, shared: &mut Shared) -> Option<JobSpec> {
    const PARTIAL: &str = "parts of a job that was checkpointed or swapped out: it has a row of its own";
    const NO_PROCESSOR: &str = "no processor asked for";
    let name = row.name(JOB);
    let submit_s = known(row, SUBMIT);
    let run_s = known(row, RUN_TIME);
    let [requested, allocated] = [REQUESTED, ALLOCATED].map(|column| processors(row, column));
    let declared_s = known(row, REQUESTED_TIME).filter(|seconds| *seconds > 0.0);
    let status = row.integer(STATUS);
    if row.is_bad {
        return None;
    }
    let devices = requested.or(allocated).unwrap_or(0);
    let reason = match (submit_s, run_s) {
        _ if matches!(status, Some(2..=4)) => Some(PARTIAL),
        (None, _) => Some(log::NO_SUBMIT),
        (_, None) => Some(log::NEVER_STARTED),
        _ if devices == 0 => Some(NO_PROCESSOR),
        (_, Some(run_s)) => log::length_problem(run_s),
    };
    if let Some(reason) = reason {
        row.drop(JOB, reason);
        return None;
    }
    if matches!(status, Some(0 | 5)) {
        log::end_badly(row, JOB, shared)?;
    }
    let [user, pool] = [USER, PARTITION].map(|column| told(row, column).map(|text| shared.names.get(text)));
    let job = Logged::new(shared, name?, submit_s?, devices, run_s?, RUN_TIME);
    Logged { user, pool, declared_s, ..job }.into_job(row)
}

/// The text of a cell that says anything.
fn told<'a>(row: &RowCheck<'a>, column: usize) -> Option<&'a str> {
    row.raw(column).filter(|text| *text != "-1")
}

/// A number from 0, or `None` for -1.
fn known(row: &mut RowCheck<'_>, column: usize) -> Option<f64> {
    let value = row.required_number(column).filter(|value| *value != -1.0)?;
    if value < 0.0 {
        let note =
            Note::error(Rule::NegativeCount, format!("found {value}, expected 0 or more, or -1 for unknown"));
        row.error(column, note);
        return None;
    }
    Some(value)
}

/// A number of processors, or `None` for -1 and 0.
fn processors(row: &mut RowCheck<'_>, column: usize) -> Option<u32> {
    known(row, column)?;
    row.count(column).filter(|count| *count > 0)
}
