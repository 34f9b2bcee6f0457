//! Alibaba's GPU log of 2023 (ATC'23): `openb_pod_list_*.csv`, as published. A pod is a job: as a log, one that ran for a time on whole
//! devices; as a list of requests, one that asks for CPUs, memory and parts of devices.

use std::sync::Arc;

use wharf_core::{Amounts, Gang, JobSpec, Needs, Request, Time, WHOLE_MILLI};

use super::log::{self, Logged};
use super::{Codec, LogSource, Recognise, Roles, Shared, Syntax};
use crate::csv::Separator;
use crate::finding::{Note, Rule};
use crate::row::{Column, RowCheck, Schema, UnknownColumns};

pub(super) static CODEC: Codec = Codec {
    name: "openb",
    about: "Alibaba's GPU log of 2023, `openb_pod_list_*.csv`",
    extension: "csv",
    syntax: Syntax::Csv(Separator::Comma),
    schema: &SCHEMA,
    roles: Roles {
        id: NAME,
        submit: CREATION,
        devices: DEVICES,
        device_types: Some(SPEC),
        model: 0,
        stages: 0,
    },
    merge: None,
    decode,
    recognise: Recognise::Header,
    log: Some(LogSource::ROWS),
    encode: None,
};

/// The same file as a list of requests.
pub(super) static PODS: Codec = Codec {
    name: "openb-pods",
    about: "the pods of Alibaba's GPU log of 2023 as requests for CPUs, memory and parts of GPUs",
    roles: Roles { submit: NAME, ..CODEC.roles },
    schema: &PODS_SCHEMA,
    decode: decode_pod,
    recognise: Recognise::ByName,
    log: None,
    ..CODEC
};

const NAME: usize = 0;
const CPU: usize = 1;
const MEMORY: usize = 2;
const DEVICES: usize = 3;
const MILLI: usize = 4;
const SPEC: usize = 5;
const PHASE: usize = 7;
const CREATION: usize = 8;
const DELETION: usize = 9;
const SCHEDULED: usize = 10;

static SCHEMA: Schema = Schema {
    columns: &[
        Column { name: "name", required: true },
        Column { name: "cpu_milli", required: false },
        Column { name: "memory_mib", required: false },
        Column { name: "num_gpu", required: true },
        Column { name: "gpu_milli", required: false },
        Column { name: "gpu_spec", required: false },
        Column { name: "qos", required: false },
        Column { name: "pod_phase", required: false },
        Column { name: "creation_time", required: true },
        Column { name: "deletion_time", required: true },
        Column { name: "scheduled_time", required: true },
    ],
    any_of: &[],
    unknown: UnknownColumns::Warning,
};

static PODS_SCHEMA: Schema = Schema {
    columns: &[
        Column { name: "name", required: true },
        Column { name: "cpu_milli", required: true },
        Column { name: "memory_mib", required: true },
        Column { name: "num_gpu", required: true },
        Column { name: "gpu_milli", required: true },
        Column { name: "gpu_spec", required: false },
        Column { name: "qos", required: false },
        Column { name: "pod_phase", required: false },
        Column { name: "creation_time", required: false },
        Column { name: "deletion_time", required: false },
        Column { name: "scheduled_time", required: false },
    ],
    any_of: &[],
    unknown: UnknownColumns::Error,
};

fn decode(row: &mut RowCheck<'_>, shared: &mut Shared) -> Option<JobSpec> {
    let name = row.name(NAME);
    let devices = row.required_count(DEVICES);
    let milli = if row.told(MILLI).is_some() { row.length(MILLI) } else { None };
    let mut time = |column| if row.told(column).is_some() { row.length(column) } else { None };
    let (creation_s, deletion_s, scheduled_s) = (time(CREATION), time(DELETION), time(SCHEDULED));
    let types = row.told(SPEC);
    if row.is_bad {
        return None;
    }
    let devices = devices?;
    let reason = match (creation_s, scheduled_s, deletion_s) {
        _ if devices == 0 => Some(log::NO_GPU),
        (None, ..) => Some(log::NO_SUBMIT),
        (_, None, _) => Some(log::NEVER_STARTED),
        (_, _, None) => Some(log::NO_END),
        (_, Some(start_s), Some(end_s)) => log::length_problem(end_s - start_s),
    };
    if let Some(reason) = reason {
        row.drop(NAME, reason);
        return None;
    }
    if milli.is_some_and(|milli| milli < f64::from(WHOLE_MILLI)) {
        row.adapt(NAME, log::PART_OF_GPU);
    }
    if row.told(PHASE) == Some("Failed") {
        log::end_badly(row, NAME, shared)?;
    }
    let device_types = device_types(types, shared);
    let duration_s = deletion_s? - scheduled_s?;
    let job = Logged::new(shared, name?, creation_s?, devices, duration_s, DELETION);
    Logged { device_types, ..job }.into_job(row)
}

/// The types of a `gpu_spec`, `|` between them.
fn device_types(spec: Option<&str>, shared: &mut Shared) -> Arc<[Arc<str>]> {
    let names: Vec<&str> =
        spec.unwrap_or_default().split('|').filter(|name| !name.trim().is_empty()).collect();
    let names = names.join(";");
    shared.list((!names.is_empty()).then_some(&names))
}

/// A request. It arrives and lasts as the log has it; where that has no times, it has no length and arrives with its row.
fn decode_pod(row: &mut RowCheck<'_>, shared: &mut Shared) -> Option<JobSpec> {
    let name = row.name(NAME);
    let cpu_milli = row.required_count(CPU);
    let memory_mib = row.required_count(MEMORY);
    let devices = row.required_count(DEVICES);
    let device_milli = row.required_count(MILLI);
    let types = row.told(SPEC);
    let mut time = |column| if row.told(column).is_some() { row.length(column) } else { None };
    let (creation_s, deletion_s, scheduled_s) = (time(CREATION), time(DELETION), time(SCHEDULED));
    let (devices, device_milli) = (devices?, device_milli?);
    check_part(row, devices, device_milli);
    let task = Amounts { cpu_milli: cpu_milli?.into(), memory_mib: memory_mib?.into(), named: Vec::new() };
    // A pod is one task, with all its GPUs on one node.
    let request = match devices {
        0 => Request::tasks(1, task),
        1 if device_milli < WHOLE_MILLI => Request { device_milli, task, ..Request::default() },
        _ => Request { devices, task, ..Request::default() },
    };
    let mut job = JobSpec::new(name?, Time::ZERO, devices, 0.0, 0.0);
    if let (Some(creation_s), Some(deletion_s)) = (creation_s, deletion_s) {
        const SECOND_MS: f64 = 1000.0;
        // One that never started is as long as it was wanted.
        let length_s = deletion_s - scheduled_s.unwrap_or(creation_s);
        job.submit = Time::try_new(creation_s)?;
        if length_s > 0.0 {
            (job.iterations, job.iteration_ms, job.duration_s) = (length_s, SECOND_MS, Some(length_s));
        }
    }
    let needs = Needs { request, ..Needs::default() };
    job.gang = Gang { device_types: device_types(types, shared), needs: Some(Arc::new(needs)), ..job.gang };
    (!row.is_bad).then_some(job)
}

/// Reports a part that is no part of its number of GPUs.
fn check_part(row: &mut RowCheck<'_>, devices: u32, milli: u32) {
    let problem = match (devices, milli) {
        (0, 0) | (1, 1..=WHOLE_MILLI) | (2.., WHOLE_MILLI) => return,
        (0, _) => format!("found {milli} without a GPU, expected 0"),
        (1, _) => format!("found {milli}, expected 1 to {WHOLE_MILLI}: thousandths of one GPU"),
        _ => {
            format!(
                "found {milli} of each of {devices} GPUs, expected {WHOLE_MILLI}: several GPUs are whole ones"
            )
        }
    };
    row.error(MILLI, Note::error(Rule::DevicePart, problem).hint("a part is of one GPU: set `num_gpu` to 1"));
}
