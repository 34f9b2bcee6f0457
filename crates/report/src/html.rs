//! A page for the browser: everything about some runs in one file that fetches nothing.

use wharf_core::{ClusterSpec, JobSpec};
use wharf_sim::{Outcome, Sample};

use crate::breakdown::{Breakdown, BreakdownRow, row_columns};
use crate::compare::{Comparison, winners};
use crate::fairness::Fairness;
use crate::metric::{Metric, Unit};
use crate::metrics::{Report, Summary, run_names};
use crate::plot::{self, Bar, CdfSeries, Plot, StepSeries};
use crate::svg::{STYLE, escape};
use crate::table::{Cell, Column, Table};

const PAGE_STYLE: &str = include_str!("page.css");

/// Rows of a breakdown that a page shows; `breakdown.csv` has them all.
const ROWS_MAX: usize = 60;

/// Metrics that get a bar chart.
const BAR_METRICS: [Metric; 4] = [Metric::AvgJct, Metric::P99Jct, Metric::Makespan, Metric::GpuUtilization];

/// What a page is made of.
#[derive(Clone, Debug)]
pub struct Page {
    /// The heading.
    pub title: String,
    /// The command lines that made the runs, exactly as typed.
    pub commands: Vec<String>,
    /// The runs, in the order they are to be listed.
    pub runs: Vec<PageRun>,
    /// More to show, each under a heading of its own.
    pub tables: Vec<(String, Table)>,
}

/// One run on a page.
#[derive(Clone, Debug)]
pub struct PageRun {
    /// Its labels and metrics.
    pub summary: Summary,
    /// Its rows by size, user and model.
    pub breakdown: Breakdown,
    /// Completion times of its finished jobs.
    pub jcts_s: Vec<f64>,
    /// Occupancy over time; may be empty.
    pub timeline: Vec<Sample>,
    /// Devices in the cluster.
    pub device_count: u32,
    /// Who ran where, where that was recorded.
    pub gantt: Option<Plot>,
}

impl PageRun {
    /// Gathers what a page shows of an outcome.
    pub fn new(summary: Summary, cluster: &ClusterSpec, specs: &[JobSpec], outcome: &Outcome) -> Self {
        let title = format!("{}: jobs on devices", summary.policy);
        let gantt = || plot::gantt(&title, &plot::node_devices(cluster), &outcome.spans, specs);
        Self {
            breakdown: Breakdown::new(specs, outcome),
            jcts_s: outcome.jobs.iter().filter_map(wharf_sim::JobRecord::jct_s).collect(),
            timeline: outcome.timeline.clone(),
            device_count: outcome.device_count,
            gantt: (!outcome.spans.is_empty()).then(gantt),
            summary,
        }
    }
}

/// Renders the page.
pub fn render(page: &Page) -> String {
    let summaries: Vec<&Summary> = page.runs.iter().map(|run| &run.summary).collect();
    let names = run_names(&summaries);
    let report = Report::new(summaries.into_iter().cloned().collect());
    let title = escape(&page.title);
    let sections = [
        commands(&page.commands),
        summary(&report),
        page.tables.iter().map(|(heading, table)| section(&escape(heading), &html_table(table))).collect(),
        seeds(&report),
        bar_charts(&report, &names),
        curves(page, &names),
        fairness(page, &names),
        breakdowns(page, &names),
        gantts(page, &names),
    ];
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{PAGE_STYLE}{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{}</main>\n</body>\n</html>\n",
        sections.concat()
    )
}

fn section(heading: &str, body: &str) -> String {
    if body.is_empty() { String::new() } else { format!("<section>\n<h2>{heading}</h2>\n{body}</section>\n") }
}

fn commands(commands: &[String]) -> String {
    if commands.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = commands.iter().map(|command| escape(command)).collect();
    format!("<pre class=\"command\"><code>{}</code></pre>\n", lines.join("\n"))
}

fn summary(report: &Report) -> String {
    if report.runs.is_empty() {
        return section("Summary", "<p>There is no run to show.</p>\n");
    }
    let mut body = format!("<p class=\"note\">{}</p>\n", escape(&report.caption()));
    body += &html_table(&report.compact_table());
    if report.runs.len() > 1 {
        body += "<p class=\"note\">★ best among runs of the same trace, preset, cluster and seed that finished \
                 the most jobs.</p>\n";
    }
    section("Summary", &body)
}

/// Means over seeds, where some runs differ in nothing else.
fn seeds(report: &Report) -> String {
    let comparison = Comparison::new(&report.runs);
    if comparison.rows.iter().all(|row| row.seeds.len() < 2) {
        return String::new();
    }
    let table = html_table(&comparison.table(&Metric::ALL));
    let note = "<p class=\"note\">Mean ± half of the 95 % confidence interval (Student’s t).</p>\n";
    section("Over seeds", &(table + note))
}

fn bar_charts(report: &Report, names: &[String]) -> String {
    if report.runs.len() < 2 {
        return String::new();
    }
    let winners = winners(&report.runs);
    let chart = |metric: Metric| {
        let bar = |((run, name), won): ((&Summary, &String), &[bool; Metric::ALL.len()])| {
            let best = Metric::ALL.iter().zip(won).any(|(other, &won)| won && *other == metric);
            Bar { name: name.clone(), value: metric.of(run), best }
        };
        let bars: Vec<Bar> = report.runs.iter().zip(names).zip(&winners).map(bar).collect();
        figure(&plot::bars(metric, &bars))
    };
    section("Side by side", &format!("<div class=\"pairs\">\n{}</div>\n", BAR_METRICS.map(chart).concat()))
}

fn curves(page: &Page, names: &[String]) -> String {
    let runs = || page.runs.iter().zip(names);
    let cdf: Vec<CdfSeries> =
        runs().map(|(run, name)| CdfSeries { name: name.clone(), jcts_s: run.jcts_s.clone() }).collect();
    let mut body = if cdf.is_empty() { String::new() } else { figure(&plot::jct_cdf(&cdf)) };
    if page.runs.iter().any(|run| !run.timeline.is_empty()) {
        let busy = runs().map(|(run, name)| StepSeries::utilization(name, &run.timeline, run.device_count));
        body += &figure(&plot::utilization(&busy.collect::<Vec<_>>()));
        let waiting = runs().map(|(run, name)| StepSeries::queue_length(name, &run.timeline));
        body += &figure(&plot::queue_length(&waiting.collect::<Vec<_>>()));
    }
    section("Completion times and load", &body)
}

fn fairness(page: &Page, names: &[String]) -> String {
    let mut table = Table::new(vec![
        Column::text("run", "run"),
        Column::number("jobs", "jobs", Unit::Number),
        Column::number("rho_mean", "mean ρ", Unit::Number),
        Column::number("rho_max", "worst ρ", Unit::Number),
        Column::number("unfair_share", "jobs with ρ > 1", Unit::Share),
        Column::number("jain", "Jain index of ρ", Unit::Number),
    ]);
    for (run, name) in page.runs.iter().zip(names) {
        if let Some(Fairness { jobs, rho_max, rho_mean, unfair_share, jain }) = run.breakdown.fairness {
            let numbers = [rho_mean, rho_max, unfair_share, jain].map(|value| Cell::number(Some(value)));
            table.push([vec![Cell::text(name), Cell::count(jobs)], numbers.to_vec()].concat());
        }
    }
    if table.rows().is_empty() {
        return String::new();
    }
    let note = "<p class=\"note\">ρ = completion time ÷ (solo time × max(1, g·n ÷ D)) for a job that asks for \
                g of D devices while n jobs are in the system on average: above 1 it took longer than on its \
                fair share of the cluster.</p>\n";
    section("Finish-time fairness", &(html_table(&table) + note))
}

fn breakdowns(page: &Page, names: &[String]) -> String {
    let several = page.runs.len() > 1;
    let of_run = |(run, name): (&PageRun, &String)| {
        let tables: String =
            run.breakdown.groups().iter().map(|(by, rows)| breakdown_table(by, rows)).collect();
        if tables.is_empty() {
            return String::new();
        }
        let open = if several { "" } else { " open" };
        format!("<details{open}>\n<summary>{}</summary>\n{tables}</details>\n", escape(name))
    };
    section("By size, user and model", &page.runs.iter().zip(names).map(of_run).collect::<String>())
}

/// A grouping into one group says nothing.
fn breakdown_table(by: &str, rows: &[BreakdownRow]) -> String {
    if rows.len() < 2 {
        return String::new();
    }
    let mut table = Table::new(row_columns(if by == "size" { "GPUs" } else { by }));
    for row in rows.iter().take(ROWS_MAX) {
        table.push(row.cells());
    }
    let more = rows.len().saturating_sub(ROWS_MAX);
    let note = if more > 0 { format!("<p class=\"note\">… and {more} more.</p>\n") } else { String::new() };
    html_table(&table) + &note
}

fn gantts(page: &Page, names: &[String]) -> String {
    let open = if page.runs.len() > 1 { "" } else { " open" };
    let of_run = |(run, name): (&PageRun, &String)| {
        let plot = run.gantt.as_ref()?;
        Some(format!("<details{open}>\n<summary>{}</summary>\n{}</details>\n", escape(name), figure(plot)))
    };
    section("Jobs on devices", &page.runs.iter().zip(names).filter_map(of_run).collect::<String>())
}

fn figure(plot: &Plot) -> String {
    format!("<figure class=\"scroll\">\n{}</figure>\n", plot.to_inline())
}

/// A table whose best values carry a star and are bold.
fn html_table(table: &Table) -> String {
    let class = |numeric: bool| if numeric { " class=\"n\"" } else { "" };
    let mut html = String::from("<div class=\"scroll\"><table>\n<thead><tr>");
    for column in table.columns() {
        html += &format!("<th scope=\"col\"{}>{}</th>", class(column.is_numeric()), escape(column.title()));
    }
    html += "</tr></thead>\n<tbody>\n";
    for row in table.rows() {
        html += "<tr>";
        for (index, (column, cell)) in table.columns().iter().zip(row).enumerate() {
            let text = escape(&cell.show(column));
            let text = if cell.is_best() { format!("<strong>★ {text}</strong>") } else { text };
            let tag = if index == 0 { ("th scope=\"row\"", "th") } else { ("td", "td") };
            html += &format!("<{}{}>{text}</{}>", tag.0, class(column.is_numeric()), tag.1);
        }
        html += "</tr>\n";
    }
    html + "</tbody>\n</table></div>\n"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wharf_core::{DeviceSet, JobId, NodeId, NodeShare, Time};
    use wharf_sim::{JobRecord, MetricRules, Tally};

    use super::*;
    use crate::fixture;

    fn page(policies: &[&str]) -> Page {
        let (specs, outcome) = (fixture::specs(), fixture::outcome());
        let cluster = ClusterSpec::uniform("v100", 1, 4);
        let run = |policy: &&str| {
            let summary = Summary::new(fixture::labels(policy), &outcome, 1.0);
            PageRun::new(summary, &cluster, &specs, &outcome)
        };
        let commands = vec!["wharf sim --policy 'fifo' <trace.csv".to_owned()];
        Page { title: "A & B".to_owned(), commands, runs: policies.iter().map(run).collect(), tables: vec![] }
    }

    #[test]
    fn page_escapes_everything() {
        let html = render(&page(&["fifo", "<script>alert(1)</script>"]));
        assert!(!html.contains("<script") && !html.contains("beta <b>"));
        assert!(html.contains("<title>A &amp; B</title>"));
        assert!(html.contains("wharf sim --policy &#39;fifo&#39; &lt;trace.csv"));
        assert!(html.contains("beta &lt;b&gt;"));
    }

    #[test]
    fn page_fetches_nothing_and_is_reproducible() {
        let html = render(&page(&["fifo", "srtf"]));
        let names = html.replace("http://www.w3.org/2000/svg", "");
        for fetch in ["http:", "https:", "src=", "href=", "url(", "@import"] {
            assert!(!names.contains(fetch), "{fetch}");
        }
        assert_eq!(html, render(&page(&["fifo", "srtf"])));
    }

    #[test]
    fn page_marks_winners_with_star_and_weight() {
        let mut page = page(&["fifo", "srtf"]);
        page.runs[1].summary.avg_jct_s = Some(20.0);
        assert!(render(&page).contains("<td class=\"n\"><strong>★ 20s</strong></td>"));
    }

    #[test]
    fn pages_of_nothing_have_no_nan() {
        let empty = fixture::empty_outcome();
        let summary = Summary::new(fixture::labels("fifo"), &empty, 0.0);
        let run = PageRun::new(summary, &ClusterSpec::default(), &[], &empty);
        for runs in [vec![], vec![run.clone()], vec![run.clone(), run]] {
            let html = render(&Page { title: String::new(), commands: vec![], runs, tables: vec![] });
            assert!(!html.contains("NaN") && !html.contains(">inf"));
        }
    }

    /// Times as odd as they can be, in any order.
    fn odd_time() -> impl Strategy<Value = Time> {
        prop_oneof![Just(0.0), Just(-5.0), 0.0..1e6, Just(f64::MAX), Just(1e-300)]
            .prop_map(Time::from_seconds)
    }

    fn odd_record() -> impl Strategy<Value = JobRecord> {
        let times = (odd_time(), prop::option::of(odd_time()), prop::option::of(odd_time()));
        (times, 0..200_u32, 0.0..1e9).prop_map(|((submit, first_start, end), devices, run_s)| {
            let job = JobId(devices);
            JobRecord { job, devices, submit, first_start, end, queue_s: run_s, run_s, preemptions: devices }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn odd_runs_have_no_nan_and_no_panic(
            records in prop::collection::vec(odd_record(), 0..12),
            samples in prop::collection::vec((odd_time(), 0..9_u32), 0..9),
            spans in prop::collection::vec((odd_time(), odd_time(), any::<u128>(), 0..9_u32), 0..9),
            device_count in 0..9_u32,
            muri in any::<bool>(),
        ) {
            let sample = |&(time, waiting): &(Time, u32)| Sample { time, busy_devices: waiting, running: 1, waiting };
            let span = |&(start, end, devices, index): &(Time, Time, u128, u32)| wharf_sim::Span {
                job: JobId(index),
                share: NodeShare { node: NodeId(index), devices: DeviceSet(devices) },
                start,
                end,
            };
            let outcome = Outcome {
                jobs: records,
                timeline: samples.iter().map(sample).collect(),
                spans: spans.iter().map(span).collect(),
                event_count: 0,
                busy_device_s: 1.0,
                device_count,
                rules: if muri { MetricRules::Muri } else { MetricRules::Wharf },
                tally: Tally::default(),
            };
            let summary = Summary::new(fixture::labels("odd"), &outcome, 0.0);
            let json = Report::new(vec![summary.clone()]).to_json().unwrap();
            let run = PageRun::new(summary, &ClusterSpec::default(), &fixture::specs(), &outcome);
            let runs = vec![run.clone(), run];
            let html = render(&Page { title: String::new(), commands: vec![], runs, tables: vec![] });
            for text in [json, html] {
                prop_assert!(!text.contains("NaN") && !text.contains("inf\"") && !text.contains(">inf"));
            }
        }
    }
}
