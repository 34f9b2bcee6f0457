//! The primal method in two phases: first what is out of bounds is driven back, then cost is. The variable that enters is the
//! steepest with respect to a frame; of those that can leave within a tolerance the one with the largest pivot does. Where it does not
//! get on, bounds are moved a little and put back in the end.

use super::linear::{Failure, Frame, Linear, Tolerance, dot};
use super::model::Model;

/// Bounds are kept within this.
pub(super) const BOUNDS: Tolerance = Tolerance::new(1e-7);
/// A reduced cost within this is none.
pub(super) const COSTS: Tolerance = Tolerance::new(1e-7);
/// Either one in the first phase.
pub(super) const FIRST: Tolerance = Tolerance { base: 1e-8, slope: 0.0 };
/// Smaller pivots are none.
pub(super) const PIVOT_MIN: f64 = 1e-9;
/// A pivot below this makes for another try, up to so many.
pub(super) const PIVOT_GOOD: f64 = 1e-4;
pub(super) const TRIES_MAX: usize = 5;
/// Pivots of one solution for each row and column; more means that it goes in circles.
pub(super) const PIVOTS_PER_LINE: usize = 50;
/// Steps in a row that are shorter than `STEP_MIN` until it is perturbed.
pub(super) const STALLS_MAX: usize = 200;
pub(super) const STEP_MIN: f64 = 1e-6;
/// What is perturbed is moved by this.
pub(super) const PERTURBATION: f64 = 1e-9;
/// Smaller entries of the table's row leave a weight as it is.
const WEIGHED_MIN: f64 = 1e-9;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    Unknown,
    Followed,
    Fresh,
}

impl Freshness {
    /// Forgets what is not fresh.
    pub(super) fn settle(&mut self) {
        if *self != Self::Fresh {
            *self = Self::Unknown;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Unset,
    First,
    Second,
}

/// A solution is perturbed at most once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Perturbed {
    NotYet,
    Now,
    NoMore,
}

/// Who leaves the basis.
#[derive(Clone, Copy)]
enum Leaves {
    /// Nothing stops who enters.
    Nothing,
    /// The one that wanted to enter goes to its other bound.
    Nobody,
    /// A position, and whether it goes to its upper bound.
    Position(usize, bool),
}

struct Primal<'a> {
    linear: &'a mut Linear,
    /// Costs and bounds to come back to. In the first phase what is out of bounds costs 1 for each unit.
    costs: Vec<f64>,
    lower: Vec<f64>,
    upper: Vec<f64>,
    phase: Phase,
    perturbed: Perturbed,
    stalls: usize,
    values: Vec<f64>,
    values_are: Freshness,
    reduced: Vec<f64>,
    reduced_are: Freshness,
    frame: Frame,
    product: Vec<f64>,
    table_row: Vec<f64>,
}

/// Solves the relaxation of a model from the basis that it has.
pub(super) fn solve(model: &mut Model) -> Result<(), Failure> {
    let mut linear = Linear::new(model).ok_or(Failure::Stuck)?;
    let (rows, others) = (linear.rows, linear.is_upper.len());
    let mut primal = Primal {
        costs: linear.costs.clone(),
        lower: linear.lower.clone(),
        upper: linear.upper.clone(),
        phase: Phase::Unset,
        perturbed: Perturbed::NotYet,
        stalls: 0,
        values: vec![0.0; rows],
        values_are: Freshness::Unknown,
        reduced: vec![0.0; others],
        reduced_are: Freshness::Unknown,
        frame: Frame::new(rows + others, others),
        product: vec![0.0; rows],
        table_row: vec![0.0; others],
        linear: &mut linear,
    };
    let result = primal.run();
    let (values, reduced) = (primal.values, primal.reduced);
    linear.tell(model, &values, &reduced);
    result
}

impl Primal<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        for _ in 0..PIVOTS_PER_LINE * (self.values.len() + self.reduced.len()) {
            if !self.refresh()? {
                continue;
            }
            let candidates = self.candidates();
            if candidates.is_empty() {
                if self.phase == Phase::Second {
                    self.calm();
                }
                if !self.is_settled() {
                    continue;
                }
                if self.phase == Phase::Second {
                    return Ok(());
                }
                if !self.is_within(Phase::Second) {
                    return Err(Failure::Impossible);
                }
                self.linear.costs.clone_from(&self.costs);
                self.phase = Phase::Second;
                self.reduced_are = Freshness::Unknown;
                continue;
            }
            let Some((other, leaves)) = self.choose(candidates) else {
                self.linear.forget_factors();
                continue;
            };
            match leaves {
                Leaves::Nothing => {
                    self.calm();
                    if self.is_settled() {
                        return Err(Failure::Stuck);
                    }
                    continue;
                }
                Leaves::Nobody => self.flip(other),
                Leaves::Position(position, is_upper) => self.pivot(position, other, is_upper)?,
            }
            if self.perturbed == Perturbed::Now {
                self.perturb(false);
            } else if self.phase == Phase::First {
                self.forgive(false);
            }
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
        if self.values_are == Freshness::Unknown {
            self.linear.values(&mut self.values);
            self.values_are = Freshness::Fresh;
            if self.phase == Phase::Unset {
                self.phase = if self.punish() { Phase::First } else { Phase::Second };
                if self.phase == Phase::Second {
                    self.linear.costs.clone_from(&self.costs);
                }
                self.reduced_are = Freshness::Unknown;
            }
            if self.perturbed == Perturbed::Now {
                self.perturb(true);
            } else if !self.is_within(self.phase) {
                if self.perturbed == Perturbed::NotYet {
                    self.perturbed = Perturbed::Now;
                } else {
                    self.linear.forget_factors();
                    self.phase = Phase::Unset;
                }
                return Ok(false);
            } else if self.phase == Phase::First {
                self.forgive(true);
            }
        }
        if self.reduced_are == Freshness::Unknown {
            self.linear.reduced_costs(&mut self.reduced);
            self.reduced_are = Freshness::Fresh;
        }
        self.frame.set(&self.linear.head[self.linear.rows..]);
        Ok(true)
    }

    /// Whether everything is fresh; what is not is forgotten.
    fn is_settled(&mut self) -> bool {
        self.values_are.settle();
        self.reduced_are.settle();
        self.values_are == Freshness::Fresh && self.reduced_are == Freshness::Fresh
    }

    /// Makes what is out of bounds cost, and nothing else; whether there is any.
    fn punish(&mut self) -> bool {
        let allowed = BOUNDS.part(0.97);
        self.linear.costs.fill(0.0);
        let mut found = false;
        for (position, &value) in self.values.iter().enumerate() {
            let (lower, upper) = self.linear.bounds(position);
            let cost = if upper.is_finite() && value > upper + allowed.at(upper) {
                1.0
            } else if lower.is_finite() && value < lower - allowed.at(lower) {
                -1.0
            } else {
                continue;
            };
            self.linear.costs[self.linear.head[position]] = cost;
            found = true;
        }
        found
    }

    /// What has come back within its bounds costs no more; all basic variables are looked at, or those that the last step moved.
    fn forgive(&mut self, all: bool) {
        let allowed = BOUNDS.part(0.99);
        for position in (0..self.values.len()).filter(|&position| all || self.product[position] != 0.0) {
            let (lower, upper) = self.linear.bounds(position);
            let cost = &mut self.linear.costs[self.linear.head[position]];
            let value = self.values[position];
            let is_back = *cost < 0.0 && value >= lower - allowed.at(lower)
                || *cost > 0.0 && value <= upper + allowed.at(upper);
            if is_back {
                *cost = 0.0;
                self.reduced_are = Freshness::Unknown;
            }
        }
    }

    /// Moves bounds so that values are within them, or back where they are not needed.
    fn perturb(&mut self, all: bool) {
        let is_first = self.phase == Phase::First;
        for position in (0..self.values.len()).filter(|&position| all || self.product[position] != 0.0) {
            let variable = self.linear.head[position];
            let value = self.values[position];
            let (lower, upper) = (&mut self.linear.lower[variable], &mut self.linear.upper[variable]);
            let cost = &mut self.linear.costs[variable];
            if is_first && *cost != 0.0 {
                let is_out =
                    if *cost < 0.0 { value < *lower - PERTURBATION } else { value > *upper + PERTURBATION };
                if is_out {
                    continue;
                }
                *cost = 0.0;
                self.reduced_are = Freshness::Unknown;
            }
            let (first_lower, first_upper) = (self.lower[variable], self.upper[variable]);
            if lower.is_finite() {
                if value < *lower {
                    *lower = value - PERTURBATION;
                } else if *lower < first_lower {
                    *lower = if value >= first_lower { first_lower } else { value };
                }
            }
            if upper.is_finite() {
                if value > *upper {
                    *upper = value + PERTURBATION;
                } else if *upper > first_upper {
                    *upper = if value <= first_upper { first_upper } else { value };
                }
            }
        }
    }

    /// Puts moved bounds back; phases begin anew.
    fn calm(&mut self) {
        if self.perturbed != Perturbed::Now {
            return;
        }
        self.perturbed = Perturbed::NoMore;
        self.linear.lower.clone_from(&self.lower);
        self.linear.upper.clone_from(&self.upper);
        for other in 0..self.reduced.len() {
            let (lower, upper) = self.linear.bounds_of_other(other);
            self.linear.is_upper[other] &= lower != upper;
        }
        self.phase = Phase::Unset;
        self.values_are = Freshness::Unknown;
    }

    /// Whether values are within the bounds of a phase: in the first, what is punished is out of its own.
    fn is_within(&self, phase: Phase) -> bool {
        self.values.iter().enumerate().all(|(position, &value)| {
            let (lower, upper) = self.linear.bounds(position);
            let cost = self.linear.costs[self.linear.head[position]];
            let (lower, upper) = match phase {
                Phase::First if cost < 0.0 => (f64::NEG_INFINITY, lower),
                Phase::First if cost > 0.0 => (upper, f64::INFINITY),
                Phase::Unset | Phase::First | Phase::Second => (lower, upper),
            };
            (!lower.is_finite() || value >= lower - BOUNDS.at(lower))
                && (!upper.is_finite() || value <= upper + BOUNDS.at(upper))
        })
    }

    /// Other variables along which cost falls.
    fn candidates(&self) -> Vec<usize> {
        let tolerance = if self.phase == Phase::First { FIRST } else { COSTS };
        let can_enter = |other: &usize| {
            let (lower, upper) = self.linear.bounds_of_other(*other);
            let least = tolerance.at(self.linear.costs[self.linear.head[self.linear.rows + other]]);
            let (reduced, is_upper) = (self.reduced[*other], self.linear.is_upper[*other]);
            lower != upper
                && (reduced <= -least && !is_upper || reduced >= least && (is_upper || !lower.is_finite()))
        };
        (0..self.reduced.len()).filter(can_enter).collect()
    }

    /// The place in a list of the variable along which cost falls most steeply.
    fn steepest(&self, list: &[usize]) -> usize {
        let (mut best, mut most) = (0, -1.0);
        for (index, &other) in list.iter().enumerate() {
            let weight = self.frame.weights[other];
            let slope = self.reduced[other] * self.reduced[other] / weight;
            let slope = if weight < f64::EPSILON { 0.0 } else { slope };
            if slope > most {
                (best, most) = (index, slope);
            }
        }
        best
    }

    /// Who enters and who leaves; others are tried where the pivot is small. `None` where factors have to be made anew before.
    fn choose(&mut self, mut list: Vec<usize>) -> Option<(usize, Leaves)> {
        let all = list.len();
        for pivot_min in [PIVOT_MIN, 1000.0 * PIVOT_MIN] {
            let (mut found, mut most) = (None, 0.0);
            let mut count = all;
            for tried in 1.. {
                let at = self.steepest(&list[..count]);
                let other = list[at];
                let mut product = vec![0.0; self.linear.rows];
                self.linear.product(other, &mut product);
                let leaves = self.leaving(other, &product, pivot_min);
                let Leaves::Position(position, _) = leaves else {
                    self.product = product;
                    return Some((other, leaves));
                };
                let size = product[position].abs();
                if size > most {
                    (found, most) = (Some((other, leaves)), size);
                    self.product = product;
                }
                if most >= PIVOT_GOOD || count == 1 || tried == TRIES_MAX {
                    break;
                }
                count -= 1;
                list.swap(at, count);
            }
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

    /// The bound that a position meets when its value moves with this slope, and whether it leaves at its upper one.
    fn meets(&self, position: usize, slope: f64, pivot_min: f64) -> Option<(f64, bool)> {
        let is_first = self.phase == Phase::First;
        let cost = if is_first { self.linear.costs[self.linear.head[position]] } else { 0.0 };
        let (lower, upper) = self.linear.bounds(position);
        let (bound, is_upper) = if slope <= -pivot_min && cost >= 0.0 {
            if cost > 0.0 { (upper, true) } else { (lower, false) }
        } else if slope >= pivot_min && cost <= 0.0 {
            if cost < 0.0 { (lower, false) } else { (upper, true) }
        } else {
            return None;
        };
        bound.is_finite().then_some((bound, is_upper))
    }

    /// Who leaves when an other variable enters.
    fn leaving(&self, other: usize, product: &[f64], pivot_min: f64) -> Leaves {
        let allowed = BOUNDS.part(0.5);
        let direction = if self.reduced[other] < 0.0 { 1.0 } else { -1.0 };
        let mut limit = f64::INFINITY;
        for (position, entry) in product.iter().enumerate() {
            let slope = direction * entry;
            let Some((bound, _)) = self.meets(position, slope, pivot_min) else { continue };
            let value = self.values[position];
            let slack = allowed.at(bound).copysign(slope);
            let is_out = if slope < 0.0 { value < bound } else { value > bound };
            let step = if is_out { slack / slope } else { ((bound + slack) - value) / slope };
            limit = limit.min(step);
        }
        let (lower, upper) = self.linear.bounds_of_other(other);
        if lower.is_finite() && upper.is_finite() && (lower - upper).abs() <= limit {
            return Leaves::Nobody;
        }
        let (mut best, mut most) = (Leaves::Nothing, 0.0);
        for (position, entry) in product.iter().enumerate() {
            let slope = direction * entry;
            let Some((bound, is_upper)) = self.meets(position, slope, pivot_min) else { continue };
            if (bound - self.values[position]) / slope <= limit && slope.abs() > most {
                let (lower, upper) = self.linear.bounds(position);
                (best, most) = (Leaves::Position(position, is_upper && lower != upper), slope.abs());
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

    fn pivot(&mut self, position: usize, other: usize, is_upper: bool) -> Result<(), Failure> {
        let leaving = self.linear.head[position];
        let (lower, upper) = self.linear.bounds(position);
        let to = if is_upper { upper } else { lower };
        self.count_stalls(position, (lower, upper), to);
        let to = if to.is_finite() { to } else { 0.0 };
        self.linear.advance(&mut self.values, (position, other), to, &self.product);
        self.values_are = Freshness::Followed;
        self.linear.table_row(position, &mut self.table_row);
        if self.table_row[other] == 0.0 {
            return Err(Failure::Stuck);
        }
        if self.reduced_are != Freshness::Unknown {
            let swap = (position, other);
            let is_good = self.linear.follow(&mut self.reduced, swap, &self.table_row, &self.product);
            self.reduced_are = if is_good { Freshness::Followed } else { Freshness::Unknown };
            if self.phase == Phase::First {
                self.reduced[other] -= self.linear.costs[leaving];
            }
        }
        if self.phase == Phase::First {
            self.linear.costs[leaving] = 0.0;
        }
        if self.frame.is_kept() {
            self.reweigh(position, other);
        }
        self.linear.swap(position, other, is_upper);
        Ok(())
    }

    /// Begins to perturb after many steps that led nowhere.
    fn count_stalls(&mut self, position: usize, (lower, upper): (f64, f64), to: f64) {
        if lower == upper || !to.is_finite() {
            return;
        }
        if (self.values[position] - to).abs() >= STEP_MIN {
            self.stalls = 0;
            return;
        }
        self.stalls += 1;
        if self.perturbed == Perturbed::NotYet && self.stalls >= STALLS_MAX {
            self.perturbed = Perturbed::Now;
        }
    }

    /// Takes the weights to the basis after a swap.
    fn reweigh(&mut self, position: usize, other: usize) {
        let linear = &*self.linear;
        let own = self.frame.unit(linear.head[linear.rows + other]);
        let mut exact = own;
        let mut within = vec![0.0; linear.rows];
        for (row, entry) in self.product.iter().enumerate() {
            if self.frame.has[linear.head[row]] {
                exact += entry * entry;
                within[row] = *entry;
            }
        }
        linear.backward(&mut within);
        let error = (exact - self.frame.weights[other]).abs() / (1.0 + exact);
        let pivot = self.product[position];
        for (index, &entry) in self.table_row.iter().enumerate() {
            if index == other || entry.abs() < WEIGHED_MIN {
                continue;
            }
            let variable = linear.head[linear.rows + index];
            let ratio = entry / pivot;
            let cross = dot(linear.column(variable), &within);
            let weight = self.frame.weights[index] + ratio * (ratio * exact + cross + cross);
            let least = self.frame.unit(variable) + own * ratio * ratio;
            self.frame.weights[index] = if weight >= least { weight } else { least };
        }
        self.frame.weights[other] = exact / (pivot * pivot);
        self.frame.note(error);
    }
}
