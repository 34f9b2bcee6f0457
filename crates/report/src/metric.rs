//! The numbers of a run that runs are compared by, as one list: what each is called and which end is better.

use crate::human;
use crate::metrics::Summary;

/// A number of a [`Summary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Mean job completion time.
    AvgJct,
    /// Median job completion time.
    MedianJct,
    /// 95th percentile of job completion times.
    P95Jct,
    /// 99th percentile of job completion times.
    P99Jct,
    /// Longest job completion time.
    MaxJct,
    /// Time until the last job ended.
    Makespan,
    /// Mean time submitted but not running.
    AvgQueue,
    /// Share of device time that jobs held.
    GpuUtilization,
    /// Stops of jobs before their end.
    Preemptions,
}

/// How a number is shown to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A length of time.
    Seconds,
    /// A share of one.
    Share,
    /// A plain number.
    Number,
}

impl Unit {
    /// The number as people read it.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Seconds => human::duration(value),
            Self::Share => human::percent(value),
            Self::Number => human::number(value),
        }
    }
}

impl Metric {
    /// All metrics, in the order of a summary's fields.
    pub const ALL: [Self; 9] = [
        Self::AvgJct,
        Self::MedianJct,
        Self::P95Jct,
        Self::P99Jct,
        Self::MaxJct,
        Self::Makespan,
        Self::AvgQueue,
        Self::GpuUtilization,
        Self::Preemptions,
    ];

    /// The field's name in JSON and CSV.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AvgJct => "avg_jct_s",
            Self::MedianJct => "median_jct_s",
            Self::P95Jct => "p95_jct_s",
            Self::P99Jct => "p99_jct_s",
            Self::MaxJct => "max_jct_s",
            Self::Makespan => "makespan_s",
            Self::AvgQueue => "avg_queue_s",
            Self::GpuUtilization => "gpu_utilization",
            Self::Preemptions => "preemptions",
        }
    }

    /// The heading people read.
    pub const fn title(self) -> &'static str {
        match self {
            Self::AvgJct => "avg JCT",
            Self::MedianJct => "median JCT",
            Self::P95Jct => "p95 JCT",
            Self::P99Jct => "p99 JCT",
            Self::MaxJct => "max JCT",
            Self::Makespan => "makespan",
            Self::AvgQueue => "avg queue",
            Self::GpuUtilization => "GPU use",
            Self::Preemptions => "preemptions",
        }
    }

    /// What it means, in a few words.
    pub const fn about(self) -> &'static str {
        match self {
            Self::AvgJct => "mean time from submission to end",
            Self::MedianJct => "half of the jobs took less",
            Self::P95Jct => "95 % of the jobs took less",
            Self::P99Jct => "99 % of the jobs took less",
            Self::MaxJct => "the longest time to an end",
            Self::Makespan => "until the last job ended",
            Self::AvgQueue => "mean time submitted but not running",
            Self::GpuUtilization => "of device time, jobs held",
            Self::Preemptions => "stops of jobs before their end",
        }
    }

    /// The metric with this field name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// How its values are shown.
    pub const fn unit(self) -> Unit {
        match self {
            Self::GpuUtilization => Unit::Share,
            Self::Preemptions => Unit::Number,
            _ => Unit::Seconds,
        }
    }

    /// Whether more is better.
    pub const fn higher_is_better(self) -> bool {
        matches!(self, Self::GpuUtilization)
    }

    /// The run's value, where it has one.
    pub fn of(self, run: &Summary) -> Option<f64> {
        match self {
            Self::AvgJct => run.avg_jct_s,
            Self::MedianJct => run.median_jct_s,
            Self::P95Jct => run.p95_jct_s,
            Self::P99Jct => run.p99_jct_s,
            Self::MaxJct => run.max_jct_s,
            Self::Makespan => run.makespan_s,
            Self::AvgQueue => run.avg_queue_s,
            Self::GpuUtilization => run.gpu_utilization,
            Self::Preemptions => Some(run.preemptions as f64),
        }
    }

    /// Which of the values are the best; none where fewer than two are there or all are equal.
    pub fn winners(self, values: &[Option<f64>]) -> Vec<bool> {
        let known = || values.iter().flatten().copied();
        let (min, max) = (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
        let best = if self.higher_is_better() { max } else { min };
        values.iter().map(|value| min < max && *value == Some(best)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn winners_need_a_difference() {
        let values = [Some(2.0), None, Some(1.0), Some(1.0)];
        assert_eq!(Metric::AvgJct.winners(&values), [false, false, true, true]);
        assert_eq!(Metric::GpuUtilization.winners(&values), [true, false, false, false]);
        assert_eq!(Metric::AvgJct.winners(&[Some(1.0), Some(1.0)]), [false, false]);
        assert_eq!(Metric::AvgJct.winners(&[]), [false; 0]);
    }
}
