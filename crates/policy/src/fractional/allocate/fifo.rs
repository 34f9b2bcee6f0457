//! First in, first out on several device types: strict order; running jobs are moved to faster types at rounds.

use rand::RngExt;
use rand::rngs::ChaCha8Rng;

use super::pair_gain;
use crate::fractional::{Allocation, Allocator, Combo, Problem};

/// Two jobs share devices where they get this much more done than one after the other.
const WORTH_SHARING: f64 = 1.5;

/// How a job's device type is chosen.
#[derive(Debug)]
pub enum FifoChoice {
    /// Any type with enough free devices, by lot.
    Any(Box<ChaCha8Rng>),
    /// The one that is fastest for the job.
    Fastest,
    /// The fastest; and where none is free, devices of a job with which it goes well together.
    Packed,
}

/// Jobs in the order of their submission.
#[derive(Debug)]
pub struct Fifo(pub FifoChoice);

impl Fifo {
    fn choose(&mut self, problem: &Problem<'_>, position: usize, free: &[f64]) -> Option<usize> {
        let row = problem.row(position);
        let needed = f64::from(problem.claims[position].devices);
        let fits: Vec<usize> =
            (0..row.len()).filter(|&kind| row[kind] > 0.0 && free[kind] >= needed).collect();
        // Of equally fast types, a running job keeps the one that it has.
        let present = problem.claims[position].running_on.filter(|kind| fits.contains(kind));
        match &mut self.0 {
            FifoChoice::Any(rng) if !fits.is_empty() => Some(fits[rng.random_range(0..fits.len())]),
            FifoChoice::Any(_) => None,
            FifoChoice::Fastest | FifoChoice::Packed => {
                let types = present.into_iter().chain(fits);
                types.reduce(|best, kind| if row[kind] > row[best] { kind } else { best })
            }
        }
    }

    /// The job among `alone` that this one shares devices with best, where that is worth it.
    fn partner(problem: &Problem<'_>, position: usize, alone: &[(usize, usize)]) -> Option<usize> {
        let mut best = None;
        for (index, &(other, kind)) in alone.iter().enumerate() {
            if !problem.can_pair(position, other) || problem.row(position)[kind] <= 0.0 {
                continue;
            }
            let gain = pair_gain(problem, position, other, kind);
            if gain > WORTH_SHARING && best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, index));
            }
        }
        best.map(|(_, index)| index)
    }
}

impl Allocator for Fifo {
    fn is_strict(&self) -> bool {
        true
    }

    fn is_prompt(&self) -> bool {
        true
    }

    fn is_migrating(&self) -> bool {
        match self.0 {
            FifoChoice::Any(_) => false,
            FifoChoice::Fastest | FifoChoice::Packed => true,
        }
    }

    fn allocate(&mut self, problem: &Problem<'_>) -> Allocation {
        let mut free = problem.capacities.clone();
        // Jobs with devices of their own, and pairs.
        let mut alone: Vec<(usize, usize)> = Vec::new();
        let mut pairs: Vec<(Combo, usize)> = Vec::new();
        let mut queue = Vec::new();
        for (position, claim) in problem.claims.iter().enumerate() {
            let Some(kind) = claim.running_on.filter(|_| !problem.is_moving) else {
                queue.push(position);
                continue;
            };
            match claim.partner {
                None => {
                    free[kind] -= f64::from(claim.devices);
                    alone.push((position, kind));
                }
                Some(partner) if claim.job < partner => {
                    free[kind] -= f64::from(claim.devices);
                    pairs.push((Combo::pair(claim.job, partner), kind));
                }
                Some(_) => {}
            }
        }
        for position in queue {
            if let Some(kind) = self.choose(problem, position, &free) {
                free[kind] -= f64::from(problem.claims[position].devices);
                alone.push((position, kind));
                continue;
            }
            let partner = match self.0 {
                FifoChoice::Packed => Self::partner(problem, position, &alone),
                FifoChoice::Any(_) | FifoChoice::Fastest => None,
            };
            let Some(index) = partner else { break };
            let (other, kind) = alone.swap_remove(index);
            let (a, b) = (problem.claims[position].job, problem.claims[other].job);
            pairs.push((Combo::pair(a, b), kind));
        }
        let singles =
            alone.iter().map(|&(position, kind)| (Combo::single(problem.claims[position].job), kind));
        let whole = |(combo, kind): (Combo, usize)| {
            let mut row = vec![0.0; problem.types()];
            row[kind] = 1.0;
            (combo, row)
        };
        Allocation { shares: singles.chain(pairs).map(whole).collect(), fallback: None }
    }
}
