//! A sweep's results: one table, per matrix for people, and the plots.

use std::path::{Path, PathBuf};

use serde::Serialize;
use wharf_report::files::{REPORT_HTML, find_runs};
use wharf_report::plot::{self, Bar, Plot};
use wharf_report::table::csv;
use wharf_report::{Comparison, ComparisonRow, Metric, Report, Summary, run_names};
use wharf_sim::sweep::SweepPlan;

use super::runs_dir;
use crate::{StudyError, page};

/// Metrics that get a bar chart per matrix and trace.
const PLOTTED: [Metric; 3] = [Metric::AvgJct, Metric::P99Jct, Metric::Makespan];

/// Metrics of the table of means over seeds.
const COMPARED: [Metric; 6] = [
    Metric::AvgJct,
    Metric::MedianJct,
    Metric::P99Jct,
    Metric::Makespan,
    Metric::AvgQueue,
    Metric::Preemptions,
];

/// What stands below it.
const ESTIMATES: &str = "mean ± half of the 95 % confidence interval over seeds (Student's t); * best mean\n";

/// The document that `--output json` prints and `summary.json` holds: a report, and which matrix wants which runs.
#[derive(Debug, Serialize)]
pub struct SweepReport {
    name: String,
    #[serde(flatten)]
    report: Report,
    matrices: Vec<MatrixRows>,
    /// Where the rest of each run is.
    folders: Vec<PathBuf>,
}

/// The rows of one matrix.
#[derive(Debug, Serialize)]
struct MatrixRows {
    label: String,
    /// Positions in the report's runs.
    runs: Vec<usize>,
}

impl SweepReport {
    /// Puts summaries, in the order of the plan's runs, under the names of the scenario. A run that several
    /// matrices have under one name is listed once.
    pub fn new(plan: &SweepPlan, kept: &[Summary]) -> Self {
        let mut runs: Vec<Summary> = Vec::new();
        let mut listed: Vec<(usize, &str)> = Vec::new();
        let mut folders: Vec<PathBuf> = Vec::new();
        let label = |label: &String| MatrixRows { label: label.clone(), runs: vec![] };
        let mut matrices: Vec<MatrixRows> = plan.matrices.iter().map(label).collect();
        for row in &plan.rows {
            let name = (row.run, row.label.as_str());
            let index = listed.iter().position(|other| *other == name).unwrap_or_else(|| {
                listed.push(name);
                runs.push(Summary { policy: row.label.clone(), ..kept[row.run].clone() });
                folders.push(runs_dir(Path::new("")).join(plan.runs[row.run].key.to_string()));
                runs.len() - 1
            });
            matrices[row.matrix].runs.push(index);
        }
        Self { name: plan.name.clone(), report: Report::new(runs), matrices, folders }
    }

    fn matrix_report(&self, matrix: &MatrixRows) -> Report {
        Report::new(matrix.runs.iter().map(|&index| self.report.runs[index].clone()).collect())
    }

    /// Means over the seeds of a matrix that has several.
    fn over_seeds(&self, matrix: &MatrixRows) -> Option<Comparison> {
        let comparison = Comparison::new(&self.matrix_report(matrix).runs);
        comparison.rows.iter().any(|row| row.seeds.len() > 1).then_some(comparison)
    }

    /// All runs.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// A table for each matrix.
    pub fn to_text(&self) -> String {
        let matrix = |matrix: &MatrixRows| {
            let table = match self.over_seeds(matrix) {
                Some(comparison) => comparison.table(&COMPARED).to_text() + ESTIMATES,
                None => self.matrix_report(matrix).to_text(),
            };
            [matrix.label.as_str(), &table].join("\n").trim_start().to_owned()
        };
        self.matrices.iter().map(matrix).collect::<Vec<_>>().join("\n")
    }

    /// Writes `results.csv`, `results.txt`, `summary.json`, the plots and the page.
    ///
    /// # Errors
    /// Where a file cannot be written; each one is complete or as it was.
    pub fn write(&self, out: &Path, command: String) -> Result<page::Written, StudyError> {
        let json = serde_json::to_string_pretty(self).map_err(StudyError::Json)?;
        write(&out.join("summary.json"), json + "\n")?;
        write(&out.join("results.txt"), self.to_text())?;
        write(&out.join("results.csv"), csv(&self.report.table().to_plain()))?;
        for (number, matrix) in self.matrices.iter().enumerate() {
            match self.over_seeds(matrix) {
                Some(comparison) => write_mean_plots(number + 1, &comparison, out)?,
                None => self.write_plots(number + 1, matrix, out)?,
            }
        }
        let found = find_runs(out).map_err(StudyError::Stored)?;
        page::write(&self.name, &found, &out.join(REPORT_HTML), command, &|| ())
    }

    /// One bar chart for each metric and each trace, cluster, preset and seed: bars within one can be compared.
    fn write_plots(&self, number: usize, matrix: &MatrixRows, out: &Path) -> Result<(), StudyError> {
        let mut rest: Vec<&Summary> = matrix.runs.iter().map(|&index| &self.report.runs[index]).collect();
        while let Some(first) = rest.first().copied() {
            let (arena, others): (Vec<&Summary>, Vec<&Summary>) =
                rest.into_iter().partition(|run| run.is_comparable(first));
            let place = format!("{}-{}-{}-seed{}", first.trace, first.cluster, first.preset, first.seed);
            let names = run_names(&arena);
            for metric in PLOTTED {
                let values: Vec<Value> = arena.iter().map(|run| (metric.of(run), None)).collect();
                write_plot(&out.join(plot_name(number, &place, metric)), &chart(metric, &names, &values))?;
            }
            rest = others;
        }
        Ok(())
    }
}

/// One bar chart for each metric and each trace, cluster and preset, of means over seeds.
fn write_mean_plots(number: usize, comparison: &Comparison, out: &Path) -> Result<(), StudyError> {
    let mut rest: Vec<&ComparisonRow> = comparison.rows.iter().collect();
    while let Some(first) = rest.first().copied() {
        let place = format!("{}-{}-{}", first.trace, first.cluster, first.preset);
        let is_rival = |row: &&ComparisonRow| {
            (&row.trace, &row.cluster, &row.preset) == (&first.trace, &first.cluster, &first.preset)
        };
        let (arena, others): (Vec<&ComparisonRow>, Vec<&ComparisonRow>) =
            rest.into_iter().partition(is_rival);
        let names: Vec<String> = arena.iter().map(|row| row.policy.clone()).collect();
        for metric in PLOTTED {
            let value = |row: &&ComparisonRow| match row.estimate(metric) {
                Some(estimate) => (Some(estimate.mean), estimate.ci95_low.zip(estimate.ci95_high)),
                None => (None, None),
            };
            let values: Vec<Value> = arena.iter().map(value).collect();
            write_plot(&out.join(plot_name(number, &place, metric)), &chart(metric, &names, &values))?;
        }
        rest = others;
    }
    Ok(())
}

fn plot_name(number: usize, place: &str, metric: Metric) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_.".contains(letter);
    let name = format!("{number:02}-{place}-{}", metric.name());
    name.chars().map(|letter| if plain(letter) { letter } else { '_' }).collect()
}

/// A value, and its confidence interval where it is a mean.
type Value = (Option<f64>, Option<(f64, f64)>);

fn chart(metric: Metric, names: &[String], values: &[Value]) -> Plot {
    let best = metric.winners(&values.iter().map(|(value, _)| *value).collect::<Vec<_>>());
    let bar = |((name, &(value, interval)), best): ((&String, &Value), bool)| Bar {
        name: name.clone(),
        value,
        interval,
        best,
    };
    let bars: Vec<Bar> = names.iter().zip(values).zip(best).map(bar).collect();
    plot::bars(metric, &bars)
}

/// Writes a plot as SVG and as PDF, with these endings.
fn write_plot(path: &Path, plot: &Plot) -> Result<(), StudyError> {
    // Names have dots of their own.
    let with = |ending: &str| PathBuf::from(format!("{}.{ending}", path.display()));
    write(&with("svg"), plot.to_svg())?;
    write(&with("pdf"), plot.to_pdf())
}

fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<(), StudyError> {
    Ok(wharf_staging::write(path, contents)?)
}
