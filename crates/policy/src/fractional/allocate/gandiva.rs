//! Gandiva (OSDI'18), as Gavel restates it: where devices are short, jobs are paired by trial and error.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use wharf_core::JobId;

use super::{equal_split, pair_gain};
use crate::fractional::{Allocation, Allocator, Combo, Problem};

/// A pair is kept as long as it gets more done than one job after the other would.
const WORTH_KEEPING: f64 = 1.0;

/// Random pairs of jobs with equal gangs, each with an equal part of every device type.
#[derive(Debug)]
pub struct Gandiva {
    rng: ChaCha8Rng,
    pairs: Vec<(JobId, JobId)>,
}

impl Gandiva {
    /// No pairs yet.
    pub fn new(rng: ChaCha8Rng) -> Self {
        Self { rng, pairs: Vec::new() }
    }

    /// Whether two jobs go together, on average over the types on which both can run.
    fn is_worth(problem: &Problem<'_>, first: usize, second: usize) -> bool {
        let both = |kind: &usize| problem.row(first)[*kind] > 0.0 && problem.row(second)[*kind] > 0.0;
        let types: Vec<usize> = (0..problem.types()).filter(both).collect();
        let gain: f64 = types.iter().map(|&kind| pair_gain(problem, first, second, kind)).sum();
        !types.is_empty() && gain / types.len() as f64 >= WORTH_KEEPING
    }

    /// Drops pairs that have ended or did not go together, then draws new ones among the jobs that have no partner.
    fn pair_up(&mut self, problem: &Problem<'_>) {
        let positions: BTreeMap<JobId, usize> =
            problem.claims.iter().enumerate().map(|(position, claim)| (claim.job, position)).collect();
        let position = |job: &JobId| positions.get(job).copied();
        self.pairs.retain(|(a, b)| {
            position(a).zip(position(b)).is_some_and(|(first, second)| Self::is_worth(problem, first, second))
        });
        let mut alone: Vec<usize> = (0..problem.claims.len()).collect();
        let paired: BTreeSet<JobId> = self.pairs.iter().flat_map(|&(a, b)| [a, b]).collect();
        alone.retain(|&position| !paired.contains(&problem.claims[position].job));
        let mut missing = devices_short(problem, &self.pairs);
        for _ in 0..problem.claims.len() {
            if alone.len() < 2 || missing <= 0.0 {
                break;
            }
            let first = self.rng.random_range(0..alone.len());
            let second = self.rng.random_range(0..alone.len() - 1);
            let second = if second >= first { second + 1 } else { second };
            let (a, b) = (alone[first], alone[second]);
            let devices = problem.claims[a].devices;
            if problem.can_pair(a, b) && Self::is_worth(problem, a, b) {
                let (a, b) = (problem.claims[a].job, problem.claims[b].job);
                self.pairs.push((a.min(b), a.max(b)));
                alone.swap_remove(first.max(second));
                alone.swap_remove(first.min(second));
                missing -= f64::from(devices);
            }
        }
    }
}

/// Devices that all jobs want beyond what there is.
fn devices_short(problem: &Problem<'_>, pairs: &[(JobId, JobId)]) -> f64 {
    let seconds: BTreeSet<JobId> = pairs.iter().map(|&(_, second)| second).collect();
    let wanted: f64 = problem
        .claims
        .iter()
        .filter(|claim| !seconds.contains(&claim.job))
        .map(|claim| f64::from(claim.devices))
        .sum();
    wanted - problem.capacities.iter().sum::<f64>()
}

impl Allocator for Gandiva {
    fn allocate(&mut self, problem: &Problem<'_>) -> Allocation {
        if devices_short(problem, &[]) <= 0.0 {
            self.pairs.clear();
        } else {
            self.pair_up(problem);
        }
        let partner: BTreeMap<JobId, JobId> = self.pairs.iter().copied().collect();
        let seconds: BTreeSet<JobId> = self.pairs.iter().map(|&(_, second)| second).collect();
        let positions: BTreeMap<JobId, usize> =
            problem.claims.iter().enumerate().map(|(position, claim)| (claim.job, position)).collect();
        let firsts: Vec<_> = problem.claims.iter().filter(|claim| !seconds.contains(&claim.job)).collect();
        let shares = firsts
            .iter()
            .map(|claim| {
                let combo = Combo { first: claim.job, second: partner.get(&claim.job).copied() };
                let can_run = |kind: usize| combo.jobs().all(|job| problem.row(positions[&job])[kind] > 0.0);
                (combo, equal_split(&problem.capacities, firsts.len(), claim.devices, can_run))
            })
            .collect();
        Allocation { shares, fallback: None }
    }
}
