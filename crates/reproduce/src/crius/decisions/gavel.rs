//! Gavel as Crius's simulator has it: the number of devices is fixed, the type is chosen for the largest sum of throughputs,
//! with at most three jobs changing theirs when one is admitted.
//!
//! Kept as published: a job whose placement fails is left out, but the types that the program gave to the others stay recorded, so that even
//! a job that fits nowhere changes what later ones find; a job without a place in its queue blocks all behind it that ask for
//! the same type.
//!
//! Not as published: the choice among equally good ones, mostly which of two equal jobs changes. The published solver's choice depends on its
//! threads, its seed and the order of the jobs, and it exchanges equal jobs without need (`gavel_small`, rounds 27 and 28), so that no rule on
//! the program predicts it. [`adjust`] has a documented tie rule. For a job that can run nowhere (-10^9) the published solver's relative gap
//! accepts any choice; [`adjust`] takes the best. docs/policies.md has the measured differences.

use wharf_solver::choice::Configuration;

use super::Rules;
use super::adjust::{Holder, adjust};
use super::job::Quota;
use super::query::INFEASIBLE;
use super::site::Kind;
use super::table::Owner;
use super::world::{Tried, World};

/// Jobs that may change their type when one is taken in.
pub(super) const CHANGES_MAX: usize = 3;

/// `gavel`.
#[derive(Clone, Debug, Default)]
pub(super) struct Gavel {
    /// Jobs that were taken in, each with the type that the last program gave it.
    admitted: Vec<(u32, Kind)>,
}

impl Gavel {
    /// Takes a job in, if the program and the places allow.
    fn fit(&mut self, world: &mut World, job: u32) -> bool {
        let row = |job: u32| row(world, job);
        let rows: Vec<Vec<Configuration>> = self.admitted.iter().map(|&(job, _)| row(job)).collect();
        let holders: Vec<Holder<'_>> = rows
            .iter()
            .zip(&self.admitted)
            .map(|(configurations, &(_, kind))| Holder { configurations, current: kind.index() })
            .collect();
        let mut own = row(job);
        if own.iter().all(|configuration| configuration.value <= INFEASIBLE) {
            // The same everywhere: as nothing, it does not drown what the others are worth.
            own.iter_mut().for_each(|configuration| configuration.value = 0.0);
        }
        let kinds = world.site().kinds();
        let capacity: Vec<u32> = kinds.map(|kind| world.site().kind(kind).device_count()).collect();
        let Some(found) = adjust(&capacity, &holders, &own, CHANGES_MAX) else { return false };
        let mut changed = Vec::new();
        for (index, to) in found.changes {
            self.admitted[index].1 = Kind(to as u8);
            changed.push(self.admitted[index]);
        }
        let own = (job, Kind(found.pick as u8));
        changed.push(own);
        let is_placed = place_all(world, &changed, world.options.sched_with_opt);
        if is_placed {
            self.admitted.push(own);
        }
        is_placed
    }
}

/// What a job is worth on each type.
fn row(world: &World, job: u32) -> Vec<Configuration> {
    let devices = world.job(job).asked.devices;
    let on = |kind: Kind| Configuration {
        kind: kind.index(),
        count: devices,
        value: world.throughput(job, kind, world.site().best(kind, devices)),
    };
    world.site().kinds().map(on).collect()
}

/// Moves jobs to other types, in order, each with the devices of its quota; nothing happens where one finds no place.
pub(super) fn place_all(world: &mut World, changed: &[(u32, Kind)], force_opt: bool) -> bool {
    let table = world.table.clone();
    let quotas: Vec<Quota> = changed.iter().map(|&(job, _)| world.job(job).quota).collect();
    for &(job, _) in changed {
        world.table.release(Owner::job(job));
    }
    let is_placed = changed.iter().all(|&(job, kind)| {
        let devices = world.job(job).quota.devices;
        world.place(job, kind, devices, force_opt, true)
    });
    if !is_placed {
        world.table = table;
        for (&(job, _), quota) in changed.iter().zip(quotas) {
            world.job_mut(job).quota = quota;
        }
    }
    is_placed
}

impl Rules for Gavel {
    fn on_ends(&mut self, world: &mut World) {
        world.release_ended();
        self.admitted.retain(|(job, _)| !world.ended.contains(job));
        world.retry(|world, job| match self.fit(world, job) {
            false if world.options.sched_with_opt => Tried::Waits,
            is_seated => Tried::or_blocks(is_seated),
        });
    }

    fn on_arrivals(&mut self, world: &mut World) {
        world.drop_impossible();
        world.take_in(|world, job| Tried::or_waits(self.fit(world, job)));
    }
}
