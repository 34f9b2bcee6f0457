//! The trace CSV of the Muri simulator (SIGCOMM'22): times in milliseconds, stages as `resource_time_0..2`.
//!
//! Its simulator looks columns up by name and ignores those it does not know; so does this reader.

use std::io::{self, Write};

use wharf_core::{Gang, JobSpec, StageTimes};

use super::{Codec, Recognise, Roles, Shared, Syntax};
use crate::Trace;
use crate::csv::Separator;
use crate::csv::write_text;
use crate::row::{Column, RowCheck, Schema, UnknownColumns};
use crate::text::write_number;
use crate::write::{Loss, Losses};

pub(super) static CODEC: Codec = Codec {
    name: "muri",
    about: "CSV of the Muri simulator, times in milliseconds",
    extension: "csv",
    syntax: Syntax::Csv(Separator::Comma),
    schema: &SCHEMA,
    roles: Roles {
        id: JOB_ID,
        submit: SUBMIT,
        devices: DEVICES,
        device_types: None,
        model: MODEL,
        stages: STAGES,
    },
    merge: None,
    decode,
    recognise: Recognise::Header,
    log: None,
    encode: Some(encode),
};

const JOB_ID: usize = 0;
const DEVICES: usize = 1;
const SUBMIT: usize = 2;
const ITERATIONS: usize = 3;
const MODEL: usize = 4;
const BATCH_SIZE: usize = 5;
const DURATION: usize = 6;
const ITERATION_TIME: usize = 8;
const STAGES: usize = 9;
const PRIORITY: usize = 12;

static SCHEMA: Schema = Schema {
    columns: &[
        Column { name: "job_id", required: true },
        Column { name: "num_gpu", required: true },
        Column { name: "submit_time", required: true },
        Column { name: "iterations", required: true },
        Column { name: "model_name", required: false },
        Column { name: "batch_size", required: false },
        Column { name: "duration", required: false },
        Column { name: "interval", required: false },
        Column { name: "iteration_time", required: true },
        Column { name: "resource_time_0", required: false },
        Column { name: "resource_time_1", required: false },
        Column { name: "resource_time_2", required: false },
        Column { name: "priority", required: false },
    ],
    any_of: &[],
    unknown: UnknownColumns::Warning,
};

const MS_PER_S: f64 = 1000.0;

fn decode(row: &mut RowCheck<'_>, shared: &mut Shared) -> Option<JobSpec> {
    let name = row.name(JOB_ID);
    let devices = row.gang(DEVICES);
    let submit = row.submit(SUBMIT, MS_PER_S);
    let iterations = row.iterations(ITERATIONS);
    let model = row.text(MODEL).map(|model| shared.names.get(model));
    let batch_size = row.count(BATCH_SIZE);
    // The reference computes `int(float(duration)) / 1000`.
    let duration_s = row.length(DURATION).map(|duration| duration.trunc() / MS_PER_S);
    let iteration_ms = row.positive_length(ITERATION_TIME);
    let stages = row.stages(STAGES);
    // There 0 is guaranteed and 1 opportunistic; with us the larger is the more urgent.
    let priority = row.integer(PRIORITY).map_or(0, i32::saturating_neg);
    row.check_solo(ITERATIONS, iterations?, iteration_ms?);
    if row.is_bad {
        return None;
    }
    Some(JobSpec {
        name: name?.into(),
        user: None,
        submit: submit?,
        gang: Gang { device_types: shared.list(None), ..Gang::fixed(devices?) },
        iterations: iterations?,
        iteration_ms: iteration_ms?,
        duration_s,
        model,
        batch_size,
        stages,
        priority,
        weight: 1.0,
        deadline: None,
        array: None,
        row: 0,
    })
}

fn encode(trace: &Trace, out: &mut dyn Write) -> io::Result<Vec<Loss>> {
    let has_stages = trace.jobs.iter().any(|job| job.stages.is_some());
    let names = SCHEMA.columns.iter().enumerate();
    let names = names.filter(|(index, _)| has_stages || !(STAGES..STAGES + 3).contains(index));
    let names: Vec<_> = names.map(|(_, column)| column.name).collect();
    writeln!(out, "{}", names.join(","))?;
    let mut losses = Losses::default();
    let mut last_submit_s = trace.jobs.first().map_or(0.0, |job| job.submit.seconds());
    for job in &trace.jobs {
        note_losses(job, &mut losses);
        write_row(job, last_submit_s, has_stages, out)?;
        last_submit_s = job.submit.seconds();
    }
    Ok(losses.into_list())
}

fn write_row(job: &JobSpec, last_submit_s: f64, has_stages: bool, out: &mut dyn Write) -> io::Result<()> {
    write_text(out, &job.name)?;
    write!(out, ",{},", job.gang.devices)?;
    write_number(out, to_ms(job.submit.seconds()))?;
    out.write_all(b",")?;
    write_number(out, job.iterations)?;
    out.write_all(b",")?;
    write_text(out, job.model.as_deref().unwrap_or_default())?;
    out.write_all(b",")?;
    if let Some(batch_size) = job.batch_size {
        write!(out, "{batch_size}")?;
    }
    // The reference cannot do without a duration; it never checks the interval.
    for ms in [to_ms(job.declared_s()).trunc(), (to_ms(job.submit.seconds()) - to_ms(last_submit_s)).trunc()]
    {
        out.write_all(b",")?;
        write_number(out, ms)?;
    }
    out.write_all(b",")?;
    write_number(out, job.iteration_ms)?;
    match job.stages {
        Some(StageTimes { data_ms, compute_ms, network_ms }) => {
            for ms in [data_ms, compute_ms, network_ms] {
                out.write_all(b",")?;
                write_number(out, ms)?;
            }
        }
        None if has_stages => out.write_all(b",,,")?,
        None => {}
    }
    writeln!(out, ",{}", job.priority.saturating_neg())
}

fn note_losses(job: &JobSpec, losses: &mut Losses) {
    let exact = |seconds: f64| to_ms(seconds) / MS_PER_S == seconds;
    let checks = [
        ("user", job.user.is_some(), "the format has no users"),
        ("device_types", !job.gang.device_types.is_empty(), "the format has no device types"),
        ("deadline_s", job.deadline.is_some(), "the format has no deadlines"),
        ("array", job.array.is_some(), "the format has no job arrays"),
        ("pool", job.gang.pool().is_some(), "the format has no pools"),
        (
            "devices_min, devices_max",
            job.gang.devices_min != job.gang.devices || job.gang.devices_max != job.gang.devices,
            "the format has no elastic jobs",
        ),
        ("iteration_ms", job.iteration_ms == 0.0, "a profile is needed, and the format has none"),
        ("submit_s", !exact(job.submit.seconds()), "milliseconds round it"),
        (
            "duration_s",
            job.duration_s.is_some_and(|duration| to_ms(duration).trunc() / MS_PER_S != duration),
            "the format keeps whole milliseconds",
        ),
    ];
    for (field, is_lost, reason) in checks {
        if is_lost {
            losses.note(field, reason, &job.name);
        }
    }
}

/// Milliseconds that divide back to the same seconds, where there are such.
fn to_ms(seconds: f64) -> f64 {
    let ms = seconds * MS_PER_S;
    if !ms.is_finite() {
        return f64::MAX;
    }
    let rounded = ms.round();
    let nearby = [rounded, ms, ms.next_up(), ms.next_down()];
    nearby.into_iter().find(|ms| ms / MS_PER_S == seconds).unwrap_or(ms)
}
