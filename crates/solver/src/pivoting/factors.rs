//! Factors of a basis, and how they follow when one of its columns is replaced.
//!
//! The basis is F·H·V. F comes of eliminating, V is what that leaves and is triangular in its order of rows and columns, and H has one
//! line for each replaced column (after Forrest and Tomlin). Rounding decides pivots, so that sums are made in the published order.

use super::eliminate::Elimination;

/// Smaller numbers count as nothing.
pub(super) const NOTHING: f64 = f64::EPSILON;
/// A replaced column with a smaller pivot asks for new factors.
const PIVOT_MIN: f64 = 1e-5;
/// So does a pivot that is off by more than this.
const PIVOT_ERROR: f64 = 1e-10;
/// Lines of H at most.
const LINES_MAX: usize = 100;

/// Index and value.
pub(super) type Entries = Vec<(usize, f64)>;

/// An order of rows or columns, and its inverse.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// By place.
    pub at: Vec<usize>,
    /// By row or column.
    pub place: Vec<usize>,
}

impl Order {
    pub(super) fn new(count: usize) -> Self {
        Self { at: (0..count).collect(), place: (0..count).collect() }
    }

    pub(super) fn swap(&mut self, one: usize, other: usize) {
        self.at.swap(one, other);
        self.place[self.at[one]] = one;
        self.place[self.at[other]] = other;
    }

    /// Moves what is at a place back to a later one.
    fn delay(&mut self, from: usize, to: usize) {
        self.at[from..=to].rotate_left(1);
        for place in from..=to {
            self.place[self.at[place]] = place;
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Factors {
    /// F by column and by row, without its ones.
    pub f_columns: Vec<Entries>,
    pub f_rows: Vec<Entries>,
    /// V by row and by column, without its pivots.
    pub v_rows: Vec<Entries>,
    pub v_columns: Vec<Entries>,
    /// Pivots of V by row.
    pub pivots: Vec<f64>,
    pub rows: Order,
    pub columns: Order,
    /// Rows in the order that F was made in.
    first_rows: Vec<usize>,
    /// H: row, and what is taken off it.
    lines: Vec<(usize, Entries)>,
    replaced: usize,
}

impl Factors {
    /// Of a basis by column; `None` where it has no inverse.
    pub(super) fn new(columns: Vec<Entries>) -> Option<Self> {
        let Elimination { f_columns, v_rows, pivots, rows, columns, .. } = Elimination::run(columns)?;
        Some(Self {
            f_rows: transposed(&f_columns),
            f_columns,
            v_columns: transposed(&v_rows),
            v_rows,
            pivots,
            first_rows: rows.at.clone(),
            rows,
            columns,
            lines: Vec::new(),
            replaced: 0,
        })
    }

    /// Columns that were replaced since the factors were made.
    pub(super) fn replaced(&self) -> usize {
        self.replaced
    }

    /// The inverse times a vector.
    pub(super) fn forward(&self, vector: &mut [f64]) {
        self.forward_to_v(vector);
        let mut out = vec![0.0; vector.len()];
        for (&row, &column) in self.rows.at.iter().zip(&self.columns.at).rev() {
            if vector[row] != 0.0 {
                let value = vector[row] / self.pivots[row];
                out[column] = value;
                take_off(vector, &self.v_columns[column], value);
            }
        }
        vector.copy_from_slice(&out);
    }

    fn forward_to_v(&self, vector: &mut [f64]) {
        for &row in &self.first_rows {
            let value = vector[row];
            if value != 0.0 {
                take_off(vector, &self.f_columns[row], value);
            }
        }
        for (row, line) in &self.lines {
            vector[*row] = line.iter().fold(vector[*row], |sum, &(index, value)| sum - value * vector[index]);
        }
    }

    /// A vector times the inverse.
    pub(super) fn backward(&self, vector: &mut [f64]) {
        let mut out = vec![0.0; vector.len()];
        for (&row, &column) in self.rows.at.iter().zip(&self.columns.at) {
            if vector[column] != 0.0 {
                let value = vector[column] / self.pivots[row];
                out[row] = value;
                take_off(vector, &self.v_rows[row], value);
            }
        }
        for (row, line) in self.lines.iter().rev() {
            let value = out[*row];
            if value != 0.0 {
                take_off(&mut out, line, value);
            }
        }
        for &row in self.first_rows.iter().rev() {
            let value = out[row];
            if value != 0.0 {
                take_off(&mut out, &self.f_rows[row], value);
            }
        }
        vector.copy_from_slice(&out);
    }

    /// Replaces a column of the basis; `false` where the factors are of no more use.
    pub(super) fn replace(&mut self, column: usize, entries: &[(usize, f64)]) -> bool {
        let from = self.columns.place[column];
        let row = self.rows.at[from];
        let pivot = self.replace_in_v(column, row, entries);
        let below = self.v_columns[column].iter().map(|&(index, _)| self.rows.place[index]).max();
        let own = (pivot != 0.0).then_some(from);
        let Some(to) = below.max(own).filter(|to| *to >= from) else { return false };
        self.pivots[row] = pivot;
        self.replaced += 1;
        if to == from {
            return pivot.abs() >= PIVOT_MIN;
        }
        self.rows.delay(from, to);
        self.columns.delay(from, to);
        if self.v_rows[row].iter().all(|&(index, _)| self.columns.place[index] >= to) {
            return pivot.abs() >= PIVOT_MIN;
        }
        self.straighten(row, column, pivot, from..to)
    }

    /// Puts a column into V and returns its entry in one row, which is left out.
    fn replace_in_v(&mut self, column: usize, row: usize, entries: &[(usize, f64)]) -> f64 {
        let mut spike = vec![0.0; self.pivots.len()];
        for &(index, value) in entries {
            spike[index] = value;
        }
        self.forward_to_v(&mut spike);
        for (index, _) in std::mem::take(&mut self.v_columns[column]) {
            remove(&mut self.v_rows[index], column);
        }
        let kept = |value: f64| if value.abs() < NOTHING { 0.0 } else { value };
        for (index, value) in spike.iter().map(|value| kept(*value)).enumerate() {
            if value != 0.0 && index != row {
                self.v_columns[column].push((index, value));
                self.v_rows[index].push((column, value));
            }
        }
        kept(spike[row])
    }

    /// Eliminates the entries of a row of V that the new order has put below the diagonal.
    fn straighten(&mut self, row: usize, column: usize, pivot: f64, places: std::ops::Range<usize>) -> bool {
        let mut work = vec![0.0; self.pivots.len()];
        work[column] = pivot;
        for (index, value) in std::mem::take(&mut self.v_rows[row]) {
            work[index] = value;
            remove(&mut self.v_columns[index], row);
        }
        let mut line = Entries::new();
        let last = places.end;
        for place in places {
            let (other, value) = (self.rows.at[place], work[self.columns.at[place]]);
            if value.abs() >= NOTHING {
                let part = value / self.pivots[other];
                line.push((other, part));
                take_off(&mut work, &self.v_rows[other], part);
            }
        }
        if work[column].abs() < PIVOT_MIN || !line.is_empty() && self.lines.len() == LINES_MAX {
            return false;
        }
        for &index in &self.columns.at[last + 1..] {
            if work[index].abs() >= NOTHING {
                self.v_columns[index].push((row, work[index]));
                self.v_rows[row].push((index, work[index]));
            }
        }
        self.pivots[row] = work[column];
        if line.is_empty() {
            return true;
        }
        let pivot_now = work[column];
        work.fill(0.0);
        for &(index, part) in &line {
            work[index] = part;
        }
        let again =
            self.v_columns[column].iter().fold(pivot_now, |sum, &(index, value)| sum + work[index] * value);
        self.lines.push((row, line));
        (pivot - again).abs() / (1.0 + pivot.abs()) <= PIVOT_ERROR
    }
}

fn take_off(vector: &mut [f64], entries: &[(usize, f64)], times: f64) {
    for &(index, value) in entries {
        vector[index] -= value * times;
    }
}

fn remove(entries: &mut Entries, index: usize) {
    if let Some(at) = entries.iter().position(|&(known, _)| known == index) {
        entries.swap_remove(at);
    }
}

/// By the other index; the last comes first.
pub(super) fn transposed(lists: &[Entries]) -> Vec<Entries> {
    let mut out = vec![Entries::new(); lists.len()];
    for (index, entries) in lists.iter().enumerate().rev() {
        for &(other, value) in entries {
            out[other].push((index, value));
        }
    }
    out
}
