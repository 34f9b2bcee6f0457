//! Microsoft's Philly log (ATC'19): `cluster_job_log` as published, and the table of its jobs in the Pollux and Sia
//! artifacts.

use std::borrow::Cow;

use serde::Deserialize;
use wharf_core::JobSpec;

use super::date::parse_date;
use super::log::{self, Logged};
use super::{Codec, LogSource, Recognise, Roles, Shared, Syntax};
use crate::csv::Separator;
use crate::finding::{Note, Rule};
use crate::row::{Column, RowCheck, Schema, UnknownColumns};

pub(super) static LOG: Codec = Codec {
    name: "philly",
    about: "Microsoft's Philly log, `cluster_job_log`",
    extension: "json",
    syntax: Syntax::JsonDocument,
    schema: &LOG_SCHEMA,
    roles: Roles {
        id: JOB_ID,
        submit: SUBMITTED,
        devices: ATTEMPTS,
        device_types: None,
        model: 0,
        stages: 0,
    },
    merge: None,
    decode: decode_log,
    recognise: Recognise::Text(is_log),
    log: Some(LogSource { file: Some("cluster_job_log"), ..LogSource::ROWS }),
    encode: None,
};

/// Whether the text begins with a list of objects.
fn is_log(text: &str) -> bool {
    text.strip_prefix('[').is_some_and(|list| list.trim_start().starts_with('{'))
}

pub(super) static TABLE: Codec = Codec {
    name: "philly-csv",
    about: "jobs of the Philly log as a table",
    extension: "csv",
    syntax: Syntax::Csv(Separator::Comma),
    schema: &TABLE_SCHEMA,
    roles: Roles {
        id: TIMESTAMP,
        submit: TIMESTAMP,
        devices: TABLE_DEVICES,
        device_types: None,
        model: 0,
        stages: 0,
    },
    merge: None,
    decode: decode_table,
    recognise: Recognise::Header,
    log: Some(LogSource { names_each_row: false, ..LogSource::ROWS }),
    encode: None,
};

const STATUS: usize = 0;
const VC: usize = 1;
const JOB_ID: usize = 2;
const ATTEMPTS: usize = 3;
const SUBMITTED: usize = 4;
const USER: usize = 5;

static LOG_SCHEMA: Schema = Schema {
    columns: &[
        Column { name: "status", required: false },
        Column { name: "vc", required: false },
        Column { name: "jobid", required: true },
        Column { name: "attempts", required: true },
        Column { name: "submitted_time", required: true },
        Column { name: "user", required: false },
    ],
    any_of: &[],
    unknown: UnknownColumns::Warning,
};

const TIMESTAMP: usize = 0;
const TABLE_DURATION: usize = 1;
const TABLE_DEVICES: usize = 2;

static TABLE_SCHEMA: Schema = Schema {
    columns: &[
        Column { name: "timestamp", required: true },
        Column { name: "duration", required: true },
        Column { name: "num_gpus", required: true },
        Column { name: "gpu_time", required: false },
        Column { name: "cluster", required: false },
    ],
    any_of: &[],
    unknown: UnknownColumns::Warning,
};

/// One start of a job.
#[derive(Deserialize)]
struct Attempt<'a> {
    #[serde(borrow, default)]
    start_time: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    end_time: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    detail: Vec<Machine<'a>>,
}

#[derive(Deserialize)]
struct Machine<'a> {
    #[serde(borrow, default)]
    gpus: Vec<Cow<'a, str>>,
}

impl Attempt<'_> {
    /// How long it took, where both ends are known; below zero where it ends before it starts.
    fn seconds(&self) -> Option<f64> {
        let time = |text: &Option<Cow<'_, str>>| parse_date(text.as_deref()?);
        Some(time(&self.end_time)? - time(&self.start_time)?)
    }

    /// Whether nothing is said about its end.
    fn is_open(&self) -> bool {
        self.end_time.as_deref().is_none_or(|text| matches!(text.trim(), "" | "None"))
    }

    fn devices(&self) -> usize {
        self.detail.iter().map(|machine| machine.gpus.len()).sum()
    }
}

/// What the attempts of a job come to.
struct Work {
    devices: u32,
    duration_s: f64,
}

fn decode_log(row: &mut RowCheck<'_>, shared: &mut Shared) -> Option<JobSpec> {
    const MANY: &str = "started more than once, with the lengths of the attempts added up";
    let name = row.name(JOB_ID);
    let user = row.text(USER).map(|user| shared.names.get(user));
    let submit_s = row.date(SUBMITTED);
    let status = row.told(STATUS).unwrap_or("Pass") == "Pass";
    let attempts = decode_attempts(row);
    if row.is_bad {
        return None;
    }
    let attempts = attempts?;
    let work = weigh(row, &attempts)?;
    let Some(submit_s) = submit_s else {
        row.drop(JOB_ID, log::NO_SUBMIT);
        return None;
    };
    if !status {
        log::end_badly(row, JOB_ID, shared)?;
    }
    if attempts.len() > 1 {
        row.adapt(JOB_ID, MANY);
    }
    let pool = row.told(VC).map(|vc| shared.names.get(vc));
    let job = Logged::new(shared, name?, submit_s, work.devices, work.duration_s, ATTEMPTS);
    Logged { user, pool, ..job }.into_job(row)
}

fn decode_attempts<'a>(row: &mut RowCheck<'a>) -> Option<Vec<Attempt<'a>>> {
    let Some(text) = row.raw(ATTEMPTS) else { return Some(Vec::new()) };
    match serde_json::from_str(text) {
        Ok(attempts) => Some(attempts),
        Err(_) => {
            let note = Note::error(Rule::BadJson, "expected a list of attempts")
                .hint("an attempt is {\"start_time\": DATE, \"end_time\": DATE, \"detail\": [{\"ip\": NAME, \"gpus\": [NAME, ...]}]}");
            row.error(ATTEMPTS, note);
            None
        }
    }
}

/// Devices and seconds of a job, or why it is none.
fn weigh(row: &mut RowCheck<'_>, attempts: &[Attempt<'_>]) -> Option<Work> {
    const PARTLY: &str = "attempts without a start or an end left out";
    const BACKWARDS: &str = "attempts that end before they start left out";
    let Some(last) = attempts.last() else {
        row.drop(JOB_ID, log::NEVER_STARTED);
        return None;
    };
    let devices = attempts.iter().map(Attempt::devices).max().unwrap_or(0);
    let lengths: Vec<f64> = attempts.iter().filter_map(Attempt::seconds).collect();
    let duration_s: f64 = lengths.iter().filter(|seconds| **seconds > 0.0).sum();
    let backwards =
        attempts.iter().position(|attempt| attempt.seconds().is_some_and(|seconds| seconds < 0.0));
    let backwards = backwards.map(|place| describe_attempt(place, &attempts[place]));
    let reason = if devices == 0 {
        Some(log::NO_GPU)
    } else if last.is_open() {
        Some(log::NO_END)
    } else if duration_s == 0.0 {
        Some(if backwards.is_some() { log::BACKWARDS } else { log::NO_TIME })
    } else {
        None
    };
    if let Some(reason) = reason {
        row.drop_part(JOB_ID, reason, backwards.filter(|_| reason == log::BACKWARDS));
        return None;
    }
    if backwards.is_some() {
        row.adapt_part(JOB_ID, BACKWARDS, backwards);
    }
    if lengths.len() < attempts.len() {
        row.adapt(JOB_ID, PARTLY);
    }
    Some(Work { devices: u32::try_from(devices).ok()?, duration_s })
}

/// An attempt, counted from 1, with its times.
fn describe_attempt(place: usize, attempt: &Attempt<'_>) -> String {
    let time = |text: &Option<Cow<'_, str>>| text.as_deref().unwrap_or_default().to_owned();
    let (start, end) = (time(&attempt.start_time), time(&attempt.end_time));
    format!("attempt {} from {start} to {end}", place + 1)
}

/// The table has no names: a job is called by its line.
fn decode_table(row: &mut RowCheck<'_>, shared: &mut Shared) -> Option<JobSpec> {
    let submit_s = row.date(TIMESTAMP);
    let duration_s = row.length(TABLE_DURATION);
    let devices = row.required_count(TABLE_DEVICES);
    if row.is_bad {
        return None;
    }
    let (devices, duration_s) = (devices?, duration_s.unwrap_or(0.0));
    let reason = match submit_s {
        None => Some(log::NO_SUBMIT),
        Some(_) if devices == 0 => Some(log::NO_GPU),
        Some(_) => log::length_problem(duration_s),
    };
    if let Some(reason) = reason {
        row.drop(TIMESTAMP, reason);
        return None;
    }
    let name = row.row.line.to_string();
    Logged::new(shared, &name, submit_s?, devices, duration_s, TABLE_DURATION).into_job(row)
}
