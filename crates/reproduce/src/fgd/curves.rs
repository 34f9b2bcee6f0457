//! The published curves: means over the arrivals at which about so many percent of the cluster's GPUs had been requested.

use wharf_outcome::Packing;

/// A cluster after an arrival, in thousandths of GPUs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Requested by all that arrived.
    pub(super) requested: u64,
    pub(super) used: u64,
    /// Idle, but not usable by a typical pod.
    pub(super) unusable: f64,
}

/// Sums of a curve's element.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: u32,
    allocation: f64,
    unusable: f64,
    /// Of the arrivals after which GPUs were idle.
    ratio: (u32, f64),
}

/// The curves of a run.
pub(super) struct Curves {
    gpus: f64,
    columns: Vec<Sums>,
    pub(super) arrivals: u64,
    pub(super) placed: u64,
}

impl Curves {
    pub(super) fn new(gpus: u64) -> Self {
        Self { gpus: gpus as f64, columns: Vec::new(), arrivals: 0, placed: 0 }
    }

    /// Adds a moment. The values are rounded, as the published log has them.
    pub(super) fn add(&mut self, moment: Moment) {
        // Thousandths of GPUs to percent of the cluster, in the order of the published analysis.
        let percent = |milli: u64| milli as f64 / self.gpus / 10.0;
        let column = percent(moment.requested).round_ties_even() as usize;
        if column >= self.columns.len() {
            self.columns.resize(column + 1, Sums::default());
        }
        let sums = &mut self.columns[column];
        sums.count += 1;
        sums.allocation += rounded(percent(moment.used));
        sums.unusable += rounded(moment.unusable);
        let idle = self.gpus * 1000.0 - moment.used as f64;
        if idle > 0.0 {
            sums.ratio.0 += 1;
            sums.ratio.1 += rounded(100.0 * moment.unusable / idle);
        }
    }

    pub(super) fn into_packing(self) -> Packing {
        let curve = |mean: &dyn Fn(&Sums) -> Option<f64>| self.columns.iter().map(mean).collect();
        let over = |count: u32, sum: f64| (count > 0).then(|| sum / f64::from(count));
        Packing {
            arrivals: self.arrivals,
            placed: self.placed,
            allocation: curve(&|sums| over(sums.count, sums.allocation).map(rounded)),
            fragmentation: curve(&|sums| {
                over(sums.count, sums.unusable).map(|mean| rounded(100.0 * mean / 1000.0 / self.gpus))
            }),
            fragmentation_ratio: curve(&|sums| over(sums.ratio.0, sums.ratio.1)),
        }
    }
}

/// Two decimals, exactly rounded.
fn rounded(value: f64) -> f64 {
    // A formatted number always parses.
    format!("{value:.2}").parse().unwrap_or(value)
}
