//! Traces of the Crius simulator (Arena): models by family and size, and the devices and the type that each job asks for.
//!
//! Times are in seconds of any clock. The file leaves the speed of iterations to a profile. Jobs are elastic: they may run on one
//! up to sixteen devices of any type.

use wharf_core::{Gang, JobSpec, Time};

use super::{Codec, Recognise, Roles, Shared, Syntax};
use crate::csv::Separator;
use crate::finding::{Note, Rule};
use crate::row::{Column, RowCheck, Schema, UnknownColumns};

pub(super) static CODEC: Codec = Codec {
    name: "crius",
    about: "CSV of the Crius simulator",
    extension: "csv",
    syntax: Syntax::Csv(Separator::Comma),
    schema: &SCHEMA,
    roles: Roles {
        id: JOB_ID,
        submit: SUBMISSION_TIME,
        devices: NUM_GPU,
        device_types: Some(GPU_TYPE),
        model: MODEL_NAME,
        stages: 0,
    },
    merge: None,
    decode,
    recognise: Recognise::Header,
    log: None,
    encode: None,
};

const JOB_ID: usize = 0;
const SUBMISSION_TIME: usize = 1;
const NUM_ITERATION: usize = 2;
const MODEL_NAME: usize = 3;
const DEADLINE: usize = 4;
const BATCH_SIZE: usize = 5;
const NUM_GPU: usize = 6;
const GPU_TYPE: usize = 7;

static SCHEMA: Schema = Schema {
    columns: &[
        Column { name: "job_id", required: true },
        Column { name: "submission_time", required: true },
        Column { name: "num_iteration", required: true },
        Column { name: "model_name", required: true },
        Column { name: "deadline", required: false },
        Column { name: "batch_size", required: true },
        Column { name: "num_gpu", required: true },
        Column { name: "gpu_type", required: true },
    ],
    any_of: &[],
    unknown: UnknownColumns::Warning,
};

/// Most devices that Crius gives one job.
const DEVICES_MAX: u32 = 16;

fn decode(row: &mut RowCheck<'_>, shared: &mut Shared) -> Option<JobSpec> {
    let name = row.name(JOB_ID);
    let submit = row.submit(SUBMISSION_TIME, 1.0);
    let iterations = row.iterations(NUM_ITERATION);
    let model = row.name(MODEL_NAME);
    let deadline = decode_deadline(row, submit);
    let batch_size = row.required_count(BATCH_SIZE);
    if batch_size == Some(0) {
        row.error(BATCH_SIZE, Note::error(Rule::ZeroIterations, "found 0, expected at least one sample"));
    }
    let devices = row.gang(NUM_GPU);
    let device_type = row.name(GPU_TYPE);
    if row.is_bad {
        return None;
    }
    let devices = devices?;
    let mut job = JobSpec::new(name?, submit?, devices, iterations?, 0.0);
    job.gang = Gang {
        devices_min: 1,
        devices_max: devices.max(DEVICES_MAX),
        device_types: shared.list(Some(&format!("{};{}", device_type?, Gang::OTHERS))),
        ..job.gang
    };
    job.model = Some(shared.names.get(model?));
    job.batch_size = batch_size;
    job.deadline = deadline;
    Some(job)
}

fn decode_deadline(row: &mut RowCheck<'_>, submit: Option<Time>) -> Option<Time> {
    let deadline = Time::from_seconds(row.number(DEADLINE)?);
    if submit.is_some_and(|submit| deadline < submit) {
        let note =
            Note::warning(Rule::DeadlineBeforeSubmit, format!("found {deadline}, before the submission"));
        row.warn(DEADLINE, note.hint("deadlines are in seconds of the same clock as submissions"));
    }
    Some(deadline)
}
