//! The primal method in two phases: first what is out of bounds is driven back, then cost is. The variable that enters is the
//! steepest with respect to a frame; of those that can leave within a tolerance the one with the largest pivot does.

use super::linear::{Failure, Linear, dot};
use super::model::Model;

/// Bounds are kept within this, and a thousandth of it for each unit of the bound.
pub(super) const BOUND_TOLERANCE: f64 = 1e-7;
/// A reduced cost within this, and a thousandth of it for each unit of the cost, is none.
pub(super) const COST_TOLERANCE: f64 = 1e-7;
/// As [`COST_TOLERANCE`], while bounds are broken.
const BROKEN_TOLERANCE: f64 = 1e-8;
/// Smaller pivots are none.
pub(super) const PIVOT_TOLERANCE: f64 = 1e-9;
/// Pivots of one solution for each row and column; more means that it goes in circles.
pub(super) const PIVOTS_PER_LINE: usize = 50;
/// A change of weights beyond this makes the frame anew.
pub(super) const WEIGHT_ERROR: f64 = 1e-3;

/// A tolerance that grows a little with what it is for.
pub(super) fn tolerance(base: f64, of: f64) -> f64 {
    base + 0.001 * base * of.abs()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Freshness {
    Unknown,
    Followed,
    Fresh,
}

/// Who leaves the basis.
enum Leaves {
    /// The one that wanted to enter goes to its other bound.
    Nobody,
    /// A position, and whether it goes to its upper bound.
    Position(usize, bool),
}

struct Primal<'a> {
    linear: &'a mut Linear,
    /// In the first phase what is out of bounds costs 1 for each unit.
    costs: Vec<f64>,
    is_first: bool,
    values: Vec<f64>,
    values_are: Freshness,
    reduced: Vec<f64>,
    reduced_are: Freshness,
    /// Whether a variable is of the frame.
    frame: Vec<bool>,
    /// Of the others, squared.
    weights: Vec<f64>,
    has_frame: bool,
    product: Vec<f64>,
    table_row: Vec<f64>,
}

/// Solves the relaxation of a model from the basis that it has.
pub(super) fn solve(model: &mut Model) -> Result<(), Failure> {
    let mut linear = Linear::new(model).ok_or(Failure::Stuck)?;
    let (rows, others) = (linear.rows, linear.is_upper.len());
    let mut primal = Primal {
        costs: vec![0.0; linear.costs.len()],
        is_first: true,
        values: vec![0.0; rows],
        values_are: Freshness::Unknown,
        reduced: vec![0.0; others],
        reduced_are: Freshness::Unknown,
        frame: vec![false; rows + others],
        weights: vec![1.0; others],
        has_frame: false,
        product: vec![0.0; rows],
        table_row: vec![0.0; others],
        linear: &mut linear,
    };
    primal.begin();
    let result = primal.run();
    let (values, reduced) = (primal.values, primal.reduced);
    linear.tell(model, &values, &reduced);
    result
}

impl Primal<'_> {
    fn begin(&mut self) {
        self.linear.values(&mut self.values);
        self.values_are = Freshness::Fresh;
        let broken = self.punish();
        if !broken {
            self.second();
        }
    }

    /// Makes what is out of bounds cost; whether there is any.
    fn punish(&mut self) -> bool {
        let mut found = false;
        for (position, &value) in self.values.iter().enumerate() {
            let variable = self.linear.head[position];
            let (lower, upper) = (self.linear.lower[variable], self.linear.upper[variable]);
            if lower.is_finite() && value < lower - 0.97 * tolerance(BOUND_TOLERANCE, lower) {
                self.costs[variable] = -1.0;
                found = true;
            }
            if upper.is_finite() && value > upper + 0.97 * tolerance(BOUND_TOLERANCE, upper) {
                self.costs[variable] = 1.0;
                found = true;
            }
        }
        found
    }

    fn second(&mut self) {
        self.is_first = false;
        self.costs.clone_from(&self.linear.costs);
        self.reduced_are = Freshness::Unknown;
    }

    /// What has come back within its bounds costs no more.
    fn forgive(&mut self, positions: impl Iterator<Item = usize>) {
        for position in positions {
            let variable = self.linear.head[position];
            let (lower, upper) = (self.linear.lower[variable], self.linear.upper[variable]);
            let (value, cost) = (self.values[position], self.costs[variable]);
            let is_back = cost < 0.0 && value >= lower - 0.99 * tolerance(BOUND_TOLERANCE, lower)
                || cost > 0.0 && value <= upper + 0.99 * tolerance(BOUND_TOLERANCE, upper);
            if is_back {
                self.costs[variable] = 0.0;
                self.reduced_are = Freshness::Unknown;
            }
        }
    }

    fn run(&mut self) -> Result<(), Failure> {
        for _ in 0..PIVOTS_PER_LINE * (self.values.len() + self.reduced.len()) {
            self.refresh();
            let Some(other) = self.steepest() else {
                if self.values_are != Freshness::Fresh || self.reduced_are != Freshness::Fresh {
                    self.values_are = Freshness::Unknown;
                    self.reduced_are = Freshness::Unknown;
                    continue;
                }
                if !self.is_first {
                    return Ok(());
                }
                if !self.is_within() {
                    return Err(Failure::Impossible);
                }
                self.second();
                continue;
            };
            self.linear.product(self.linear.head[self.linear.rows + other], &mut self.product);
            match self.leaving(other).ok_or(Failure::Stuck)? {
                Leaves::Nobody => self.flip(other),
                Leaves::Position(position, is_upper) => self.pivot(position, other, is_upper),
            }
            if self.is_first {
                let touched: Vec<usize> =
                    (0..self.product.len()).filter(|&row| self.product[row] != 0.0).collect();
                self.forgive(touched.into_iter());
            }
        }
        Err(Failure::Stuck)
    }

    fn refresh(&mut self) {
        if self.values_are == Freshness::Unknown {
            self.linear.values(&mut self.values);
            self.values_are = Freshness::Fresh;
            if self.is_first {
                self.forgive(0..self.values.len());
            }
        }
        if self.reduced_are == Freshness::Unknown {
            self.linear.reduced_costs(&self.costs, &mut self.reduced);
            self.reduced_are = Freshness::Fresh;
        }
        if !self.has_frame {
            self.has_frame = true;
            self.frame.fill(false);
            for &variable in &self.linear.head[self.linear.rows..] {
                self.frame[variable] = true;
            }
            self.weights.fill(1.0);
        }
    }

    fn is_within(&self) -> bool {
        self.values.iter().zip(&self.linear.head).all(|(&value, &variable)| {
            let (lower, upper) = (self.linear.lower[variable], self.linear.upper[variable]);
            (!lower.is_finite() || value >= lower - tolerance(BOUND_TOLERANCE, lower))
                && (!upper.is_finite() || value <= upper + tolerance(BOUND_TOLERANCE, upper))
        })
    }

    /// The other variable along which cost falls most steeply.
    fn steepest(&self) -> Option<usize> {
        let mut best = None;
        let mut most = -1.0;
        for (other, &reduced) in self.reduced.iter().enumerate() {
            let variable = self.linear.head[self.linear.rows + other];
            let (lower, upper) = (self.linear.lower[variable], self.linear.upper[variable]);
            let least = if self.is_first {
                BROKEN_TOLERANCE
            } else {
                tolerance(COST_TOLERANCE, self.costs[variable])
            };
            let is_upper = self.linear.is_upper[other];
            let can_fall =
                reduced <= -least && !is_upper || reduced >= least && (is_upper || !lower.is_finite());
            if lower == upper || !can_fall {
                continue;
            }
            let weight = self.weights[other];
            let slope = if weight < f64::EPSILON { 0.0 } else { reduced * reduced / weight };
            if slope > most {
                (best, most) = (Some(other), slope);
            }
        }
        best
    }

    /// The bound that a position meets when its value moves with this slope, and whether it leaves at its upper one.
    fn meets(&self, position: usize, slope: f64) -> Option<(f64, bool)> {
        let variable = self.linear.head[position];
        let cost = if self.is_first { self.costs[variable] } else { 0.0 };
        let (lower, upper) = (self.linear.lower[variable], self.linear.upper[variable]);
        let (bound, is_upper) = if slope <= -PIVOT_TOLERANCE && cost >= 0.0 {
            if cost > 0.0 { (upper, true) } else { (lower, false) }
        } else if slope >= PIVOT_TOLERANCE && cost <= 0.0 {
            if cost < 0.0 { (lower, false) } else { (upper, true) }
        } else {
            return None;
        };
        bound.is_finite().then_some((bound, is_upper))
    }

    /// Who leaves when an other variable enters; `None` where nothing stops it.
    fn leaving(&self, other: usize) -> Option<Leaves> {
        let direction = if self.reduced[other] < 0.0 { 1.0 } else { -1.0 };
        let mut limit = f64::INFINITY;
        for (position, entry) in self.product.iter().enumerate() {
            let slope = direction * entry;
            let Some((bound, _)) = self.meets(position, slope) else { continue };
            let slack = 0.5 * tolerance(BOUND_TOLERANCE, bound);
            let left = bound - self.values[position];
            let left = if left * slope < 0.0 { 0.0 } else { left };
            limit = limit.min((left + slack.copysign(slope)) / slope);
        }
        let variable = self.linear.head[self.linear.rows + other];
        let range = self.linear.upper[variable] - self.linear.lower[variable];
        if range.is_finite() && range <= limit {
            return Some(Leaves::Nobody);
        }
        let (mut best, mut most) = (None, 0.0);
        for (position, entry) in self.product.iter().enumerate() {
            let slope = direction * entry;
            let Some((bound, is_upper)) = self.meets(position, slope) else { continue };
            if (bound - self.values[position]) / slope <= limit && slope.abs() > most {
                let variable = self.linear.head[position];
                let is_upper = is_upper && self.linear.lower[variable] != self.linear.upper[variable];
                (best, most) = (Some(Leaves::Position(position, is_upper)), slope.abs());
            }
        }
        best
    }

    fn flip(&mut self, other: usize) {
        let before = self.linear.stand(other);
        self.linear.is_upper[other] = !self.linear.is_upper[other];
        self.linear.step(&mut self.values, self.linear.stand(other) - before, &self.product);
        self.values_are = Freshness::Followed;
    }

    fn pivot(&mut self, position: usize, other: usize, is_upper: bool) {
        let leaving = self.linear.head[position];
        let to = if is_upper { self.linear.upper[leaving] } else { self.linear.lower[leaving] };
        let to = if to.is_finite() { to } else { 0.0 };
        self.linear.advance(&mut self.values, (position, other), to, &self.product);
        self.values_are = Freshness::Followed;
        let mut row = vec![0.0; self.linear.rows];
        self.linear.row(position, &mut row);
        self.linear.table_row(&row, &mut self.table_row);
        if self.reduced_are != Freshness::Unknown {
            let swap = (position, other);
            let is_good =
                self.linear.follow(&self.costs, &mut self.reduced, swap, &self.table_row, &self.product);
            self.reduced_are = if is_good { Freshness::Followed } else { Freshness::Unknown };
            if self.is_first {
                self.reduced[other] -= self.costs[leaving];
            }
        }
        if self.is_first {
            self.costs[leaving] = 0.0;
        }
        self.reweigh(position, other);
        self.linear.swap(position, other, is_upper, &self.product);
    }

    /// Takes the weights to the basis after a swap.
    fn reweigh(&mut self, position: usize, other: usize) {
        let linear = &*self.linear;
        let entering = linear.head[linear.rows + other];
        let own = f64::from(u8::from(self.frame[entering]));
        let mut exact = own;
        let mut within = vec![0.0; linear.rows];
        for (row, entry) in self.product.iter().enumerate() {
            if self.frame[linear.head[row]] {
                exact += entry * entry;
                within[row] = *entry;
            }
        }
        let mut back = vec![0.0; linear.rows];
        linear.backward(&within, &mut back);
        let error = (exact - self.weights[other]).abs() / (1.0 + exact);
        let pivot = self.product[position];
        for (index, &entry) in self.table_row.iter().enumerate() {
            if index == other || entry.abs() < 1e-9 {
                continue;
            }
            let variable = linear.head[linear.rows + index];
            let ratio = entry / pivot;
            let cross = dot(linear.column(variable), &back);
            let weight = self.weights[index] + ratio * (ratio * exact + cross + cross);
            let least = f64::from(u8::from(self.frame[variable])) + own * ratio * ratio;
            self.weights[index] = weight.max(least);
        }
        self.weights[other] = exact / (pivot * pivot);
        self.has_frame = error <= WEIGHT_ERROR;
    }
}
