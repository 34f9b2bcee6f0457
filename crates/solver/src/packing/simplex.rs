//! A simplex method for programs with few rows and many short columns: maximise the first column's variable.
//!
//! `columns × x ≤ rhs`, `x ≥ 0`. The inverse of the basis is kept as it is, without a factorisation: there are a few hundred rows
//! at most. Columns are never stored: they are asked for. Rows can be added to a solved program (cuts), which the dual method
//! then repairs.

/// The columns of a program.
pub(super) trait Columns {
    /// How many there are.
    fn count(&self) -> usize;
    /// A column times prices of the rows.
    fn dot(&self, column: usize, prices: &[f64]) -> f64;
    /// What a column has in each row, without zeros.
    fn entries(&self, column: usize, into: &mut Vec<(usize, f64)>);
}

/// Why there is no solution.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stop {
    /// The work limit was reached.
    Limit,
    /// Rounding has spoilt the basis, or the program contradicts itself or has no bound.
    Broken,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Variable {
    Column(usize),
    Slack(usize),
}

/// Entries below this are taken for zero when one is divided by, relative to the largest.
const PIVOT: f64 = 1e-9;
/// How far below zero a value counts as negative.
const FEASIBLE: f64 = 1e-10;
/// Pivots after which the inverse is made again.
const REFRESH: usize = 100;
/// Columns that are checked again before all are.
const PROMISING: usize = 40;

pub(super) struct Simplex {
    rhs: Vec<f64>,
    /// Row by row; row `i` is of the `i`-th basic variable.
    inverse: Vec<Vec<f64>>,
    basic: Vec<Variable>,
    values: Vec<f64>,
    column_is_basic: Vec<bool>,
    slack_is_basic: Vec<bool>,
    /// A variable that gains less than this per unit does not enter.
    tolerance: f64,
    limit: usize,
    pivots: usize,
    stale: usize,
    promising: Vec<usize>,
    entries: Vec<(usize, f64)>,
    direction: Vec<f64>,
}

impl Simplex {
    /// Starts with nothing used; the right-hand sides must not be negative. `pivots` have been made before.
    pub(super) fn new(
        columns: &impl Columns,
        rhs: Vec<f64>,
        tolerance: f64,
        limit: usize,
        pivots: usize,
    ) -> Self {
        let rows = rhs.len();
        let unit = |row: usize| (0..rows).map(|col| if col == row { 1.0 } else { 0.0 }).collect();
        Self {
            inverse: (0..rows).map(unit).collect(),
            basic: (0..rows).map(Variable::Slack).collect(),
            values: rhs.clone(),
            rhs,
            column_is_basic: vec![false; columns.count()],
            slack_is_basic: vec![true; rows],
            tolerance,
            limit,
            pivots,
            stale: 0,
            promising: Vec::new(),
            entries: Vec::new(),
            direction: Vec::new(),
        }
    }

    pub(super) const fn pivots(&self) -> usize {
        self.pivots
    }

    /// The prices of the rows; zeros before the first solution.
    pub(super) fn prices(&self) -> Vec<f64> {
        match self.position_of(Variable::Column(0)) {
            Some(position) => self.inverse[position].clone(),
            None => vec![0.0; self.rhs.len()],
        }
    }

    /// Columns with a value.
    pub(super) fn solution(&self) -> impl Iterator<Item = (usize, f64)> {
        self.basic.iter().zip(&self.values).filter_map(|(variable, &value)| match *variable {
            Variable::Column(column) => Some((column, value.max(0.0))),
            Variable::Slack(_) => None,
        })
    }

    /// The value of the first column.
    pub(super) fn objective(&self) -> f64 {
        self.position_of(Variable::Column(0)).map_or(0.0, |position| self.values[position])
    }

    fn position_of(&self, variable: Variable) -> Option<usize> {
        self.basic.iter().position(|&basic| basic == variable)
    }

    /// Puts a column in place of a row's slack, which must be zero.
    pub(super) fn crash(&mut self, columns: &impl Columns, column: usize, row: usize) {
        self.towards(columns, Variable::Column(column));
        let position = self.position_of(Variable::Slack(row));
        if let Some(position) = position.filter(|&position| self.direction[position].abs() > PIVOT) {
            self.pivot(position, Variable::Column(column));
        }
    }

    /// From a feasible point to the best.
    pub(super) fn primal(&mut self, columns: &impl Columns) -> Result<(), Stop> {
        while let Some(entering) = self.entering(columns) {
            self.towards(columns, entering);
            let leaving = self.leaving().ok_or(Stop::Broken)?;
            self.step(columns, leaving, entering)?;
        }
        Ok(())
    }

    /// From a point that is too good for some rows to the best; given up when it takes more pivots than is usual.
    pub(super) fn dual(&mut self, columns: &impl Columns) -> Result<(), Stop> {
        let end = self.pivots + self.rhs.len() / 4 + 50;
        while let Some(leaving) = self.most_negative() {
            if self.pivots > end {
                return Err(Stop::Limit);
            }
            let entering = self.repairing(columns, leaving).ok_or(Stop::Broken)?;
            self.towards(columns, entering);
            self.step(columns, leaving, entering)?;
        }
        Ok(())
    }

    fn step(&mut self, columns: &impl Columns, leaving: usize, entering: Variable) -> Result<(), Stop> {
        if self.pivots >= self.limit {
            return Err(Stop::Limit);
        }
        self.pivot(leaving, entering);
        if self.stale >= REFRESH { self.refresh(columns) } else { Ok(()) }
    }

    /// A variable that gains per unit: the best of the slacks and of the columns that gained most when all were looked
    /// at last.
    fn entering(&mut self, columns: &impl Columns) -> Option<Variable> {
        let Some(position) = self.position_of(Variable::Column(0)) else {
            return Some(Variable::Column(0));
        };
        let prices = &self.inverse[position];
        let mut best = (-self.tolerance, None);
        for (row, &price) in prices.iter().enumerate() {
            if price < best.0 && !self.slack_is_basic[row] {
                best = (price, Some(Variable::Slack(row)));
            }
        }
        for &column in &self.promising {
            let cost = columns.dot(column, prices);
            if cost < best.0 && !self.column_is_basic[column] {
                best = (cost, Some(Variable::Column(column)));
            }
        }
        if best.1.is_some() {
            return best.1;
        }
        let all = (1..columns.count()).filter(|&column| !self.column_is_basic[column]);
        let costs = all.map(|column| (columns.dot(column, prices), column));
        let mut gains: Vec<(f64, usize)> = costs.filter(|(cost, _)| *cost < -self.tolerance).collect();
        gains.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        gains.truncate(PROMISING);
        self.promising.clear();
        self.promising.extend(gains.iter().map(|(_, column)| *column));
        self.promising.first().map(|&column| Variable::Column(column))
    }

    /// How the basic variables fall when a variable rises.
    fn towards(&mut self, columns: &impl Columns, variable: Variable) {
        self.entries.clear();
        match variable {
            Variable::Column(column) => columns.entries(column, &mut self.entries),
            Variable::Slack(row) => self.entries.push((row, 1.0)),
        }
        let entries = &self.entries;
        let fall = |row: &Vec<f64>| entries.iter().map(|&(index, entry)| row[index] * entry).sum::<f64>();
        self.direction.clear();
        self.direction.extend(self.inverse.iter().map(fall));
    }

    /// The basic variable that reaches zero first; of nearly equal ones the one that is safest to divide by.
    fn leaving(&self) -> Option<usize> {
        let largest = self.direction.iter().fold(0.0_f64, |largest, fall| largest.max(fall.abs()));
        let falls = self.direction.iter().map(|&fall| if fall > PIVOT * largest { fall } else { 0.0 });
        let room = self.values.iter().map(|value| value.max(0.0));
        let candidates: Vec<(usize, f64, f64)> = falls
            .zip(room)
            .enumerate()
            .filter(|(_, (fall, _))| *fall > 0.0)
            .map(|(i, (f, r))| (i, f, r))
            .collect();
        // A little beyond zero is allowed, so that there is a choice.
        let bound =
            candidates.iter().map(|(_, fall, room)| (room + 1e-10) / fall).fold(f64::INFINITY, f64::min);
        let safe = candidates.iter().filter(|(_, fall, room)| room / fall <= bound);
        safe.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))).map(|candidate| candidate.0)
    }

    fn most_negative(&self) -> Option<usize> {
        let negative = (0..self.values.len()).filter(|&position| self.values[position] < -FEASIBLE);
        negative.min_by(|&a, &b| self.values[a].total_cmp(&self.values[b]))
    }

    /// The variable that lifts a negative one at the least loss per unit; of nearly equal ones the one that is safest to
    /// divide by.
    fn repairing(&self, columns: &impl Columns, leaving: usize) -> Option<Variable> {
        let (row, prices) = (&self.inverse[leaving], self.prices());
        let mut candidates: Vec<(f64, f64, Variable)> = Vec::new();
        for slack in (0..row.len()).filter(|&slack| row[slack] < 0.0 && !self.slack_is_basic[slack]) {
            candidates.push((-row[slack], prices[slack].max(0.0), Variable::Slack(slack)));
        }
        for column in (0..columns.count()).filter(|&column| !self.column_is_basic[column]) {
            let lift = -columns.dot(column, row);
            if lift > 0.0 {
                candidates.push((lift, columns.dot(column, &prices).max(0.0), Variable::Column(column)));
            }
        }
        let largest = candidates.iter().fold(0.0_f64, |largest, candidate| largest.max(candidate.0));
        candidates.retain(|candidate| candidate.0 > PIVOT * largest);
        // A little loss beyond the least is allowed, so that there is a choice.
        let bound = candidates.iter().map(|(lift, cost, _)| (cost + self.tolerance) / lift);
        let bound = bound.fold(f64::INFINITY, f64::min);
        let safe = candidates.iter().filter(|(lift, cost, _)| cost / lift <= bound);
        safe.max_by(|a, b| a.0.total_cmp(&b.0)).map(|candidate| candidate.2)
    }

    /// Exchanges a basic variable for another, towards which `direction` points.
    fn pivot(&mut self, position: usize, entering: Variable) {
        let fall = self.direction[position];
        let length = self.values[position] / fall;
        let mut pivot_row = std::mem::take(&mut self.inverse[position]);
        for entry in &mut pivot_row {
            *entry /= fall;
        }
        for (index, &fall) in self.direction.iter().enumerate() {
            if index != position && fall != 0.0 {
                self.values[index] -= length * fall;
                for (entry, pivot) in self.inverse[index].iter_mut().zip(&pivot_row) {
                    *entry -= fall * pivot;
                }
            }
        }
        self.values[position] = length;
        self.inverse[position] = pivot_row;
        let leaving = std::mem::replace(&mut self.basic[position], entering);
        self.mark(leaving, false);
        self.mark(entering, true);
        self.pivots += 1;
        self.stale += 1;
    }

    fn mark(&mut self, variable: Variable, is_basic: bool) {
        match variable {
            Variable::Column(column) => self.column_is_basic[column] = is_basic,
            Variable::Slack(row) => self.slack_is_basic[row] = is_basic,
        }
    }

    /// Appends a row that `columns` has already; its slack becomes basic.
    pub(super) fn add_row(&mut self, columns: &impl Columns, rhs: f64) {
        let row = self.rhs.len();
        let mut inverse_row = vec![0.0; row];
        let mut value = rhs;
        for position in 0..row {
            let Variable::Column(column) = self.basic[position] else { continue };
            self.entries.clear();
            columns.entries(column, &mut self.entries);
            let in_row = self.entries.iter().find(|(index, _)| *index == row);
            if let Some(&(_, entry)) = in_row {
                value -= entry * self.values[position];
                for (sum, element) in inverse_row.iter_mut().zip(&self.inverse[position]) {
                    *sum -= entry * element;
                }
            }
        }
        for other in &mut self.inverse {
            other.push(0.0);
        }
        inverse_row.push(1.0);
        self.inverse.push(inverse_row);
        self.rhs.push(rhs);
        self.values.push(value);
        self.basic.push(Variable::Slack(row));
        self.slack_is_basic.push(true);
    }

    /// Whether a row does not bind.
    pub(super) fn is_slack(&self, row: usize) -> bool {
        self.slack_is_basic[row]
    }

    /// Takes out a row that does not bind; those after it have lower numbers then.
    pub(super) fn remove_row(&mut self, row: usize) {
        let Some(position) = self.position_of(Variable::Slack(row)) else { return };
        self.inverse.remove(position);
        self.basic.remove(position);
        self.values.remove(position);
        self.rhs.remove(row);
        self.slack_is_basic.remove(row);
        for other in &mut self.inverse {
            other.remove(row);
        }
        for variable in &mut self.basic {
            if let Variable::Slack(other) = variable
                && *other > row
            {
                *other -= 1;
            }
        }
    }

    /// Counts the first column's variable from its present value on, which becomes zero. Its column and the
    /// right-hand sides are new; at the present point they must say the same as the old ones.
    pub(super) fn rebase(&mut self, columns: &impl Columns, rhs: Vec<f64>) -> Result<(), Stop> {
        if let Some(position) = self.position_of(Variable::Column(0)) {
            // A slack with a price can take its place; at this point it is zero.
            let prices = &self.inverse[position];
            let dearest = (0..prices.len()).max_by(|&a, &b| prices[a].total_cmp(&prices[b]));
            let slack = Variable::Slack(dearest.ok_or(Stop::Broken)?);
            self.values[position] = 0.0;
            self.towards(columns, slack);
            self.pivot(position, slack);
        }
        self.rhs = rhs;
        self.refresh(columns)
    }

    /// Makes the inverse and the values again, by elimination.
    fn refresh(&mut self, columns: &impl Columns) -> Result<(), Stop> {
        let rows = self.rhs.len();
        let mut matrix = vec![vec![0.0; 2 * rows]; rows];
        for (position, variable) in self.basic.iter().enumerate() {
            self.entries.clear();
            match *variable {
                Variable::Column(column) => columns.entries(column, &mut self.entries),
                Variable::Slack(row) => self.entries.push((row, 1.0)),
            }
            for &(row, entry) in &self.entries {
                matrix[row][position] = entry;
            }
        }
        for (row, entries) in matrix.iter_mut().enumerate() {
            entries[rows + row] = 1.0;
        }
        eliminate(&mut matrix)?;
        self.inverse = matrix.into_iter().map(|row| row[rows..].to_vec()).collect();
        let dot = |row: &Vec<f64>| row.iter().zip(&self.rhs).map(|(a, b)| a * b).sum();
        self.values = self.inverse.iter().map(dot).collect();
        self.stale = 0;
        Ok(())
    }
}

/// Turns the left square of a matrix into the unit matrix.
fn eliminate(matrix: &mut [Vec<f64>]) -> Result<(), Stop> {
    for col in 0..matrix.len() {
        let candidates = col..matrix.len();
        let pivot = candidates.max_by(|&a, &b| matrix[a][col].abs().total_cmp(&matrix[b][col].abs()));
        let pivot = pivot.filter(|&row| matrix[row][col].abs() > 1e-14).ok_or(Stop::Broken)?;
        matrix.swap(col, pivot);
        let mut pivot_row = std::mem::take(&mut matrix[col]);
        let factor = pivot_row[col];
        for entry in &mut pivot_row[col..] {
            *entry /= factor;
        }
        for row in matrix.iter_mut().filter(|row| !row.is_empty()) {
            let factor = row[col];
            if factor != 0.0 {
                for (entry, pivot) in row[col..].iter_mut().zip(&pivot_row[col..]) {
                    *entry -= factor * pivot;
                }
            }
        }
        matrix[col] = pivot_row;
    }
    Ok(())
}
