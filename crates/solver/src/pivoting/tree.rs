//! Branch and bound: the part with the best bound is solved next, unless one was just split; then the half that promises more is.

use super::dual;
use super::linear::Failure;
use super::model::{Model, Place, Variable};
use super::tighten::tighten;

/// A value within this of a whole number is one.
const WHOLE: f64 = 1e-5;
/// A part must promise to be better by this.
const PROGRESS: f64 = 1e-7;
/// Smaller entries of the table are none.
const ENTRY_MIN: f64 = 1e-9;
/// Looks at each row before the first part is solved, and before each later one.
const LOOKS: [usize; 2] = [100, 10];
/// Parts after which the best so far is taken: about what the published limit of half a minute allows.
const PARTS_MAX: usize = 30_000;
/// A bound that is so far above a multiple of all costs may be rounded up to the next one.
const ROUNDED_MIN: f64 = 0.001;

/// A part of the program that is still to be solved.
struct Part {
    variables: Vec<Variable>,
    bound: f64,
    /// How far from whole the solution was that it was split from.
    distance: f64,
    /// Whether basic variables changed on the way from the first part.
    is_moved: bool,
}

/// What is known of the part at hand.
enum Verdict {
    /// Nothing better is in it.
    Done,
    /// It was split into two; the one to solve next.
    Split(usize),
}

struct Tree<'a> {
    model: &'a mut Model,
    parts: Vec<Part>,
    /// Values of the best solution so far, and its cost.
    best: Option<(Vec<f64>, f64)>,
    /// Variables of the first part when it was left.
    root: Option<Vec<Variable>>,
    /// Rows as they were given.
    rows: Vec<Variable>,
    is_past_root: bool,
}

/// Searches for the best solution in whole numbers, from that of the relaxation; values of the columns.
pub(super) fn search(model: &mut Model) -> Result<Option<Vec<f64>>, Failure> {
    let variables = model.variables.clone();
    let rows = variables[..model.rows].to_vec();
    let root = Part { variables, bound: f64::NEG_INFINITY, distance: 0.0, is_moved: false };
    let mut tree = Tree { model, parts: vec![root], best: None, root: None, rows, is_past_root: false };
    let mut next = None;
    for _ in 0..PARTS_MAX {
        if tree.parts.is_empty() {
            return Ok(tree.best.map(|(values, _)| values));
        }
        let at = next.take().unwrap_or_else(|| tree.choose());
        let part = tree.parts.remove(at);
        match tree.solve(part)? {
            Verdict::Split(at) => next = Some(at),
            Verdict::Done => {
                let best = tree.best.as_ref().map(|(_, cost)| *cost);
                tree.parts.retain(|part| is_hopeful(best, part.bound));
            }
        }
    }
    tree.best.map(|(values, _)| Some(values)).ok_or(Failure::Stuck)
}

/// Whether the same variables are basic.
fn has_same_basis(one: &[Variable], other: &[Variable]) -> bool {
    let basic = |variable: &Variable| variable.place == Place::Basic;
    one.iter().map(basic).eq(other.iter().map(basic))
}

/// Whether something with this bound may be better than the best.
fn is_hopeful(best: Option<f64>, bound: f64) -> bool {
    best.map_or(bound < f64::INFINITY, |best| bound < best - PROGRESS * (1.0 + best.abs()))
}

impl Tree<'_> {
    fn best_cost(&self) -> Option<f64> {
        self.best.as_ref().map(|(_, cost)| *cost)
    }

    /// The part with the best bound; of equals the one that is nearest to whole numbers.
    fn choose(&self) -> usize {
        let bound = self.parts.iter().fold(f64::INFINITY, |least, part| least.min(part.bound));
        let slack = 1e-10 * (1.0 + bound.abs());
        let mut best: Option<usize> = None;
        for (index, part) in self.parts.iter().enumerate().filter(|(_, part)| part.bound <= bound + slack) {
            if best.is_none_or(|best| self.parts[best].distance > part.distance) {
                best = Some(index);
            }
        }
        best.unwrap_or_default()
    }

    /// Makes the model a part, by way of the first one. Factors are kept only where basic variables never changed.
    fn enter(&mut self, part: &Part) {
        if let Some(root) = &self.root
            && (part.is_moved || !has_same_basis(&self.model.variables, root))
        {
            self.model.basis = None;
        }
        self.model.variables.clone_from(&part.variables);
    }

    fn leave(&mut self) {
        if self.root.is_none() {
            self.root = Some(self.model.variables.clone());
        }
    }

    fn solve(&mut self, mut part: Part) -> Result<Verdict, Failure> {
        self.enter(&part);
        loop {
            let looks = LOOKS[usize::from(self.is_past_root)];
            if !tighten(self.model, self.best_cost(), looks) || !is_hopeful(self.best_cost(), part.bound) {
                break;
            }
            match dual::solve(self.model, self.best_cost()) {
                Ok(()) => {}
                Err(Failure::Stuck) => return Err(Failure::Stuck),
                Err(Failure::Impossible | Failure::Hopeless) => break,
            }
            part.bound = part.bound.max(self.rounded(self.model.objective));
            if !is_hopeful(self.best_cost(), part.bound) {
                break;
            }
            let split = self.fractional();
            if split.is_empty() {
                self.record();
                break;
            }
            part.distance =
                split.iter().map(|&(_, value)| (value - value.floor()).min(value.ceil() - value)).sum();
            if let Some(best) = self.best_cost() {
                self.fix_by_cost(best);
            }
            self.round();
            if !is_hopeful(self.best_cost(), part.bound) {
                break;
            }
            self.is_past_root = true;
            let (column, is_up) = self.branch_column(&split);
            if let Some(verdict) = self.branch(&mut part, column, is_up) {
                self.leave();
                return Ok(verdict);
            }
        }
        self.leave();
        Ok(Verdict::Done)
    }

    /// A bound, rounded up where all costs that still vary are whole numbers.
    fn rounded(&self, bound: f64) -> f64 {
        let (mut fixed, mut divisor) = (self.model.constant, 0_u64);
        for (cost, column) in self.model.costs.iter().zip(&self.model.variables[self.model.rows..]) {
            if column.lower == column.upper {
                fixed += cost * column.value;
            } else if cost.fract() != 0.0 {
                return bound;
            } else if cost.abs() <= f64::from(i32::MAX) {
                divisor = greatest_divisor(divisor, cost.abs() as u64);
            } else {
                divisor = 1;
            }
        }
        if divisor == 0 || !bound.is_finite() {
            return bound;
        }
        let times = (bound - fixed) / divisor as f64;
        if times >= times.floor() + ROUNDED_MIN { divisor as f64 * times.ceil() + fixed } else { bound }
    }

    /// Basic columns that are not whole, with their values.
    fn fractional(&self) -> Vec<(usize, f64)> {
        let rows = self.model.rows;
        let columns = self.model.variables[rows..].iter().enumerate();
        let is_whole = |column: &Variable| {
            let near = |whole: f64| (column.value - whole).abs() <= WHOLE;
            near(column.lower)
                || near(column.upper)
                || column.value < column.lower
                || column.value > column.upper
                || near((column.value + 0.5).floor())
        };
        columns
            .filter(|(_, column)| column.place == Place::Basic && !is_whole(column))
            .map(|(index, column)| (index, column.value))
            .collect()
    }

    fn record(&mut self) {
        let columns = &self.model.variables[self.model.rows..];
        let values = columns.iter().map(|column| (column.value + 0.5).floor()).collect();
        self.best = Some((values, self.model.objective));
    }

    /// Fixes columns that would cost too much at their other bound.
    fn fix_by_cost(&mut self, best: f64) {
        let objective = self.model.objective;
        for column in &mut self.model.variables[self.model.rows..] {
            let dual = column.dual;
            if column.place == Place::Lower && objective + dual.max(0.0) >= best {
                column.bound(column.lower, column.lower);
            } else if column.place == Place::Upper && objective - dual.min(0.0) >= best {
                column.bound(column.upper, column.upper);
            }
        }
    }

    /// Takes the rounded solution if that is one.
    fn round(&mut self) {
        let rows = self.model.rows;
        let values: Vec<f64> =
            self.model.variables[rows..].iter().map(|column| (column.value + 0.5).floor()).collect();
        for (bounds, entries) in self.rows.iter().zip(&self.model.by_row) {
            let sum: f64 = entries.iter().map(|&(column, value)| value * values[column]).sum();
            if sum < bounds.lower - 1e-9 || sum > bounds.upper + 1e-9 {
                return;
            }
        }
        let cost = self
            .model
            .costs
            .iter()
            .zip(&values)
            .fold(self.model.constant, |sum, (cost, value)| sum + cost * value);
        if self.best_cost().is_none_or(|best| cost < best) {
            self.best = Some((values, cost));
        }
    }

    /// What a column's way down and its way up cost at least, by one step of the dual method.
    fn costs_of(&self, column: usize, is_rounded: bool) -> [f64; 2] {
        let variable = self.model.rows + column;
        let value = self.model.variables[variable].value;
        let entries = self.model.follows(variable);
        [-1.0, 1.0].map(|direction: f64| {
            let Some((other, entry)) = self.stopper(&entries, direction) else { return f64::INFINITY };
            let whole = if direction < 0.0 { value.floor() } else { value.ceil() };
            let mut step = (whole - value) / entry;
            if is_rounded && other >= self.model.rows && (step - (step + 0.5).floor()).abs() > 1e-3 {
                step = if step > 0.0 { step.ceil() } else { step.floor() };
            }
            self.signed_dual(other) * step
        })
    }

    /// A reduced cost; one of the wrong sign is none.
    fn signed_dual(&self, variable: usize) -> f64 {
        let state = &self.model.variables[variable];
        match state.place {
            Place::Lower => state.dual.max(0.0),
            Place::Upper => state.dual.min(0.0),
            Place::Basic | Place::Free | Place::Fixed => 0.0,
        }
    }

    /// The variable that enters the basis when a row of the table moves, with its entry.
    fn stopper(&self, entries: &[(usize, f64)], direction: f64) -> Option<(usize, f64)> {
        let (mut best, mut least, mut most) = (None, f64::INFINITY, 0.0);
        for &(variable, entry) in entries {
            let state = &self.model.variables[variable];
            let slope = direction * entry;
            let at = match state.place {
                Place::Lower if slope >= ENTRY_MIN => state.dual / slope,
                Place::Upper if slope <= -ENTRY_MIN => state.dual / slope,
                Place::Free if slope.abs() >= ENTRY_MIN => 0.0,
                _ => continue,
            };
            let at = at.max(0.0);
            if at < least || at == least && slope.abs() > most {
                (best, least, most) = (Some((variable, entry)), at, slope.abs());
            }
        }
        best
    }

    /// The column to split on, and whether to go up first: where one way costs most, the other way; where no way costs anything, the
    /// column that is nearest to a half.
    fn branch_column(&self, split: &[(usize, f64)]) -> (usize, bool) {
        let (mut found, mut most) = ((0, false), -1.0);
        for &(column, _) in split {
            let [down, up] = self.costs_of(column, true).map(f64::abs);
            if most < down || most < up {
                found = (column, down >= up);
                most = down.max(up);
                if most == f64::INFINITY {
                    break;
                }
            }
        }
        if most < 1e-6 * (1.0 + 0.001 * self.model.objective.abs()) {
            let mut least = f64::INFINITY;
            for &(column, value) in split {
                let off = value - (value.floor() + 0.5);
                if off.abs() < least {
                    (found, least) = ((column, off >= 0.0), off.abs());
                }
            }
        }
        found
    }

    /// Splits a part on a column; `None` where one way leads nowhere and the part is to be solved again without it.
    fn branch(&mut self, part: &mut Part, column: usize, is_up: bool) -> Option<Verdict> {
        let objective = self.model.objective;
        let bounds = self.costs_of(column, false).map(|cost| self.rounded(objective + cost));
        let variable = self.model.rows + column;
        let Variable { lower, upper, value, .. } = self.model.variables[variable];
        let ranges = [(lower, value.floor()), (value.ceil(), upper)];
        match bounds.map(|bound| is_hopeful(self.best_cost(), bound)) {
            [false, false] => Some(Verdict::Done),
            [is_down, is_up] if is_down != is_up => {
                let way = usize::from(is_up);
                self.model.variables[variable].bound(ranges[way].0, ranges[way].1);
                part.bound = part.bound.max(bounds[way]);
                None
            }
            _ => {
                let is_moved = self.root.is_some()
                    && (part.is_moved || !has_same_basis(&part.variables, &self.model.variables));
                for (bound, (lower, upper)) in bounds.into_iter().zip(ranges) {
                    let mut variables = self.model.variables.clone();
                    variables[variable].bound(lower, upper);
                    let bound = part.bound.max(bound);
                    self.parts.push(Part { variables, bound, distance: part.distance, is_moved });
                }
                Some(Verdict::Split(self.parts.len() - if is_up { 1 } else { 2 }))
            }
        }
    }
}

fn greatest_divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { greatest_divisor(other, one % other) }
}
