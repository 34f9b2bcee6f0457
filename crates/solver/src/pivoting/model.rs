//! A program after its reduction: variables with bounds and places, scaling, the first basis.

use super::factors::{Entries, Factors};
use super::linear::dot;

/// Rounds of scaling at most.
const SCALINGS_MAX: usize = 15;
/// Another round must bring the ratio of the largest to the least entry down to this part of it.
const SCALING_GAIN: f64 = 0.9;

/// Where a variable stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Basic,
    Lower,
    Upper,
    Free,
    Fixed,
}

/// A row's sum or a column.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub lower: f64,
    pub upper: f64,
    /// What a row is multiplied with, or a column.
    pub scale: f64,
    pub place: Place,
    /// In the last solution.
    pub value: f64,
    /// Reduced cost in the last solution.
    pub dual: f64,
}

impl Variable {
    pub(super) fn new(lower: f64, upper: f64) -> Self {
        let mut new = Self { lower: 0.0, upper: 0.0, scale: 1.0, place: Place::Free, value: 0.0, dual: 0.0 };
        new.bound(lower, upper);
        new
    }

    /// Sets the bounds; a variable outside the basis moves to a place that it then has.
    pub(super) fn bound(&mut self, lower: f64, upper: f64) {
        (self.lower, self.upper) = (lower, upper);
        if self.place != Place::Basic {
            self.place = self.outside();
        }
    }

    /// The place outside the basis; a variable with two bounds keeps the one that it is at.
    pub(super) fn outside(&self) -> Place {
        match (self.lower.is_finite(), self.upper.is_finite()) {
            (false, false) => Place::Free,
            (true, false) => Place::Lower,
            (false, true) => Place::Upper,
            (true, true) if self.lower == self.upper => Place::Fixed,
            (true, true) if matches!(self.place, Place::Lower | Place::Upper) => self.place,
            (true, true) if self.lower.abs() <= self.upper.abs() => Place::Lower,
            (true, true) => Place::Upper,
        }
    }
}

/// Basic variables in the order of the basis' columns, and its factors.
#[derive(Clone, Debug)]
pub(super) struct Basis {
    pub head: Vec<usize>,
    pub factors: Factors,
}

/// Rows come first, then columns. All columns are whole numbers.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub variables: Vec<Variable>,
    /// Number of rows.
    pub rows: usize,
    /// By column.
    pub costs: Vec<f64>,
    pub constant: f64,
    /// Of each row: column and value, the last column first.
    pub by_row: Vec<Vec<(usize, f64)>>,
    /// Of each column: row and value, the last row first.
    pub by_column: Vec<Vec<(usize, f64)>>,
    /// While it is known.
    pub basis: Option<Basis>,
    /// Of the last solution.
    pub objective: f64,
}

impl Model {
    pub(super) fn columns(&self) -> usize {
        self.costs.len()
    }

    /// Scales rows and columns by powers of two so that entries are near one.
    pub(super) fn scale(&mut self) {
        let (least, most) = self.extremes();
        if least >= 0.1 && most <= 10.0 {
            return;
        }
        let rows_first = !self.is_worse_by_row();
        let mut ratio = 0.0;
        for round in 0..SCALINGS_MAX {
            let before = ratio;
            let (least, most) = self.extremes();
            ratio = most / least;
            if round > 0 && ratio > SCALING_GAIN * before {
                break;
            }
            self.scale_by(rows_first, |least, most| (least * most).sqrt());
        }
        let rows_first = !self.is_worse_by_row();
        self.scale_by(rows_first, |_, most| most);
        for variable in &mut self.variables {
            variable.scale = power_of_two(variable.scale);
        }
    }

    /// Divides each row's factor, then each column's (or the other way round), by what its least and largest entry tell.
    fn scale_by(&mut self, rows_first: bool, divisor: fn(f64, f64) -> f64) {
        for is_rows in [rows_first, !rows_first] {
            let lines = if is_rows { 0..self.rows } else { self.rows..self.variables.len() };
            for line in lines {
                let (least, most) = self.extremes_of(line);
                self.variables[line].scale /= divisor(least, most);
            }
        }
    }

    /// Least and largest scaled entry of a row or a column.
    fn extremes_of(&self, line: usize) -> (f64, f64) {
        let of = |(least, most): (f64, f64), entry: f64| (least.min(entry), most.max(entry));
        let own = self.variables[line].scale;
        let (entries, others) = if line < self.rows {
            (&self.by_row[line], self.rows)
        } else {
            (&self.by_column[line - self.rows], 0)
        };
        let scaled =
            entries.iter().map(|&(other, value)| value.abs() * (own * self.variables[others + other].scale));
        let (least, most) = scaled.fold((f64::INFINITY, 0.0), of);
        if most > 0.0 { (least, most) } else { (1.0, 1.0) }
    }

    fn extremes(&self) -> (f64, f64) {
        (0..self.rows).map(|row| self.extremes_of(row)).fold((f64::INFINITY, 0.0), |(least, most), other| {
            (f64::min(least, other.0), f64::max(most, other.1))
        })
    }

    /// Whether entries differ more within some row than within any column.
    fn is_worse_by_row(&self) -> bool {
        let ratio = |line: usize| {
            let (least, most) = self.extremes_of(line);
            most / least
        };
        let rows = (0..self.rows).map(ratio).fold(0.0, f64::max);
        rows > (self.rows..self.variables.len()).map(ratio).fold(0.0, f64::max)
    }

    /// Of each row that must have one value the last column is basic, of each other the row itself. A column is in one such
    /// row at most.
    pub(super) fn start(&mut self) {
        for variable in &mut self.variables {
            variable.place = variable.outside();
        }
        for row in 0..self.rows {
            let column = self.by_row[row].iter().map(|&(column, _)| column).max();
            let is_fixed = self.variables[row].place == Place::Fixed;
            let basic = column.filter(|_| is_fixed).map_or(row, |column| self.rows + column);
            self.variables[basic].place = Place::Basic;
        }
        self.basis = None;
    }

    /// A variable's scaled column in the basis: row and value.
    pub(super) fn scaled(&self, variable: usize) -> impl Iterator<Item = (usize, f64)> {
        let own = variable < self.rows;
        let entries = if own { &[][..] } else { &self.by_column[variable - self.rows] };
        let scale = self.variables[variable].scale;
        let scaled = move |&(row, value): &(usize, f64)| (row, -self.variables[row].scale * value * scale);
        own.then_some((variable, 1.0)).into_iter().chain(entries.iter().map(scaled))
    }

    /// The basis; where it is not known any more, basic variables in order. `None` where they are none.
    pub(super) fn take_basis(&mut self) -> Option<Basis> {
        if let Some(basis) = self.basis.take() {
            return Some(basis);
        }
        let basic = |variable: &usize| self.variables[*variable].place == Place::Basic;
        let head: Vec<usize> = (0..self.variables.len()).filter(basic).collect();
        if head.len() != self.rows {
            return None;
        }
        let columns = head.iter().map(|&variable| self.scaled(variable).collect()).collect();
        Some(Basis { head, factors: Factors::new(columns)? })
    }

    /// How a basic variable follows all others, in their order.
    pub(super) fn follows(&self, variable: usize) -> Entries {
        let Some(Basis { head, factors }) = &self.basis else { return Entries::new() };
        let mut row: Vec<f64> =
            head.iter().map(|&known| f64::from(u8::from(known == variable)) * self.unit(known)).collect();
        factors.backward(&mut row);
        for (value, variable) in row.iter_mut().zip(&self.variables) {
            *value *= variable.scale;
        }
        let others = self.variables.iter().enumerate().filter(|(_, state)| state.place != Place::Basic);
        let entry = |other: usize| match other.checked_sub(self.rows) {
            None => -row[other],
            Some(column) => dot(&self.by_column[column], &row),
        };
        others.map(|(other, _)| (other, entry(other))).filter(|(_, entry)| *entry != 0.0).collect()
    }

    /// One of a variable's scaled units.
    fn unit(&self, variable: usize) -> f64 {
        let scale = self.variables[variable].scale;
        if variable < self.rows { scale.recip() } else { scale }
    }
}

/// The power of two next to a number, by its mantissa.
fn power_of_two(value: f64) -> f64 {
    let exponent = value.log2().floor();
    let below = exponent.exp2();
    if value / below <= 1.5 { below } else { below * 2.0 }
}
