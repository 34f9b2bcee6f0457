//! The pure-Rust solver of the default build.

use microlp::{
    ComparisonOp, Error, OptimizationDirection, Problem, SolutionStatus, SolveOptions, SolveOutcome,
};

use super::{Limits, Lp, Outcome, Relation, Solution, Solver};

/// The simplex method with branch and bound of the crate `microlp`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Microlp;

impl Solver for Microlp {
    fn solve(&self, program: &Lp, limits: Limits) -> Outcome {
        if program.entries() > limits.entries {
            return Outcome::WorkLimit(None);
        }
        if program.has_empty_bounds() {
            return Outcome::Infeasible;
        }
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let mut variables = Vec::with_capacity(program.columns.len());
        for column in &program.columns {
            variables.push(if column.integer {
                problem.add_integer_var(column.value, (column.low as i32, column.high as i32))
            } else {
                problem.add_var(column.value, (column.low, column.high))
            });
        }
        for row in &program.rows {
            let terms: Vec<_> =
                row.terms.iter().map(|&(column, factor)| (variables[column], factor)).collect();
            problem.add_constraint(terms.as_slice(), comparison(row.relation), row.right);
        }
        let mut options = SolveOptions::default();
        options.node_limit = Some(limits.nodes);
        match problem.solve_with(options) {
            Ok(SolveOutcome::Solution(found)) => {
                let values = variables.iter().map(|&variable| found.var_value(variable)).collect();
                let solution = Solution { values, objective: found.objective() };
                match found.status() {
                    SolutionStatus::Optimal => Outcome::Optimal(solution),
                    SolutionStatus::Feasible => Outcome::WorkLimit(Some(solution)),
                }
            }
            Ok(SolveOutcome::Interrupted(_)) => Outcome::WorkLimit(None),
            Err(Error::Infeasible) => Outcome::Infeasible,
            Err(Error::Unbounded) => Outcome::Unbounded,
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }
}

fn comparison(relation: Relation) -> ComparisonOp {
    match relation {
        Relation::AtMost => ComparisonOp::Le,
        Relation::AtLeast => ComparisonOp::Ge,
        Relation::Equal => ComparisonOp::Eq,
    }
}
