//! General linear and mixed-integer programs, and the solvers that can be put behind them.
//!
//! The policies' own programs have structure that [`sharing`](crate::sharing) and its neighbours use; this is what
//! they are checked against, and what solves the small programs that have none. Solvers get no clock: [`Limits`] count
//! work, so that equal programs have equal answers on every machine.

#[cfg(feature = "highs")]
mod highs;
mod microlp;

#[cfg(feature = "highs")]
pub use self::highs::Highs;
pub use self::microlp::Microlp;

/// A program: maximise the sum of `value × column`, subject to rows and bounds.
#[derive(Clone, Debug, Default)]
pub struct Lp {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Column {
    value: f64,
    low: f64,
    high: f64,
    integer: bool,
}

#[derive(Clone, Debug)]
struct Row {
    terms: Vec<(usize, f64)>,
    relation: Relation,
    right: f64,
}

/// How the left side of a row stands to its right side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Not more.
    AtMost,
    /// Not less.
    AtLeast,
    /// Neither.
    Equal,
}

impl Lp {
    /// A program without columns and rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a real column between `low` and `high` (either may be infinite) and returns its index.
    pub fn column(&mut self, value: f64, low: f64, high: f64) -> usize {
        self.columns.push(Column { value, low, high, integer: false });
        self.columns.len() - 1
    }

    /// Adds a whole-numbered column; bounds are cut to 32-bit integers.
    pub fn integer(&mut self, value: f64, low: f64, high: f64) -> usize {
        let (low, high) = (low.max(f64::from(i32::MIN)).ceil(), high.min(f64::from(i32::MAX)).floor());
        self.columns.push(Column { value, low, high, integer: true });
        self.columns.len() - 1
    }

    /// Adds a row over columns by index. Columns that do not exist are no part of any row; a column that is named twice
    /// counts with the sum.
    pub fn row(&mut self, terms: &[(usize, f64)], relation: Relation, right: f64) {
        let mut terms: Vec<_> =
            terms.iter().copied().filter(|&(column, _)| column < self.columns.len()).collect();
        terms.sort_by_key(|&(column, _)| column);
        terms.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0.0 };
            same
        });
        self.rows.push(Row { terms, relation, right });
    }

    /// Coefficients that are stored, the measure of [`Limits::entries`].
    pub fn entries(&self) -> usize {
        self.columns.len() + self.rows.iter().map(|row| row.terms.len()).sum::<usize>()
    }

    /// Whether any column must be whole-numbered.
    pub fn has_integers(&self) -> bool {
        self.columns.iter().any(|column| column.integer)
    }

    /// Whether two bounds contradict each other, which solvers call an error of the caller.
    fn has_empty_bounds(&self) -> bool {
        self.columns.iter().any(|column| column.low > column.high)
    }
}

/// How much work a solver may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nodes of a search over whole numbers.
    pub nodes: u64,
    /// Largest program, in stored coefficients, that is begun at all: simplex steps cannot be counted with every solver.
    pub entries: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { nodes: 10_000, entries: 500_000 }
    }
}

/// A point that meets all rows and bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// One value per column, in the order in which they were added.
    pub values: Vec<f64>,
    /// What was maximised.
    pub objective: f64,
}

/// The outcome of a program.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Nothing is better.
    Optimal(Solution),
    /// The limit was reached; with the best point seen so far.
    WorkLimit(Option<Solution>),
    /// No point meets all rows and bounds.
    Infeasible,
    /// The objective has no limit.
    Unbounded,
    /// The solver gave up; with its own words.
    Failed(String),
}

impl Outcome {
    /// The optimum, where there is one.
    pub fn optimal(self) -> Option<Solution> {
        match self {
            Self::Optimal(solution) => Some(solution),
            Self::WorkLimit(_) | Self::Infeasible | Self::Unbounded | Self::Failed(_) => None,
        }
    }
}

/// Something that solves general programs.
pub trait Solver {
    /// Solves a program, or states why not.
    fn solve(&self, program: &Lp, limits: Limits) -> Outcome;
}
