//! Tables: what came out, who is best, and for whom.

use super::PageRun;
use super::charts::heading;
use super::parts::{details, fixed_table, html_table, note};
use super::series::{Group, Series};
use crate::breakdown::{BreakdownRow, largest, row_columns};
use crate::compare::Comparison;
use crate::digest::STOP_CLASSES;
use crate::human;
use crate::metric::{Metric, Unit};
use crate::metrics::Report;
use crate::svg::escape;
use crate::table::{Cell, Column, Table};
use crate::winners::{self, verdicts};

/// Rows of a breakdown that a page shows; `breakdown.csv` has them all.
const ROWS_MAX: usize = 40;

/// Figures of a single run, large.
pub(super) fn tiles(report: &Report) -> String {
    let [run] = report.runs.as_slice() else { return String::new() };
    let shown = [Metric::AvgJct, Metric::P99Jct, Metric::Makespan, Metric::AvgQueue, Metric::GpuUtilization];
    let tile = |what: &str, value: &str, more: &str| {
        let [what, value, more] = [what, value, more].map(escape);
        format!(
            "<div class=\"tile\"><div class=\"what\">{what}</div><div class=\"value\">{value}</div><div class=\"more\">{more}</div></div>\n"
        )
    };
    let finished = format!("of {} were submitted", human::count(run.jobs));
    let mut tiles = tile("Jobs finished", &human::count(run.finished), &finished);
    for metric in shown {
        let value = metric.of(run).map_or_else(|| "–".to_owned(), |value| metric.unit().show(value));
        tiles += &tile(metric.title(), &value, metric.about());
    }
    tiles += &tile("Preemptions", &human::count(run.preemptions), "stops of jobs before their end");
    format!("<div class=\"tiles\">\n{tiles}</div>\n")
}

pub(super) fn winners(report: &Report) -> String {
    let verdicts = verdicts(&report.runs);
    if verdicts.is_empty() {
        return String::new();
    }
    let notes = winners::notes(&verdicts, &winners::left_out(&report.runs));
    fixed_table(&winners::table(&verdicts)) + &notes.iter().map(|text| note(text)).collect::<String>()
}

pub(super) fn summary(report: &Report) -> String {
    if report.runs.is_empty() {
        return note("There is no run to show.");
    }
    let comparison = Comparison::new(&report.runs);
    if comparison.rows.iter().any(|row| row.seeds.len() > 1) {
        let remark = "Mean ± half of the 95 % confidence interval over seeds (Student’s t). ★ best mean among runs of the \
                      same trace, preset and cluster that finished as many jobs as any.";
        return html_table(&comparison.compact_table()) + &note(remark);
    }
    let mut body = html_table(&report.compact_table());
    if report.runs.len() > 1 {
        body += &note(
            "★ best among runs of the same trace, preset, cluster and seed that finished the most jobs.",
        );
    }
    body
}

/// All that summaries say.
pub(super) fn every_run(report: &Report) -> String {
    if report.runs.is_empty() {
        return String::new();
    }
    let title = format!("{} runs, as their summary.json has them", human::count(report.runs.len() as u64));
    details(&title, report.runs.len() <= 3, &html_table(&report.table()))
}

/// One row per series, means over seeds.
pub(super) fn fairness(all: &[&Series<'_>]) -> String {
    let mut columns = vec![
        Column::text("run", "run"),
        Column::number("rho_mean", "mean ρ", Unit::Number),
        Column::number("rho_max", "worst ρ", Unit::Number),
        Column::number("unfair_share", "jobs with ρ > 1", Unit::Share),
        Column::number("jain", "Jain index of ρ", Unit::Number),
        Column::number("preemptions", "preemptions", Unit::Number),
    ];
    columns.extend(
        STOP_CLASSES.map(|class| {
            Column::number(&format!("stopped {class}"), &format!("stopped {class}"), Unit::Share)
        }),
    );
    let mut table = Table::new(columns);
    for series in all.iter().filter(|series| series.runs[0].summary.jobs > 0) {
        let fairness = |value: fn(&crate::Fairness) -> f64| {
            series.mean(|run| run.digest.breakdown.fairness.as_ref().map(value))
        };
        let numbers = [
            fairness(|fairness| fairness.rho_mean),
            fairness(|fairness| fairness.rho_max),
            fairness(|fairness| fairness.unfair_share),
            fairness(|fairness| fairness.jain),
            series.metric(Metric::Preemptions),
        ];
        let stopped = |class: usize| {
            series.mean(|run| {
                let all: f64 = run.digest.stops.iter().map(|&jobs| jobs as f64).sum();
                (all > 0.0).then(|| run.digest.stops[class] as f64 / all)
            })
        };
        let mut cells = vec![Cell::text(&series.name)];
        cells.extend(numbers.into_iter().chain((0..STOP_CLASSES.len()).map(stopped)).map(Cell::number));
        table.push(cells);
    }
    if table.rows().is_empty() {
        return String::new();
    }
    html_table(&table)
        + &note(
            "ρ = completion time ÷ (solo time × max(1, g·n ÷ D)) for a job that asks for g of D devices while n jobs are in \
             the system on average: above 1 it took longer than on its fair share of the cluster. “Stopped” counts how often \
             a job was stopped before its end, as a share of jobs. Means over seeds where there are several.",
        )
}

pub(super) fn breakdowns(groups: &[Group<'_>]) -> String {
    groups.iter().map(breakdown).filter(|body| !body.is_empty()).collect()
}

fn breakdown(group: &Group<'_>) -> String {
    let [first, ..] = group.series.as_slice() else { return String::new() };
    let digest = &first.runs[0].digest;
    let mut body = String::new();
    for (index, (by, rows)) in digest.breakdown.groups().iter().enumerate() {
        // A grouping into one group states nothing.
        if rows.len() < 2 {
            continue;
        }
        let key = if *by == "size" { "GPUs" } else { by };
        let table = match group.series.as_slice() {
            [only] if only.runs.len() == 1 => whole_table(key, rows),
            series => compared_table(key, index, rows, series),
        };
        body += &html_table(&table);
        let more = digest.rows_left_out[index].saturating_add(rows.len().saturating_sub(ROWS_MAX) as u64);
        if more > 0 {
            body += &note(&format!(
                "… and {} more with fewer GPU hours; breakdown.csv has them all.",
                human::count(more)
            ));
        }
    }
    if body.is_empty() {
        return body;
    }
    let remark = "Mean completion time of each run, over seeds where there are several; ★ least of those that finished all of \
                  the row’s jobs.";
    heading(group) + &body + &if group.series.len() > 1 { note(remark) } else { String::new() }
}

fn whole_table(key: &str, rows: &[BreakdownRow]) -> Table {
    let mut table = Table::new(row_columns(key));
    for row in largest(rows, ROWS_MAX) {
        table.push(row.cells());
    }
    table
}

/// One column per series: the mean completion time of each key.
fn compared_table(key: &str, by: usize, rows: &[BreakdownRow], all: &[Series<'_>]) -> Table {
    let mut columns = vec![Column::text(key, key), Column::number("jobs", "jobs", Unit::Number)];
    columns.extend(all.iter().map(|series| Column::number(&series.name, &series.name, Unit::Seconds)));
    let mut table = Table::new(columns);
    for row in largest(rows, ROWS_MAX) {
        let values: Vec<Option<f64>> =
            all.iter().map(|series| series.mean(|run| same(run, by, row)?.avg_jct_s)).collect();
        // A mean that lacks the jobs which were not done cannot win.
        let is_whole = |run: &&PageRun| same(run, by, row).is_some_and(|row| row.finished == row.jobs);
        let competing: Vec<Option<f64>> = all
            .iter()
            .zip(&values)
            .map(|(series, value)| value.filter(|_| series.runs.iter().all(is_whole)))
            .collect();
        let best = Metric::AvgJct.winners(&competing);
        let mut cells = vec![Cell::text(&row.key), Cell::count(row.jobs)];
        cells.extend(values.iter().zip(best).map(|(&value, best)| Cell::number(value).marked(best)));
        table.push(cells);
    }
    table
}

/// The row of a run with the same key.
fn same<'a>(run: &'a PageRun, by: usize, row: &BreakdownRow) -> Option<&'a BreakdownRow> {
    let (_, rows) = run.digest.breakdown.groups()[by];
    rows.iter().find(|other| other.key == row.key)
}
