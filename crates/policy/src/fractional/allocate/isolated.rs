//! Every job gets an equal part of every device type, whatever its throughput there.

use super::equal_split;
use crate::fractional::{Allocation, Allocator, Combo, Problem};

/// Equal shares of the cluster.
#[derive(Clone, Copy, Debug, Default)]
pub struct Isolated;

impl Allocator for Isolated {
    fn allocate(&mut self, problem: &Problem<'_>) -> Allocation {
        let count = problem.claims.len();
        let row = |(position, claim): (usize, &crate::fractional::Claim)| {
            let can_run = |kind: usize| problem.row(position)[kind] > 0.0;
            (Combo::single(claim.job), equal_split(&problem.capacities, count, claim.devices, can_run))
        };
        Allocation { shares: problem.claims.iter().enumerate().map(row).collect(), fallback: None }
    }
}
