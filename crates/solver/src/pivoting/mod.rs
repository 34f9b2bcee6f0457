//! Programs in zeros and ones, pivot by pivot as GLPK 4.65 solves them with its defaults and its preprocessing on.
//!
//! This is not the way to the best solution: [`choice`](crate::choice) is. Published runs were made with that solver, on programs whose
//! largest cost is a billion times the least. It divides costs by the largest, so that what is left of the others is near its
//! tolerance, and takes for the best what is not. To repeat such a run its way has to be gone: the same reduction, scaling and first
//! basis, the same rules who enters and who leaves, the same tolerances, the same order of branches.
//!
//! Where two choices differ by no more than rounding, rounding decides. So arithmetic is the same to the last bit: the same factors of
//! the basis, found and followed in the same way, the same sums in the same order. Answers were equal for thousands of random
//! programs of up to sixty jobs, and for all that published runs make. One thing differs: a search that takes too long ends after a number
//! of parts, not of seconds.

mod dual;
mod eliminate;
mod factors;
mod linear;
mod model;
mod primal;
mod reduce;
mod stops;
#[cfg(test)]
mod tests;
mod tighten;
mod tree;

use linear::Failure;
use reduce::Reduction;

/// A sum of columns that must be within bounds.
#[derive(Clone, Debug)]
pub struct Constraint {
    /// Column and coefficient.
    pub entries: Vec<(usize, f64)>,
    /// Least sum.
    pub lower: f64,
    /// Largest sum.
    pub upper: f64,
}

/// What to choose: columns that are 0 or 1, at the least cost.
#[derive(Clone, Debug)]
pub struct Program {
    /// Cost of each column.
    pub costs: Vec<f64>,
    /// In their order, which counts.
    pub constraints: Vec<Constraint>,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Columns that are 1.
    Found(Vec<bool>),
    /// There is no solution.
    Impossible,
    /// It went in circles.
    Stuck,
}

/// Solves a program.
pub fn solve(program: &Program) -> Outcome {
    let mut reduction = Reduction::new(program);
    if reduction.run().is_err() {
        return Outcome::Impossible;
    }
    let (mut model, columns) = reduction.model();
    let mut found: Vec<bool> = reduction.fixed.iter().map(|fixed| fixed.unwrap_or_default()).collect();
    if model.columns() == 0 {
        return Outcome::Found(found);
    }
    model.scale();
    model.start();
    let result = primal::solve(&mut model).and_then(|()| tree::search(&mut model));
    match result {
        Ok(Some(values)) => {
            for (column, value) in columns.into_iter().zip(values) {
                found[column] = value > 0.5;
            }
            Outcome::Found(found)
        }
        Ok(None) | Err(Failure::Impossible | Failure::Hopeless) => Outcome::Impossible,
        Err(Failure::Stuck) => Outcome::Stuck,
    }
}
