//! Alibaba's PAI log of 2020 (NSDI'22): `pai_task_table.csv` as published, without a header; and `pai_job_table.csv` beside
//! it, which knows who submitted a job, and when.
//!
//! A job has one or more tasks of different roles; those with GPUs are its gang.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use wharf_core::{JobSpec, Time};

use super::log::{self, Logged};
use super::{Codec, JobTable, LogSource, Recognise, Roles, Shared, Syntax};
use crate::csv::{CsvRows, Step};
use crate::error::TraceError;
use crate::finding::{Findings, Note, Rule};
use crate::row::{Column, Row, RowCheck, Schema, UnknownColumns};
use crate::source::{self, SourceError};
use crate::text::Interner;

pub(super) static CODEC: Codec = Codec {
    name: "pai",
    about: "Alibaba's PAI log of 2020, `pai_task_table.csv`",
    extension: "csv",
    syntax: Syntax::CsvWithoutHeader,
    schema: &SCHEMA,
    roles: Roles { id: JOB_NAME, submit: START, devices: PLAN_GPU, device_types: None, model: 0, stages: 0 },
    merge: Some(merge),
    decode,
    recognise: Recognise::HeaderOrText(is_row),
    log: Some(LogSource {
        file: Some("pai_task_table.csv"),
        job_table: Some(JobTable { file: "pai_job_table.csv", add: add_job_table }),
        ..LogSource::ROWS
    }),
    encode: None,
};

const JOB_NAME: usize = 0;
const INSTANCES: usize = 2;
const STATUS: usize = 3;
const START: usize = 4;
const END: usize = 5;
const PLAN_GPU: usize = 8;

static SCHEMA: Schema = Schema {
    columns: &[
        Column { name: "job_name", required: true },
        Column { name: "task_name", required: true },
        Column { name: "inst_num", required: true },
        Column { name: "status", required: true },
        Column { name: "start_time", required: true },
        Column { name: "end_time", required: true },
        Column { name: "plan_cpu", required: true },
        Column { name: "plan_mem", required: true },
        Column { name: "plan_gpu", required: true },
        Column { name: "gpu_type", required: true },
    ],
    any_of: &[],
    unknown: UnknownColumns::Warning,
};

/// Percent of a whole GPU.
const WHOLE_PERCENT: f64 = 100.0;

/// Whether the fields of a line look like a task: the file has no header to go by.
fn is_row(text: &str) -> bool {
    let line = text.lines().next().unwrap_or_default();
    let fields: Vec<&str> = line.split(',').map(|field| field.trim().trim_matches('"')).collect();
    fields.len() == SCHEMA.columns.len()
        && matches!(fields[STATUS], "Terminated" | "Failed" | "Running" | "Waiting")
        && [INSTANCES, START]
            .iter()
            .all(|&place| fields[place].is_empty() || fields[place].parse::<f64>().is_ok())
}

fn decode(row: &mut RowCheck<'_>, shared: &mut Shared) -> Option<JobSpec> {
    let name = row.name(JOB_NAME);
    let mut number = |column| if row.told(column).is_some() { row.length(column) } else { None };
    let (instances, percent) = (number(INSTANCES), number(PLAN_GPU).unwrap_or(0.0));
    // The log has 0 where it knows no time.
    let (start_s, end_s) = (number(START).filter(|s| *s > 0.0), number(END).filter(|s| *s > 0.0));
    let status = row.told(STATUS).unwrap_or_default();
    let is_waiting = status == "Waiting";
    let has_ended = matches!(status, "Terminated" | "Failed");
    if row.is_bad {
        return None;
    }
    let reason = match (start_s, end_s) {
        _ if percent == 0.0 => Some("tasks without a GPU, such as parameter servers"),
        _ if is_waiting => Some(log::NEVER_STARTED),
        (None, _) => Some(log::NEVER_STARTED),
        (_, None) => Some(log::NO_END),
        _ if !has_ended => Some(log::NO_END),
        (Some(start_s), Some(end_s)) => log::length_problem(end_s - start_s),
    };
    if let Some(reason) = reason {
        row.drop(JOB_NAME, reason);
        return None;
    }
    let devices = decode_devices(row, instances.unwrap_or(1.0), percent)?;
    if status == "Failed" {
        log::end_badly(row, JOB_NAME, shared)?;
    }
    if percent % WHOLE_PERCENT != 0.0 {
        row.adapt(JOB_NAME, log::PART_OF_GPU);
    }
    let (submit_s, duration_s) = (start_s?, end_s? - start_s?);
    Logged::new(shared, name?, submit_s, devices, duration_s, END).into_job(row)
}

/// Each instance has its own GPUs, or its own part of one.
fn decode_devices(row: &mut RowCheck<'_>, instances: f64, percent: f64) -> Option<u32> {
    let devices = instances.ceil().max(1.0) * (percent / WHOLE_PERCENT).ceil();
    if devices <= f64::from(u32::MAX) {
        return Some(devices as u32);
    }
    let note = Note::error(Rule::NotAnInteger, format!("{devices:e} GPUs are more than can be counted"));
    row.error(PLAN_GPU, note);
    None
}

/// Adds a task to its job: it runs from the first start to the last end, on the devices of all tasks.
fn merge(job: &mut JobSpec, task: &JobSpec) {
    let end = |job: &JobSpec| job.submit.plus(job.declared_s());
    let last = end(job).max(end(task));
    job.submit = job.submit.min(task.submit);
    let duration_s = last.since(job.submit);
    job.iterations = duration_s;
    job.duration_s = Some(duration_s);
    let devices = job.gang.devices.saturating_add(task.gang.devices);
    (job.gang.devices, job.gang.devices_min, job.gang.devices_max) = (devices, devices, devices);
}

const TABLE_USER: usize = 2;
const TABLE_SUBMIT: usize = 4;

static TABLE_SCHEMA: Schema = Schema {
    columns: &[
        Column { name: "job_name", required: true },
        Column { name: "inst_id", required: true },
        Column { name: "user", required: true },
        Column { name: "status", required: true },
        Column { name: "start_time", required: true },
        Column { name: "end_time", required: true },
    ],
    any_of: &[],
    unknown: UnknownColumns::Warning,
};

/// Adds users and submissions from the job table. Without one, every job is counted as changed.
fn add_job_table(
    jobs: &mut [JobSpec],
    path: Option<&Path>,
    findings: &mut Findings,
) -> Result<(), TraceError> {
    const UNKNOWN: &str = "not in the job table, so without a user, and submitted when started";
    const NO_TABLE: &str =
        "no `pai_job_table.csv` next to the tasks, so without a user, and submitted when started";
    let Some(path) = path else {
        jobs.iter().for_each(|job| findings.tally(Rule::AdaptedJobs, NO_TABLE, 1, &job.name, None));
        return Ok(());
    };
    let places: HashMap<Arc<str>, usize> =
        jobs.iter().enumerate().map(|(place, job)| (job.name.clone(), place)).collect();
    let mut is_known = vec![false; places.len()];
    let source = source::open(path)?;
    let file = source.file.clone();
    findings.set_file(&file);
    let failed = |line, source| SourceError::Read { file: file.clone(), line, source };
    let mut rows = CsvRows::without_header(source.into_lines(), &TABLE_SCHEMA, findings)
        .map_err(|error| failed(0, error))?;
    findings.set_in_rows(true);
    let (mut row, mut users) = (Row::default(), Interner::default());
    while !findings.is_full() {
        match rows.read(&mut row, findings).map_err(|error| failed(rows.line(), error))? {
            Step::End => break,
            Step::Bad => {}
            Step::Row => {
                let mut check = RowCheck::new(&row, &TABLE_SCHEMA, findings);
                let Some(&place) = check.raw(JOB_NAME).and_then(|name| places.get(name)) else { continue };
                let job = &mut jobs[place];
                job.user = check.told(TABLE_USER).map(|user| users.get(user));
                let submit_s =
                    if check.told(TABLE_SUBMIT).is_some() { check.length(TABLE_SUBMIT) } else { None };
                if let Some(submit_s) = submit_s.filter(|submit_s| *submit_s > 0.0) {
                    job.submit = job.submit.min(Time::from_seconds(submit_s));
                }
                is_known[place] = true;
            }
        }
    }
    for (job, _) in jobs.iter().zip(&is_known).filter(|(_, is_known)| !**is_known) {
        findings.tally(Rule::AdaptedJobs, UNKNOWN, 1, &job.name, None);
    }
    Ok(())
}
