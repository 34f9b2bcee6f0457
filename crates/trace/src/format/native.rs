//! Wharf's own columns, as CSV and as JSON Lines: every field of a job, and each number bit by bit.

use std::io::{self, Write};
use std::sync::Arc;

use wharf_core::{ArrayElement, Gang, JobSpec, Needs, Time};

use super::{Codec, Recognise, Roles, Shared, Syntax, request};
use crate::Trace;
use crate::csv::Separator;
use crate::finding::{Note, Rule};
use crate::row::{Alternatives, Column, RowCheck, Schema, UnknownColumns};
use crate::text::write_number;
use crate::write::Loss;
use crate::{csv, jsonl};

pub(super) static CSV: Codec = Codec {
    name: "csv",
    about: "Wharf's own columns as CSV",
    extension: "csv",
    syntax: Syntax::Csv(Separator::Comma),
    schema: &SCHEMA,
    roles: ROLES,
    merge: None,
    decode,
    recognise: Recognise::Header,
    log: None,
    encode: Some(encode_csv),
};

pub(super) static JSONL: Codec = Codec {
    name: "jsonl",
    about: "Wharf's own columns as JSON Lines",
    extension: "jsonl",
    syntax: Syntax::JsonLines,
    schema: &SCHEMA,
    roles: ROLES,
    merge: None,
    decode,
    recognise: Recognise::Text(|text| text.starts_with('{')),
    log: None,
    encode: Some(encode_jsonl),
};

const ROLES: Roles = Roles {
    id: JOB_ID,
    submit: SUBMIT_S,
    devices: DEVICES,
    device_types: Some(DEVICE_TYPES),
    model: MODEL,
    stages: DATA_MS,
};

const JOB_ID: usize = 0;
const USER: usize = 1;
const SUBMIT_S: usize = 2;
const DEVICES: usize = 3;
const DEVICES_MIN: usize = 4;
const DEVICES_MAX: usize = 5;
const DEVICE_TYPES: usize = 6;
const ITERATIONS: usize = 7;
const ITERATION_MS: usize = 8;
const DURATION_S: usize = 9;
const MODEL: usize = 10;
const BATCH_SIZE: usize = 11;
const DATA_MS: usize = 12;
const COMPUTE_MS: usize = 13;
const NETWORK_MS: usize = 14;
const PRIORITY: usize = 15;
const DEADLINE_S: usize = 16;
const ARRAY: usize = 17;
const ARRAY_INDEX: usize = 18;
const WEIGHT: usize = 19;
const POOL: usize = 20;
const TASKS: usize = 21;
const NODES: usize = 22;
const CPUS: usize = 23;
const MEMORY_MIB: usize = 24;
const DEVICE_MILLI: usize = 25;
const RESOURCES: usize = 26;
const LICENCES: usize = 27;
const EXCLUSIVE: usize = 28;
const PREFER_WITHIN: usize = 29;
const REQUIRE_WITHIN: usize = 30;

/// The columns of requests.
const REQUEST: request::Columns = request::Columns {
    devices: DEVICES,
    tasks: TASKS,
    cpus: CPUS,
    memory_mib: MEMORY_MIB,
    device_milli: DEVICE_MILLI,
    resources: RESOURCES,
    licences: LICENCES,
    exclusive: EXCLUSIVE,
    prefer_within: PREFER_WITHIN,
    require_within: REQUIRE_WITHIN,
};

/// The columns that state how long a job is.
const LENGTHS: Alternatives = &[&[ITERATIONS, ITERATION_MS], &[DURATION_S], &[ITERATIONS, MODEL]];

static SCHEMA: Schema = Schema {
    columns: &[
        Column { name: "job_id", required: true },
        Column { name: "user", required: false },
        Column { name: "submit_s", required: true },
        Column { name: "devices", required: true },
        Column { name: "devices_min", required: false },
        Column { name: "devices_max", required: false },
        Column { name: "device_types", required: false },
        Column { name: "iterations", required: false },
        Column { name: "iteration_ms", required: false },
        Column { name: "duration_s", required: false },
        Column { name: "model", required: false },
        Column { name: "batch_size", required: false },
        Column { name: "data_ms", required: false },
        Column { name: "compute_ms", required: false },
        Column { name: "network_ms", required: false },
        Column { name: "priority", required: false },
        Column { name: "deadline_s", required: false },
        Column { name: "array", required: false },
        Column { name: "array_index", required: false },
        Column { name: "weight", required: false },
        Column { name: "pool", required: false },
        Column { name: "tasks", required: false },
        Column { name: "nodes", required: false },
        Column { name: "cpus", required: false },
        Column { name: "memory_mib", required: false },
        Column { name: "device_milli", required: false },
        Column { name: "resources", required: false },
        Column { name: "licences", required: false },
        Column { name: "exclusive", required: false },
        Column { name: "prefer_within", required: false },
        Column { name: "require_within", required: false },
    ],
    any_of: &[LENGTHS],
    unknown: UnknownColumns::Error,
};

fn decode(row: &mut RowCheck<'_>, shared: &mut Shared) -> Option<JobSpec> {
    let name = row.name(JOB_ID);
    let user = row.text(USER).map(|user| shared.names.get(user));
    let submit = row.submit(SUBMIT_S, 1.0);
    let gang = decode_gang(row, shared);
    let length = decode_length(row);
    let model = row.text(MODEL).map(|model| shared.names.get(model));
    let batch_size = row.count(BATCH_SIZE);
    let stages = row.stages(DATA_MS);
    let priority = row.integer(PRIORITY).unwrap_or(0);
    let weight = if row.has(WEIGHT) { row.weight(WEIGHT) } else { Some(1.0) };
    let deadline = decode_deadline(row, submit);
    let array = decode_array(row, shared);
    if row.is_bad {
        return None;
    }
    let (iterations, iteration_ms, duration_s) = length?;
    Some(JobSpec {
        name: name?.into(),
        user,
        submit: submit?,
        gang: gang?,
        iterations,
        iteration_ms,
        duration_s,
        model,
        batch_size,
        stages,
        priority,
        weight: weight?,
        deadline,
        array,
        row: 0,
    })
}

fn decode_gang(row: &mut RowCheck<'_>, shared: &mut Shared) -> Option<Gang> {
    let device_types = shared.list(row.list(DEVICE_TYPES));
    let devices_min = row.count(DEVICES_MIN);
    let devices_max = row.count(DEVICES_MAX);
    let devices = if REQUEST.is_without_devices(row) { 0 } else { row.gang(DEVICES)? };
    let devices_min = devices_min.unwrap_or(devices);
    let devices_max = devices_max.unwrap_or(devices);
    if devices_min == 0 && devices > 0 {
        let note = Note::error(Rule::ZeroGang, "found 0, expected at least one device");
        row.error(DEVICES_MIN, note);
    }
    if devices_min > devices {
        let message = format!("found {devices_min}, expected at most the {devices} that `devices` asks for");
        row.error(DEVICES_MIN, Note::error(Rule::GangRange, message));
    }
    if devices_max < devices {
        let message = format!("found {devices_max}, expected at least the {devices} that `devices` asks for");
        row.error(DEVICES_MAX, Note::error(Rule::GangRange, message));
    }
    let pool = row.text(POOL).map(|pool| shared.names.get(pool));
    let request = REQUEST.decode(row, shared, devices)?;
    let nodes = if row.has(NODES) { row.required_count(NODES).filter(|&nodes| nodes > 0) } else { None };
    let needs = Needs { pool, nodes, request, ..Needs::default() };
    let needs = (needs != Needs::default()).then(|| Arc::new(needs));
    Some(Gang { devices, devices_min, devices_max, device_types, needs })
}

/// Iterations, milliseconds an iteration, and the declared duration.
///
/// A row with a duration alone is a job of as many iterations of one second. How long the iterations of a model take can
/// be left to a profile.
fn decode_length(row: &mut RowCheck<'_>) -> Option<(f64, f64, Option<f64>)> {
    const SECOND_MS: f64 = 1000.0;
    if !row.has(ITERATIONS) && !row.has(ITERATION_MS) {
        let has_columns = |set: &&[usize]| set.iter().all(|column| row.has_column(*column));
        if !LENGTHS.iter().any(has_columns) {
            // Reported with the header.
            row.is_bad = true;
            return None;
        }
        if !row.has(DURATION_S) {
            let message = format!("the row has none of {}", row.schema.choices(LENGTHS));
            row.error(DURATION_S, Note::error(Rule::MissingValue, message));
            return None;
        }
        let duration_s = row.positive_length(DURATION_S)?;
        row.check_solo(DURATION_S, duration_s, SECOND_MS);
        return Some((duration_s, SECOND_MS, Some(duration_s)));
    }
    let iterations = row.iterations(ITERATIONS);
    // Without a time, a profile has to know the model.
    let is_profiled = !row.has(ITERATION_MS) && row.has(MODEL);
    let iteration_ms = if is_profiled { Some(0.0) } else { row.positive_length(ITERATION_MS) };
    let duration_s = row.length(DURATION_S);
    row.check_solo(ITERATIONS, iterations?, iteration_ms?);
    Some((iterations?, iteration_ms?, duration_s))
}

fn decode_deadline(row: &mut RowCheck<'_>, submit: Option<Time>) -> Option<Time> {
    let deadline = Time::from_seconds(row.number(DEADLINE_S)?);
    if let Some(submit) = submit
        && deadline < submit
    {
        let message = format!("found {deadline}, which is before the submission at {submit}");
        let hint = "`deadline_s` counts from the beginning of the trace, not from the submission";
        row.error(DEADLINE_S, Note::error(Rule::DeadlineBeforeSubmit, message).hint(hint));
    }
    Some(deadline)
}

fn decode_array(row: &mut RowCheck<'_>, shared: &mut Shared) -> Option<ArrayElement> {
    let (has_array, has_index) = (row.has(ARRAY), row.has(ARRAY_INDEX));
    if has_array != has_index {
        let absent = if has_array { ARRAY_INDEX } else { ARRAY };
        row.missing(absent, "an array's element needs `array` and `array_index`");
    }
    let array = row.text(ARRAY).map(|array| shared.names.get(array));
    let index = row.count(ARRAY_INDEX);
    Some(ArrayElement { array: array?, index: index? })
}

/// Which columns a job needs, in the order of the schema.
fn used(job: &JobSpec) -> [bool; SCHEMA_WIDTH] {
    let mut used = [false; SCHEMA_WIDTH];
    for column in [JOB_ID, SUBMIT_S, DEVICES, ITERATIONS] {
        used[column] = true;
    }
    used[ITERATION_MS] = job.iteration_ms > 0.0;
    used[USER] = job.user.is_some();
    used[DEVICES_MIN] = job.gang.devices_min != job.gang.devices;
    used[DEVICES_MAX] = job.gang.devices_max != job.gang.devices;
    used[DEVICE_TYPES] = !job.gang.device_types.is_empty();
    used[DURATION_S] = job.duration_s.is_some();
    used[MODEL] = job.model.is_some();
    used[BATCH_SIZE] = job.batch_size.is_some();
    for stage in [DATA_MS, COMPUTE_MS, NETWORK_MS] {
        used[stage] = job.stages.is_some();
    }
    used[PRIORITY] = job.priority != 0;
    used[WEIGHT] = job.weight != 1.0;
    used[POOL] = job.gang.pool().is_some();
    used[NODES] = job.gang.needs.as_ref().is_some_and(|needs| needs.nodes.is_some());
    for (column, value) in REQUEST.encode(&job.gang) {
        used[column] = value.is_some();
    }
    used[DEADLINE_S] = job.deadline.is_some();
    used[ARRAY] = job.array.is_some();
    used[ARRAY_INDEX] = job.array.is_some();
    used
}

const SCHEMA_WIDTH: usize = SCHEMA.columns.len();

/// A field's value, before it is put into a syntax.
enum Value<'a> {
    None,
    Text(&'a str),
    List(&'a [Arc<str>]),
    /// Text, or a list, that was put together.
    Made(String),
    Number(f64),
}

fn value(job: &JobSpec, column: usize) -> Value<'_> {
    fn number(value: Option<f64>) -> Value<'static> {
        value.map_or(Value::None, Value::Number)
    }
    fn text(value: Option<&str>) -> Value<'_> {
        value.map_or(Value::None, Value::Text)
    }
    match column {
        JOB_ID => Value::Text(&job.name),
        USER => text(job.user.as_deref()),
        SUBMIT_S => Value::Number(job.submit.seconds()),
        DEVICES => Value::Number(job.gang.devices.into()),
        DEVICES_MIN => Value::Number(job.gang.devices_min.into()),
        DEVICES_MAX => Value::Number(job.gang.devices_max.into()),
        DEVICE_TYPES => Value::List(&job.gang.device_types),
        ITERATIONS => Value::Number(job.iterations),
        ITERATION_MS => number((job.iteration_ms > 0.0).then_some(job.iteration_ms)),
        DURATION_S => number(job.duration_s),
        MODEL => text(job.model.as_deref()),
        BATCH_SIZE => number(job.batch_size.map(f64::from)),
        DATA_MS => number(job.stages.map(|stages| stages.data_ms)),
        COMPUTE_MS => number(job.stages.map(|stages| stages.compute_ms)),
        NETWORK_MS => number(job.stages.map(|stages| stages.network_ms)),
        PRIORITY => Value::Number(job.priority.into()),
        WEIGHT => Value::Number(job.weight),
        POOL => text(job.gang.pool().map(|pool| &**pool)),
        DEADLINE_S => number(job.deadline.map(Time::seconds)),
        ARRAY => text(job.array.as_ref().map(|element| &*element.array)),
        ARRAY_INDEX => number(job.array.as_ref().map(|element| element.index.into())),
        NODES => number(job.gang.needs.as_ref().and_then(|needs| needs.nodes).map(f64::from)),
        _ => match REQUEST.encode(&job.gang).into_iter().find(|(known, _)| *known == column) {
            Some((_, Some(request::Field::Number(value)))) => Value::Number(value),
            Some((_, Some(request::Field::Text(text)))) => Value::Made(text),
            _ => Value::None,
        },
    }
}

/// Only columns that some job needs are written.
fn encode_csv(trace: &Trace, out: &mut dyn Write) -> io::Result<Vec<Loss>> {
    let mut columns = [false; SCHEMA_WIDTH];
    for column in [JOB_ID, SUBMIT_S, DEVICES, ITERATIONS] {
        columns[column] = true;
    }
    columns[ITERATION_MS] = trace.jobs.is_empty();
    for job in &trace.jobs {
        columns.iter_mut().zip(used(job)).for_each(|(column, used)| *column |= used);
    }
    let columns: Vec<usize> = (0..SCHEMA_WIDTH).filter(|column| columns[*column]).collect();
    let names: Vec<_> = columns.iter().map(|column| SCHEMA.columns[*column].name).collect();
    writeln!(out, "{}", names.join(","))?;
    for job in &trace.jobs {
        for (place, column) in columns.iter().enumerate() {
            if place > 0 {
                out.write_all(b",")?;
            }
            match value(job, *column) {
                Value::None => {}
                Value::Text(text) => csv::write_text(out, text)?,
                Value::List(items) => csv::write_text(out, &items.join(";"))?,
                Value::Made(text) => csv::write_text(out, &text)?,
                Value::Number(number) => write_number(out, number)?,
            }
        }
        writeln!(out)?;
    }
    Ok(Vec::new())
}

/// Only fields that the job needs are written.
fn encode_jsonl(trace: &Trace, out: &mut dyn Write) -> io::Result<Vec<Loss>> {
    for job in &trace.jobs {
        let used = used(job);
        let mut separator = "{";
        for column in (0..SCHEMA_WIDTH).filter(|column| used[*column]) {
            write!(out, "{separator}\"{}\":", SCHEMA.columns[column].name)?;
            separator = ",";
            match value(job, column) {
                Value::None => out.write_all(b"null")?,
                Value::Text(text) => jsonl::write_text(out, text)?,
                Value::Made(text) => jsonl::write_text(out, &text)?,
                Value::Number(number) => write_number(out, number)?,
                Value::List(items) => {
                    for (place, item) in items.iter().enumerate() {
                        out.write_all(if place == 0 { b"[" } else { b"," })?;
                        jsonl::write_text(out, item)?;
                    }
                    out.write_all(b"]")?;
                }
            }
        }
        writeln!(out, "}}")?;
    }
    Ok(Vec::new())
}
