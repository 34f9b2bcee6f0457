//! How a run's figures went, in a bounded number of points.

use std::collections::BTreeMap;

/// Points of a run that are kept; and what is kept of each beside its iterations.
const POINTS_MAX: usize = 160;
const NAMES_MAX: usize = 3;

/// What a trainer told at some time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    /// In the engine's time.
    pub(crate) time_s: f64,
    pub(crate) iterations: f64,
    /// In the order of the names.
    pub(crate) values: Vec<f64>,
}

/// Points over a whole run: where there are too many, every second one goes, and new ones are taken half as often.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    pub(crate) names: Vec<String>,
    pub(crate) points: Vec<Point>,
    apart_s: f64,
}

impl Series {
    pub(crate) fn push(&mut self, time_s: f64, iterations: f64, metrics: &BTreeMap<String, f64>) {
        if self.points.last().is_some_and(|last| time_s - last.time_s < self.apart_s) {
            return;
        }
        let fresh: Vec<String> = metrics.keys().filter(|name| !self.names.contains(name)).cloned().collect();
        self.names.extend(fresh.into_iter().take(NAMES_MAX.saturating_sub(self.names.len())));
        let value = |name: &String| metrics.get(name).copied().unwrap_or(f64::NAN);
        self.points.push(Point { time_s, iterations, values: self.names.iter().map(value).collect() });
        if self.points.len() > POINTS_MAX {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            let span_s = time_s - self.points.first().map_or(time_s, |first| first.time_s);
            self.apart_s = (span_s / (POINTS_MAX / 2) as f64).max(self.apart_s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_keep_their_shape_in_few_points() {
        let mut series = Series::default();
        for step in 0..100_000 {
            let time_s = f64::from(step);
            series.push(time_s, time_s, &[("loss".to_owned(), 1e6 - time_s)].into());
        }
        assert!(series.points.len() <= POINTS_MAX && series.points.len() >= POINTS_MAX / 4);
        assert_eq!(series.points[0].time_s, 0.0);
        assert!(series.points.last().unwrap().time_s > 98_000.0);
        assert!(series.points.windows(2).all(|pair| pair[0].values[0] > pair[1].values[0]));
    }
}
