//! The linear relaxation with a basis and its inverse.

use super::model::{Model, Place};

/// Smaller entries of the inverse's products count as nothing.
pub(super) const NOTHING: f64 = f64::EPSILON;
/// Largest cost after costs were divided.
const COST_MAX: f64 = 1000.0;
/// A column of a basis must differ from the others by so much.
const PIVOT_MIN: f64 = 1e-9;

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

/// `columns` times values is `right`: each row's own variable less its entries. Values count from a bound that is 0.
#[derive(Debug)]
pub(super) struct Linear {
    pub rows: usize,
    /// Where each variable's column begins, and where the last one ends.
    starts: Vec<usize>,
    /// Row and value.
    entries: Vec<(usize, f64)>,
    pub right: Vec<f64>,
    pub costs: Vec<f64>,
    pub lower: Vec<f64>,
    pub upper: Vec<f64>,
    /// What costs were divided by.
    pub divisor: f64,
    /// Cost of what does not vary.
    pub constant: f64,
    /// Variables: the basic ones by row of the inverse, then the others.
    pub head: Vec<usize>,
    /// Whether an other one is at its upper bound.
    pub is_upper: Vec<bool>,
    /// By column, one after the other.
    inverse: Vec<f64>,
    /// The model's variable, and where it counts from.
    origin: Vec<(usize, f64)>,
}

impl Linear {
    /// Variables that are fixed outside the basis are left out. `None` where the basis is none.
    pub(super) fn new(model: &Model) -> Option<Self> {
        let rows = model.rows;
        let mut new = Self {
            rows,
            starts: vec![0],
            entries: Vec::with_capacity(rows + model.by_row.iter().map(Vec::len).sum::<usize>()),
            right: vec![0.0; rows],
            costs: Vec::new(),
            lower: Vec::new(),
            upper: Vec::new(),
            divisor: 1.0,
            constant: model.constant,
            head: Vec::new(),
            is_upper: Vec::new(),
            inverse: Vec::new(),
            origin: Vec::new(),
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
        new.head = model.basis().iter().map(|&variable| own[variable]).collect();
        for (variable, state) in model.variables.iter().enumerate() {
            if !matches!(state.place, Place::Basic | Place::Fixed) {
                new.head.push(own[variable]);
                new.is_upper.push(state.place == Place::Upper);
            }
        }
        new.invert().then_some(new)
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
        self.origin.push((variable, 0.0));
        let Some(column) = variable.checked_sub(self.rows) else {
            self.entries.push((variable, 1.0));
            self.starts.push(self.entries.len());
            self.costs.push(0.0);
            self.lower.push(state.lower * state.scale);
            self.upper.push(state.upper * state.scale);
            return;
        };
        let scaled = |&(row, value): &(usize, f64)| (row, -model.variables[row].scale * value * state.scale);
        self.entries.extend(model.by_column[column].iter().map(scaled));
        self.starts.push(self.entries.len());
        self.costs.push(model.costs[column] * state.scale);
        self.lower.push(state.lower / state.scale);
        self.upper.push(state.upper / state.scale);
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

    /// Builds the inverse: a row's own variable needs nothing, each other basic one takes the row where it differs most.
    fn invert(&mut self) -> bool {
        let rows = self.rows;
        if self.head.len() != self.costs.len() || self.head.len() - self.is_upper.len() != rows {
            return false;
        }
        self.inverse = vec![0.0; rows * rows];
        for row in 0..rows {
            self.inverse[row * rows + row] = 1.0;
        }
        let mut taker = vec![usize::MAX; rows];
        let is_own = |variable: &usize| matches!(self.column(*variable), [(_, value)] if *value == 1.0);
        let own: Vec<bool> = self.head[..rows].iter().map(is_own).collect();
        for (position, _) in own.iter().enumerate().filter(|(_, is_own)| **is_own) {
            taker[self.column(self.head[position])[0].0] = position;
        }
        for (position, _) in own.iter().enumerate().filter(|(_, is_own)| !**is_own) {
            let mut column = vec![0.0; rows];
            self.product(self.head[position], &mut column);
            let free = (0..rows).filter(|row| taker[*row] == usize::MAX);
            let Some(row) = free.max_by(|one, other| column[*one].abs().total_cmp(&column[*other].abs()))
            else {
                return false;
            };
            if column[row].abs() < PIVOT_MIN {
                return false;
            }
            taker[row] = position;
            self.replace(row, &column);
        }
        for column in self.inverse.chunks_mut(rows) {
            let before = column.to_vec();
            for (row, &position) in taker.iter().enumerate() {
                column[position] = before[row];
            }
        }
        true
    }

    /// The inverse times a variable's column, less than nothing.
    pub(super) fn product(&self, variable: usize, out: &mut [f64]) {
        out.fill(0.0);
        for &(row, value) in self.column(variable) {
            let column = &self.inverse[row * self.rows..][..self.rows];
            for (out, entry) in out.iter_mut().zip(column) {
                *out -= value * entry;
            }
        }
        drop_tiny(out);
    }

    /// The inverse times a vector.
    pub(super) fn forward(&self, vector: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        for (row, &value) in vector.iter().enumerate().filter(|(_, value)| **value != 0.0) {
            let column = &self.inverse[row * self.rows..][..self.rows];
            for (out, entry) in out.iter_mut().zip(column) {
                *out += value * entry;
            }
        }
    }

    /// A vector times the inverse.
    pub(super) fn backward(&self, vector: &[f64], out: &mut [f64]) {
        for (out, column) in out.iter_mut().zip(self.inverse.chunks(self.rows)) {
            *out = vector.iter().zip(column).map(|(one, other)| one * other).sum();
        }
    }

    /// A row of the inverse.
    pub(super) fn row(&self, position: usize, out: &mut [f64]) {
        for (out, column) in out.iter_mut().zip(self.inverse.chunks(self.rows)) {
            *out = column[position];
        }
    }

    /// A row of the table: how the basic variable of a position follows the others.
    pub(super) fn table_row(&self, row: &[f64], out: &mut [f64]) {
        for (out, &variable) in out.iter_mut().zip(&self.head[self.rows..]) {
            *out = -dot(self.column(variable), row);
        }
        drop_tiny(out);
    }

    /// Takes the inverse to another basis: a column whose product is given takes a position.
    fn replace(&mut self, position: usize, product: &[f64]) {
        let touched: Vec<usize> =
            (0..self.rows).filter(|&row| row != position && product[row] != 0.0).collect();
        for column in self.inverse.chunks_mut(self.rows) {
            let pivot = column[position];
            if pivot == 0.0 {
                continue;
            }
            let step = pivot / product[position];
            column[position] = -step;
            for &row in &touched {
                column[row] -= product[row] * step;
            }
        }
    }

    /// Swaps the basic variable of a position and an other one.
    pub(super) fn swap(&mut self, position: usize, other: usize, is_upper: bool, product: &[f64]) {
        self.head.swap(position, self.rows + other);
        self.is_upper[other] = is_upper;
        self.replace(position, product);
    }

    /// Where an other variable stands.
    pub(super) fn stand(&self, other: usize) -> f64 {
        let variable = self.head[self.rows + other];
        let bound = if self.is_upper[other] { self.upper[variable] } else { self.lower[variable] };
        if bound.is_finite() { bound } else { 0.0 }
    }

    /// Values of the basic variables.
    pub(super) fn values(&self, out: &mut [f64]) {
        let mut left = self.right.clone();
        for other in 0..self.is_upper.len() {
            let stand = self.stand(other);
            if stand != 0.0 {
                for &(row, value) in self.column(self.head[self.rows + other]) {
                    left[row] -= value * stand;
                }
            }
        }
        self.forward(&left, out);
    }

    /// What a unit more of each other variable costs.
    pub(super) fn reduced_costs(&self, costs: &[f64], out: &mut [f64]) {
        let basic: Vec<f64> = self.head[..self.rows].iter().map(|&variable| costs[variable]).collect();
        let mut prices = vec![0.0; self.rows];
        self.backward(&basic, &mut prices);
        for (out, &variable) in out.iter_mut().zip(&self.head[self.rows..]) {
            let mut cost = costs[variable];
            for &(row, value) in self.column(variable) {
                cost -= value * prices[row];
            }
            *out = cost;
        }
    }

    /// Changes reduced costs as a swap will; `false` where they have become too wrong for it.
    pub(super) fn follow(
        &self,
        costs: &[f64],
        reduced: &mut [f64],
        swap: (usize, usize),
        table_row: &[f64],
        product: &[f64],
    ) -> bool {
        let (position, other) = swap;
        let mut exact = costs[self.head[self.rows + other]];
        for (row, entry) in product.iter().enumerate().filter(|(_, entry)| **entry != 0.0) {
            exact += entry * costs[self.head[row]];
        }
        let error = (exact - reduced[other]).abs() / (1.0 + exact.abs());
        let step = exact / product[position];
        for (reduced, entry) in reduced.iter_mut().zip(table_row).filter(|(_, entry)| **entry != 0.0) {
            *reduced -= entry * step;
        }
        reduced[other] = step;
        error <= 1e-9
    }

    /// Moves values as a swap will: the basic variable goes to a bound.
    pub(super) fn advance(&self, values: &mut [f64], swap: (usize, usize), to: f64, product: &[f64]) {
        let (position, other) = swap;
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

    /// Tells the model its solution.
    pub(super) fn tell(&self, model: &mut Model, values: &[f64], reduced: &[f64]) {
        for (position, &variable) in self.head.iter().enumerate() {
            let (index, from) = self.origin[variable];
            let is_row = index < self.rows;
            let state = &mut model.variables[index];
            let scale = if is_row { state.scale.recip() } else { state.scale };
            if let Some(other) = position.checked_sub(self.rows) {
                state.place = if self.is_upper[other] { Place::Upper } else { Place::Lower };
                state.place = state.outside();
                state.value = (self.stand(other) + from) * scale;
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
        model.head = Some(self.head[..self.rows].iter().map(|&variable| self.origin[variable].0).collect());
        let columns = &model.variables[model.rows..];
        model.objective = model
            .costs
            .iter()
            .zip(columns)
            .fold(model.constant, |sum, (cost, column)| sum + cost * column.value);
    }

    /// How a basic variable of the model follows its others, by the model's own units, in their order.
    pub(super) fn follows(&self, model: &Model, position: usize) -> Vec<(usize, f64)> {
        let (mut row, mut entries) = (vec![0.0; self.rows], vec![0.0; self.is_upper.len()]);
        self.row(position, &mut row);
        self.table_row(&row, &mut entries);
        let unit = |variable: usize| {
            let scale = model.variables[variable].scale;
            if variable < self.rows { scale.recip() } else { scale }
        };
        let own = unit(self.origin[self.head[position]].0);
        let others = self.head[self.rows..].iter().map(|&variable| self.origin[variable].0);
        let entries = others.zip(entries).filter(|(_, entry)| *entry != 0.0);
        let mut found: Vec<(usize, f64)> =
            entries.map(|(index, entry)| (index, entry * own / unit(index))).collect();
        found.sort_unstable_by_key(|&(index, _)| index);
        found
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
