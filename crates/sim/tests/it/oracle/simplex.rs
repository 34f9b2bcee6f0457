//! The textbook simplex method on a dense tableau, for small programs: largest `values · x` with `x ≥ 0` and rows `terms · x ≤ bound`.
//!
//! Pivots follow Bland's rule, which ends on every program.

const ZERO: f64 = 1e-10;

/// One constraint: `Σ coefficient × column ≤ bound`.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) terms: Vec<(usize, f64)>,
    pub(super) bound: f64,
}

/// A program that is maximised.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    pub(super) values: Vec<f64>,
    pub(super) rows: Vec<Row>,
}

impl Program {
    pub(super) fn column(&mut self, value: f64) -> usize {
        self.values.push(value);
        self.values.len() - 1
    }

    pub(super) fn at_most(&mut self, terms: Vec<(usize, f64)>, bound: f64) {
        self.rows.push(Row { terms, bound });
    }

    pub(super) fn at_least(&mut self, terms: &[(usize, f64)], bound: f64) {
        self.at_most(terms.iter().map(|&(column, value)| (column, -value)).collect(), -bound);
    }

    /// The best `x`; `None` where no `x` keeps all rows.
    pub(super) fn solve(&self) -> Option<Vec<f64>> {
        let columns = self.values.len();
        let mut table = Table::new(self);
        if table.rows.iter().any(|row| row[table.width - 1] < 0.0) && !table.make_feasible(columns) {
            return None;
        }
        let mut goal = vec![0.0; table.width];
        goal[..columns].copy_from_slice(&self.values);
        table.maximise(&goal);
        let mut found = vec![0.0; columns];
        for (row, &column) in table.rows.iter().zip(&table.basis) {
            if column < columns {
                found[column] = row[table.width - 1];
            }
        }
        Some(found)
    }

    /// The value of some `x`.
    pub(super) fn value(&self, x: &[f64]) -> f64 {
        self.values.iter().zip(x).map(|(value, x)| value * x).sum()
    }
}

/// Columns are those of the program, one slack for each row, one artificial, and the bound.
struct Table {
    rows: Vec<Vec<f64>>,
    /// The column that each row stands for.
    basis: Vec<usize>,
    width: usize,
}

impl Table {
    fn new(program: &Program) -> Self {
        let (columns, count) = (program.values.len(), program.rows.len());
        let width = columns + count + 2;
        let row = |(index, row): (usize, &Row)| {
            let mut cells = vec![0.0; width];
            for &(column, value) in &row.terms {
                cells[column] += value;
            }
            let largest = cells.iter().fold(0.0_f64, |largest, cell| largest.max(cell.abs()));
            let scale = if largest > 0.0 { 1.0 / largest } else { 1.0 };
            cells.iter_mut().for_each(|cell| *cell *= scale);
            cells[columns + index] = 1.0;
            cells[width - 1] = row.bound * scale;
            cells
        };
        let rows = program.rows.iter().enumerate().map(row).collect();
        Self { rows, basis: (columns..columns + count).collect(), width }
    }

    /// Phase one: makes the artificial column, which every row may miss its bound by, as small as possible.
    fn make_feasible(&mut self, columns: usize) -> bool {
        let artificial = self.width - 2;
        self.rows.iter_mut().for_each(|row| row[artificial] = -1.0);
        let bound = |row: &Vec<f64>| row[self.width - 1];
        let lowest =
            (0..self.rows.len()).min_by(|&a, &b| bound(&self.rows[a]).total_cmp(&bound(&self.rows[b])));
        self.pivot(lowest.expect("a row"), artificial);
        let mut goal = vec![0.0; self.width];
        goal[artificial] = -1.0;
        self.maximise(&goal);
        if let Some(row) = self.basis.iter().position(|&column| column == artificial) {
            if self.rows[row][self.width - 1] > 1e-9 {
                return false;
            }
            let all = 0..columns + self.rows.len();
            if let Some(other) = all.clone().find(|&column| self.rows[row][column].abs() > ZERO) {
                self.pivot(row, other);
            }
        }
        self.rows.iter_mut().for_each(|row| row[artificial] = 0.0);
        true
    }

    fn maximise(&mut self, goal: &[f64]) {
        let mut steps = 0;
        loop {
            let gain = |column: usize| {
                let lost: f64 =
                    self.rows.iter().zip(&self.basis).map(|(row, &basic)| goal[basic] * row[column]).sum();
                goal[column] - lost
            };
            let Some(entering) = (0..self.width - 1).find(|&column| gain(column) > ZERO) else { return };
            let ratio = |row: &usize| self.rows[*row][self.width - 1] / self.rows[*row][entering];
            let leaving = (0..self.rows.len())
                .filter(|&row| self.rows[row][entering] > ZERO)
                .min_by(|a, b| ratio(a).total_cmp(&ratio(b)).then(self.basis[*a].cmp(&self.basis[*b])));
            self.pivot(leaving.expect("a bounded program"), entering);
            steps += 1;
            assert!(steps < 100_000, "a program without end");
        }
    }

    fn pivot(&mut self, leaving: usize, entering: usize) {
        let scale = 1.0 / self.rows[leaving][entering];
        self.rows[leaving].iter_mut().for_each(|cell| *cell *= scale);
        let pivot = self.rows[leaving].clone();
        for (index, row) in self.rows.iter_mut().enumerate() {
            let factor = row[entering];
            if index != leaving && factor != 0.0 {
                row.iter_mut().zip(&pivot).for_each(|(cell, pivot)| *cell -= factor * pivot);
                row[entering] = 0.0;
            }
        }
        self.basis[leaving] = entering;
    }
}

#[test]
fn simplex_on_programs_by_hand_finds_their_optima() {
    // Largest 3x + 5y: x ≤ 4, 2y ≤ 12, 3x + 2y ≤ 18 is 36 at (2, 6).
    let mut program = Program::default();
    let (x, y) = (program.column(3.0), program.column(5.0));
    program.at_most(vec![(x, 1.0)], 4.0);
    program.at_most(vec![(y, 2.0)], 12.0);
    program.at_most(vec![(x, 3.0), (y, 2.0)], 18.0);
    let found = program.solve().expect("feasible");
    assert!((found[x] - 2.0).abs() < 1e-9 && (found[y] - 6.0).abs() < 1e-9, "{found:?}");
    // With x at least 3: 31.5 at (3, 4.5).
    program.at_least(&[(x, 1.0)], 3.0);
    let found = program.solve().expect("feasible");
    assert!((program.value(&found) - 31.5).abs() < 1e-9, "{found:?}");
    program.at_least(&[(y, 1.0)], 7.0);
    assert_eq!(program.solve(), None);
}
