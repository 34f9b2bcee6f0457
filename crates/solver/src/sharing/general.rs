//! The model as a general linear program, for small clusters whose numbers the structured method cannot certify.

use super::model::Model;
use crate::lp::{Limits, Lp, Microlp, Relation, Solver};

/// The best shares, or `None` if the solver has no optimum.
pub(super) fn solve(model: &Model, limits: Limits) -> Option<Vec<f64>> {
    let (jobs, types) = (model.jobs(), model.types);
    let mut program = Lp::new();
    let columns: Vec<usize> = (0..jobs * types)
        .map(|cell| {
            let high = if model.speeds[cell] > 0.0 { 1.0 } else { 0.0 };
            program.column(model.values[cell], 0.0, high)
        })
        .collect();
    // A level that nothing gains from is not there.
    let free = if model.gain > 0.0 { f64::INFINITY } else { 0.0 };
    let level = program.column(model.gain, -free, free);
    for j in 0..types {
        let terms: Vec<_> = (0..jobs).map(|i| (columns[i * types + j], model.devices[i])).collect();
        program.row(&terms, Relation::AtMost, model.capacities[j]);
    }
    for i in 0..jobs {
        let row = i * types..(i + 1) * types;
        let terms: Vec<_> = columns[row.clone()].iter().map(|&column| (column, 1.0)).collect();
        program.row(&terms, Relation::AtMost, 1.0);
        if model.slopes[i] > 0.0 || model.floors[i] > 0.0 {
            let mut terms: Vec<_> =
                columns[row.clone()].iter().copied().zip(model.speeds[row].iter().copied()).collect();
            terms.push((level, -model.slopes[i]));
            program.row(&terms, Relation::AtLeast, model.floors[i]);
        }
    }
    let solution = Microlp.solve(&program, limits).optimal()?;
    let mut shares: Vec<f64> = columns.iter().map(|&column| solution.values[column]).collect();
    model.repair(&mut shares);
    Some(shares)
}
