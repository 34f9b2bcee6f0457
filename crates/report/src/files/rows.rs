//! Rows of the CSV files, as they are written and read.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wharf_core::{JobId, JobSpec, Time};
use wharf_outcome::{JobRecord, Sample};

/// A row of `jobs.csv`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRow {
    /// The name in the trace.
    pub job_id: String,
    /// The devices it asked for. The column keeps its name for those who read it; `devices` is the same number.
    pub gpus: u32,
    /// When it was submitted.
    pub submit_s: f64,
    /// When it first ran.
    pub first_start_s: Option<f64>,
    /// When it was done.
    pub end_s: Option<f64>,
    /// Submission to end.
    pub jct_s: Option<f64>,
    /// Seconds submitted but not running.
    pub queue_s: f64,
    /// Seconds holding devices.
    pub run_s: f64,
    /// How often it was stopped before it was done.
    pub preemptions: u32,
    /// The name of the job, as `job_id`.
    pub name: String,
    /// The user who submitted it.
    pub user: Option<String>,
    /// The model that it trains.
    pub model: Option<String>,
    /// The device types that it may run on, `;` between them; empty where any will do.
    pub device_type: Option<String>,
    /// The devices it asked for.
    pub devices: u32,
}

impl JobRow {
    /// The file's first line.
    pub const COLUMNS: [&'static str; 14] = [
        "job_id",
        "gpus",
        "submit_s",
        "first_start_s",
        "end_s",
        "jct_s",
        "queue_s",
        "run_s",
        "preemptions",
        "name",
        "user",
        "model",
        "device_type",
        "devices",
    ];

    /// The row of a record; a job without a spec is named by its id.
    pub fn new(specs: &[JobSpec], record: &JobRecord) -> Self {
        let spec = specs.get(record.job.index());
        let text = |text: Option<&Arc<str>>| text.map(ToString::to_string);
        let name = spec.map_or_else(|| record.job.to_string(), |spec| spec.name.to_string());
        let types = spec.map(|spec| &spec.gang.device_types).filter(|types| !types.is_empty());
        Self {
            job_id: name.clone(),
            gpus: record.devices,
            submit_s: record.submit.seconds(),
            first_start_s: record.first_start.map(Time::seconds),
            end_s: record.end.map(Time::seconds),
            jct_s: record.jct_s(),
            // `-0.0 + 0.0` is `0.0`.
            queue_s: record.queue_s + 0.0,
            run_s: record.run_s + 0.0,
            preemptions: record.preemptions,
            name,
            user: text(spec.and_then(|spec| spec.user.as_ref())),
            model: text(spec.and_then(|spec| spec.model.as_ref())),
            device_type: types.map(|types| types.join(";")),
            devices: record.devices,
        }
    }

    /// The record of a row read back; `None` where a time is not finite.
    pub fn to_record(&self, job: JobId) -> Option<JobRecord> {
        if !self.is_finite() {
            return None;
        }
        Some(JobRecord {
            job,
            devices: self.gpus,
            submit: Time::try_new(self.submit_s)?,
            first_start: self.first_start_s.and_then(Time::try_new),
            end: self.end_s.and_then(Time::try_new),
            queue_s: self.queue_s,
            run_s: self.run_s,
            preemptions: self.preemptions,
            failures: 0,
        })
    }

    pub(super) fn is_finite(&self) -> bool {
        let optional = [self.first_start_s, self.end_s, self.jct_s];
        let values = [self.submit_s, self.queue_s, self.run_s];
        optional.iter().flatten().chain(&values).all(|value| value.is_finite())
    }
}

/// A row of `timeline.csv`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimelineRow {
    /// The moment.
    pub time_s: f64,
    /// Devices with at least one running job, from then on.
    pub busy_devices: u32,
    /// Jobs running.
    pub running: u32,
    /// Jobs waiting.
    pub waiting: u32,
}

impl TimelineRow {
    /// The file's first line.
    pub const COLUMNS: [&'static str; 4] = ["time_s", "busy_devices", "running", "waiting"];

    /// The row of a sample.
    pub fn new(sample: &Sample) -> Self {
        let &Sample { time, busy_devices, running, waiting } = sample;
        Self { time_s: time.seconds(), busy_devices, running, waiting }
    }

    /// The sample of a row read back; `None` where its time is not finite.
    pub fn to_sample(&self) -> Option<Sample> {
        let &Self { time_s, busy_devices, running, waiting } = self;
        Some(Sample { time: Time::try_new(time_s)?, busy_devices, running, waiting })
    }

    pub(super) fn is_finite(&self) -> bool {
        self.time_s.is_finite()
    }
}
