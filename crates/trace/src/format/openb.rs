//! Alibaba's GPU log of 2023 (ATC'23): `openb_pod_list_*.csv`, as published. A pod is a job.

use wharf_core::JobSpec;

use super::log::{self, Logged};
use super::{Codec, LogSource, Recognise, Roles, Shared, Syntax};
use crate::csv::Separator;
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

const NAME: usize = 0;
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

/// A whole GPU.
const WHOLE_MILLI: f64 = 1000.0;

fn decode(row: &mut RowCheck<'_>, shared: &mut Shared) -> Option<JobSpec> {
    let name = row.name(NAME);
    let devices = row.required_count(DEVICES);
    let milli = if row.told(MILLI).is_some() { row.length(MILLI) } else { None };
    let mut time = |column| if row.told(column).is_some() { row.length(column) } else { None };
    let (creation_s, deletion_s, scheduled_s) = (time(CREATION), time(DELETION), time(SCHEDULED));
    let types = row.told(SPEC).map(|spec| spec.replace('|', ";"));
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
    if milli.is_some_and(|milli| milli < WHOLE_MILLI) {
        row.adapt(NAME, log::PART_OF_GPU);
    }
    if row.told(PHASE) == Some("Failed") {
        log::end_badly(row, NAME, shared)?;
    }
    let types = types
        .map(|types| types.split(';').filter(|name| !name.trim().is_empty()).collect::<Vec<_>>().join(";"));
    let device_types = shared.list(types.as_deref().filter(|types| !types.is_empty()));
    let duration_s = deletion_s? - scheduled_s?;
    let job = Logged::new(shared, name?, creation_s?, devices, duration_s, DELETION);
    Logged { device_types, ..job }.into_job(row)
}
