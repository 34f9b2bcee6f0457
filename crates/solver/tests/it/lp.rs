//! The general solvers: what they answer, and that they answer the same.

use wharf_solver::lp::{Limits, Lp, Microlp, Outcome, Relation, Solver};

/// The solvers of this build.
fn solvers() -> Vec<(&'static str, Box<dyn Solver>)> {
    let mut solvers: Vec<(&'static str, Box<dyn Solver>)> = vec![("microlp", Box::new(Microlp))];
    #[cfg(feature = "highs")]
    solvers.push(("highs", Box::new(wharf_solver::lp::Highs)));
    solvers.sort_by_key(|(name, _)| *name);
    solvers
}

/// Maximise x + 2y with x + y ≤ 4.5 and y ≤ 3.
fn plain(integer: bool) -> Lp {
    let mut program = Lp::new();
    let (x, y) = if integer {
        (program.integer(1.0, 0.0, f64::INFINITY), program.integer(2.0, 0.0, 3.0))
    } else {
        (program.column(1.0, 0.0, f64::INFINITY), program.column(2.0, 0.0, 3.0))
    };
    program.row(&[(x, 1.0), (y, 1.0)], Relation::AtMost, 4.5);
    program
}

#[test]
fn solvers_plain_programs_have_known_optima() {
    for (name, solver) in solvers() {
        for (integer, best) in [(false, 7.5), (true, 7.0)] {
            let solution = solver.solve(&plain(integer), Limits::default()).optimal().expect(name);
            assert!((solution.objective - best).abs() < 1e-6, "{name}: {solution:?}");
            assert!((solution.values[1] - 3.0).abs() < 1e-6, "{name}: {solution:?}");
        }
    }
}

#[test]
fn solver_without_optimum_returns_a_reason() {
    for (name, solver) in solvers() {
        let mut infeasible = plain(false);
        infeasible.row(&[(0, 1.0)], Relation::AtLeast, 5.0);
        assert_eq!(solver.solve(&infeasible, Limits::default()), Outcome::Infeasible, "{name}");
        let mut empty = Lp::new();
        empty.column(1.0, 1.0, 0.0);
        assert_eq!(solver.solve(&empty, Limits::default()), Outcome::Infeasible, "{name}");
        let mut unbounded = Lp::new();
        let x = unbounded.column(1.0, 0.0, f64::INFINITY);
        unbounded.row(&[(x, 1.0)], Relation::AtLeast, 1.0);
        assert_eq!(solver.solve(&unbounded, Limits::default()), Outcome::Unbounded, "{name}");
        let small = Limits { entries: 1, ..Limits::default() };
        assert_eq!(solver.solve(&plain(false), small), Outcome::WorkLimit(None), "{name}");
    }
}

#[test]
fn rows_add_up_columns_that_are_named_twice() {
    for (name, solver) in solvers() {
        let mut program = Lp::new();
        let x = program.column(1.0, 0.0, 10.0);
        program.row(&[(x, 1.0), (x, 1.0), (x + 9, 5.0)], Relation::Equal, 6.0);
        let solution = solver.solve(&program, Limits::default()).optimal().expect(name);
        assert!((solution.values[x] - 3.0).abs() < 1e-9, "{name}: {solution:?}");
    }
}

#[test]
fn node_limits_end_hard_searches() {
    // Weights that all but fill the room in very many ways: no solver proves the best at the root.
    let mut program = Lp::new();
    let weights: Vec<f64> = (0..40_u32).map(|i| f64::from(1_000 + i * i * 37 % 499)).collect();
    let terms: Vec<_> =
        weights.iter().map(|&weight| (program.integer(weight, 0.0, 1.0), 2.0 * weight)).collect();
    program.row(&terms, Relation::AtMost, weights.iter().sum::<f64>() + 0.5);
    for (name, solver) in solvers() {
        let outcome = solver.solve(&program, Limits { nodes: 2, ..Limits::default() });
        let allowed = matches!(outcome, Outcome::WorkLimit(_) | Outcome::Optimal(_));
        assert!(allowed, "{name}: {outcome:?}");
    }
}
