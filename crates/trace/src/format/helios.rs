//! SenseTime's Helios log (SC'21): `cluster_log.csv` of a cluster, as published.

use wharf_core::JobSpec;

use super::log::{self, Logged};
use super::{Codec, LogSource, Recognise, Roles, Shared, Syntax};
use crate::csv::Separator;
use crate::row::{Column, RowCheck, Schema, UnknownColumns};

pub(super) static CODEC: Codec = Codec {
    name: "helios",
    about: "SenseTime's Helios log, `cluster_log.csv`",
    extension: "csv",
    syntax: Syntax::Csv(Separator::Comma),
    schema: &SCHEMA,
    roles: Roles { id: JOB_ID, submit: SUBMIT, devices: DEVICES, device_types: None, model: 0, stages: 0 },
    merge: None,
    decode,
    recognise: Recognise::Header,
    log: Some(LogSource { file: Some("cluster_log.csv"), ..LogSource::ROWS }),
    encode: None,
};

const JOB_ID: usize = 0;
const USER: usize = 1;
const VC: usize = 2;
const DEVICES: usize = 3;
const STATE: usize = 6;
const SUBMIT: usize = 7;
const START: usize = 8;
const END: usize = 9;
const DURATION: usize = 10;

static SCHEMA: Schema = Schema {
    columns: &[
        Column { name: "job_id", required: true },
        Column { name: "user", required: false },
        Column { name: "vc", required: false },
        Column { name: "gpu_num", required: true },
        Column { name: "cpu_num", required: false },
        Column { name: "node_num", required: false },
        Column { name: "state", required: false },
        Column { name: "submit_time", required: true },
        Column { name: "start_time", required: true },
        Column { name: "end_time", required: true },
        Column { name: "duration", required: false },
        Column { name: "queue", required: false },
    ],
    any_of: &[],
    unknown: UnknownColumns::Warning,
};

fn decode(row: &mut RowCheck<'_>, shared: &mut Shared) -> Option<JobSpec> {
    let name = row.name(JOB_ID);
    let user = row.text(USER).map(|user| shared.names.get(user));
    let devices = row.required_count(DEVICES);
    let submit_s = row.date(SUBMIT);
    let start_s = row.date(START);
    let end_s = row.date(END);
    let told_s = if row.told(DURATION).is_some() { row.length(DURATION) } else { None };
    if row.is_bad {
        return None;
    }
    let devices = devices?;
    // The owners compute the duration from the two dates.
    let duration_s = told_s.or(end_s.zip(start_s).map(|(end, start)| end - start));
    let reason = match (submit_s, start_s, duration_s) {
        _ if devices == 0 => Some(log::NO_GPU),
        (None, ..) => Some(log::NO_SUBMIT),
        (_, None, _) => Some(log::NEVER_STARTED),
        (_, _, None) => Some(log::NO_END),
        (_, _, Some(duration_s)) => log::length_problem(duration_s),
    };
    if let Some(reason) = reason {
        row.drop(JOB_ID, reason);
        return None;
    }
    if row.told(STATE).is_some_and(|state| state != "COMPLETED") {
        log::end_badly(row, JOB_ID, shared)?;
    }
    let pool = row.told(VC).map(|vc| shared.names.get(vc));
    let job = Logged::new(shared, name?, submit_s?, devices, duration_s?, DURATION);
    Logged { user, pool, ..job }.into_job(row)
}
