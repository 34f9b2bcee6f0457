//! The dual method, from a basis whose reduced costs are right: what is out of bounds leaves, and variables with two bounds on the way
//! change sides while that still pays (the long step). Where it does not get on, costs are moved a little and put back in the end.

use super::linear::{Failure, Frame, Linear, Tolerance};
use super::model::Model;
use super::primal::{
    BOUNDS, COSTS, FIRST, Freshness, PERTURBATION, PIVOT_GOOD, PIVOT_MIN, PIVOTS_PER_LINE, Perturbed, Phase,
    STALLS_MAX, STEP_MIN, TRIES_MAX,
};
use super::stops::Stops;

/// Tries in which long steps are looked for.
const LONG_TRIES: usize = 2;
/// Bound that stands for none while reduced costs are put right.
const MADE_FAR: f64 = 1e3;
/// Times that reduced costs may be found wrong after they were right.
const WRONGS_MAX: usize = 10;

/// Who leaves for whom.
struct Choice {
    position: usize,
    /// Nobody where nothing stops the step.
    other: Option<usize>,
    /// Who changes sides before, in a long step.
    flips: Option<Vec<usize>>,
}

struct Dual<'a> {
    linear: &'a mut Linear,
    /// What to come back to: bounds and right sides while reduced costs are put right, costs after they were perturbed.
    lower: Vec<f64>,
    upper: Vec<f64>,
    right: Vec<f64>,
    costs: Vec<f64>,
    phase: Phase,
    perturbed: Perturbed,
    stalls: usize,
    wrongs: usize,
    values: Vec<f64>,
    values_are: Freshness,
    /// Positions that are out of bounds, in an order that counts.
    broken: Vec<usize>,
    is_broken: Vec<bool>,
    reduced: Vec<f64>,
    reduced_are: Freshness,
    frame: Frame,
    table_row: Vec<f64>,
    product: Vec<f64>,
    /// Cost that a solution must be below.
    limit: f64,
}

/// Solves the relaxation of a model after bounds were changed; a solution that does not cost less than `limit` is of no use.
pub(super) fn solve(model: &mut Model, limit: Option<f64>) -> Result<(), Failure> {
    let mut linear = Linear::new(model).ok_or(Failure::Stuck)?;
    let (rows, others) = (linear.rows, linear.is_upper.len());
    let limit = limit.map_or(f64::INFINITY, |limit| limit / linear.divisor);
    let mut dual = Dual {
        lower: linear.lower.clone(),
        upper: linear.upper.clone(),
        right: linear.right.clone(),
        costs: linear.costs.clone(),
        phase: Phase::Unset,
        perturbed: Perturbed::NotYet,
        stalls: 0,
        wrongs: 0,
        values: vec![0.0; rows],
        values_are: Freshness::Unknown,
        broken: Vec::new(),
        is_broken: vec![false; rows],
        reduced: vec![0.0; others],
        reduced_are: Freshness::Unknown,
        frame: Frame::new(rows + others, rows),
        table_row: vec![0.0; others],
        product: vec![0.0; rows],
        limit,
        linear: &mut linear,
    };
    let result = dual.run();
    let (values, reduced) = (dual.values, dual.reduced);
    linear.tell(model, &values, &reduced);
    result
}

impl Dual<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        for _ in 0..PIVOTS_PER_LINE * (self.values.len() + self.reduced.len()) {
            if !self.refresh()? {
                continue;
            }
            let is_second = self.phase == Phase::Second;
            if is_second && self.limit.is_finite() && self.linear.cost(&self.values) >= self.limit {
                self.calm();
                if !self.is_settled() {
                    continue;
                }
                self.find_broken();
                return if self.broken.is_empty() { Ok(()) } else { Err(Failure::Hopeless) };
            }
            if self.broken.is_empty() {
                if is_second {
                    self.calm();
                }
                if self.is_settled() && self.is_done()? {
                    return Ok(());
                }
                continue;
            }
            let Some(Choice { position, other, flips }) = self.choose() else {
                self.linear.forget_factors();
                continue;
            };
            let Some(other) = other else {
                self.calm();
                if self.is_settled() {
                    return Err(if is_second { Failure::Impossible } else { Failure::Stuck });
                }
                continue;
            };
            self.flip(flips);
            self.pivot(position, other)?;
        }
        Err(Failure::Stuck)
    }

    /// Computes what is not known; `false` where it has to be done again.
    fn refresh(&mut self) -> Result<bool, Failure> {
        if !self.linear.has_factors() {
            if !self.linear.factorize() {
                return Err(Failure::Stuck);
            }
            self.values_are = Freshness::Unknown;
            self.reduced_are = Freshness::Unknown;
        }
        if self.reduced_are == Freshness::Unknown {
            self.linear.reduced_costs(&mut self.reduced);
            self.reduced_are = Freshness::Fresh;
            if self.phase == Phase::Unset {
                self.phase = Phase::Second;
                self.put_right();
            }
            if self.perturbed == Perturbed::Now {
                self.perturb(true);
            } else if self.is_wrong() {
                if self.perturbed == Perturbed::NotYet {
                    self.perturbed = Perturbed::Now;
                    return Ok(false);
                }
                self.wrongs += 1;
                if self.wrongs >= WRONGS_MAX {
                    return Err(Failure::Stuck);
                }
                self.put_right();
            }
        }
        if self.values_are == Freshness::Unknown {
            self.linear.values(&mut self.values);
            self.find_broken();
            self.values_are = Freshness::Fresh;
        }
        self.frame.set(&self.linear.head[..self.linear.rows]);
        Ok(true)
    }

    /// Whether everything is fresh; what is not is forgotten.
    fn is_settled(&mut self) -> bool {
        self.values_are.settle();
        self.reduced_are.settle();
        self.values_are == Freshness::Fresh && self.reduced_are == Freshness::Fresh
    }

    /// What to do where everything is within bounds: in the first phase, the second one.
    fn is_done(&mut self) -> Result<bool, Failure> {
        if self.phase == Phase::Second {
            return Ok(true);
        }
        self.restore_bounds();
        if !self.is_wrong() {
            self.phase = Phase::Second;
        } else if self.perturbed == Perturbed::Now {
            self.calm();
        } else {
            return Err(Failure::Stuck);
        }
        Ok(false)
    }

    /// Variables with two bounds go to the one that their reduced cost asks for; where one has none there, the first phase begins.
    fn put_right(&mut self) {
        for other in 0..self.reduced.len() {
            match self.wrong_side(other, COSTS.part(0.97)) {
                Some(true) => {
                    self.make_bounds();
                    self.phase = Phase::First;
                    return;
                }
                Some(false) => {
                    self.linear.is_upper[other] = !self.linear.is_upper[other];
                    self.values_are = Freshness::Unknown;
                }
                None => {}
            }
        }
    }

    fn is_wrong(&self) -> bool {
        (0..self.reduced.len()).any(|other| self.wrong_side(other, COSTS).is_some())
    }

    /// Whether an other variable is on the wrong side by its reduced cost; and if so, whether it has no bound on the right one.
    fn wrong_side(&self, other: usize, tolerance: Tolerance) -> Option<bool> {
        let (lower, upper) = self.linear.bounds_of_other(other);
        let least = tolerance.at(self.linear.costs[self.linear.head[self.linear.rows + other]]);
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
        self.linear.right.fill(0.0);
        for (variable, (lower, upper)) in self.lower.iter().zip(&self.upper).enumerate() {
            let made = match (lower.is_finite(), upper.is_finite()) {
                (false, false) => (-MADE_FAR, MADE_FAR),
                (true, false) => (0.0, 1.0),
                (false, true) => (-1.0, 0.0),
                (true, true) => (0.0, 0.0),
            };
            (self.linear.lower[variable], self.linear.upper[variable]) = made;
        }
        for other in 0..self.reduced.len() {
            let (lower, upper) = self.linear.bounds_of_other(other);
            self.linear.is_upper[other] = lower != upper && self.reduced[other] < 0.0;
        }
        self.values_are = Freshness::Unknown;
    }

    fn restore_bounds(&mut self) {
        self.linear.lower.clone_from(&self.lower);
        self.linear.upper.clone_from(&self.upper);
        self.linear.right.clone_from(&self.right);
        for other in 0..self.reduced.len() {
            let (lower, upper) = self.linear.bounds_of_other(other);
            self.linear.is_upper[other] = match (lower.is_finite(), upper.is_finite()) {
                (_, false) => false,
                (false, true) => true,
                (true, true) => lower != upper && self.reduced[other] < 0.0,
            };
        }
        self.values_are = Freshness::Unknown;
    }

    /// Moves costs so that reduced costs are right by a little, or back where that is not needed.
    fn perturb(&mut self, all: bool) {
        for other in (0..self.reduced.len()).filter(|&other| all || self.table_row[other] != 0.0) {
            let variable = self.linear.head[self.linear.rows + other];
            let (lower, upper) = (self.linear.lower[variable], self.linear.upper[variable]);
            let (cost, reduced) = (&mut self.linear.costs[variable], &mut self.reduced[other]);
            if lower == upper {
                continue;
            }
            if !lower.is_finite() && !upper.is_finite() {
                *cost -= *reduced;
                *reduced = 0.0;
                continue;
            }
            *reduced -= *cost - self.costs[variable];
            *cost = self.costs[variable];
            let least = if self.linear.is_upper[other] { -PERTURBATION } else { PERTURBATION };
            if least > 0.0 && *reduced < least || least < 0.0 && *reduced > least {
                *cost -= *reduced - least;
                *reduced = least;
            }
        }
    }

    /// Puts moved costs back; phases begin anew.
    fn calm(&mut self) {
        if self.perturbed == Perturbed::Now {
            self.perturbed = Perturbed::NoMore;
            self.linear.costs.clone_from(&self.costs);
            self.phase = Phase::Unset;
            self.reduced_are = Freshness::Unknown;
        }
    }

    /// How far a value has to go to be within the bounds of a variable.
    fn way(&self, variable: usize, value: f64) -> f64 {
        let allowed = if self.phase == Phase::First { FIRST } else { BOUNDS };
        let (lower, upper) = (self.linear.lower[variable], self.linear.upper[variable]);
        if value < lower && value < lower - allowed.at(lower) {
            lower - value
        } else if value > upper && value > upper + allowed.at(upper) {
            upper - value
        } else {
            0.0
        }
    }

    fn find_broken(&mut self) {
        for position in 0..self.values.len() {
            self.is_broken[position] = self.way(self.linear.head[position], self.values[position]) != 0.0;
        }
        self.broken = (0..self.values.len()).filter(|&position| self.is_broken[position]).collect();
    }

    /// Takes the list of what is out of bounds past a swap: who is new to it comes last.
    fn follow_broken(&mut self, swap: (usize, usize)) {
        for position in (0..self.values.len()).filter(|&position| self.product[position] != 0.0) {
            let at = if position == swap.0 { self.linear.rows + swap.1 } else { position };
            let is_broken = self.way(self.linear.head[at], self.values[position]) != 0.0;
            if is_broken && !self.is_broken[position] {
                self.broken.push(position);
            }
            self.is_broken[position] = is_broken;
        }
        self.broken.retain(|&position| self.is_broken[position]);
    }

    /// The place in a list of who is farthest out of bounds, by its weight.
    fn farthest(&self, list: &[usize]) -> usize {
        let (mut best, mut most) = (0, -1.0);
        for (index, &position) in list.iter().enumerate() {
            let (way, weight) = (self.way_back(position), self.frame.weights[position]);
            let distance = if weight < f64::EPSILON { 0.0 } else { way * way / weight };
            if distance > most {
                (best, most) = (index, distance);
            }
        }
        best
    }

    fn way_back(&self, position: usize) -> f64 {
        let (lower, upper) = self.linear.bounds(position);
        let value = self.values[position];
        if value < lower { lower - value } else { upper - value }
    }

    /// Who leaves and who enters; others are tried where the pivot is small. `None` where factors have to be made anew before.
    fn choose(&mut self) -> Option<Choice> {
        for pivot_min in [PIVOT_MIN, 1000.0 * PIVOT_MIN] {
            let (found, most) = self.choose_by(pivot_min);
            if most >= 0.001 * PIVOT_GOOD {
                return found;
            }
            if self.linear.is_followed() {
                return None;
            }
            if pivot_min > PIVOT_MIN {
                return found;
            }
        }
        None
    }

    /// As [`Self::choose`], with the size of the pivot by the largest entry of its row. The row is kept.
    fn choose_by(&mut self, pivot_min: f64) -> (Option<Choice>, f64) {
        let (mut found, mut most) = (None, 0.0);
        let mut count = self.broken.len();
        for tried in 1.. {
            let at = self.farthest(&self.broken[..count]);
            let position = self.broken[at];
            let mut row = vec![0.0; self.reduced.len()];
            self.linear.table_row(position, &mut row);
            let largest = row.iter().fold(1.0, |most: f64, entry| most.max(entry.abs()));
            let way = self.way_back(position);
            let direction = if way > 0.0 { 1.0 } else { -1.0 };
            let stops =
                Stops { linear: self.linear, reduced: &self.reduced, row: &row, direction, pivot_min };
            if tried <= LONG_TRIES
                && let Some((other, flips)) = stops.long_step(way.abs(), largest)
            {
                let size = row[other].abs() / largest;
                self.table_row = row;
                return (Some(Choice { position, other: Some(other), flips: Some(flips) }), size);
            }
            let Some(other) = stops.short_step() else {
                self.table_row = row;
                return (Some(Choice { position, other: None, flips: None }), 1.0);
            };
            let size = row[other].abs() / largest;
            if size > most {
                (found, most) = (Some(Choice { position, other: Some(other), flips: None }), size);
                self.table_row = row;
            }
            if most >= PIVOT_GOOD || count == 1 || tried == TRIES_MAX {
                break;
            }
            count -= 1;
            self.broken.swap(at, count);
        }
        (found, most)
    }

    fn flip(&mut self, flips: Option<Vec<usize>>) {
        let Some(flips) = flips else { return };
        for other in flips {
            self.linear.is_upper[other] = !self.linear.is_upper[other];
        }
        self.values_are = Freshness::Unknown;
    }

    fn pivot(&mut self, position: usize, other: usize) -> Result<(), Failure> {
        let swap = (position, other);
        let (lower, upper) = self.linear.bounds(position);
        let is_upper = lower != upper && self.values[position] > upper;
        self.linear.product(other, &mut self.product);
        if self.product[position] == 0.0 {
            return Err(Failure::Stuck);
        }
        if self.values_are != Freshness::Unknown {
            let to = if is_upper { upper } else { lower };
            self.linear.advance(&mut self.values, swap, to, &self.product);
            self.follow_broken(swap);
            self.values_are = Freshness::Followed;
        }
        self.count_stalls(other);
        let is_good = self.linear.follow(&mut self.reduced, swap, &self.table_row, &self.product);
        self.reduced_are = if is_good { Freshness::Followed } else { Freshness::Unknown };
        if self.frame.is_kept() {
            self.reweigh(position);
        }
        self.linear.swap(position, other, is_upper);
        if self.perturbed == Perturbed::Now && is_good {
            self.perturb(false);
        }
        Ok(())
    }

    /// Begins to perturb after many steps that led nowhere.
    fn count_stalls(&mut self, other: usize) {
        let (lower, upper) = self.linear.bounds_of_other(other);
        if !lower.is_finite() && !upper.is_finite() {
            return;
        }
        if self.reduced[other].abs() >= STEP_MIN {
            self.stalls = 0;
            return;
        }
        self.stalls += 1;
        if self.perturbed == Perturbed::NotYet && self.stalls >= STALLS_MAX {
            self.perturbed = Perturbed::Now;
        }
    }

    /// Takes the weights to the basis after a swap.
    fn reweigh(&mut self, position: usize) {
        let linear = &*self.linear;
        let own = self.frame.unit(linear.head[position]);
        let mut exact = own;
        let mut cross = vec![0.0; linear.rows];
        for (other, &entry) in self.table_row.iter().enumerate().rev().filter(|(_, entry)| **entry != 0.0) {
            let variable = linear.head[linear.rows + other];
            if self.frame.has[variable] {
                exact += entry * entry;
                for &(row, value) in linear.column(variable) {
                    cross[row] += entry * value;
                }
            }
        }
        linear.forward(&mut cross);
        let error = (exact - self.frame.weights[position]).abs() / (1.0 + exact);
        let pivot = self.product[position];
        for (row, &entry) in self.product.iter().enumerate() {
            if row == position || entry == 0.0 {
                continue;
            }
            let ratio = entry / pivot;
            let weight = self.frame.weights[row] + ratio * (ratio * exact + cross[row] + cross[row]);
            let least = self.frame.unit(linear.head[row]) + own * ratio * ratio;
            self.frame.weights[row] = if weight >= least { weight } else { least };
        }
        self.frame.weights[position] = exact / (pivot * pivot);
        self.frame.note(error);
    }
}
