//! Curves of runs as lines of text, for terminals.

use wharf_outcome::Outcome;

use crate::human;
use crate::plot::StepCurve;

/// Parts of the time that are kept of a run; more than a terminal has columns.
const PARTS: usize = 480;
/// What stands for a value, the lowest first; nothing at all is a blank.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What happened in a run, in two curves.
#[derive(Clone, Debug, PartialEq)]
pub struct SparkRun {
    name: String,
    utilization: StepCurve,
    queue: StepCurve,
}

impl SparkRun {
    /// Takes the curves from a run that was recorded with its timeline.
    pub fn new(name: &str, outcome: &Outcome) -> Self {
        let start = outcome.timeline.first().map_or(0.0, |sample| sample.time.seconds());
        let utilization = StepCurve::utilization(&outcome.timeline, outcome.device_count);
        let queue = StepCurve::queue_length(&outcome.timeline);
        Self {
            name: name.to_owned(),
            utilization: utilization.thinned(start, PARTS),
            queue: queue.thinned(start, PARTS),
        }
    }
}

/// Devices in use and jobs waiting, a line for each run, all over the same time. No line is longer than `width` columns,
/// unless names are.
pub fn sparklines(runs: &[SparkRun], width: usize) -> String {
    let end = runs.iter().filter_map(|run| run.queue.end()).fold(0.0, f64::max);
    if end <= 0.0 {
        return String::new();
    }
    let longest = runs.iter().map(|run| run.name.chars().count()).max().unwrap_or(0);
    let parts = width.saturating_sub(longest + 2).clamp(8, 72);
    let lines = |head: String, curve: fn(&SparkRun) -> &StepCurve, highest: f64| {
        runs.iter().fold(head + "\n", |text, run| {
            let line = spark(&curve(run).means(end, parts), highest);
            text + format!("{:longest$}  {line}", run.name).trim_end() + "\n"
        })
    };
    let highest = runs.iter().flat_map(|run| run.queue.means(end, parts)).fold(0.0, f64::max);
    let head = format!("devices in use (█ is all of them), over {}", human::duration(end));
    let queue = format!("jobs waiting (█ is {})", human::number(highest.ceil()));
    lines(head, |run| &run.utilization, 1.0) + &lines(queue, |run| &run.queue, highest)
}

fn spark(values: &[f64], highest: f64) -> String {
    let level = |value: f64| match value / highest * LEVELS.len() as f64 {
        level if level > 0.0 => LEVELS[(level.ceil() as usize).clamp(1, LEVELS.len()) - 1],
        _ => ' ',
    };
    values.iter().map(|&value| level(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, utilization: &[(f64, f64)], queue: &[(f64, f64)]) -> SparkRun {
        let curve = |points: &[(f64, f64)]| StepCurve::Steps(points.to_vec());
        SparkRun { name: name.to_owned(), utilization: curve(utilization), queue: curve(queue) }
    }

    #[test]
    fn runs_are_over_the_same_time() {
        let short = run("srtf", &[(0.0, 1.0), (50.0, 0.0)], &[(0.0, 4.0), (25.0, 0.0), (50.0, 0.0)]);
        let long = run("fifo", &[(0.0, 0.5), (100.0, 0.0)], &[(0.0, 8.0), (50.0, 2.0), (100.0, 0.0)]);
        insta::assert_snapshot!(sparklines(&[short, long], 14), @"
        devices in use (█ is all of them), over 1m 40s
        srtf  ████
        fifo  ▄▄▄▄▄▄▄▄
        jobs waiting (█ is 8)
        srtf  ▄▄
        fifo  ████▂▂▂▂
        ");
    }

    #[test]
    fn of_nothing_there_are_no_lines() {
        assert_eq!(sparklines(&[], 80), "");
        assert_eq!(sparklines(&[run("fifo", &[], &[])], 80), "");
    }

    #[test]
    fn no_waiting_jobs_draw_an_empty_curve() {
        let text = sparklines(&[run("fifo", &[(0.0, 1.0), (9.0, 0.0)], &[(0.0, 0.0), (9.0, 0.0)])], 80);
        assert!(text.ends_with("jobs waiting (█ is 0)\nfifo\n"), "{text}");
    }

    #[test]
    fn a_thinned_run_has_the_same_means() {
        let steps: Vec<(f64, f64)> =
            (0..=10_000).map(|second| (f64::from(second), f64::from(second % 2))).collect();
        let curve = StepCurve::Steps(steps).thinned(0.0, PARTS);
        let means = curve.means(20_000.0, 10);
        assert!(
            means[..5].iter().all(|mean| (mean - 0.5).abs() < 0.01) && means[5..] == [0.0; 5],
            "{means:?}"
        );
    }
}
