//! AlloX (EuroSys'20): who runs on which free device, and in which order, so that the mean completion time is least.

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_core::{JobId, Knowledge, Reason};
use wharf_solver::assignment::{Method, Place, Queues};

use crate::fractional::{Allocation, Allocator, Problem};

/// Jobs are matched with places in the queues of free devices. Those that find devices start, the first of each queue before
/// the others; the rest are matched again after changes. No job is preempted.
#[derive(Clone, Debug, Default)]
pub struct AlloX {
    /// Jobs that are better off waiting for this type than with what is free.
    planned: BTreeMap<JobId, Arc<str>>,
}

impl AlloX {
    /// The queues of free devices. Gangs are matched as if all were as large as the mean one.
    fn match_up(problem: &Problem<'_>, queue: &[usize], free: &[f64]) -> (Vec<Option<Place>>, Method) {
        let gangs: f64 = queue.iter().map(|&position| f64::from(problem.claims[position].devices)).sum();
        let mean = (gangs / queue.len().max(1) as f64).max(1.0);
        let machines: Vec<usize> = free.iter().map(|devices| (devices / mean).max(0.0) as usize).collect();
        let remaining: Vec<f64> = queue.iter().map(|&position| problem.claims[position].remaining).collect();
        let waits: Vec<f64> = queue.iter().map(|&position| problem.claims[position].elapsed_s).collect();
        let speeds: Vec<f64> = queue.iter().flat_map(|&position| problem.row(position).to_vec()).collect();
        let queues = Queues { remaining: &remaining, waits: &waits, speeds: &speeds, machines: &machines };
        let placement = queues.fast();
        (placement.places, placement.method)
    }
}

impl Allocator for AlloX {
    fn knowledge(&self) -> Knowledge {
        Knowledge::Durations
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn is_prompt(&self) -> bool {
        true
    }

    fn allocate(&mut self, problem: &Problem<'_>) -> Allocation {
        let mut free = problem.capacities.clone();
        let mut types: Vec<Option<usize>> = problem.claims.iter().map(|claim| claim.running_on).collect();
        for (claim, kind) in problem.claims.iter().zip(&types) {
            if let Some(kind) = kind {
                free[*kind] -= f64::from(claim.devices);
            }
        }
        let queue: Vec<usize> = (0..types.len()).filter(|&position| types[position].is_none()).collect();
        let (places, method) = Self::match_up(problem, &queue, &free);
        let mut order: Vec<(usize, Option<Place>)> = queue.into_iter().zip(places).collect();
        // Those that the most others wait for go first; where no device was thought free enough, the earliest.
        order.sort_by_key(|&(position, place)| {
            (place.map(|place| std::cmp::Reverse(place.position)), position)
        });
        self.planned.clear();
        for (position, place) in order {
            let (row, needed) = (problem.row(position), f64::from(problem.claims[position].devices));
            let can_start = |kind: usize| row[kind] > 0.0 && free[kind] >= needed;
            let fastest =
                (0..row.len()).filter(|&kind| can_start(kind)).max_by(|&a, &b| row[a].total_cmp(&row[b]));
            let kind = place.map_or(fastest, |place| Some(place.device_type).filter(|&kind| can_start(kind)));
            if let Some(kind) = kind {
                free[kind] -= needed;
                types[position] = Some(kind);
            } else if let Some(place) = place {
                let name = problem.pairs.type_names()[place.device_type].clone();
                self.planned.insert(problem.claims[position].job, name);
            }
        }
        let fallback = match method {
            Method::Exact => None,
            Method::Auction => Some("an auction within 1.5 % of the best matching"),
            Method::Greedy => Some("jobs one by one where they end first, since the work limit was reached"),
        };
        Allocation { fallback, ..Allocation::of_types(problem, &types) }
    }

    fn explain(&self, job: JobId) -> Option<Reason> {
        let device_type = self.planned.get(&job)?.clone();
        Some(Reason::BetterLater { device_type })
    }
}
