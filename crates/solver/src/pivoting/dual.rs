//! The dual method, from a basis whose reduced costs are right: what is out of bounds leaves, and variables with two bounds on the way
//! change sides while that still pays (the long step).

use super::linear::{Failure, Linear};
use super::model::Model;
use super::primal::{
    BOUND_TOLERANCE, COST_TOLERANCE, PIVOT_TOLERANCE, PIVOTS_PER_LINE, WEIGHT_ERROR, tolerance,
};

/// Bounds while reduced costs are put right are kept within this.
const MADE_TOLERANCE: f64 = 1e-8;
/// First reach of a long step.
const REACH_MIN: f64 = 1e-6;
/// Bound that stands for none while reduced costs are put right.
const MADE_FAR: f64 = 1e3;

/// Where an other variable's reduced cost becomes 0.
#[derive(Clone, Copy)]
struct Break {
    other: usize,
    at: f64,
}

struct Dual<'a> {
    linear: &'a mut Linear,
    /// Bounds and right sides to come back to, while reduced costs are put right.
    kept: Option<(Vec<f64>, Vec<f64>, Vec<f64>)>,
    values: Vec<f64>,
    has_values: bool,
    reduced: Vec<f64>,
    /// Whether reduced costs were computed for this very basis.
    is_fresh: bool,
    has_reduced: bool,
    frame: Vec<bool>,
    weights: Vec<f64>,
    has_frame: bool,
    row: Vec<f64>,
    table_row: Vec<f64>,
    product: Vec<f64>,
    /// Cost that a solution must be below.
    limit: f64,
}

/// Solves the relaxation of a model after bounds were changed; a solution that does not cost less than `limit` is of no use.
pub(super) fn solve(model: &mut Model, limit: Option<f64>) -> Result<Linear, Failure> {
    let mut linear = Linear::new(model).ok_or(Failure::Stuck)?;
    let (rows, others) = (linear.rows, linear.is_upper.len());
    let limit = limit.map_or(f64::INFINITY, |limit| limit / linear.divisor);
    let mut dual = Dual {
        kept: None,
        values: vec![0.0; rows],
        has_values: false,
        reduced: vec![0.0; others],
        is_fresh: false,
        has_reduced: false,
        frame: vec![false; rows + others],
        weights: vec![1.0; rows],
        has_frame: false,
        row: vec![0.0; rows],
        table_row: vec![0.0; others],
        product: vec![0.0; rows],
        limit,
        linear: &mut linear,
    };
    let result = dual.run();
    let (values, reduced) = (dual.values, dual.reduced);
    linear.tell(model, &values, &reduced);
    result.map(|()| linear)
}

impl Dual<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        let mut is_begun = false;
        for _ in 0..PIVOTS_PER_LINE * (self.values.len() + self.reduced.len()) {
            if !self.has_reduced {
                self.linear.reduced_costs(&self.linear.costs, &mut self.reduced);
                (self.has_reduced, self.is_fresh) = (true, true);
                if !is_begun {
                    is_begun = true;
                    if self.put_right(0.97) {
                        self.make_bounds();
                    }
                }
            }
            let was_followed = self.has_values;
            if !self.has_values {
                self.linear.values(&mut self.values);
                self.has_values = true;
            }
            self.set_frame();
            if self.kept.is_none() && self.linear.cost(&self.values) >= self.limit {
                if was_followed || !self.is_fresh {
                    self.forget();
                    continue;
                }
                let is_within = self.broken().is_empty();
                return if is_within { Ok(()) } else { Err(Failure::Hopeless) };
            }
            let broken = self.broken();
            let Some(position) = self.farthest(&broken) else {
                if was_followed || !self.is_fresh {
                    self.forget();
                    continue;
                }
                if self.kept.is_none() {
                    return Ok(());
                }
                self.restore_bounds();
                if self.is_wrong(1.0) {
                    return Err(Failure::Stuck);
                }
                continue;
            };
            self.linear.row(position, &mut self.row);
            self.linear.table_row(&self.row, &mut self.table_row);
            let Some((other, flips)) = self.entering(position) else {
                if was_followed || !self.is_fresh {
                    self.forget();
                    continue;
                }
                return Err(if self.kept.is_none() { Failure::Impossible } else { Failure::Stuck });
            };
            self.pivot(position, other, flips);
        }
        Err(Failure::Stuck)
    }

    fn forget(&mut self) {
        self.has_values = false;
        self.has_reduced = false;
    }

    fn set_frame(&mut self) {
        if self.has_frame {
            return;
        }
        self.has_frame = true;
        self.frame.fill(false);
        for &variable in &self.linear.head[..self.linear.rows] {
            self.frame[variable] = true;
        }
        self.weights.fill(1.0);
    }

    /// Variables with two bounds go to the one that their reduced cost asks for; whether one has none there.
    fn put_right(&mut self, part: f64) -> bool {
        for other in 0..self.reduced.len() {
            match self.wrong_side(other, part) {
                Some(true) => return true,
                Some(false) => {
                    self.linear.is_upper[other] = !self.linear.is_upper[other];
                    self.has_values = false;
                }
                None => {}
            }
        }
        false
    }

    fn is_wrong(&self, part: f64) -> bool {
        (0..self.reduced.len()).any(|other| self.wrong_side(other, part).is_some())
    }

    /// Whether an other variable is on the wrong side by its reduced cost; and if so, whether it has no bound on the right one.
    fn wrong_side(&self, other: usize, part: f64) -> Option<bool> {
        let variable = self.linear.head[self.linear.rows + other];
        let (lower, upper) = (self.linear.lower[variable], self.linear.upper[variable]);
        let least = part * tolerance(COST_TOLERANCE, self.linear.costs[variable]);
        let is_upper = self.linear.is_upper[other];
        if lower == upper {
            None
        } else if self.reduced[other] > least && (!lower.is_finite() || is_upper) {
            Some(!lower.is_finite())
        } else if self.reduced[other] < -least && !is_upper {
            Some(!upper.is_finite())
        } else {
            None
        }
    }

    /// Replaces all bounds by such that a solution puts the reduced costs right.
    fn make_bounds(&mut self) {
        let right = vec![0.0; self.linear.rows];
        let made = self.linear.lower.iter().zip(&self.linear.upper).map(|(lower, upper)| {
            match (lower.is_finite(), upper.is_finite()) {
                (false, false) => (-MADE_FAR, MADE_FAR),
                (true, false) => (0.0, 1.0),
                (false, true) => (-1.0, 0.0),
                (true, true) => (0.0, 0.0),
            }
        });
        let (lower, upper): (Vec<f64>, Vec<f64>) = made.unzip();
        self.kept = Some((
            std::mem::replace(&mut self.linear.lower, lower),
            std::mem::replace(&mut self.linear.upper, upper),
            std::mem::replace(&mut self.linear.right, right),
        ));
        for (other, reduced) in self.reduced.iter().enumerate() {
            let variable = self.linear.head[self.linear.rows + other];
            let has_range = self.linear.lower[variable] != self.linear.upper[variable];
            self.linear.is_upper[other] = has_range && *reduced < 0.0;
        }
        self.has_values = false;
    }

    fn restore_bounds(&mut self) {
        let Some((lower, upper, right)) = self.kept.take() else { return };
        self.linear.lower = lower;
        self.linear.upper = upper;
        self.linear.right = right;
        for (other, reduced) in self.reduced.iter().enumerate() {
            let variable = self.linear.head[self.linear.rows + other];
            let (lower, upper) = (self.linear.lower[variable], self.linear.upper[variable]);
            self.linear.is_upper[other] = match (lower.is_finite(), upper.is_finite()) {
                (_, false) => false,
                (false, true) => true,
                (true, true) => lower != upper && *reduced < 0.0,
            };
        }
        self.has_values = false;
    }

    /// Positions out of their bounds, with how far they have to go.
    fn broken(&self) -> Vec<(usize, f64)> {
        let is_made = self.kept.is_some();
        let allowed = |bound: f64| if is_made { MADE_TOLERANCE } else { tolerance(BOUND_TOLERANCE, bound) };
        let way = |(position, &value): (usize, &f64)| {
            let variable = self.linear.head[position];
            let (lower, upper) = (self.linear.lower[variable], self.linear.upper[variable]);
            if value < lower && value < lower - allowed(lower) {
                Some((position, lower - value))
            } else if value > upper && value > upper + allowed(upper) {
                Some((position, upper - value))
            } else {
                None
            }
        };
        self.values.iter().enumerate().filter_map(way).collect()
    }

    /// The one that is farthest out of bounds, by its weight.
    fn farthest(&self, broken: &[(usize, f64)]) -> Option<usize> {
        let (mut best, mut most) = (None, -1.0);
        for &(position, way) in broken {
            let weight = self.weights[position];
            let distance = if weight < f64::EPSILON { 0.0 } else { way * way / weight };
            if distance > most {
                (best, most) = (Some(position), distance);
            }
        }
        best
    }

    fn way(&self, position: usize) -> f64 {
        let variable = self.linear.head[position];
        let value = self.values[position];
        let lower = self.linear.lower[variable];
        if value < lower { lower - value } else { self.linear.upper[variable] - value }
    }

    /// Who enters for a position, and who changes sides before; `None` where nobody can.
    fn entering(&self, position: usize) -> Option<(usize, Option<Vec<usize>>)> {
        let way = self.way(position);
        let direction = if way > 0.0 { 1.0 } else { -1.0 };
        match self.long_step(way.abs(), direction) {
            Some((other, flips)) => Some((other, Some(flips))),
            None => self.short_step(direction).map(|other| (other, None)),
        }
    }

    /// The slope of an other variable that stops a step, if it does.
    fn stops(&self, other: usize, direction: f64) -> Option<f64> {
        let variable = self.linear.head[self.linear.rows + other];
        let (lower, upper) = (self.linear.lower[variable], self.linear.upper[variable]);
        let slope = direction * self.table_row[other];
        let is_upper = self.linear.is_upper[other];
        let does = slope >= PIVOT_TOLERANCE && !is_upper
            || slope <= -PIVOT_TOLERANCE && (is_upper || !lower.is_finite());
        (lower != upper && does).then_some(slope)
    }

    fn breaks(&self, direction: f64) -> Vec<Break> {
        let mut last = f64::INFINITY;
        let mut found = Vec::new();
        for other in 0..self.reduced.len() {
            let Some(slope) = self.stops(other, direction) else { continue };
            let reduced = self.reduced[other];
            let at = if reduced * slope < 0.0 { 0.0 } else { reduced / slope };
            let variable = self.linear.head[self.linear.rows + other];
            let far = if slope > 0.0 { self.linear.upper[variable] } else { self.linear.lower[variable] };
            if !far.is_finite() {
                last = last.min(at);
            }
            found.push(Break { other, at });
        }
        found.retain(|known| known.at <= last + 1e-6);
        found
    }

    /// Goes on past variables that can change sides while the objective still grows.
    fn long_step(&self, mut slope: f64, direction: f64) -> Option<(usize, Vec<usize>)> {
        let mut breaks = self.breaks(direction);
        if breaks.len() < 2 {
            return None;
        }
        let mut reach = breaks.iter().fold(f64::INFINITY, |least, known| least.min(known.at)).max(REACH_MIN);
        let (mut best, mut most, mut done) = (None, 0.0, 0);
        let (mut gain, mut before) = (0.0, 0.0);
        while done < breaks.len() {
            let next = gather(&mut breaks, done, reach);
            for (index, known) in breaks.iter().enumerate().take(next).skip(done) {
                gain += slope * (known.at - before);
                before = known.at;
                if gain > most {
                    (best, most) = (Some(index), gain);
                }
                let variable = self.linear.head[self.linear.rows + known.other];
                let range = self.linear.upper[variable] - self.linear.lower[variable];
                slope -= self.table_row[known.other].abs() * range;
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
    fn short_step(&self, direction: f64) -> Option<usize> {
        let mut limit = f64::INFINITY;
        for other in 0..self.reduced.len() {
            let Some(slope) = self.stops(other, direction) else { continue };
            let variable = self.linear.head[self.linear.rows + other];
            let slack = 0.35 * tolerance(COST_TOLERANCE, self.linear.costs[variable]);
            let reduced = if self.reduced[other] * slope < 0.0 { 0.0 } else { self.reduced[other] };
            limit = limit.min((reduced + slack.copysign(slope)) / slope);
        }
        let (mut best, mut most) = (None, 0.0);
        for other in 0..self.reduced.len() {
            let Some(slope) = self.stops(other, direction) else { continue };
            if self.reduced[other] / slope <= limit && slope.abs() > most {
                (best, most) = (Some(other), slope.abs());
            }
        }
        best
    }

    fn pivot(&mut self, position: usize, other: usize, flips: Option<Vec<usize>>) {
        if let Some(flips) = flips {
            for other in flips {
                self.linear.is_upper[other] = !self.linear.is_upper[other];
            }
            self.has_values = false;
        }
        let leaving = self.linear.head[position];
        let (lower, upper) = (self.linear.lower[leaving], self.linear.upper[leaving]);
        let is_upper = lower != upper && self.values[position] > upper;
        self.linear.product(self.linear.head[self.linear.rows + other], &mut self.product);
        if self.has_values {
            let to = if is_upper { upper } else { lower };
            self.linear.advance(&mut self.values, (position, other), to, &self.product);
        }
        let swap = (position, other);
        self.has_reduced =
            self.linear.follow(&self.linear.costs, &mut self.reduced, swap, &self.table_row, &self.product);
        self.is_fresh = false;
        self.reweigh(position);
        self.linear.swap(position, other, is_upper, &self.product);
    }

    /// Takes the weights to the basis after a swap.
    fn reweigh(&mut self, position: usize) {
        let linear = &*self.linear;
        let own = f64::from(u8::from(self.frame[linear.head[position]]));
        let mut exact = own;
        let mut sum = vec![0.0; linear.rows];
        for (other, &entry) in self.table_row.iter().enumerate().filter(|(_, entry)| **entry != 0.0) {
            let variable = linear.head[linear.rows + other];
            if self.frame[variable] {
                exact += entry * entry;
                for &(row, value) in linear.column(variable) {
                    sum[row] += entry * value;
                }
            }
        }
        let mut cross = vec![0.0; linear.rows];
        linear.forward(&sum, &mut cross);
        let error = (exact - self.weights[position]).abs() / (1.0 + exact);
        let pivot = self.product[position];
        for (row, &entry) in self.product.iter().enumerate() {
            if row == position || entry == 0.0 {
                continue;
            }
            let ratio = entry / pivot;
            let weight = self.weights[row] + ratio * (ratio * exact + cross[row] + cross[row]);
            let least = f64::from(u8::from(self.frame[linear.head[row]])) + own * ratio * ratio;
            self.weights[row] = weight.max(least);
        }
        self.weights[position] = exact / (pivot * pivot);
        self.has_frame = error <= WEIGHT_ERROR;
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
