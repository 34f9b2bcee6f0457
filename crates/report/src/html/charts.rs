//! Bars and curves.

use super::parts::note;
use super::series::Group;
use crate::metric::Metric;
use crate::metrics::Report;
use crate::plot::{self, Bar, CdfSeries, Plot, StepSeries};
use crate::svg::escape;
use crate::winners::{Certainty, Verdict, verdicts};

/// Metrics that get a bar chart.
const BAR_METRICS: [Metric; 4] = [Metric::AvgJct, Metric::P99Jct, Metric::Makespan, Metric::GpuUtilization];

pub(super) fn bars(report: &Report, groups: &[Group<'_>]) -> String {
    if groups.iter().all(|group| group.series.len() < 2) {
        return String::new();
    }
    let verdicts = verdicts(&report.runs);
    let is_best = |metric: Metric, run: &crate::Summary| {
        let is_here = |verdict: &&Verdict| {
            let place = (&verdict.trace, &verdict.preset, &verdict.cluster);
            verdict.metric == metric.name() && place == (&run.trace, &run.preset, &run.cluster)
        };
        verdicts
            .iter()
            .find(is_here)
            .is_some_and(|verdict| verdict.certainty != Certainty::Tie && verdict.best.contains(&run.policy))
    };
    let of_group = |group: &Group<'_>| {
        let chart = |metric: Metric| {
            let bar = |series: &super::Series<'_>| Bar {
                name: series.name.clone(),
                value: series.metric(metric),
                interval: series.interval(metric),
                best: is_best(metric, &series.runs[0].summary),
            };
            figure(&plot::bars(metric, &group.series.iter().map(bar).collect::<Vec<_>>()))
        };
        format!("{}<div class=\"pairs\">\n{}</div>\n", heading(group), BAR_METRICS.map(chart).concat())
    };
    groups.iter().map(of_group).collect::<String>()
        + &over_seeds(groups, "Means over seeds, with their 95 % confidence intervals (Student’s t).")
}

pub(super) fn curves(groups: &[Group<'_>]) -> String {
    let of_group = |group: &Group<'_>| {
        let pooled = |series: &super::Series<'_>| CdfSeries {
            name: series.name.clone(),
            jcts_s: series.runs.iter().flat_map(|run| run.digest.jcts_s.iter().copied()).collect(),
        };
        let cdf: Vec<CdfSeries> = group.series.iter().map(pooled).collect();
        let first = |curve: fn(&crate::Digest) -> &plot::StepCurve| -> Vec<StepSeries> {
            let series = |series: &super::Series<'_>| StepSeries {
                name: series.name.clone(),
                curve: curve(&series.runs[0].digest).clone(),
            };
            group.series.iter().map(series).filter(|series| series.curve.start().is_some()).collect()
        };
        let mut body = heading(group) + &figure(&plot::jct_cdf(&cdf));
        let (busy, waiting) = (first(|digest| &digest.utilization), first(|digest| &digest.queue));
        if !busy.is_empty() {
            body += &figure(&plot::utilization(&busy));
            body += &figure(&plot::queue_length(&waiting));
        }
        body
    };
    let known = groups.iter().filter(|group| !group.series.is_empty());
    let remark =
        "Completion times are of all seeds together; devices in use and jobs waiting are of the first seed.";
    known.map(of_group).collect::<String>() + &over_seeds(groups, remark)
}

fn over_seeds(groups: &[Group<'_>], remark: &str) -> String {
    let has_seeds = groups.iter().flat_map(|group| &group.series).any(|series| series.runs.len() > 1);
    if has_seeds { note(remark) } else { String::new() }
}

pub(super) fn heading(group: &Group<'_>) -> String {
    if group.title.is_empty() { String::new() } else { format!("<h3>{}</h3>\n", escape(&group.title)) }
}

fn figure(plot: &Plot) -> String {
    format!("<figure>\n{}</figure>\n", plot.to_inline())
}
