//! Which runs are shown as one, and which of those side by side.

use super::PageRun;
use crate::metric::Metric;
use crate::metrics::{Summary, run_names};
use crate::stats;

/// Series that a chart can have before each place gets charts of its own.
const TOGETHER_MAX: usize = 8;

/// Runs of one policy that differ in the seed only.
pub(super) struct Series<'a> {
    /// What tells it from others.
    pub(super) name: String,
    /// The runs; never none.
    pub(super) runs: Vec<&'a PageRun>,
}

/// Series that are shown together.
pub(super) struct Group<'a> {
    /// What they have in common and others do not; empty where there is one group only.
    pub(super) title: String,
    /// The series.
    pub(super) series: Vec<Series<'a>>,
}

impl Series<'_> {
    /// The mean over the runs that have a value.
    pub(super) fn mean(&self, value: impl Fn(&PageRun) -> Option<f64>) -> Option<f64> {
        stats::mean(&self.runs.iter().filter_map(|run| value(run)).collect::<Vec<_>>())
    }

    /// The mean of a metric.
    pub(super) fn metric(&self, metric: Metric) -> Option<f64> {
        self.mean(|run| metric.of(&run.summary))
    }

    /// The 95 % confidence interval of the mean, where there are several runs.
    pub(super) fn interval(&self, metric: Metric) -> Option<(f64, f64)> {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| metric.of(&run.summary)).collect();
        let estimate = stats::Estimate::new(&values)?;
        estimate.ci95_low.zip(estimate.ci95_high)
    }

    /// Its name with the seed of its first run, where there are several.
    pub(super) fn first_name(&self) -> String {
        match self.runs.len() {
            1 => self.name.clone(),
            _ => format!("{} · seed {}", self.name, self.runs[0].summary.seed),
        }
    }
}

/// Few series together; many by trace, preset and cluster.
pub(super) fn groups(runs: &[PageRun]) -> Vec<Group<'_>> {
    let members = members(runs);
    if members.len() <= TOGETHER_MAX { vec![group(String::new(), members)] } else { placed(members) }
}

/// Series by trace, preset and cluster: what is compared within a group has the same jobs.
pub(super) fn places(runs: &[PageRun]) -> Vec<Group<'_>> {
    placed(members(runs))
}

fn members(runs: &[PageRun]) -> Vec<Vec<&PageRun>> {
    let mut members: Vec<Vec<&PageRun>> = Vec::new();
    for run in runs {
        let is_same = |other: &PageRun| {
            (&other.summary.policy, other.summary.place()) == (&run.summary.policy, run.summary.place())
        };
        match members.iter_mut().find(|series| is_same(series[0]) && !has_twin(series, run)) {
            Some(series) => series.push(run),
            None => members.push(vec![run]),
        }
    }
    members
}

fn placed(members: Vec<Vec<&PageRun>>) -> Vec<Group<'_>> {
    let mut places: Vec<Vec<Vec<&PageRun>>> = Vec::new();
    for series in members {
        let here = series[0].summary.place();
        match places.iter_mut().find(|others| others[0][0].summary.place() == here) {
            Some(others) => others.push(series),
            None => places.push(vec![series]),
        }
    }
    let firsts: Vec<Summary> = places.iter().map(|series| anonymous(&series[0][0].summary)).collect();
    let titles = run_names(&firsts.iter().collect::<Vec<_>>());
    let is_alone = places.len() == 1;
    let titled = |(title, series): (String, _)| {
        let title = title.trim_start_matches(" · ").to_owned();
        group(if is_alone { String::new() } else { title }, series)
    };
    titles.into_iter().zip(places).map(titled).collect()
}

/// Whether a run with the same seed is there already: two of them are no sample.
fn has_twin(series: &[&PageRun], run: &PageRun) -> bool {
    series.iter().any(|other| other.summary.seed == run.summary.seed)
}

/// The labels of a place only.
fn anonymous(run: &Summary) -> Summary {
    Summary { policy: String::new(), seed: 0, ..run.clone() }
}

fn group(title: String, members: Vec<Vec<&PageRun>>) -> Group<'_> {
    let firsts: Vec<Summary> =
        members.iter().map(|runs| Summary { seed: 0, ..runs[0].summary.clone() }).collect();
    let names = run_names(&firsts.iter().collect::<Vec<_>>());
    let series = names.into_iter().zip(members).map(|(name, runs)| Series { name, runs });
    Group { title, series: series.collect() }
}
