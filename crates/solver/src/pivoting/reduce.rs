//! What a program is reduced to before it is solved: rows that say nothing go, columns that can have one value only are fixed, and
//! coefficients of the remaining inequalities are tightened.

use super::Program;
use super::model::{Model, Variable};

/// By this much a row may be broken.
const BROKEN: f64 = 1e-3;
/// Within this a value is a whole number.
const WHOLE: f64 = 1e-5;

struct Row {
    /// Column and value, the last column first.
    entries: Vec<(usize, f64)>,
    lower: f64,
    upper: f64,
    is_gone: bool,
    /// Whether it is still to be looked at.
    is_due: bool,
}

/// A program in the course of its reduction.
pub(super) struct Reduction<'a> {
    program: &'a Program,
    rows: Vec<Row>,
    /// Rows that are left; those that are due come first.
    order: Vec<usize>,
    /// Rows of each column.
    within: Vec<Vec<usize>>,
    /// Rows that were written anew, in the order of that.
    rewritten: Vec<usize>,
    /// What each column is fixed to.
    pub fixed: Vec<Option<bool>>,
    constant: f64,
}

/// There is no solution.
pub(super) struct Impossible;

impl<'a> Reduction<'a> {
    pub(super) fn new(program: &'a Program) -> Self {
        let mut within = vec![Vec::new(); program.costs.len()];
        let mut rows = Vec::new();
        for (index, constraint) in program.constraints.iter().enumerate() {
            let mut entries = constraint.entries.clone();
            entries.sort_unstable_by_key(|&(column, _)| std::cmp::Reverse(column));
            for &(column, _) in &entries {
                within[column].push(index);
            }
            let (lower, upper) = (constraint.lower, constraint.upper);
            rows.push(Row { entries, lower, upper, is_gone: false, is_due: true });
        }
        let order = (0..rows.len()).collect();
        let fixed = vec![None; program.costs.len()];
        Self { program, rows, order, within, rewritten: Vec::new(), fixed, constant: 0.0 }
    }

    pub(super) fn run(&mut self) -> Result<(), Impossible> {
        while let Some(&row) = self.order.first().filter(|row| self.rows[**row].is_due) {
            self.rows[row].is_due = false;
            self.order.remove(0);
            self.order.push(row);
            self.look_at(row)?;
        }
        for column in 0..self.fixed.len() {
            if self.fixed[column].is_none() && self.within[column].iter().all(|&row| self.rows[row].is_gone) {
                self.fix(column, self.program.costs[column] < 0.0);
            }
        }
        for row in self.order.clone().into_iter().rev() {
            self.pack(row);
        }
        for row in self.order.clone().into_iter().rev() {
            self.cover(row);
        }
        for row in self.order.clone().into_iter().rev() {
            self.tighten(row);
        }
        Ok(())
    }

    /// What is left, with its columns.
    pub(super) fn model(&self) -> (Model, Vec<usize>) {
        let columns: Vec<usize> =
            (0..self.fixed.len()).filter(|&column| self.fixed[column].is_none()).collect();
        let mut place = vec![0; self.fixed.len()];
        for (index, &column) in columns.iter().enumerate() {
            place[column] = index;
        }
        let rows = self.order.iter().map(|&row| &self.rows[row]);
        let by_row: Vec<Vec<(usize, f64)>> = rows
            .clone()
            .map(|row| row.entries.iter().map(|&(column, value)| (place[column], value)).collect())
            .collect();
        let mut by_column = vec![Vec::new(); columns.len()];
        for row in self.order_in_columns() {
            for &(column, value) in &by_row[row] {
                by_column[column].push((row, value));
            }
        }
        let mut variables: Vec<Variable> = rows.map(|row| Variable::new(row.lower, row.upper)).collect();
        variables.extend(columns.iter().map(|_| Variable::new(0.0, 1.0)));
        let model = Model {
            rows: by_row.len(),
            variables,
            costs: columns.iter().map(|&column| self.program.costs[column]).collect(),
            constant: self.constant,
            by_row,
            by_column,
            basis: None,
            objective: 0.0,
        };
        (model, columns)
    }

    /// Rows of the model in the order that they have in its columns: as they were given, the last first, then those written anew.
    fn order_in_columns(&self) -> Vec<usize> {
        let last = |row: usize| self.rewritten.iter().rposition(|known| *known == row);
        let mut rows: Vec<usize> = (0..self.order.len()).collect();
        rows.sort_by_key(|&index| (last(self.order[index]), std::cmp::Reverse(self.order[index])));
        rows
    }

    fn look_at(&mut self, row: usize) -> Result<(), Impossible> {
        let (least, most) = self.range(row);
        let Row { lower, upper, .. } = self.rows[row];
        let broken = |bound: f64| BROKEN + 1e-6 * bound.abs();
        let met = |bound: f64| 1e-9 + 1e-12 * bound.abs();
        if lower - broken(lower) > most || upper + broken(upper) < least {
            return Err(Impossible);
        }
        if self.rows[row].entries.len() == 1 {
            return self.look_at_single(row);
        }
        let (needs_lower, needs_upper) = (lower - met(lower) > least, upper + met(upper) < most);
        if needs_lower && lower + met(lower) > most {
            self.force(row, |value| value > 0.0);
            return Ok(());
        }
        if needs_upper && upper - met(upper) < least {
            self.force(row, |value| value < 0.0);
            return Ok(());
        }
        let state = &mut self.rows[row];
        if !needs_lower {
            state.lower = f64::NEG_INFINITY;
        }
        if !needs_upper {
            state.upper = f64::INFINITY;
        }
        if needs_lower || needs_upper {
            return self.imply(row);
        }
        self.drop_row(row);
        Ok(())
    }

    /// Least and largest sum of a row.
    fn range(&self, row: usize) -> (f64, f64) {
        let values = self.rows[row].entries.iter().map(|&(_, value)| value);
        values.fold((0.0, 0.0), |(least, most), value| (least + value.min(0.0), most + value.max(0.0)))
    }

    /// A row with one column bounds it.
    fn look_at_single(&mut self, row: usize) -> Result<(), Impossible> {
        let (column, value) = self.rows[row].entries[0];
        let Row { lower, upper, .. } = self.rows[row];
        let (lower, upper) =
            if value > 0.0 { (lower / value, upper / value) } else { (upper / value, lower / value) };
        let fixed = implied(lower, upper)?;
        self.drop_row(row);
        if let Some(is_one) = fixed {
            self.fix_and_tell(column, is_one, row);
        }
        Ok(())
    }

    /// Fixes all columns of a row that can be met in one way only.
    fn force(&mut self, row: usize, is_one: impl Fn(f64) -> bool) {
        let entries = self.rows[row].entries.clone();
        self.drop_row(row);
        for (column, value) in entries {
            self.fix_and_tell(column, is_one(value), row);
        }
    }

    /// Fixes columns that a row leaves no choice.
    fn imply(&mut self, row: usize) -> Result<(), Impossible> {
        let (least, most) = self.range(row);
        let Row { lower, upper, .. } = self.rows[row];
        for (column, value) in self.rows[row].entries.clone() {
            let (short, spare) = ((lower - most) / value, (upper - least) / value);
            let (at_least, at_most) = if value > 0.0 { (1.0 + short, spare) } else { (1.0 + spare, short) };
            let bound = |value: f64, none: f64| if value.is_finite() { value } else { none };
            let fixed = implied(bound(at_least, f64::NEG_INFINITY), bound(at_most, f64::INFINITY))?;
            if let Some(is_one) = fixed {
                self.fix_and_tell(column, is_one, row);
            }
        }
        Ok(())
    }

    /// Fixes a column; its other rows are due again.
    fn fix_and_tell(&mut self, column: usize, is_one: bool, row: usize) {
        // In the order in which rows were added, so that the last comes first.
        for other in self.within[column].clone() {
            let state = &mut self.rows[other];
            if other != row && !state.is_gone && !state.is_due {
                state.is_due = true;
                self.order.retain(|known| *known != other);
                self.order.insert(0, other);
            }
        }
        self.fix(column, is_one);
    }

    fn fix(&mut self, column: usize, is_one: bool) {
        self.fixed[column] = Some(is_one);
        if is_one {
            self.constant += self.program.costs[column];
        }
        for &row in &self.within[column] {
            let state = &mut self.rows[row];
            if let Some(at) = state.entries.iter().position(|&(known, _)| known == column) {
                let (_, value) = state.entries.remove(at);
                if is_one {
                    state.lower -= value;
                    state.upper -= value;
                }
            }
        }
    }

    fn drop_row(&mut self, row: usize) {
        self.rows[row].is_gone = true;
        self.order.retain(|known| *known != row);
    }

    /// An inequality that any two columns break is written with ones.
    fn pack(&mut self, row: usize) {
        let state = &mut self.rows[row];
        if state.lower == state.upper || state.entries.len() < 2 {
            return;
        }
        if state.upper.is_finite() && !state.lower.is_finite() {
            let mut entries = state.entries.clone();
            if let Some(upper) = packed(&mut entries, state.upper) {
                (state.entries, state.upper) = (entries, upper);
                self.rewritten.push(row);
            }
        }
    }

    /// An inequality that any one column meets is written with ones.
    fn cover(&mut self, row: usize) {
        let state = &mut self.rows[row];
        if state.lower.is_finite() || !state.upper.is_finite() || state.entries.len() < 3 {
            return;
        }
        let mut entries: Vec<(usize, f64)> =
            state.entries.iter().map(|&(column, value)| (column, -value)).collect();
        if let Some(lower) = covered(&mut entries, -state.upper) {
            state.entries = entries;
            (state.lower, state.upper) = (lower, f64::INFINITY);
            self.rewritten.push(row);
        }
    }

    /// Makes coefficients that are larger than they need to be smaller.
    fn tighten(&mut self, row: usize) {
        let state = &mut self.rows[row];
        let (sign, mut lower) = match (state.lower.is_finite(), state.upper.is_finite()) {
            (true, false) => (1.0, state.lower),
            (false, true) => (-1.0, -state.upper),
            _ => return,
        };
        let mut entries: Vec<(usize, f64)> =
            state.entries.iter().map(|&(column, value)| (column, sign * value)).collect();
        if reduced(&mut entries, &mut lower) {
            state.entries = entries;
            (state.lower, state.upper) = (lower, f64::INFINITY);
            self.rewritten.push(row);
        }
    }
}

/// What bounds leave of a column that is 0 or 1.
fn implied(lower: f64, upper: f64) -> Result<Option<bool>, Impossible> {
    let nearest = |value: f64, other: f64| {
        let whole = (value + 0.5).floor();
        if (value - whole).abs() <= WHOLE { whole } else { other }
    };
    let lower = nearest(lower, lower.ceil());
    let upper = nearest(upper, upper.floor());
    if lower >= BROKEN {
        return if lower > 1.0 + WHOLE { Err(Impossible) } else { Ok(Some(true)) };
    }
    if upper <= 1.0 - BROKEN {
        return if upper < -WHOLE { Err(Impossible) } else { Ok(Some(false)) };
    }
    Ok(None)
}

/// Rewrites a sum that is at most `upper` where no two of its columns fit together.
fn packed(entries: &mut [(usize, f64)], upper: f64) -> Option<f64> {
    if is_written_with_signs(entries, upper) {
        return None;
    }
    let negative: f64 = entries.iter().map(|&(_, value)| value.min(0.0)).sum();
    let room = upper - negative;
    let mut sizes: Vec<f64> = entries.iter().map(|(_, value)| value.abs()).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    let slack = BROKEN + 1e-6 * room.abs();
    if sizes.last().is_some_and(|most| *most > room) || sizes[0] + sizes[1] <= room + slack {
        return None;
    }
    Some(signs(entries))
}

/// Rewrites a sum that is at least `lower` where each of its columns is enough.
fn covered(entries: &mut [(usize, f64)], lower: f64) -> Option<f64> {
    let negative: f64 = entries.iter().map(|&(_, value)| value.min(0.0)).sum();
    let need = lower - negative;
    let slack = 1e-9 + 1e-12 * need.abs();
    if need < BROKEN || entries.iter().any(|(_, value)| value.abs() < need - slack) {
        return None;
    }
    Some(signs(entries))
}

/// Whether [`signs`] would leave it as it is.
fn is_written_with_signs(entries: &[(usize, f64)], bound: f64) -> bool {
    let negative = entries.iter().filter(|(_, value)| *value < 0.0).count();
    entries.iter().all(|(_, value)| value.abs() == 1.0) && bound == 1.0 - negative as f64
}

/// Leaves the signs of all coefficients, and returns the bound that says one of the columns, those below zero turned round.
fn signs(entries: &mut [(usize, f64)]) -> f64 {
    let mut bound = 1.0;
    for (_, value) in entries {
        if *value < 0.0 {
            bound -= 1.0;
        }
        *value = value.signum();
    }
    bound
}

/// Reduces coefficients of a sum that is at least `lower`, the first column first; whether there were any.
fn reduced(entries: &mut [(usize, f64)], lower: &mut f64) -> bool {
    let mut least: f64 = entries.iter().map(|&(_, value)| value.min(0.0)).sum();
    let mut is_changed = false;
    for (_, value) in entries.iter_mut().rev() {
        if *value > 0.0 {
            let new = *lower - least;
            if new < *value && new >= BROKEN && *value - new >= 0.01 * (1.0 + *value) {
                *value = new;
                is_changed = true;
            }
        } else {
            let without = least - *value;
            let excess = without - *lower;
            let new = *value + excess;
            if excess > 0.0 && new <= -BROKEN && excess >= 0.01 * (1.0 - *value) {
                *value = new;
                least += excess;
                *lower = without;
                is_changed = true;
            }
        }
    }
    is_changed
}
