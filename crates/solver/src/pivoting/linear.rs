//! The linear relaxation with a basis and its factors.

use super::factors::{Entries, Factors, NOTHING};
use super::model::{Basis, Model, Place};

/// Largest cost after costs were divided.
const COST_MAX: f64 = 1000.0;
/// Reduced costs that are off by more than this are computed anew.
const REDUCED_ERROR: f64 = 1e-9;

/// Why a solution is not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// There is none.
    Impossible,
    /// None that is worth its cost.
    Hopeless,
    /// It is not found.
    Stuck,
}

/// A tolerance that grows a little with what it is for.
#[derive(Clone, Copy)]
pub(super) struct Tolerance {
    pub base: f64,
    pub slope: f64,
}

impl Tolerance {
    pub(super) const fn new(base: f64) -> Self {
        Self { base, slope: 0.001 * base }
    }

    pub(super) fn part(self, part: f64) -> Self {
        Self { base: part * self.base, slope: part * self.slope }
    }

    pub(super) fn at(self, value: f64) -> f64 {
        self.base + self.slope * value.abs()
    }
}

/// `columns` times values is `right`: each row's own variable less its entries. Values count from a bound that is 0.
#[derive(Debug)]
pub(super) struct Linear {
    pub rows: usize,
    /// Where each variable's column begins, and where the last one ends.
    starts: Vec<usize>,
    /// Row and value.
    entries: Entries,
    /// Of each row: variable and value.
    by_row: Vec<Entries>,
    pub right: Vec<f64>,
    pub costs: Vec<f64>,
    pub lower: Vec<f64>,
    pub upper: Vec<f64>,
    /// What costs were divided by.
    pub divisor: f64,
    /// Cost of what does not vary.
    pub constant: f64,
    /// Variables: the basic ones by column of the basis, then the others.
    pub head: Vec<usize>,
    /// Whether an other one is at its upper bound.
    pub is_upper: Vec<bool>,
    /// Unless they have to be made anew.
    factors: Option<Factors>,
    /// The model's variable, and where it counts from.
    origin: Vec<(usize, f64)>,
    /// By variable.
    work: Vec<f64>,
}

impl Linear {
    /// Variables that are fixed outside the basis are left out. `None` where the basis is none.
    pub(super) fn new(model: &mut Model) -> Option<Self> {
        let rows = model.rows;
        let Basis { head, factors } = model.take_basis()?;
        let mut new = Self {
            rows,
            starts: vec![0],
            entries: Vec::with_capacity(rows + model.by_row.iter().map(Vec::len).sum::<usize>()),
            by_row: vec![Entries::new(); rows],
            right: vec![0.0; rows],
            costs: Vec::new(),
            lower: Vec::new(),
            upper: Vec::new(),
            divisor: 1.0,
            constant: model.constant,
            head: Vec::new(),
            is_upper: Vec::new(),
            factors: Some(factors),
            origin: Vec::new(),
            work: Vec::new(),
        };
        let mut own = vec![usize::MAX; model.variables.len()];
        for (variable, own) in own.iter_mut().enumerate() {
            if model.variables[variable].place == Place::Fixed {
                new.leave_out(model, variable);
            } else {
                *own = new.costs.len();
                new.add(model, variable);
            }
        }
        for variable in 0..new.costs.len() {
            new.shift(variable);
        }
        new.divide_costs();
        new.head = head.iter().map(|&variable| own[variable]).collect();
        for (variable, state) in model.variables.iter().enumerate() {
            if !matches!(state.place, Place::Basic | Place::Fixed) {
                new.head.push(own[variable]);
                new.is_upper.push(state.place == Place::Upper);
            }
        }
        new.work = vec![0.0; new.costs.len()];
        Some(new)
    }

    /// A variable's column: row and value.
    pub(super) fn column(&self, variable: usize) -> &[(usize, f64)] {
        &self.entries[self.starts[variable]..self.starts[variable + 1]]
    }

    fn leave_out(&mut self, model: &Model, variable: usize) {
        let state = &model.variables[variable];
        let Some(column) = variable.checked_sub(self.rows) else {
            self.right[variable] -= state.lower * state.scale;
            return;
        };
        if state.lower != 0.0 {
            for &(row, value) in &model.by_column[column] {
                self.right[row] += model.variables[row].scale * value * state.lower;
            }
            self.constant += model.costs[column] * state.lower;
        }
    }

    fn add(&mut self, model: &Model, variable: usize) {
        let state = &model.variables[variable];
        let own = self.costs.len();
        self.origin.push((variable, 0.0));
        let scale = if variable < self.rows { state.scale } else { state.scale.recip() };
        self.lower.push(state.lower * scale);
        self.upper.push(state.upper * scale);
        self.costs
            .push(variable.checked_sub(self.rows).map_or(0.0, |column| model.costs[column] * state.scale));
        for (row, value) in model.scaled(variable) {
            self.entries.push((row, value));
            self.by_row[row].push((own, value));
        }
        self.starts.push(self.entries.len());
    }

    /// Makes a variable count from its bound that is nearer to 0.
    fn shift(&mut self, variable: usize) {
        let (lower, upper) = (self.lower[variable], self.upper[variable]);
        let from = match (lower.is_finite(), upper.is_finite()) {
            (false, false) => return,
            (true, false) => lower,
            (false, true) => upper,
            (true, true) if lower.abs() <= upper.abs() => lower,
            (true, true) => upper,
        };
        self.lower[variable] -= from;
        self.upper[variable] -= from;
        self.origin[variable].1 = from;
        if from != 0.0 {
            for &(row, value) in &self.entries[self.starts[variable]..self.starts[variable + 1]] {
                self.right[row] -= value * from;
            }
            self.constant += self.costs[variable] * from;
        }
    }

    fn divide_costs(&mut self) {
        let most = self.costs.iter().fold(0.0, |most: f64, cost| most.max(cost.abs()));
        self.divisor = if most <= COST_MAX { 1.0 } else { most / COST_MAX };
        for cost in &mut self.costs {
            *cost /= self.divisor;
        }
        self.constant /= self.divisor;
    }

    /// Whether there are factors of the basis.
    pub(super) fn has_factors(&self) -> bool {
        self.factors.is_some()
    }

    /// Whether the factors are those of a basis as a whole.
    pub(super) fn is_followed(&self) -> bool {
        self.factors.as_ref().is_some_and(|factors| factors.replaced() > 0)
    }

    pub(super) fn forget_factors(&mut self) {
        self.factors = None;
    }

    /// Makes factors of the basis; `false` where it is none.
    pub(super) fn factorize(&mut self) -> bool {
        let columns = self.head[..self.rows].iter().map(|&variable| self.column(variable).to_vec()).collect();
        self.factors = Factors::new(columns);
        self.has_factors()
    }

    /// The inverse times a vector.
    pub(super) fn forward(&self, vector: &mut [f64]) {
        if let Some(factors) = &self.factors {
            factors.forward(vector);
        }
    }

    /// A vector times the inverse.
    pub(super) fn backward(&self, vector: &mut [f64]) {
        if let Some(factors) = &self.factors {
            factors.backward(vector);
        }
    }

    /// The inverse times an other variable's column, less than nothing.
    pub(super) fn product(&self, other: usize, out: &mut [f64]) {
        out.fill(0.0);
        for &(row, value) in self.column(self.head[self.rows + other]) {
            out[row] = -value;
        }
        self.forward(out);
        drop_tiny(out);
    }

    /// A row of the table: how the basic variable of a position follows the others.
    pub(super) fn table_row(&mut self, position: usize, out: &mut [f64]) {
        let mut row = vec![0.0; self.rows];
        row[position] = 1.0;
        self.backward(&mut row);
        self.work.fill(0.0);
        for (entries, part) in self.by_row.iter().zip(row).filter(|(_, part)| *part != 0.0) {
            for &(variable, value) in entries {
                self.work[variable] -= value * part;
            }
        }
        for (out, &variable) in out.iter_mut().zip(&self.head[self.rows..]) {
            *out = self.work[variable];
        }
        drop_tiny(out);
    }

    /// Swaps the basic variable of a position and an other one.
    pub(super) fn swap(&mut self, position: usize, other: usize, is_upper: bool) {
        self.head.swap(position, self.rows + other);
        self.is_upper[other] = is_upper;
        let entering = self.head[position];
        let column = &self.entries[self.starts[entering]..self.starts[entering + 1]];
        if !self.factors.as_mut().is_some_and(|factors| factors.replace(position, column)) {
            self.factors = None;
        }
    }

    /// Bounds of a basic variable.
    pub(super) fn bounds(&self, position: usize) -> (f64, f64) {
        let variable = self.head[position];
        (self.lower[variable], self.upper[variable])
    }

    /// Bounds of an other variable.
    pub(super) fn bounds_of_other(&self, other: usize) -> (f64, f64) {
        self.bounds(self.rows + other)
    }

    /// Where an other variable stands.
    pub(super) fn stand(&self, other: usize) -> f64 {
        let (lower, upper) = self.bounds_of_other(other);
        let bound = if self.is_upper[other] { upper } else { lower };
        if bound.is_finite() { bound } else { 0.0 }
    }

    /// Values of the basic variables.
    pub(super) fn values(&self, out: &mut [f64]) {
        out.copy_from_slice(&self.right);
        for other in 0..self.is_upper.len() {
            let stand = self.stand(other);
            if stand != 0.0 {
                for &(row, value) in self.column(self.head[self.rows + other]) {
                    out[row] -= value * stand;
                }
            }
        }
        self.forward(out);
    }

    /// What a unit more of each other variable costs.
    pub(super) fn reduced_costs(&self, out: &mut [f64]) {
        let mut prices: Vec<f64> =
            self.head[..self.rows].iter().map(|&variable| self.costs[variable]).collect();
        self.backward(&mut prices);
        for (out, &variable) in out.iter_mut().zip(&self.head[self.rows..]) {
            let off = |cost: f64, &(row, value): &(usize, f64)| cost - value * prices[row];
            *out = self.column(variable).iter().fold(self.costs[variable], off);
        }
    }

    /// Changes reduced costs as a swap will; `false` where they have become too wrong for it.
    pub(super) fn follow(
        &self,
        reduced: &mut [f64],
        (position, other): (usize, usize),
        table_row: &[f64],
        product: &[f64],
    ) -> bool {
        let mut exact = self.costs[self.head[self.rows + other]];
        for (row, entry) in product.iter().enumerate().rev().filter(|(_, entry)| **entry != 0.0) {
            exact += entry * self.costs[self.head[row]];
        }
        let error = (exact - reduced[other]).abs() / (1.0 + exact.abs());
        let step = exact / product[position];
        for (reduced, entry) in reduced.iter_mut().zip(table_row).filter(|(_, entry)| **entry != 0.0) {
            *reduced -= entry * step;
        }
        reduced[other] = step;
        error <= REDUCED_ERROR
    }

    /// Moves values as a swap will: the basic variable goes to a bound.
    pub(super) fn advance(
        &self,
        values: &mut [f64],
        (position, other): (usize, usize),
        to: f64,
        product: &[f64],
    ) {
        let step = (to - values[position]) / product[position];
        self.step(values, step, product);
        values[position] = self.stand(other) + step;
    }

    /// Moves values as a step of an other variable does.
    pub(super) fn step(&self, values: &mut [f64], step: f64, product: &[f64]) {
        for (value, entry) in values.iter_mut().zip(product).filter(|(_, entry)| **entry != 0.0) {
            *value += entry * step;
        }
    }

    /// Cost of the values.
    pub(super) fn cost(&self, values: &[f64]) -> f64 {
        let basic = values
            .iter()
            .zip(&self.head)
            .fold(self.constant, |sum, (value, &variable)| sum + self.costs[variable] * value);
        (0..self.is_upper.len())
            .fold(basic, |sum, other| sum + self.costs[self.head[self.rows + other]] * self.stand(other))
    }

    /// Tells the model its solution and its basis.
    pub(super) fn tell(self, model: &mut Model, values: &[f64], reduced: &[f64]) {
        for (position, &variable) in self.head.iter().enumerate() {
            let (index, from) = self.origin[variable];
            let is_row = index < self.rows;
            let state = &mut model.variables[index];
            let scale = if is_row { state.scale.recip() } else { state.scale };
            if let Some(other) = position.checked_sub(self.rows) {
                state.place = if self.is_upper[other] { Place::Upper } else { Place::Lower };
                state.place = state.outside();
                state.value = if self.is_upper[other] { state.upper } else { state.lower };
                state.dual = reduced[other] * self.divisor / scale;
            } else {
                state.place = Place::Basic;
                state.value = values[position] * scale + from * scale;
                state.dual = 0.0;
            }
        }
        for variable in model.variables.iter_mut().filter(|variable| variable.place == Place::Fixed) {
            variable.value = variable.lower;
        }
        let head = self.head[..self.rows].iter().map(|&variable| self.origin[variable].0).collect();
        model.basis = self.factors.map(|factors| Basis { head, factors });
        let columns = &model.variables[model.rows..];
        model.objective = model
            .costs
            .iter()
            .zip(columns)
            .fold(model.constant, |sum, (cost, column)| sum + cost * column.value);
    }
}

/// The weights' frame: variables in whose space steps are measured.
#[derive(Debug)]
pub(super) struct Frame {
    pub has: Vec<bool>,
    /// Squared.
    pub weights: Vec<f64>,
    /// Swaps until it is made anew; none where it must be now.
    left: Option<usize>,
}

/// Swaps for which a frame is kept.
const FRAME_LIFE: usize = 1000;
/// A weight that is off by more makes it anew.
const WEIGHT_ERROR: f64 = 1e-3;

impl Frame {
    pub(super) fn new(variables: usize, weights: usize) -> Self {
        Self { has: vec![false; variables], weights: vec![1.0; weights], left: None }
    }

    /// Makes a frame of the given variables, if there is none.
    pub(super) fn set(&mut self, variables: &[usize]) {
        if self.left.is_some() {
            return;
        }
        self.left = Some(FRAME_LIFE);
        self.has.fill(false);
        for &variable in variables {
            self.has[variable] = true;
        }
        self.weights.fill(1.0);
    }

    /// Whether weights have still to be taken to the next basis; where not, the frame is none any more.
    pub(super) fn is_kept(&mut self) -> bool {
        self.left = self.left.filter(|left| *left > 0);
        self.left.is_some()
    }

    /// Notes how far a weight was off.
    pub(super) fn note(&mut self, error: f64) {
        self.left = self.left.filter(|_| error <= WEIGHT_ERROR).map(|left| left - 1);
    }

    pub(super) fn unit(&self, variable: usize) -> f64 {
        f64::from(u8::from(self.has[variable]))
    }
}

/// A sparse column times a vector.
pub(super) fn dot(column: &[(usize, f64)], vector: &[f64]) -> f64 {
    column.iter().map(|&(row, value)| value * vector[row]).sum()
}

fn drop_tiny(vector: &mut [f64]) {
    for value in vector.iter_mut().filter(|value| value.abs() < NOTHING) {
        *value = 0.0;
    }
}
