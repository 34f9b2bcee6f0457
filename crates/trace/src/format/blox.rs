//! Inputs of the Blox simulator (EuroSys'24): job streams as JSON, and the CSV that it replays.
//!
//! A stream is a list of `[id, arrival in seconds, iterations of one second, GPUs]`, alone or as the member `jobs` of an
//! object. The CSV has iterations of a model, and leaves their length to a profile.

use wharf_core::{Gang, JobSpec};

use super::{Codec, Recognise, Roles, Shared, Syntax};
use crate::csv::Separator;
use crate::row::{Column, RowCheck, Schema, UnknownColumns};
use wharf_perf::Workload;

pub(super) static STREAM: Codec = Codec {
    name: "blox",
    about: "JSON job stream of the Blox simulator",
    extension: "json",
    syntax: Syntax::JsonDocument,
    schema: &STREAM_SCHEMA,
    roles: Roles { id: JOB_ID, submit: ARRIVAL, devices: DEVICES, device_types: None, model: 0, stages: 0 },
    merge: None,
    decode: decode_stream,
    recognise: Recognise::Text(is_stream),
    log: None,
    encode: None,
};

pub(super) static REPLAY: Codec = Codec {
    name: "blox-csv",
    about: "CSV that the Blox simulator replays",
    extension: "csv",
    syntax: Syntax::Csv(Separator::Comma),
    schema: &REPLAY_SCHEMA,
    roles: Roles {
        id: JOB_ID,
        submit: REPLAY_ARRIVAL,
        devices: REPLAY_DEVICES,
        device_types: None,
        model: REPLAY_MODEL,
        stages: 0,
    },
    merge: None,
    decode: decode_replay,
    recognise: Recognise::Header,
    log: None,
    encode: None,
};

const JOB_ID: usize = 0;
const ARRIVAL: usize = 1;
const ITERATIONS: usize = 2;
const DEVICES: usize = 3;

static STREAM_SCHEMA: Schema = Schema {
    columns: &[
        Column { name: "job_id", required: true },
        Column { name: "arrival_s", required: true },
        Column { name: "iterations", required: true },
        Column { name: "gpus", required: true },
    ],
    any_of: &[],
    unknown: UnknownColumns::Warning,
};

const REPLAY_MODEL: usize = 1;
const REPLAY_ARRIVAL: usize = 2;
const REPLAY_ITERATIONS: usize = 3;
const REPLAY_DEVICES: usize = 4;

static REPLAY_SCHEMA: Schema = Schema {
    columns: &[
        Column { name: "job_id", required: true },
        Column { name: "model_name", required: true },
        Column { name: "arrival_time", required: true },
        Column { name: "num_iters", required: true },
        Column { name: "gpu_demand", required: true },
    ],
    any_of: &[],
    unknown: UnknownColumns::Warning,
};

/// Whether an object is a stream: it has a member `jobs` that is a list.
fn is_stream(text: &str) -> bool {
    if let Some(list) = text.strip_prefix('[') {
        return !list.trim_start().starts_with('{');
    }
    if !text.starts_with('{') {
        return false;
    }
    text.split("\"jobs\"").skip(1).any(|rest| {
        rest.trim_start().strip_prefix(':').is_some_and(|value| value.trim_start().starts_with('['))
    })
}

/// The stream's iterations take a second each, whatever the gang.
fn decode_stream(row: &mut RowCheck<'_>, _: &mut Shared) -> Option<JobSpec> {
    const SECOND_MS: f64 = 1000.0;
    let name = row.name(JOB_ID);
    let submit = row.submit(ARRIVAL, 1.0);
    let iterations = row.iterations(ITERATIONS);
    let devices = row.gang(DEVICES);
    row.check_solo(ITERATIONS, iterations?, SECOND_MS);
    if row.is_bad {
        return None;
    }
    Some(JobSpec::new(name?, submit?, devices?, iterations?, SECOND_MS))
}

fn decode_replay(row: &mut RowCheck<'_>, shared: &mut Shared) -> Option<JobSpec> {
    let name = row.name(JOB_ID);
    let label = row.name(REPLAY_MODEL);
    let submit = row.submit(REPLAY_ARRIVAL, 1.0);
    let iterations = row.iterations(REPLAY_ITERATIONS);
    let devices = row.gang(REPLAY_DEVICES);
    if row.is_bad {
        return None;
    }
    let Workload { model, batch_size } = Workload::from_label(label?);
    let mut job = JobSpec::new(name?, submit?, devices?, iterations?, 0.0);
    job.gang = Gang { device_types: shared.list(None), ..job.gang };
    job.model = Some(shared.names.get(&model));
    job.batch_size = batch_size;
    Some(job)
}
