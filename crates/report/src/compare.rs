//! Runs side by side: one row per run, or one per policy over several seeds.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::human;
use crate::metric::{Metric, Unit};
use crate::metrics::{Report, ReportError, SCHEMA, Summary, distinct, split_labels};
use crate::stats::Estimate;
use crate::table::{Cell, Column, Table};
use crate::winners::{Certainty, Verdict, left_out, verdicts};

/// Policies compared over seeds: what `wharf compare` shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The document's version.
    pub schema: u32,
    /// One row per policy, trace, preset and cluster, in order of first appearance.
    pub rows: Vec<ComparisonRow>,
    /// Who is best at what, and how sure that is.
    pub winners: Vec<Verdict>,
    /// Policies that were not set against the others somewhere, because they left jobs undone.
    pub left_out: Vec<String>,
}

/// One policy's runs that differ in the seed only.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparisonRow {
    /// The policy.
    pub policy: String,
    /// The trace.
    pub trace: String,
    /// The preset.
    pub preset: String,
    /// The cluster.
    pub cluster: String,
    /// The seeds, as given.
    pub seeds: Vec<u64>,
    /// Runs in which a job was left unfinished: their times say too little.
    pub incomplete: u64,
    /// The estimates, by metric; only those that at least one run has.
    pub metrics: Vec<MetricEstimate>,
}

/// One metric over the runs of a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MetricEstimate {
    /// The metric's field name.
    pub metric: &'static str,
    /// Its mean and spread.
    #[serde(flatten)]
    pub estimate: Estimate,
}

impl Comparison {
    /// Groups runs by policy, trace, preset and cluster; one that is there twice counts once.
    pub fn new(runs: &[Summary]) -> Self {
        let mut groups: Vec<Vec<&Summary>> = Vec::new();
        let mut places: BTreeMap<_, usize> = BTreeMap::new();
        for run in distinct(runs) {
            let place = *places.entry((&run.policy, run.place())).or_insert(groups.len());
            match groups.get_mut(place) {
                Some(group) => group.push(run),
                None => groups.push(vec![run]),
            }
        }
        let rows = groups.iter().filter_map(|group| ComparisonRow::new(group)).collect();
        Self { schema: SCHEMA, rows, winners: verdicts(runs), left_out: left_out(runs) }
    }

    /// The document as indented JSON with a final newline.
    ///
    /// # Errors
    /// Where the serializer fails, which strings and finite numbers give no reason to.
    pub fn to_json(&self) -> Result<String, ReportError> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// The rows under `metrics`; among rows of the same trace, preset and cluster the best mean is marked.
    pub fn table(&self, metrics: &[Metric]) -> Table {
        let mut columns = vec![
            Column::text("policy", "policy"),
            Column::text("trace", "trace"),
            Column::text("preset", "preset"),
            Column::text("cluster", "cluster"),
            Column::number("runs", "runs", Unit::Number),
            Column::number("incomplete", "incomplete", Unit::Number),
        ];
        columns.extend(metrics.iter().map(|m| Column::estimate(m.name(), m.title(), m.unit())));
        let mut table = Table::new(columns);
        let best = self.best();
        for row in &self.rows {
            let labels = [&row.policy, &row.trace, &row.preset, &row.cluster].map(|label| Cell::text(label));
            let mut cells = labels.to_vec();
            cells.extend([Cell::count(row.seeds.len() as u64), Cell::count(row.incomplete)]);
            cells.extend(metrics.iter().map(|&metric| {
                let estimate = row.estimate(metric);
                Cell::estimate(estimate).marked(best.contains(&(metric.name(), row.arena(), &row.policy)))
            }));
            table.push(cells);
        }
        table
    }

    /// The rows under what people check first.
    pub fn compact_table(&self) -> Table {
        self.table(&COMPACT)
    }

    /// Who is best at which metric where, as the verdicts say.
    fn best(&self) -> BTreeSet<(&str, (&str, &str, &str), &str)> {
        let places = self.winners.iter().filter(|verdict| verdict.places == 1);
        places
            .filter(|verdict| verdict.certainty != Certainty::Tie)
            .flat_map(|verdict| {
                let place = (verdict.trace.as_str(), verdict.preset.as_str(), verdict.cluster.as_str());
                verdict.best.iter().map(move |policy| (verdict.metric, place, policy.as_str()))
            })
            .collect()
    }
}

impl ComparisonRow {
    fn new(runs: &[&Summary]) -> Option<Self> {
        let first = runs.first()?;
        let estimate = |metric: &Metric| {
            let values: Vec<f64> = runs.iter().filter_map(|run| metric.of(run)).collect();
            Some(MetricEstimate { metric: metric.name(), estimate: Estimate::new(&values)? })
        };
        Some(Self {
            policy: first.policy.clone(),
            trace: first.trace.clone(),
            preset: first.preset.clone(),
            cluster: first.cluster.clone(),
            seeds: runs.iter().map(|run| run.seed).collect(),
            incomplete: runs.iter().filter(|run| run.finished < run.jobs).count() as u64,
            metrics: Metric::ALL.iter().filter_map(estimate).collect(),
        })
    }

    fn arena(&self) -> (&str, &str, &str) {
        (&self.trace, &self.preset, &self.cluster)
    }

    /// The estimate of one metric, where a run has it.
    pub fn estimate(&self, metric: Metric) -> Option<Estimate> {
        self.metrics.iter().find(|entry| entry.metric == metric.name()).map(|entry| entry.estimate)
    }
}

impl Report {
    /// One row per run; among runs that can be ranked the best value of each metric is marked.
    pub fn table(&self) -> Table {
        let mut columns = vec![
            Column::text("policy", "policy"),
            Column::text("trace", "trace"),
            Column::text("preset", "preset"),
            Column::text("cluster", "cluster"),
            Column::text("seed", "seed"),
            Column::number("jobs", "jobs", Unit::Number),
            Column::number("finished", "finished", Unit::Number),
        ];
        columns.extend(Metric::ALL.iter().map(|m| Column::number(m.name(), m.title(), m.unit())));
        columns.push(Column::number("events", "events", Unit::Number));
        columns.push(Column::number("wall_ms", "wall ms", Unit::Number));
        let extra = extra_columns(&self.runs);
        columns.extend(extra.iter().map(|(name, title, _)| Column::number(name, title, Unit::Number)));
        let winners = winners(&self.runs);
        let mut table = Table::new(columns);
        for (run, won) in self.runs.iter().zip(winners) {
            let labels = [&run.policy, &run.trace, &run.preset, &run.cluster].map(|label| Cell::text(label));
            let mut cells = labels.to_vec();
            cells.push(Cell::text(&run.seed.to_string()));
            cells.extend([Cell::count(run.jobs), Cell::count(run.finished)]);
            cells.extend(Metric::ALL.iter().zip(won).map(|(&m, won)| metric_cell(m, run).marked(won)));
            cells.extend([Cell::count(run.events), Cell::number(Some(run.wall_ms))]);
            cells.extend(extra.iter().map(|(_, _, value)| value(run).unwrap_or(Cell::number(None))));
            table.push(cells);
        }
        table
    }
}

/// What people check first.
const COMPACT: [Metric; 8] = [
    Metric::AvgJct,
    Metric::MedianJct,
    Metric::P95Jct,
    Metric::P99Jct,
    Metric::Makespan,
    Metric::AvgQueue,
    Metric::GpuUtilization,
    Metric::Preemptions,
];

impl Report {
    /// What all runs share, in one line: `trace t.csv · preset wharf · cluster 8x8 · seed 1 · 100 jobs`.
    pub fn caption(&self) -> String {
        let runs: Vec<&Summary> = self.runs.iter().collect();
        let Some(first) = runs.first() else { return String::new() };
        let (shared, _) = split_labels(&runs);
        let mut parts: Vec<String> =
            shared.iter().map(|(name, value)| format!("{name} {}", value(first))).collect();
        if runs.iter().all(|run| run.jobs == first.jobs) {
            let plural = if first.jobs == 1 { "" } else { "s" };
            parts.push(format!("{} job{plural}", human::count(first.jobs)));
        }
        parts.join(" · ")
    }

    /// Caption and table for people, with a word on what the mark in the table means.
    pub fn to_text(&self) -> String {
        let table = self.compact_table();
        let is_marked = table.rows().iter().flatten().any(Cell::is_best);
        let legend = if is_marked { " · * best" } else { "" };
        format!("{}{legend}\n{}", self.caption(), table.to_text())
    }

    /// A table for people: without what [`Report::caption`] says, and only the metrics checked first.
    pub fn compact_table(&self) -> Table {
        let runs: Vec<&Summary> = self.runs.iter().collect();
        let (_, told) = split_labels(&runs);
        // Where jobs are packed, no time passes and none ends.
        let is_timeless = !runs.is_empty() && runs.iter().all(|run| run.is_packing());
        let metrics: &[Metric] = if is_timeless { &[] } else { &COMPACT };
        let unfinished = !is_timeless && runs.iter().any(|run| run.finished < run.jobs);
        let mut columns = vec![Column::text("policy", "policy")];
        columns.extend(told.iter().map(|(name, _)| Column::text(name, name)));
        if unfinished {
            columns.push(Column::number("finished", "finished", Unit::Number));
        }
        columns.extend(metrics.iter().map(|m| Column::number(m.name(), m.title(), m.unit())));
        let extra = extra_columns(&self.runs);
        columns.extend(extra.iter().map(|(name, title, _)| Column::number(name, title, Unit::Number)));
        let mut table = Table::new(columns);
        for (run, won) in runs.iter().zip(winners(&self.runs)) {
            let mut cells = vec![Cell::text(&run.policy)];
            cells.extend(told.iter().map(|(_, value)| Cell::text(&value(run))));
            if unfinished {
                cells.push(Cell::count(run.finished));
            }
            let won = |metric: Metric| Metric::ALL.iter().zip(won).any(|(m, won)| won && *m == metric);
            cells.extend(metrics.iter().map(|&metric| metric_cell(metric, run).marked(won(metric))));
            cells.extend(extra.iter().map(|(_, _, value)| value(run).unwrap_or(Cell::number(None))));
            table.push(cells);
        }
        table
    }
}

/// A value that few runs have: its name for programs, its title for people, and its cell.
type Extra = (&'static str, &'static str, fn(&Summary) -> Option<Cell>);

/// Values that are worth a column, because some run has them.
fn extra_columns(runs: &[Summary]) -> Vec<Extra> {
    let all: [Extra; 11] = [
        ("shrinks", "shrinks", |run| is_elastic(run).then(|| Cell::count(run.shrinks))),
        ("grows", "grows", |run| is_elastic(run).then(|| Cell::count(run.grows))),
        ("type_changes", "type changes", |run| is_elastic(run).then(|| Cell::count(run.type_changes))),
        ("failure_stops", "failure stops", |run| {
            (run.failure_stops > 0).then(|| Cell::count(run.failure_stops))
        }),
        ("deadlines_met", "deadlines met", |run| run.deadlines_met.map(Cell::count)),
        ("deadlines_missed", "missed", |run| run.deadlines_missed.map(Cell::count)),
        ("arrivals", "arrivals", |run| run.arrivals.map(Cell::count)),
        ("placed", "placed", |run| run.placed.map(Cell::count)),
        ("allocation", "allocated %", |run| last(&run.allocation)),
        ("fragmentation", "fragmented %", |run| last(&run.fragmentation)),
        ("fragmentation_ratio", "of idle %", |run| last(&run.fragmentation_ratio)),
    ];
    all.into_iter().filter(|(_, _, value)| runs.iter().any(|run| value(run).is_some())).collect()
}

/// The end of a curve.
fn last(curve: &[Option<f64>]) -> Option<Cell> {
    curve.iter().rev().flatten().next().map(|&value| Cell::number(Some(value)))
}

/// Whether jobs had other devices than they asked for, or of several types.
fn is_elastic(run: &Summary) -> bool {
    run.shrinks + run.grows + run.type_changes > 0
}

/// A run's value; what is counted is whole.
fn metric_cell(metric: Metric, run: &Summary) -> Cell {
    match metric {
        Metric::Preemptions => Cell::count(run.preemptions),
        _ => Cell::number(metric.of(run)),
    }
}

/// For each run and each of [`Metric::ALL`], whether it is the best of the runs it can be ranked with. Runs
/// that finished fewer jobs than another do not compete: leaving long jobs undone must not win.
pub fn winners(runs: &[Summary]) -> Vec<[bool; Metric::ALL.len()]> {
    let of = |run: &Summary| {
        let rivals: Vec<&Summary> = runs.iter().filter(|other| run.is_comparable(other)).collect();
        let finished_max = rivals.iter().map(|rival| rival.finished).max().unwrap_or(0);
        Metric::ALL.map(|metric| {
            let full = rivals.iter().filter(|rival| finished_max > 0 && rival.finished == finished_max);
            let values: Vec<Option<f64>> = full.clone().map(|rival| metric.of(rival)).collect();
            let won = metric.winners(&values);
            full.zip(won).any(|(rival, won)| won && std::ptr::eq(*rival, run))
        })
    };
    runs.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::metrics::RunLabels;

    fn run(policy: &str, seed: u64, avg_jct_s: f64) -> Summary {
        let labels = RunLabels { seed, ..fixture::labels(policy) };
        let summary = Summary::new(labels, &fixture::outcome(), 12.0);
        Summary { avg_jct_s: Some(avg_jct_s), jobs: 3, ..summary }
    }

    #[test]
    fn comparison_over_seeds() {
        let runs =
            [run("fifo", 1, 7900.0), run("srtf", 1, 3000.0), run("fifo", 2, 8100.0), run("srtf", 2, 3100.0)];
        let comparison = Comparison::new(&runs);
        assert_eq!(comparison.rows[0].seeds, [1, 2]);
        let table = comparison.table(&[Metric::AvgJct, Metric::GpuUtilization]);
        insta::assert_snapshot!(table.to_text(), @"
        policy  trace  preset  cluster  runs  incomplete            avg JCT         GPU use
        fifo    tiny   wharf   1x4         2           0   2h 13m ± 21m 11s  50.0 % ± 0.0 %
        srtf    tiny   wharf   1x4         2           0  50m 50s ± 10m 35s* 50.0 % ± 0.0 %
        ");
        insta::assert_snapshot!(table.to_plain(), @"
        policy	trace	preset	cluster	runs	incomplete	avg_jct_s_mean	avg_jct_s_sd	avg_jct_s_ci95_low	avg_jct_s_ci95_high	gpu_utilization_mean	gpu_utilization_sd	gpu_utilization_ci95_low	gpu_utilization_ci95_high
        fifo	tiny	wharf	1x4	2	0	8000.0	141.4213562373095	6729.4	9270.6	0.5	0.0	0.5	0.5
        srtf	tiny	wharf	1x4	2	0	3050.0	70.71067811865476	2414.7	3685.3	0.5	0.0	0.5	0.5
        ");
        assert!(comparison.to_json().unwrap().contains("\"metric\": \"avg_jct_s\",\n          \"count\": 2"));
    }

    #[test]
    fn report_table_marks_the_best() {
        let report = Report::new(vec![run("fifo", 1, 7900.0), run("srtf", 1, 3000.0)]);
        insta::assert_snapshot!(report.table().to_text(), @"
        policy  trace  preset  cluster  seed  jobs  finished  avg JCT  median JCT  p95 JCT  p99 JCT  max JCT  makespan  avg queue  GPU use  preemptions  events  wall ms
        fifo    tiny   wharf   1x4      1        3         3   2h 12m         40s    1m 7s    1m 9s   1m 10s    1m 20s        20s   50.0 %            3       7       12
        srtf    tiny   wharf   1x4      1        3         3   50m 0s*        40s    1m 7s    1m 9s   1m 10s    1m 20s        20s   50.0 %            3       7       12
        ");
    }

    #[test]
    fn compact_table_shows_common_labels_once() {
        let mut report =
            Report::new(vec![run("fifo", 1, 7900.0), run("srtf", 1, 3000.0), run("fifo", 2, 5.0)]);
        insta::assert_snapshot!(report.caption(), @"trace tiny · preset wharf · cluster 1x4 · 3 jobs");
        insta::assert_snapshot!(report.compact_table().to_text(), @"
        policy  seed  avg JCT  median JCT  p95 JCT  p99 JCT  makespan  avg queue  GPU use  preemptions
        fifo    1      2h 12m         40s    1m 7s    1m 9s    1m 20s        20s   50.0 %            3
        srtf    1      50m 0s*        40s    1m 7s    1m 9s    1m 20s        20s   50.0 %            3
        fifo    2          5s         40s    1m 7s    1m 9s    1m 20s        20s   50.0 %            3
        ");
        report.runs[0].finished = 1;
        assert!(report.compact_table().to_text().contains("finished"));
        assert_eq!(Report::new(vec![]).caption(), "");
    }

    #[test]
    fn runs_that_left_jobs_undone_do_not_win() {
        let short = Summary { finished: 2, ..run("cheat", 1, 1.0) };
        let won = winners(&[short, run("fifo", 1, 7900.0), run("srtf", 1, 3000.0), run("other", 2, 5.0)]);
        let avg_jct: Vec<bool> = won.iter().map(|won| won[0]).collect();
        assert_eq!(avg_jct, [false, false, true, false]);
    }

    #[test]
    fn comparison_of_nothing_is_empty() {
        assert!(Comparison::new(&[]).rows.is_empty());
        assert!(Report::new(vec![]).table().rows().is_empty());
    }
}
