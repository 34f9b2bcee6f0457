//! What bounds of rows tell about columns, before a part of the program is solved.

use super::model::{Model, Place};

/// By this much a bound may be broken, and less is no gain.
const SLACK: f64 = 1e-3;
/// Within this a row's bound is never reached.
const MET: f64 = 1e-12;

/// The objective counts as a row with this number behind all others.
struct Tightening<'a> {
    model: &'a Model,
    rows: Vec<(f64, f64)>,
    columns: Vec<(f64, f64)>,
    /// Rows to look at, the next one last.
    list: Vec<usize>,
    is_listed: Vec<bool>,
    looks: Vec<usize>,
    looks_max: usize,
}

/// Tightens columns by rows, each looked at so many times at most; `false` where there is no solution. What costs as much as the best
/// solution so far is none.
pub(super) fn tighten(model: &mut Model, best: Option<f64>, looks_max: usize) -> bool {
    let rows = model.rows;
    let bounds = |variable: usize| (model.variables[variable].lower, model.variables[variable].upper);
    let mut bounds_of_rows: Vec<(f64, f64)> = (0..rows).map(bounds).collect();
    let limit = best.map_or(f64::INFINITY, |best| best - model.constant);
    bounds_of_rows.push((f64::NEG_INFINITY, limit));
    let mut tightening = Tightening {
        model,
        rows: bounds_of_rows,
        columns: (rows..model.variables.len()).map(bounds).collect(),
        list: [rows].into_iter().chain(0..rows).collect(),
        is_listed: vec![true; rows + 1],
        looks: vec![0; rows + 1],
        looks_max,
    };
    if !tightening.run() {
        return false;
    }
    let Tightening { rows: new_rows, columns, .. } = tightening;
    for (variable, (lower, upper)) in model.variables.iter_mut().zip(new_rows).take(rows) {
        if variable.place == Place::Basic && !(lower.is_finite() && upper.is_finite()) {
            variable.bound(lower, upper);
        }
    }
    for (variable, (lower, upper)) in model.variables[rows..].iter_mut().zip(columns) {
        variable.bound(lower, upper);
    }
    true
}

impl Tightening<'_> {
    fn run(&mut self) -> bool {
        while let Some(row) = self.list.pop() {
            self.is_listed[row] = false;
            self.looks[row] += 1;
            if self.says_nothing(row) {
                continue;
            }
            let model = self.model;
            let objective: Vec<(usize, f64)>;
            let entries = if row == model.rows {
                let costs = model.costs.iter().copied().enumerate();
                objective = costs.filter(|&(_, cost)| cost != 0.0).collect();
                &objective
            } else {
                &model.by_row[row]
            };
            let range = self.range(entries);
            if !self.check(row, range) || !self.says_nothing(row) && !self.apply(row, entries, range) {
                return false;
            }
        }
        true
    }

    fn says_nothing(&self, row: usize) -> bool {
        !self.rows[row].0.is_finite() && !self.rows[row].1.is_finite()
    }

    /// Least and largest sum.
    fn range(&self, entries: &[(usize, f64)]) -> (f64, f64) {
        entries.iter().fold((0.0, 0.0), |(least, most), &(column, value)| {
            let (lower, upper) = self.columns[column];
            if value > 0.0 {
                (least + value * lower, most + value * upper)
            } else {
                (least + value * upper, most + value * lower)
            }
        })
    }

    /// Forgets bounds that are never reached; `false` where one cannot be met.
    fn check(&mut self, row: usize, (least, most): (f64, f64)) -> bool {
        let (lower, upper) = &mut self.rows[row];
        let slack = |bound: f64, part: f64| part * (1.0 + bound.abs());
        if lower.is_finite() && most < *lower - slack(*lower, SLACK)
            || upper.is_finite() && least > *upper + slack(*upper, SLACK)
        {
            return false;
        }
        if lower.is_finite() && least > *lower - slack(*lower, MET) {
            *lower = f64::NEG_INFINITY;
        }
        if upper.is_finite() && most < *upper + slack(*upper, MET) {
            *upper = f64::INFINITY;
        }
        true
    }

    /// Tightens the columns of a row.
    fn apply(&mut self, row: usize, entries: &[(usize, f64)], range: (f64, f64)) -> bool {
        let bounds = self.rows[row];
        let before: Vec<(f64, f64)> = entries.iter().map(|&(column, _)| self.columns[column]).collect();
        for (&(column, value), before) in entries.iter().zip(before) {
            let Some(after) = tightened(before, value, bounds, range) else { return false };
            let is_better = self.columns[column].0 < after.0 || self.columns[column].1 > after.1;
            self.columns[column] = after;
            if is_better {
                self.list_rows_of(column);
            }
        }
        true
    }

    fn list_rows_of(&mut self, column: usize) {
        for &(row, _) in &self.model.by_column[column] {
            if self.looks[row] < self.looks_max && !self.says_nothing(row) && !self.is_listed[row] {
                self.is_listed[row] = true;
                self.list.push(row);
            }
        }
    }
}

/// A column's bounds after a row's; `None` where there are none left.
fn tightened(
    (lower, upper): (f64, f64),
    value: f64,
    row: (f64, f64),
    (least, most): (f64, f64),
) -> Option<(f64, f64)> {
    let (mut new_lower, mut new_upper) = (f64::NEG_INFINITY, f64::INFINITY);
    if value.abs() >= 1e-6 {
        let (down, up) = if value > 0.0 { (lower, upper) } else { (upper, lower) };
        let above = (row.0 - (most - value * up)) / value;
        let below = (row.1 - (least - value * down)) / value;
        (new_lower, new_upper) = if value > 0.0 { (above, below) } else { (below, above) };
    }
    if new_lower.is_finite() {
        new_lower = if new_lower - new_lower.floor() < SLACK { new_lower.floor() } else { new_lower.ceil() };
    }
    if new_upper.is_finite() {
        new_upper = if new_upper.ceil() - new_upper < SLACK { new_upper.ceil() } else { new_upper.floor() };
    }
    let slack = |bound: f64| SLACK * (1.0 + bound.abs());
    if new_upper < lower - slack(lower) || new_lower > upper + slack(upper) {
        return None;
    }
    let is_better = (
        new_lower.is_finite() && lower < new_lower - slack(new_lower),
        new_upper.is_finite() && upper > new_upper + slack(new_upper),
    );
    Some((if is_better.0 { new_lower } else { lower }, if is_better.1 { new_upper } else { upper }))
}
