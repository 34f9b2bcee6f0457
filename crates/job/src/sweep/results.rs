//! The results of a sweep: the configuration, the reported metrics and the phase of each element.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use wharf_curve::Number;
use wharf_proto::{JobMetrics, JobSummary, MetricPoints};

use super::record::SweepRecord;
use crate::number::JobNumber;

/// Why results cannot be sorted or selected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SweepResultsError {
    /// There is no such column.
    #[error("`{name}` is neither a parameter nor a reported metric")]
    UnknownColumn {
        /// The name.
        name: String,
        /// The parameters and metrics that there are.
        known: Vec<String>,
    },
    /// No element has a value to sort by.
    #[error("no element has a finite value to sort by")]
    NoValue,
}

/// One element.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    index: usize,
    job: String,
    values: Vec<String>,
    phase: String,
    exit_code: Option<i32>,
    metrics: BTreeMap<String, f64>,
    job_id: Option<u32>,
    iterations: f64,
    /// The best value that it has reported of the metric in question, and its step.
    best: Option<(f64, u64)>,
}

impl Row {
    /// The value of a metric that the element is compared by: the last one, or the best one. None where it has diverged, which the last
    /// value shows, or has not reported it.
    fn rank(&self, metric: &str, is_best: bool) -> Option<f64> {
        let last = self.metrics.get(metric).copied().filter(|value| value.is_finite())?;
        if is_best { self.best.map(|(value, _)| value) } else { Some(last) }
    }
}

/// Metrics as JSON has them, NaN and infinity included.
fn numbers(metrics: &BTreeMap<String, f64>) -> BTreeMap<&str, Number> {
    metrics.iter().map(|(name, value)| (name.as_str(), Number(*value))).collect()
}

/// The elements of a sweep.
pub struct SweepResults {
    names: Vec<String>,
    /// Of all elements.
    metrics: BTreeSet<String>,
    rows: Vec<Row>,
    /// The metric whose best values are known.
    best_of: Option<String>,
}

impl SweepResults {
    /// The results of a sweep whose latest jobs are `jobs`.
    #[must_use]
    pub fn new(record: &SweepRecord, jobs: Vec<JobSummary>) -> Self {
        let jobs: BTreeMap<u32, JobSummary> = jobs.into_iter().map(|job| (job.job_id, job)).collect();
        let latest = record.latest().into_iter().zip(&record.rows).enumerate();
        let row = |(index, (job, values)): (usize, (Option<u32>, &Vec<String>))| {
            // An element that was not submitted is planned; of a job that the head has forgotten nothing is known.
            let missing = if job.is_some() { "unknown" } else { "planned" };
            let job = job.and_then(|job| jobs.get(&job));
            Row {
                index,
                job: job.map(|job| JobNumber::of(job).to_string()).unwrap_or_default(),
                values: values.clone(),
                phase: job.map_or(missing, |job| job.phase().word()).to_owned(),
                exit_code: job.filter(|job| job.end_s > 0.0).map(|job| job.exit_code),
                metrics: job.map(|job| job.metrics.clone().into_iter().collect()).unwrap_or_default(),
                job_id: job.map(|job| job.job_id),
                iterations: job.map_or(0.0, |job| job.iterations_done),
                best: None,
            }
        };
        let rows: Vec<Row> = latest.map(row).collect();
        let metrics = rows.iter().flat_map(|row| row.metrics.keys().cloned()).collect();
        Self { names: record.names.clone(), metrics, rows, best_of: None }
    }

    /// Finds the best value that each element has reported of a metric: the lowest, or with `-` before its name the highest.
    pub fn add_best(&mut self, by: &str, curves: &[JobMetrics]) {
        let (name, is_reversed) = by.strip_prefix('-').map_or((by, false), |name| (name, true));
        let curve = |job: u32| {
            let job = curves.iter().find(|one| one.job_id == job)?;
            job.metrics.iter().find(|metric| metric.name == name)
        };
        for row in &mut self.rows {
            let points = row
                .job_id
                .and_then(curve)
                .into_iter()
                .flat_map(|metric| metric.step.iter().copied().zip(metric.value.iter().copied()));
            let finite = points.filter(|(_, value)| value.is_finite());
            let order = |one: &f64, other: &f64| {
                if is_reversed { other.total_cmp(one) } else { one.total_cmp(other) }
            };
            let best = finite.min_by(|one, other| order(&one.1, &other.1));
            row.best = best.map(|(step, value)| (value, step));
        }
        self.best_of = Some(name.to_owned());
    }

    /// Keeps the first row only.
    ///
    /// # Errors
    /// [`SweepResultsError::NoValue`] where it has no finite value to sort by.
    pub fn keep_best(&mut self, by: &str) -> Result<(), SweepResultsError> {
        let name = by.strip_prefix('-').unwrap_or(by);
        let is_best = self.best_of.as_deref() == Some(name);
        self.rows.truncate(1);
        let is_known = |row: &Row| {
            if self.metrics.contains(name) {
                row.rank(name, is_best).is_some()
            } else {
                row.metrics.values().any(|value| value.is_finite())
            }
        };
        if self.rows.iter().any(is_known) {
            return Ok(());
        }
        Err(SweepResultsError::NoValue)
    }

    /// The data of the sweep's page.
    #[must_use]
    pub fn to_page(&self, record: &SweepRecord, curves: &[JobMetrics]) -> Value {
        let trial = |row: &Row| {
            json!({
                "job": row.job_id, "label": row.job, "values": row.values, "metrics": numbers(&row.metrics),
                "done": row.iterations, "phase": row.phase,
            })
        };
        let curve = |one: &MetricPoints| {
            let values: Vec<Number> = one.value.iter().map(|value| Number(*value)).collect();
            json!({ "name": one.name, "step": one.step, "time": one.time_s, "value": values })
        };
        let job = |one: &JobMetrics| {
            let refused = one.refused.as_ref().map(|refused| refused.example.clone());
            json!({ "job": one.job_id, "curves": one.metrics.iter().map(curve).collect::<Vec<_>>(), "refused": refused })
        };
        json!({
            "title": record.name,
            "names": self.names,
            "trials": self.rows.iter().map(trial).collect::<Vec<_>>(),
            "curves": curves.iter().map(job).collect::<Vec<_>>(),
        })
    }

    /// Sorts by a metric or a parameter; elements without it come last.
    ///
    /// # Errors
    /// [`SweepResultsError::UnknownColumn`]
    pub fn sort(&mut self, by: &str) -> Result<(), SweepResultsError> {
        let (name, is_reversed) = by.strip_prefix('-').map_or((by, false), |name| (name, true));
        let column = self.names.iter().position(|known| known == name);
        if column.is_none() && !self.metrics.contains(name) {
            let known = self.metrics.iter().chain(&self.names).cloned().collect();
            return Err(SweepResultsError::UnknownColumn { name: name.to_owned(), known });
        }
        let is_best = self.best_of.as_deref() == Some(name);
        let number = |row: &Row| match column {
            Some(column) => row.values.get(column).and_then(|value| value.parse().ok()),
            None => row.rank(name, is_best),
        };
        let text = |row: &Row| column.and_then(|column| row.values.get(column).cloned()).unwrap_or_default();
        self.rows.sort_by(|one, other| {
            let order = match (number(one), number(other)) {
                (Some(one), Some(other)) => one.total_cmp(&other),
                (Some(_), None) => return Ordering::Less,
                (None, Some(_)) => return Ordering::Greater,
                (None, None) => text(one).cmp(&text(other)),
            };
            if is_reversed { order.reverse() } else { order }
        });
        Ok(())
    }

    /// The number of elements in each phase.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        self.rows.iter().for_each(|row| *counts.entry(row.phase.as_str()).or_insert(0) += 1);
        counts
    }

    /// The names of the columns.
    #[must_use]
    pub fn header(&self) -> Vec<&str> {
        let names = self.names.iter().chain(&self.metrics).map(String::as_str);
        let best: &[&str] = if self.best_of.is_some() { &["best", "best_step"] } else { &[] };
        ["index", "job"]
            .into_iter()
            .chain(names)
            .chain(best.iter().copied())
            .chain(["state", "exit"])
            .collect()
    }

    /// The cells of each row.
    pub fn cells(&self) -> impl Iterator<Item = Vec<String>> {
        self.rows.iter().map(|row| {
            let metric = |name: &String| {
                row.metrics.get(name).map(|value| Number(*value).to_string()).unwrap_or_default()
            };
            let mut cells = vec![row.index.to_string(), row.job.clone()];
            cells.extend(row.values.iter().cloned());
            cells.extend(self.metrics.iter().map(metric));
            if self.best_of.is_some() {
                let (value, step) = row.best.map_or((String::new(), String::new()), |(value, step)| {
                    (value.to_string(), step.to_string())
                });
                cells.extend([value, step]);
            }
            cells.extend([row.phase.clone(), row.exit_code.map(|code| code.to_string()).unwrap_or_default()]);
            cells
        })
    }

    /// The document of `wharf tune results --output json`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let row = |row: &Row| {
            let parameters: BTreeMap<_, _> = self.names.iter().zip(&row.values).collect();
            json!({
                "index": row.index,
                "job": row.job,
                "parameters": parameters,
                "metrics": numbers(&row.metrics),
                "best": row.best.map(|(value, step)| json!({ "metric": self.best_of, "value": value, "step": step })),
                "state": row.phase,
                "exit_code": row.exit_code,
            })
        };
        json!({ "schema": 1, "elements": self.rows.iter().map(row).collect::<Vec<_>>() })
    }
}
