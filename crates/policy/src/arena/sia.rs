//! Sia as the published simulator has it: type and number of devices are chosen together when a job is taken in, with at most three
//! others changing theirs.
//!
//! Kept as published: throughput is taken to grow with the number of devices; where a job does not fit one device, that of one
//! device is half of what it should be; the number of devices of a running job follows the program one change late,
//! and only where its type changes do its devices; a newcomer is worth a thousand.
//!
//! Not kept: the published solver is given -10^9 for what cannot run, and scales by that, so that all it sees of the rest is the
//! newcomer's thousand. Which of the possible choices it then makes is chance; here it is the best.

use wharf_perf::cells::DEVICE_COUNTS as COUNTS;
use wharf_solver::choice::{Configuration, Holder, adjust};

use super::Rules;
use super::gavel::{CHANGES_MAX, place_all};
use super::query::INFEASIBLE;
use super::site::{Kind, Shape};
use super::world::{Tried, World};

/// Seconds that a restart costs.
const RESTART_S: f64 = 600.0;
/// Least part of its time that a job makes use of.
const USE_MIN: f64 = 0.01;
/// Most that a configuration is worth.
const VALUE_MAX: f64 = 3000.0;
/// What taking a newcomer in is worth.
const NEWCOMER: f64 = 1000.0;

/// `sia`.
#[derive(Clone, Debug, Default)]
pub(super) struct Sia {
    /// Jobs that were taken in, each with what the last program gave it, as a number of [`COUNTS`] by type.
    admitted: Vec<(u32, usize)>,
}

fn kind_of(configuration: usize) -> Kind {
    Kind((configuration / COUNTS.len()) as u8)
}

fn count_of(configuration: usize) -> u32 {
    COUNTS[configuration % COUNTS.len()]
}

impl Sia {
    /// Takes a job in, if the program and the places allow.
    fn fit(&mut self, world: &mut World, job: u32, force_opt: bool) -> bool {
        let rows: Vec<Vec<(usize, Configuration)>> =
            self.admitted.iter().map(|&(job, held)| row(world, job, Some(held))).collect();
        let plain: Vec<Vec<Configuration>> =
            rows.iter().map(|row| row.iter().map(|&(_, configuration)| configuration).collect()).collect();
        let current = |row: &[(usize, Configuration)], held: usize| {
            row.iter().position(|(known, _)| *known == held).unwrap_or_default()
        };
        let holders: Vec<Holder<'_>> = plain
            .iter()
            .zip(rows.iter().zip(&self.admitted))
            .map(|(configurations, (row, &(_, held)))| Holder { configurations, current: current(row, held) })
            .collect();
        let own = row(world, job, None);
        let newcomer: Vec<Configuration> = own
            .iter()
            .map(|&(_, configuration)| Configuration {
                value: configuration.value + NEWCOMER,
                ..configuration
            })
            .collect();
        let kinds = world.site().kinds();
        let capacity: Vec<u32> = kinds.map(|kind| world.site().kind(kind).device_count()).collect();
        let Some(found) = adjust(&capacity, &holders, &newcomer, CHANGES_MAX) else { return false };
        let before = self.admitted.clone();
        for (index, to) in found.changes {
            self.admitted[index].1 = rows[index][to].0;
        }
        self.admitted.push((job, own[found.pick].0));
        let is_placed = self.apply(world, &before, force_opt);
        if !is_placed {
            self.admitted.pop();
        }
        is_placed
    }

    /// Makes the world follow the program: whose type changed is placed anew, with the number of devices of before. Where that
    /// fails everybody keeps what he has, but not the number that is noted.
    fn apply(&self, world: &mut World, before: &[(u32, usize)], force_opt: bool) -> bool {
        let mut changed = Vec::new();
        for (index, &(job, now)) in self.admitted.iter().enumerate() {
            let was = before.get(index).map(|&(_, was)| was);
            world.job_mut(job).quota.devices = count_of(was.unwrap_or(now));
            if was.is_none_or(|was| kind_of(was) != kind_of(now)) {
                changed.push((job, kind_of(now)));
            }
        }
        let is_placed = place_all(world, &changed, force_opt);
        if is_placed {
            for &(job, _) in &self.admitted {
                let quota = &mut world.job_mut(job).quota;
                quota.devices = quota.shape.devices();
            }
        }
        is_placed
    }
}

/// What a job is worth in each configuration that it can run in; what it has is always one of them.
fn row(world: &World, job: u32, held: Option<usize>) -> Vec<(usize, Configuration)> {
    let kinds = world.site().kinds();
    let throughputs: Vec<f64> =
        kinds.flat_map(|kind| COUNTS.map(|devices| throughput(world, job, kind, devices))).collect();
    let feasible = || throughputs.iter().enumerate().filter(|(_, throughput)| **throughput > 0.0);
    let least = feasible().map(|(_, &throughput)| throughput).fold(f64::INFINITY, f64::min);
    let fewest = feasible().map(|(index, _)| count_of(index)).min().unwrap_or(1);
    let state = world.job(job);
    let useful_s = state.executed_s - f64::from(state.reschedules) * RESTART_S;
    let useful = (useful_s / (state.executed_s + RESTART_S)).max(USE_MIN);
    let value = |throughput: f64| {
        let goodput = f64::from(fewest) * throughput / least;
        (goodput * useful).sqrt().min(VALUE_MAX)
    };
    let is_wanted = |index: usize, throughput: f64| throughput > 0.0 || held == Some(index);
    throughputs
        .iter()
        .enumerate()
        .filter(|&(index, &throughput)| is_wanted(index, throughput))
        .map(|(index, &throughput)| {
            let value = if throughput > 0.0 { value(throughput) } else { 0.0 };
            (index, Configuration { kind: kind_of(index).index(), count: count_of(index), value })
        })
        .collect()
}

/// Samples per second by the published model: in proportion to the devices.
fn throughput(world: &World, job: u32, kind: Kind, devices: u32) -> f64 {
    let per_node = world.site().per_node(kind);
    let on = |devices: u32| {
        let shape = Shape { hosts: (devices / per_node).max(1), per_host: devices.min(per_node) };
        world.throughput(job, kind, shape)
    };
    let mut one = on(1);
    if devices == 1 && one > INFEASIBLE {
        return one;
    }
    if on(devices) <= 0.0 {
        return INFEASIBLE;
    }
    if one <= INFEASIBLE {
        let largest = COUNTS.into_iter().rev().find(|&count| on(count) > 0.0);
        one = largest.map_or(INFEASIBLE, |count| on(count) / f64::from(2 * count));
    }
    if one <= INFEASIBLE { INFEASIBLE } else { one * f64::from(devices) }
}

impl Rules for Sia {
    fn on_ends(&mut self, world: &mut World) {
        world.release_ended();
        self.admitted.retain(|(job, _)| !world.ended.contains(job));
        world.retry(|world, job| Tried::or_waits(self.fit(world, job, false)));
    }

    fn on_arrivals(&mut self, world: &mut World) {
        world.drop_impossible();
        world.take_in(|world, job| Tried::or_waits(self.fit(world, job, true)));
    }
}
