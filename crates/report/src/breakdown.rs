//! A run's numbers by user, by gang size and by model.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wharf_core::JobSpec;
use wharf_outcome::{JobRecord, MetricRules, Outcome};

use crate::fairness::{Fairness, finish_time_ratios};
use crate::metric::Unit;
use crate::stats;
use crate::table::{Cell, Column, Table};

/// What jobs without a user or model are listed under.
pub const UNNAMED: &str = "(none)";

const SECONDS_PER_HOUR: f64 = 3600.0;

/// One run, taken apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Breakdown {
    /// By who submitted, in alphabetical order.
    pub by_user: Vec<BreakdownRow>,
    /// By devices asked for, fewest first.
    pub by_size: Vec<BreakdownRow>,
    /// By model, in alphabetical order.
    pub by_model: Vec<BreakdownRow>,
    /// Finish-time fairness over all finished jobs; `None` where no job has a ratio.
    pub fairness: Option<Fairness>,
}

/// Jobs that have something in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BreakdownRow {
    /// What they have in common.
    pub key: String,
    /// How many they are.
    pub jobs: u64,
    /// How many were done: the times below are theirs.
    pub finished: u64,
    /// Mean job completion time.
    pub avg_jct_s: Option<f64>,
    /// 95th percentile of job completion times, by the outcome's rules.
    pub p95_jct_s: Option<f64>,
    /// Mean time submitted but not running.
    pub avg_queue_s: Option<f64>,
    /// Hours holding devices × devices asked for, unfinished jobs included. Jobs that share a device are
    /// each counted in full.
    pub gpu_hours: f64,
}

impl Breakdown {
    /// Takes an outcome apart. Without specs (a run read back from files) sizes are all there is.
    pub fn new(specs: &[JobSpec], outcome: &Outcome) -> Self {
        let spec = |job: &JobRecord| specs.get(job.job.index());
        let user = |job: &JobRecord| spec(job).map(|spec| spec.user.as_deref().unwrap_or(UNNAMED));
        let model = |job: &JobRecord| spec(job).map(|spec| spec.model.as_deref().unwrap_or(UNNAMED));
        Self {
            by_user: rows(outcome, user, ToString::to_string),
            by_size: rows(outcome, |job| Some(job.devices), ToString::to_string),
            by_model: rows(outcome, model, ToString::to_string),
            fairness: Fairness::new(&finish_time_ratios(specs, outcome)),
        }
    }

    /// The three groupings with the heading of each, in a fixed order.
    pub fn groups(&self) -> [(&'static str, &[BreakdownRow]); 3] {
        [("size", &self.by_size), ("user", &self.by_user), ("model", &self.by_model)]
    }

    /// All rows as one table; its first column states which grouping a row is of.
    pub fn table(&self) -> Table {
        let mut table = Table::new([&[Column::text("by", "by")], row_columns("key").as_slice()].concat());
        for (group, rows) in self.groups() {
            for row in rows {
                table.push([vec![Cell::text(group)], row.cells()].concat());
            }
        }
        table
    }
}

/// Of many rows those that held devices longest, in the order they had.
pub(crate) fn largest(rows: &[BreakdownRow], count: usize) -> Vec<&BreakdownRow> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|&a, &b| rows[b].gpu_hours.total_cmp(&rows[a].gpu_hours).then(a.cmp(&b)));
    order.truncate(count);
    order.sort_unstable();
    order.into_iter().map(|index| &rows[index]).collect()
}

impl BreakdownRow {
    fn new(key: String, jobs: &[&JobRecord], rules: MetricRules) -> Self {
        let finished: Vec<&JobRecord> = jobs.iter().copied().filter(|job| job.end.is_some()).collect();
        let jcts = stats::sorted(finished.iter().filter_map(|job| job.jct_s()));
        let queues: Vec<f64> = finished.iter().map(|job| job.queue_s).collect();
        let gpu_s = stats::sum(jobs.iter().map(|job| f64::from(job.devices) * job.run_s));
        Self {
            key,
            jobs: jobs.len() as u64,
            finished: finished.len() as u64,
            avg_jct_s: stats::mean(&jcts),
            p95_jct_s: stats::percentile(&jcts, 0.95, rules),
            avg_queue_s: stats::mean(&queues),
            gpu_hours: stats::finite(gpu_s / SECONDS_PER_HOUR).unwrap_or(0.0),
        }
    }

    /// The row's cells, as [`row_columns`] heads them.
    pub(crate) fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&self.key),
            Cell::count(self.jobs),
            Cell::count(self.finished),
            Cell::number(self.avg_jct_s),
            Cell::number(self.p95_jct_s),
            Cell::number(self.avg_queue_s),
            Cell::number(Some(self.gpu_hours)),
        ]
    }
}

/// Columns of breakdown rows, the first headed `key`.
pub(crate) fn row_columns(key: &str) -> Vec<Column> {
    vec![
        Column::text(key, key),
        Column::number("jobs", "jobs", Unit::Number),
        Column::number("finished", "finished", Unit::Number),
        Column::number("avg_jct_s", "avg JCT", Unit::Seconds),
        Column::number("p95_jct_s", "p95 JCT", Unit::Seconds),
        Column::number("avg_queue_s", "avg queue", Unit::Seconds),
        Column::number("gpu_hours", "GPU hours", Unit::Number),
    ]
}

/// One row per distinct key; jobs without a key are left out.
fn rows<'a, K: Ord>(
    outcome: &'a Outcome,
    key: impl Fn(&'a JobRecord) -> Option<K>,
    show: impl Fn(&K) -> String,
) -> Vec<BreakdownRow> {
    let mut groups: BTreeMap<K, Vec<&JobRecord>> = BTreeMap::new();
    for job in outcome.jobs.iter().filter(|job| outcome.counts(job)) {
        if let Some(key) = key(job) {
            groups.entry(key).or_default().push(job);
        }
    }
    groups.iter().map(|(key, jobs)| BreakdownRow::new(show(key), jobs, outcome.rules)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn breakdown_of_four_jobs_by_hand() {
        let breakdown = Breakdown::new(&fixture::specs(), &fixture::outcome());
        insta::assert_snapshot!(breakdown.table().to_plain(), @r"
        by	key	jobs	finished	avg_jct_s	p95_jct_s	avg_queue_s	gpu_hours
        size	1	1	1	10.0	10.0	0.0	0.002777777777777778
        size	2	2	2	55.0	68.5	30.0	0.027777777777777776
        size	4	1	0				0.0
        user	ann	2	2	40.0	67.0	20.0	0.019444444444444445
        user	bob	2	1	40.0	40.0	20.0	0.011111111111111112
        model	(none)	3	2	55.0	68.5	30.0	0.027777777777777776
        model	bert	1	1	10.0	10.0	0.0	0.002777777777777778
        ");
    }

    #[test]
    fn breakdown_without_specs_keeps_sizes() {
        let breakdown = Breakdown::new(&[], &fixture::outcome());
        assert_eq!((breakdown.by_user.len(), breakdown.by_size.len(), breakdown.fairness), (0, 3, None));
        assert!(Breakdown::new(&[], &fixture::empty_outcome()).by_size.is_empty());
    }
}
