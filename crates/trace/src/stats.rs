//! What a trace is like: sizes, lengths, arrivals and the load they make.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Serialize;

use crate::Trace;

const SECONDS_PER_HOUR: f64 = 3600.0;

/// A trace in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceStats {
    /// The trace's name.
    pub name: String,
    /// How many jobs.
    pub job_count: usize,
    /// How many users are named.
    pub user_count: usize,
    /// How many jobs are elements of arrays.
    pub array_job_count: usize,
    /// How many jobs have a deadline.
    pub deadline_job_count: usize,
    /// How many jobs may run on more, or fewer, devices than they ask for.
    pub elastic_job_count: usize,
    /// How many jobs leave it to a profile how long they take; they are in no other number about lengths.
    pub profiled_job_count: usize,
    /// The first submission.
    pub first_submit_s: f64,
    /// From the first submission to the last.
    pub span_s: f64,
    /// Submissions an hour over the span; `None` where all come at once.
    pub arrivals_per_hour: Option<f64>,
    /// Devices × undisturbed running time, over all jobs.
    pub gpu_hours: f64,
    /// Undisturbed running time of a job.
    pub duration_s: Distribution,
    /// Time between submissions that follow each other.
    pub interarrival_s: Distribution,
    /// Jobs by the devices they ask for, ascending.
    pub devices: Vec<DeviceUse>,
    /// Jobs by model, by name; jobs without one are not in it.
    pub models: Vec<ModelUse>,
}

/// Values at some percentiles (nearest rank), and the mean. All zero where there are no values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// The smallest.
    pub min: f64,
    /// A quarter is not larger.
    pub p25: f64,
    /// Half is not larger.
    pub p50: f64,
    /// Three quarters are not larger.
    pub p75: f64,
    /// 90 % are not larger.
    pub p90: f64,
    /// 99 % are not larger.
    pub p99: f64,
    /// The largest.
    pub max: f64,
    /// The mean.
    pub mean: f64,
}

impl Distribution {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let Some(last) = values.len().checked_sub(1) else { return Self::default() };
        let rank =
            |percent: usize| values[((values.len() * percent).div_ceil(100)).saturating_sub(1).min(last)];
        Self {
            min: values[0],
            p25: rank(25),
            p50: rank(50),
            p75: rank(75),
            p90: rank(90),
            p99: rank(99),
            max: values[last],
            mean: values.iter().sum::<f64>() / values.len() as f64,
        }
    }
}

/// Jobs that ask for the same number of devices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DeviceUse {
    /// Devices asked for.
    pub devices: u32,
    /// How many jobs.
    pub job_count: usize,
    /// What they need in all.
    pub gpu_hours: f64,
}

/// Jobs that train the same model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelUse {
    /// The model.
    pub model: String,
    /// How many jobs.
    pub job_count: usize,
    /// What they need in all.
    pub gpu_hours: f64,
}

/// Measures a trace.
pub fn stats(trace: &Trace) -> TraceStats {
    let mut users = BTreeSet::new();
    let mut devices: BTreeMap<u32, (usize, f64)> = BTreeMap::new();
    let mut models: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for job in &trace.jobs {
        let gpu_hours = job.solo_s() * f64::from(job.gang.devices) / SECONDS_PER_HOUR;
        users.extend(job.user.as_deref());
        let size = devices.entry(job.gang.devices).or_default();
        *size = (size.0 + 1, size.1 + gpu_hours);
        if let Some(model) = job.model.as_deref() {
            let model = models.entry(model).or_default();
            *model = (model.0 + 1, model.1 + gpu_hours);
        }
    }
    let submits: Vec<f64> = trace.jobs.iter().map(|job| job.submit.seconds()).collect();
    let first_submit_s = submits.first().copied().unwrap_or(0.0);
    let span_s = submits.last().copied().unwrap_or(0.0) - first_submit_s;
    let count = |is_counted: fn(&wharf_core::JobSpec) -> bool| {
        trace.jobs.iter().filter(|job| is_counted(job)).count()
    };
    TraceStats {
        name: trace.name.clone(),
        job_count: trace.jobs.len(),
        user_count: users.len(),
        array_job_count: count(|job| job.array.is_some()),
        deadline_job_count: count(|job| job.deadline.is_some()),
        elastic_job_count: count(|job| job.gang.devices_min != job.gang.devices_max),
        profiled_job_count: count(is_profiled),
        first_submit_s,
        span_s,
        arrivals_per_hour: (span_s > 0.0).then(|| (submits.len() - 1) as f64 / span_s * SECONDS_PER_HOUR),
        gpu_hours: devices.values().map(|(_, gpu_hours)| gpu_hours).sum(),
        duration_s: Distribution::of(
            trace.jobs.iter().filter(|job| !is_profiled(job)).map(|job| job.solo_s()).collect(),
        ),
        interarrival_s: Distribution::of(submits.windows(2).map(|pair| pair[1] - pair[0]).collect()),
        devices: devices
            .into_iter()
            .map(|(devices, (job_count, gpu_hours))| DeviceUse { devices, job_count, gpu_hours })
            .collect(),
        models: models
            .into_iter()
            .map(|(model, (job_count, gpu_hours))| ModelUse { model: model.to_owned(), job_count, gpu_hours })
            .collect(),
    }
}

fn is_profiled(job: &wharf_core::JobSpec) -> bool {
    job.iteration_ms == 0.0
}

impl TraceStats {
    /// The work submitted over the span, as a share of what `devices` devices can do in that time.
    ///
    /// Above 1 the queue grows as long as jobs arrive. `None` where all jobs come at once.
    pub fn offered_load(&self, devices: u32) -> Option<f64> {
        let capacity = self.span_s / SECONDS_PER_HOUR * f64::from(devices);
        (capacity > 0.0).then(|| self.gpu_hours / capacity)
    }

    /// The numbers as plain text for people; `devices` adds the load on a cluster of that size.
    pub fn to_text(&self, devices: Option<u32>) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name:<16} {value}");
        };
        line("trace", self.name.clone());
        line("jobs", self.job_count.to_string());
        line("users", self.user_count.to_string());
        for (name, count) in [
            ("array elements", self.array_job_count),
            ("deadlines", self.deadline_job_count),
            ("elastic jobs", self.elastic_job_count),
            ("length unknown", self.profiled_job_count),
        ] {
            if count > 0 {
                line(name, count.to_string());
            }
        }
        line("span", format!("{:.0} s ({:.1} days)", self.span_s, self.span_s / 86_400.0));
        let rate =
            self.arrivals_per_hour.map_or_else(|| "all at once".into(), |rate| format!("{rate:.2} per hour"));
        line("arrivals", rate);
        line("GPU-hours", format!("{:.1}", self.gpu_hours));
        if let Some((devices, load)) =
            devices.and_then(|devices| Some((devices, self.offered_load(devices)?)))
        {
            line("offered load", format!("{load:.3} on {devices} devices"));
        }
        text.push('\n');
        push_distributions(
            &mut text,
            &[("duration s", &self.duration_s), ("interarrival s", &self.interarrival_s)],
        );
        let sizes =
            self.devices.iter().map(|size| (size.devices.to_string(), size.job_count, size.gpu_hours));
        self.push_shares(&mut text, "devices", sizes.collect());
        let models = self.models.iter().map(|model| (model.model.clone(), model.job_count, model.gpu_hours));
        self.push_shares(&mut text, "model", models.collect());
        text
    }

    fn push_shares(&self, text: &mut String, title: &str, rows: Vec<(String, usize, f64)>) {
        if rows.is_empty() {
            return;
        }
        let width = rows.iter().map(|row| row.0.chars().count()).max().unwrap_or(0).max(16);
        let _ = writeln!(text, "\n{title:<width$} {:>9} {:>7} {:>12} {:>7}", "jobs", "%", "GPU-hours", "%");
        for (name, job_count, gpu_hours) in rows {
            let job_percent = 100.0 * job_count as f64 / self.job_count.max(1) as f64;
            let hour_percent = if self.gpu_hours > 0.0 { 100.0 * gpu_hours / self.gpu_hours } else { 0.0 };
            let _ = writeln!(
                text,
                "{name:<width$} {job_count:>9} {job_percent:>7.1} {gpu_hours:>12.1} {hour_percent:>7.1}"
            );
        }
    }
}

fn push_distributions(text: &mut String, rows: &[(&str, &Distribution)]) {
    let _ = write!(text, "{:<16}", "");
    for name in ["min", "p25", "p50", "p75", "p90", "p99", "max", "mean"] {
        let _ = write!(text, " {name:>10}");
    }
    for (name, values) in rows {
        let _ = write!(text, "\n{name:<16}");
        let Distribution { min, p25, p50, p75, p90, p99, max, mean } = **values;
        for value in [min, p25, p50, p75, p90, p99, max, mean] {
            let _ = write!(text, " {value:>10.1}");
        }
    }
    text.push('\n');
}
