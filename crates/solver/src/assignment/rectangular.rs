//! Rows to columns of a matrix: shortest augmenting paths, one row after another.

use thiserror::Error;

/// Why there is no assignment.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum Unassignable {
    /// The slice is not a matrix of the given size.
    #[error("{length} costs are not {rows} × {cols}")]
    Shape {
        /// Rows that were asked for.
        rows: usize,
        /// Columns that were asked for.
        cols: usize,
        /// Costs that were given.
        length: usize,
    },
    /// A cost that cannot be compared.
    #[error("the cost in row {row}, column {col} is not a number above minus infinity")]
    Cost {
        /// Its row.
        row: usize,
        /// Its column.
        col: usize,
    },
    /// Infinite costs leave too few columns.
    #[error("infinite costs leave no column for a row")]
    Infeasible,
}

/// The column of each row, so that the sum of the costs (row-major) is least.
///
/// With more rows than columns some rows have none. Among equal sums it is the one of scipy 1.11 and later.
///
/// # Errors
///
/// If the size is wrong, a cost is not a number or minus infinity, or infinite costs leave no assignment.
pub fn assign(rows: usize, cols: usize, costs: &[f64]) -> Result<Vec<Option<usize>>, Unassignable> {
    if rows.checked_mul(cols) != Some(costs.len()) {
        return Err(Unassignable::Shape { rows, cols, length: costs.len() });
    }
    if let Some(index) = costs.iter().position(|cost| cost.is_nan() || *cost == f64::NEG_INFINITY) {
        return Err(Unassignable::Cost { row: index / cols, col: index % cols });
    }
    if rows <= cols {
        let columns = Search::new(rows, cols, |row, col| costs[row * cols + col]).run()?;
        return Ok(columns.into_iter().map(Some).collect());
    }
    let of_columns = Search::new(cols, rows, |col, row| costs[row * cols + col]).run()?;
    let mut columns = vec![None; rows];
    for (col, row) in of_columns.into_iter().enumerate() {
        columns[row] = Some(col);
    }
    Ok(columns)
}

const NONE: usize = usize::MAX;

/// The state of the search, for at most as many rows as columns.
struct Search<F> {
    rows: usize,
    cols: usize,
    cost: F,
    row_price: Vec<f64>,
    col_price: Vec<f64>,
    col_of_row: Vec<usize>,
    row_of_col: Vec<usize>,
    /// Length of the shortest known path to each column, and the row before it.
    distance: Vec<f64>,
    before: Vec<usize>,
    /// Columns that the present path has not reached, in the order in which they are checked.
    open: Vec<usize>,
    /// Rows and columns that it has reached.
    seen_rows: Vec<usize>,
    seen_cols: Vec<usize>,
}

impl<F: Fn(usize, usize) -> f64> Search<F> {
    fn new(rows: usize, cols: usize, cost: F) -> Self {
        Self {
            rows,
            cols,
            cost,
            row_price: vec![0.0; rows],
            col_price: vec![0.0; cols],
            col_of_row: vec![NONE; rows],
            row_of_col: vec![NONE; cols],
            distance: vec![0.0; cols],
            before: vec![NONE; cols],
            open: Vec::with_capacity(cols),
            seen_rows: Vec::new(),
            seen_cols: Vec::new(),
        }
    }

    fn run(mut self) -> Result<Vec<usize>, Unassignable> {
        for row in 0..self.rows {
            let (sink, length) = self.shortest_path(row).ok_or(Unassignable::Infeasible)?;
            self.update_prices(row, length);
            self.augment(row, sink);
        }
        Ok(self.col_of_row)
    }

    /// The free column that is nearest to a row, and how far it is.
    fn shortest_path(&mut self, start: usize) -> Option<(usize, f64)> {
        self.open.clear();
        // From the last to the first: of equal free columns the one checked last wins, so the lowest number.
        self.open.extend((0..self.cols).rev());
        self.distance.fill(f64::INFINITY);
        self.seen_rows.clear();
        self.seen_cols.clear();
        let mut row = start;
        let mut length = 0.0;
        loop {
            self.seen_rows.push(row);
            let index = self.look_from(row, length)?;
            let col = self.open.swap_remove(index);
            length = self.distance[col];
            self.seen_cols.push(col);
            if self.row_of_col[col] == NONE {
                return Some((col, length));
            }
            row = self.row_of_col[col];
        }
    }

    /// Shortens paths by way of a row; then where the nearest open column stands in the list.
    fn look_from(&mut self, row: usize, length: f64) -> Option<usize> {
        let mut nearest = None;
        let mut lowest = f64::INFINITY;
        for (index, &col) in self.open.iter().enumerate() {
            // In this order, because rounding decides between equals.
            let through = length + (self.cost)(row, col) - self.row_price[row] - self.col_price[col];
            if through < self.distance[col] {
                self.before[col] = row;
                self.distance[col] = through;
            }
            let distance = self.distance[col];
            if distance < lowest || (distance == lowest && self.row_of_col[col] == NONE) {
                lowest = distance;
                nearest = Some(index);
            }
        }
        // Unreachable columns can be "nearest" at an infinite distance.
        nearest.filter(|_| lowest < f64::INFINITY)
    }

    fn update_prices(&mut self, start: usize, length: f64) {
        self.row_price[start] += length;
        for &row in &self.seen_rows[1..] {
            self.row_price[row] += length - self.distance[self.col_of_row[row]];
        }
        for &col in &self.seen_cols {
            self.col_price[col] -= length - self.distance[col];
        }
    }

    /// Gives the free column to the row before it, that row's column to the one before, and so on.
    fn augment(&mut self, start: usize, sink: usize) {
        let mut col = sink;
        loop {
            let row = self.before[col];
            self.row_of_col[col] = row;
            std::mem::swap(&mut self.col_of_row[row], &mut col);
            if row == start {
                return;
            }
        }
    }
}
