//! One run's numbers: [`Summary`], and the document that several of them make.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use wharf_core::Time;
use wharf_outcome::{JobRecord, MetricRules, Outcome, Packing};

use crate::stats;

/// The version of the JSON document.
pub const SCHEMA: u32 = 1;

/// What tells one run from another.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RunLabels {
    /// The policy, as its name is given on the command line.
    pub policy: String,
    /// The trace.
    pub trace: String,
    /// The preset.
    pub preset: String,
    /// The cluster.
    pub cluster: String,
    /// The seed of everything random.
    pub seed: u64,
}

/// One run's labels and metrics. Without a finished job the metrics are `None`.
///
/// Times count finished jobs only; `finished` against `jobs` states whether some are missing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The policy.
    pub policy: String,
    /// The trace.
    pub trace: String,
    /// The preset.
    pub preset: String,
    /// The cluster.
    pub cluster: String,
    /// The seed.
    pub seed: u64,
    /// Jobs that count: those of the trace, or of the measurement window.
    pub jobs: u64,
    /// Jobs that were done.
    pub finished: u64,
    /// Mean job completion time.
    pub avg_jct_s: Option<f64>,
    /// Median job completion time.
    pub median_jct_s: Option<f64>,
    /// 95th percentile of job completion times.
    pub p95_jct_s: Option<f64>,
    /// 99th percentile of job completion times.
    pub p99_jct_s: Option<f64>,
    /// Longest job completion time.
    pub max_jct_s: Option<f64>,
    /// First submission to last end; under Muri's rules epoch to last end, under Gavel's to the end of the last round.
    pub makespan_s: Option<f64>,
    /// Mean time submitted but not running.
    pub avg_queue_s: Option<f64>,
    /// Device-seconds held ÷ (devices × observed time); see `wharf help metrics`.
    pub gpu_utilization: Option<f64>,
    /// Stops of jobs by the scheduler before their end, over all jobs.
    pub preemptions: u64,
    /// Moments at which the mechanism checked the cluster.
    pub events: u64,
    /// Real time that the simulation took.
    pub wall_ms: f64,
    /// Jobs that were not.
    #[serde(default)]
    pub unfinished: u64,
    /// The same over all jobs, also those that are not done.
    #[serde(default)]
    pub avg_queue_all_s: Option<f64>,
    /// Times that a job was put onto devices that it did not hold.
    #[serde(default)]
    pub reschedules: u64,
    /// Times that a job kept all its devices from one round to the next.
    #[serde(default)]
    pub lease_extensions: u64,
    /// What the devices cost while jobs held them, where there are prices.
    #[serde(default)]
    pub cost: Option<f64>,
    /// Decisions that were made by a simpler rule, because a solver gave no answer.
    #[serde(default)]
    pub solver_fallbacks: u64,
    /// Times that a job was started on fewer devices of the same type than before.
    #[serde(default)]
    pub shrinks: u64,
    /// On more.
    #[serde(default)]
    pub grows: u64,
    /// On another type.
    #[serde(default)]
    pub type_changes: u64,
    /// On as many of the same type elsewhere.
    #[serde(default)]
    pub moves: u64,
    /// Jobs that were done by their deadline, where any has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadlines_met: Option<u64>,
    /// Jobs that were not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadlines_missed: Option<u64>,
    /// Samples per second of all running jobs together, over all rounds, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_avg: Option<f64>,
    /// The most in a round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_peak: Option<f64>,
    /// Stops of jobs because a node was lost, over all jobs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failure_stops: u64,
    /// When the run was cut off, where jobs were left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_off_s: Option<f64>,
    /// The measurement window, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure: Option<String>,
    /// Jobs that arrived to be packed, copies included, where jobs are packed without time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<u64>,
    /// Those of them that were placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<u64>,
    /// Percentage of the devices held, by the percentage that had been requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocation: Vec<Option<f64>>,
    /// Idle parts of devices that typical jobs could not use, as a percentage of the devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fragmentation: Vec<Option<f64>>,
    /// The same as a percentage of the idle parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fragmentation_ratio: Vec<Option<f64>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Summary {
    /// Computes the metrics of an outcome by the rules that it names.
    pub fn new(labels: RunLabels, outcome: &Outcome, wall_ms: f64) -> Self {
        let RunLabels { policy, trace, preset, cluster, seed } = labels;
        let packing = outcome.packing.as_ref();
        let curve = |of: fn(&Packing) -> &Vec<Option<f64>>| packing.map(|packing| of(packing).clone());
        let rules = outcome.rules;
        let counted: Vec<&JobRecord> = outcome.jobs.iter().filter(|job| outcome.counts(job)).collect();
        let finished: Vec<&JobRecord> = counted.iter().copied().filter(|job| job.end.is_some()).collect();
        let jcts = stats::sorted(finished.iter().filter_map(|job| job.jct_s()));
        let queues: Vec<f64> = finished.iter().map(|job| job.queue_s).collect();
        let last_end = finished.iter().filter_map(|job| job.end).max();
        let first_submit = match outcome.measure {
            Some(_) => counted.iter().map(|job| job.submit).min(),
            None => outcome.jobs.iter().map(|job| job.submit).min(),
        };
        let span_s = last_end.zip(first_submit).and_then(|(end, submit)| stats::finite(end.since(submit)));
        let waited = counted.iter().filter(|job| has_queue(job));
        let all_queues: Vec<f64> = waited.map(|job| job.queue_s).collect();
        let tally = outcome.tally;
        let makespan_s = match rules {
            _ if outcome.measure.is_some() => span_s,
            MetricRules::Muri => last_end.map(Time::seconds),
            MetricRules::Gavel => tally.over.or(last_end).map(Time::seconds),
            MetricRules::Wharf | MetricRules::Crius | MetricRules::Blox { .. } => span_s,
        };
        let is_from_zero = rules == MetricRules::Gavel && outcome.measure.is_none();
        let observed_s = outcome.observed().map(|(from, to)| to.since(from));
        Self {
            policy,
            trace,
            preset,
            cluster,
            seed,
            jobs: counted.len() as u64,
            finished: finished.len() as u64,
            unfinished: (counted.len() - finished.len()) as u64,
            avg_jct_s: stats::mean(&jcts),
            median_jct_s: stats::percentile(&jcts, 0.5, rules),
            p95_jct_s: stats::percentile(&jcts, 0.95, rules),
            p99_jct_s: stats::percentile(&jcts, 0.99, rules),
            max_jct_s: jcts.last().copied(),
            makespan_s,
            avg_queue_s: stats::mean(&queues),
            avg_queue_all_s: stats::mean(&all_queues),
            gpu_utilization: if is_from_zero { makespan_s } else { observed_s }
                .and_then(|span_s| utilization(outcome, span_s)),
            preemptions: counted.iter().map(|job| u64::from(job.preemptions)).sum(),
            reschedules: tally.reschedules,
            lease_extensions: tally.lease_extensions,
            cost: tally.cost.and_then(stats::finite),
            solver_fallbacks: tally.solver_fallbacks,
            shrinks: tally.reshapes.shrinks.into(),
            grows: tally.reshapes.grows.into(),
            type_changes: tally.reshapes.type_changes.into(),
            moves: tally.reshapes.moves.into(),
            deadlines_met: tally.deadlines.map(|deadlines| deadlines.met),
            deadlines_missed: tally.deadlines.map(|deadlines| deadlines.missed),
            throughput_avg: tally.throughput.and_then(|throughput| stats::finite(throughput.average)),
            throughput_peak: tally.throughput.and_then(|throughput| stats::finite(throughput.peak)),
            failure_stops: counted.iter().map(|job| u64::from(job.failures)).sum(),
            cut_off_s: outcome.over().filter(|_| is_cut_off(outcome)).map(Time::seconds),
            measure: outcome.measure.map(|measure| measure.to_string()),
            arrivals: packing.map(|packing| packing.arrivals),
            placed: packing.map(|packing| packing.placed),
            allocation: curve(|packing| &packing.allocation).unwrap_or_default(),
            fragmentation: curve(|packing| &packing.fragmentation).unwrap_or_default(),
            fragmentation_ratio: curve(|packing| &packing.fragmentation_ratio).unwrap_or_default(),
            events: outcome.event_count,
            wall_ms: if wall_ms.is_finite() { wall_ms.max(0.0) } else { 0.0 },
        }
    }

    /// Whether jobs were packed without time: there are curves, but no completion times.
    pub fn is_packing(&self) -> bool {
        self.arrivals.is_some()
    }

    /// Whether the two runs can be ranked: same trace, rules, cluster and seed.
    pub fn is_comparable(&self, other: &Self) -> bool {
        self.arena() == other.arena()
    }

    /// Where it ran: trace, preset and cluster.
    pub(crate) fn place(&self) -> (&str, &str, &str) {
        (&self.trace, &self.preset, &self.cluster)
    }

    /// What tells it from other runs.
    pub fn labels(&self) -> (&str, (&str, &str, &str), u64) {
        (&self.policy, self.place(), self.seed)
    }

    fn arena(&self) -> (&str, &str, &str, u64) {
        (&self.trace, &self.preset, &self.cluster, self.seed)
    }
}

/// Whether a job's time in the queue counts: one that neither ran nor waited was not submitted before the run was cut off.
fn has_queue(job: &JobRecord) -> bool {
    job.first_start.is_some() || job.queue_s > 0.0
}

/// Whether the run ended while jobs were left that could have gone on.
fn is_cut_off(outcome: &Outcome) -> bool {
    outcome.tally.over.is_some() && outcome.jobs.iter().any(|job| job.end.is_none())
}

/// `None` where there is nothing to use: `0 / 0` is no share.
fn utilization(outcome: &Outcome, span_s: f64) -> Option<f64> {
    let available = f64::from(outcome.device_count) * span_s;
    let busy_s = outcome.observed_busy_s()?;
    if available > 0.0 { stats::finite(busy_s / available) } else { None }
}

/// The document that `--output json` prints and `summary.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The document's version.
    pub schema: u32,
    /// The runs, in the order they were asked for.
    pub runs: Vec<Summary>,
}

/// Why a document could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Not JSON, or not of this shape.
    #[error("not a report document")]
    Json(#[from] serde_json::Error),
    /// A document of another version.
    #[error("report document has schema {found}, expected {SCHEMA}")]
    Schema {
        /// The version found.
        found: u64,
    },
    /// A run's file of another version.
    #[error("it has schema {found}, expected {}", crate::digest::DIGEST_SCHEMA)]
    DigestSchema {
        /// The version found.
        found: u64,
    },
}

impl Report {
    /// A document of these runs.
    pub fn new(runs: Vec<Summary>) -> Self {
        Self { schema: SCHEMA, runs }
    }

    /// The document as indented JSON with a final newline; numbers read back to the same bits.
    ///
    /// # Errors
    /// Where the serializer fails, which strings and finite numbers give no reason to.
    pub fn to_json(&self) -> Result<String, ReportError> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// Reads a document back.
    ///
    /// # Errors
    /// On malformed JSON and on another schema; the schema is checked first.
    pub fn from_json(text: &str) -> Result<Self, ReportError> {
        #[derive(Deserialize)]
        struct Version {
            schema: u64,
        }
        let Version { schema: found } = serde_json::from_str(text)?;
        if found != u64::from(SCHEMA) {
            return Err(ReportError::Schema { found });
        }
        Ok(serde_json::from_str(text)?)
    }
}

/// Each run once: of those with the same labels the first. A run that is there twice says no more than one.
pub(crate) fn distinct(runs: &[Summary]) -> Vec<&Summary> {
    let mut known = BTreeSet::new();
    runs.iter().filter(|run| known.insert(run.labels())).collect()
}

/// A label of a run: its name, and its value as text.
type Label = (&'static str, fn(&Summary) -> String);

/// What tells runs of one policy apart.
const LABELS: [Label; 4] = [
    ("trace", |run| run.trace.clone()),
    ("preset", |run| run.preset.clone()),
    ("cluster", |run| run.cluster.clone()),
    ("seed", |run| run.seed.to_string()),
];

/// Labels beside the policy: first those that all runs share, then those in which they differ.
pub(crate) fn split_labels(runs: &[&Summary]) -> (Vec<Label>, Vec<Label>) {
    let shared = |label: &Label| runs.windows(2).all(|pair| (label.1)(pair[0]) == (label.1)(pair[1]));
    LABELS.into_iter().partition(shared)
}

/// Short names that tell the runs apart: the policy, and those labels in which the runs differ.
pub fn run_names(runs: &[&Summary]) -> Vec<String> {
    let (_, told) = split_labels(runs);
    let mut names: Vec<String> = Vec::with_capacity(runs.len());
    let mut copies: BTreeMap<String, usize> = BTreeMap::new();
    for run in runs {
        let mut name = run.policy.clone();
        for (label, value) in &told {
            let value = value(run);
            name += &if *label == "seed" { format!(" · seed {value}") } else { format!(" · {value}") };
        }
        let copies = copies.entry(name.clone()).or_default();
        *copies += 1;
        names.push(if *copies == 1 { name } else { format!("{name} #{copies}") });
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn summary_of_three_jobs_by_hand() {
        // Ends 20, 50, 90 after submissions 10, 10, 20: completion times 10, 40, 70.
        for (rules, median, p95, p99, makespan) in
            [(MetricRules::Wharf, 40.0, 67.0, 69.4, 80.0), (MetricRules::Muri, 40.0, 70.0, 70.0, 90.0)]
        {
            let outcome = Outcome { rules, ..fixture::outcome() };
            let run = Summary::new(fixture::labels("fifo"), &outcome, 1.5);
            assert_eq!((run.jobs, run.finished, run.preemptions, run.events), (4, 3, 3, 7));
            assert_eq!(run.avg_jct_s, Some(40.0));
            assert_eq!(run.median_jct_s, Some(median));
            assert!((run.p95_jct_s.unwrap() - p95).abs() < 1e-9);
            assert!((run.p99_jct_s.unwrap() - p99).abs() < 1e-9);
            assert_eq!((run.max_jct_s, run.makespan_s), (Some(70.0), Some(makespan)));
            assert_eq!(run.avg_queue_s, Some(20.0));
            assert_eq!(run.gpu_utilization, Some(0.5));
        }
    }

    #[test]
    fn summary_json_has_the_agreed_fields_in_order() {
        let report = Report::new(vec![Summary::new(fixture::labels("fifo"), &fixture::outcome(), 1.5)]);
        insta::assert_snapshot!(report.to_json().unwrap(), @r#"
        {
          "schema": 1,
          "runs": [
            {
              "policy": "fifo",
              "trace": "tiny",
              "preset": "wharf",
              "cluster": "1x4",
              "seed": 0,
              "jobs": 4,
              "finished": 3,
              "avg_jct_s": 40.0,
              "median_jct_s": 40.0,
              "p95_jct_s": 67.0,
              "p99_jct_s": 69.4,
              "max_jct_s": 70.0,
              "makespan_s": 80.0,
              "avg_queue_s": 20.0,
              "gpu_utilization": 0.5,
              "preemptions": 3,
              "events": 7,
              "wall_ms": 1.5,
              "unfinished": 1,
              "avg_queue_all_s": 30.0,
              "reschedules": 0,
              "lease_extensions": 0,
              "cost": null,
              "solver_fallbacks": 0,
              "shrinks": 0,
              "grows": 0,
              "type_changes": 0,
              "moves": 0
            }
          ]
        }
        "#);
        assert_eq!(Report::from_json(&report.to_json().unwrap()).unwrap(), report);
    }

    #[test]
    fn documents_without_the_newer_fields_are_read() {
        let report = Report::new(vec![Summary::new(fixture::labels("fifo"), &fixture::outcome(), 1.5)]);
        let newer = [
            "unfinished",
            "avg_queue_all_s",
            "reschedules",
            "lease_extensions",
            "cost",
            "solver_fallbacks",
            "shrinks",
            "grows",
            "type_changes",
            "moves",
        ];
        let is_newer = |line: &&str| newer.iter().any(|field| line.contains(&format!("\"{field}\"")));
        let json = report.to_json().unwrap();
        // The newer ones come last, so that a comma is left over.
        let older: String = json.lines().filter(|line| !is_newer(line)).collect();
        let older = older.replace("1.5,", "1.5");
        let read = Report::from_json(&older).unwrap();
        assert_eq!((read.runs[0].finished, read.runs[0].unfinished), (3, 0));
    }

    #[test]
    fn throughput_is_there_where_known_and_jobs_that_never_came_do_not_queue() {
        let mut outcome = fixture::outcome();
        let summary = |outcome: &Outcome| Summary::new(fixture::labels("fcfs"), outcome, 1.5);
        let json = Report::new(vec![summary(&outcome)]).to_json().unwrap();
        assert!(!json.contains("throughput"), "it is unknown");
        outcome.rules = MetricRules::Crius;
        outcome.tally.throughput = Some(wharf_outcome::Throughput { average: 2.5, peak: 4.0 });
        let run = summary(&outcome);
        assert_eq!((run.throughput_avg, run.throughput_peak), (Some(2.5), Some(4.0)));
        let all = run.avg_queue_all_s;
        // A job that was dropped, or not submitted before the cut-off, has no part in the average.
        let dropped = JobRecord { first_start: None, end: None, queue_s: 0.0, ..outcome.jobs[0] };
        outcome.jobs.push(dropped);
        for rules in [MetricRules::Crius, MetricRules::Wharf] {
            outcome.rules = rules;
            assert_eq!(summary(&outcome).avg_queue_all_s, all);
        }
    }

    #[test]
    fn summary_without_finished_jobs_has_no_metrics() {
        let run = Summary::new(fixture::labels("fifo"), &fixture::empty_outcome(), f64::NAN);
        for metric in crate::Metric::ALL {
            let expected = (metric == crate::Metric::Preemptions).then_some(0.0);
            assert_eq!(metric.of(&run), expected);
        }
        let json = Report::new(vec![run]).to_json().unwrap();
        assert!(json.contains("\"avg_jct_s\": null") && !json.contains("NaN"));
        assert!(Report::from_json(&json).is_ok());
    }

    #[test]
    fn report_of_another_schema_is_refused() {
        let error = Report::from_json(r#"{"schema": 2, "rows": []}"#).unwrap_err();
        assert_eq!(error.to_string(), "report document has schema 2, expected 1");
        assert!(Report::from_json("{").is_err());
    }

    #[test]
    fn run_names_contain_only_differences() {
        let run = |policy, seed| {
            let labels = RunLabels { seed, ..fixture::labels(policy) };
            Summary::new(labels, &fixture::empty_outcome(), 0.0)
        };
        let runs = [run("fifo", 1), run("srtf", 1), run("fifo", 2), run("fifo", 2)];
        let names = run_names(&runs.iter().collect::<Vec<_>>());
        assert_eq!(names, ["fifo · seed 1", "srtf · seed 1", "fifo · seed 2", "fifo · seed 2 #2"]);
        assert_eq!(run_names(&[&runs[0], &runs[1]]), ["fifo", "srtf"]);
    }
}
