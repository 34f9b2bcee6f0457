//! HiGHS, for programs over whole numbers that the default solver cannot finish. Needs cmake, libclang and a C++
//! compiler, so that it is only there with the feature `highs`.

use std::num::NonZeroU32;

use highs::{Col, HighsModelStatus, HighsSolutionStatus, RowProblem, Sense};

use super::{Limits, Lp, Outcome, Relation, Solution, Solver};

/// The solver HiGHS, on one thread: more would make its answers depend on the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Highs;

impl Solver for Highs {
    fn solve(&self, program: &Lp, limits: Limits) -> Outcome {
        if program.entries() > limits.entries {
            return Outcome::WorkLimit(None);
        }
        if program.has_empty_bounds() {
            return Outcome::Infeasible;
        }
        let mut model = match problem(program).try_optimise(Sense::Maximise) {
            Ok(model) => model,
            Err(status) => return Outcome::Failed(format!("HiGHS does not take the program: {status:?}")),
        };
        model.make_quiet();
        model.set_threads(NonZeroU32::MIN);
        // HiGHS counts nodes in 32 bits.
        model.set_option("mip_max_nodes", i32::try_from(limits.nodes).unwrap_or(i32::MAX));
        match model.try_solve() {
            Ok(solved) => outcome(&solved),
            Err(status) => Outcome::Failed(format!("HiGHS stopped: {status:?}")),
        }
    }
}

fn problem(program: &Lp) -> RowProblem {
    let mut problem = RowProblem::default();
    let add = |column: &super::Column| {
        problem.add_column_with_integrality(column.value, column.low..=column.high, column.integer)
    };
    let columns: Vec<Col> = program.columns.iter().map(add).collect();
    for row in &program.rows {
        let terms: Vec<_> = row.terms.iter().map(|&(column, factor)| (columns[column], factor)).collect();
        match row.relation {
            Relation::AtMost => problem.add_row(..=row.right, terms),
            Relation::AtLeast => problem.add_row(row.right.., terms),
            Relation::Equal => problem.add_row(row.right..=row.right, terms),
        }
    }
    problem
}

fn outcome(solved: &highs::SolvedModel) -> Outcome {
    let point =
        || Solution { values: solved.get_solution().columns().to_vec(), objective: solved.objective_value() };
    match solved.status() {
        HighsModelStatus::Optimal | HighsModelStatus::ModelEmpty => Outcome::Optimal(point()),
        HighsModelStatus::Infeasible => Outcome::Infeasible,
        HighsModelStatus::Unbounded => Outcome::Unbounded,
        HighsModelStatus::ReachedIterationLimit | HighsModelStatus::ReachedSolutionLimit => {
            let feasible = solved.primal_solution_status() == HighsSolutionStatus::Feasible;
            Outcome::WorkLimit(feasible.then(point))
        }
        status => Outcome::Failed(format!("HiGHS has no answer: {status:?}")),
    }
}
