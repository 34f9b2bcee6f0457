//! What stops a step of the dual method, and how far it goes.

use super::linear::Linear;
use super::primal::{COSTS, PIVOT_GOOD};

/// First reach of a long step.
const REACH_MIN: f64 = 1e-6;
/// By this much breaks may lie behind the last one.
const BREAK_SLACK: f64 = 1e-6;

/// Where an other variable's reduced cost becomes 0.
#[derive(Clone, Copy)]
struct Break {
    other: usize,
    at: f64,
}

/// What can stop a step along a row of the table.
pub(super) struct Stops<'a> {
    pub linear: &'a Linear,
    pub reduced: &'a [f64],
    pub row: &'a [f64],
    pub direction: f64,
    pub pivot_min: f64,
}

impl Stops<'_> {
    /// The slope of an other variable that stops the step, if it does.
    fn slope(&self, other: usize) -> Option<f64> {
        let (lower, upper) = self.linear.bounds_of_other(other);
        let slope = self.direction * self.row[other];
        let is_upper = self.linear.is_upper[other];
        let does = slope >= self.pivot_min && !is_upper
            || slope <= -self.pivot_min && (is_upper || !lower.is_finite());
        (lower != upper && does).then_some(slope)
    }

    fn slopes(&self) -> impl Iterator<Item = (usize, f64)> {
        (0..self.row.len()).filter_map(|other| self.slope(other).map(|slope| (other, slope)))
    }

    /// A reduced cost; one of the wrong sign is none.
    fn signed(&self, other: usize, slope: f64) -> f64 {
        let reduced = self.reduced[other];
        if slope > 0.0 && reduced < 0.0 || slope < 0.0 && reduced > 0.0 { 0.0 } else { reduced }
    }

    fn breaks(&self) -> Vec<Break> {
        let mut last = f64::INFINITY;
        let mut found = Vec::new();
        for (other, slope) in self.slopes() {
            let at = self.signed(other, slope) / slope;
            let (lower, upper) = self.linear.bounds_of_other(other);
            let far = if slope > 0.0 { upper } else { lower };
            if !far.is_finite() {
                last = last.min(at);
            }
            found.push(Break { other, at });
        }
        found.retain(|known| known.at <= last + BREAK_SLACK);
        found
    }

    /// Goes on past variables that can change sides while the objective still grows.
    pub(super) fn long_step(&self, mut slope: f64, largest: f64) -> Option<(usize, Vec<usize>)> {
        let mut breaks = self.breaks();
        if breaks.len() < 2 {
            return None;
        }
        let mut reach = breaks.iter().fold(f64::INFINITY, |least, known| least.min(known.at)).max(REACH_MIN);
        let (mut best, mut most, mut done) = (None, 0.0, 0);
        let (mut gain, mut before) = (0.0, 0.0);
        while done < breaks.len() {
            let next = gather(&mut breaks, done, reach);
            for (index, known) in breaks.iter().enumerate().take(next).skip(done) {
                gain = if slope.is_finite() { gain + slope * (known.at - before) } else { f64::NEG_INFINITY };
                before = known.at;
                let entry = self.row[known.other].abs();
                if entry / largest >= PIVOT_GOOD && gain > most {
                    (best, most) = (Some(index), gain);
                }
                let (lower, upper) = self.linear.bounds_of_other(known.other);
                slope -= entry * (upper - lower);
            }
            if slope < 0.0 {
                break;
            }
            done = next;
            reach += reach;
        }
        best.map(|best| (breaks[best].other, breaks[..best].iter().map(|known| known.other).collect()))
    }

    /// Of those that stop the step within a tolerance the one with the largest pivot.
    pub(super) fn short_step(&self) -> Option<usize> {
        let tolerance = COSTS.part(0.35);
        let linear = self.linear;
        let limit = self.slopes().fold(f64::INFINITY, |limit, (other, slope)| {
            let slack = tolerance.at(linear.costs[linear.head[linear.rows + other]]);
            limit.min((self.signed(other, slope) + slack.copysign(slope)) / slope)
        });
        let (mut best, mut most) = (None, 0.0);
        for (other, slope) in self.slopes() {
            if self.reduced[other] / slope <= limit && slope.abs() > most {
                (best, most) = (Some(other), slope.abs());
            }
        }
        best
    }
}

/// Brings the breaks within reach, from `done` on, before the others and in order; how many there are now.
fn gather(breaks: &mut [Break], done: usize, reach: f64) -> usize {
    let mut next = done;
    for index in done..breaks.len() {
        if breaks[index].at <= reach {
            breaks.swap(next, index);
            next += 1;
        }
    }
    breaks[done..next].sort_by(|one, other| one.at.total_cmp(&other.at));
    next
}
