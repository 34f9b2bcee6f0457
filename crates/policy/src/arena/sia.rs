//! Sia as the published simulator has it: type and number of devices are chosen together when a job is taken in, with at most three
//! others changing theirs.
//!
//! Kept as published: throughput is taken to grow with the number of devices; where a job does not fit one device, that of one
//! device is half of what it should be; the number of devices of a running job follows the program one change late,
//! and only where its type changes do its devices; a newcomer is worth a thousand; and the solver is given -10^9 for what cannot
//! run. It divides all values by that, so that goodputs are hardly more than its tolerance: what it finds is seldom the best, and which of
//! many near ones depends on how it pivots. [`pivoting`](wharf_solver::pivoting) therefore pivots as it does, and roots are those of
//! the library that the published results were made with.

use wharf_perf::cells::DEVICE_COUNTS as COUNTS;
use wharf_solver::pivoting::{Constraint, Outcome, Program, solve};

use super::Rules;
use super::gavel::{CHANGES_MAX, place_all};
use super::query::INFEASIBLE;
use super::root::root;
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
    /// Whether a job was ever taken in; from then on changes are limited.
    has_admitted: bool,
    /// What newcomers were worth that were given nothing in this pass, since anything changed: the like of them get nothing either.
    refused: Vec<Vec<f64>>,
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
        let own = row(world, job);
        if own.iter().all(|value| *value <= INFEASIBLE) || self.refused.contains(&own) {
            return false;
        }
        let others = self.admitted.iter().flat_map(|&(job, _)| row(world, job));
        let values: Vec<f64> = others.chain(own.iter().copied()).collect();
        let kinds = world.site().kinds();
        let capacity: Vec<u32> = kinds.map(|kind| world.site().kind(kind).device_count()).collect();
        let held: Vec<usize> = self.admitted.iter().map(|&(_, held)| held).collect();
        let Some(found) = choose(&values, &capacity, self.has_admitted.then_some(&held)) else {
            self.refused.push(own);
            return false;
        };
        self.refused.clear();
        let before = self.admitted.clone();
        self.admitted = before.iter().map(|&(job, _)| job).chain([job]).zip(found).collect();
        self.has_admitted = true;
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

/// What each job is given, the newcomer last, by the published program; `None` where the newcomer is given nothing.
fn choose(values: &[f64], capacity: &[u32], held: Option<&Vec<usize>>) -> Option<Vec<usize>> {
    let width = capacity.len() * COUNTS.len();
    let jobs = values.len() / width;
    let outcome = solve(&program(values, capacity, held));
    // Going in circles ends the published simulator; here the newcomer waits.
    let Outcome::Found(found) = outcome else { return None };
    let given = |job: usize| (0..width).find(|configuration| found[configuration * jobs + job]);
    (0..jobs).map(given).collect()
}

/// The published program, with its columns and rows in their order: columns by configuration, then by job.
fn program(values: &[f64], capacity: &[u32], held: Option<&Vec<usize>>) -> Program {
    let width = capacity.len() * COUNTS.len();
    let jobs = values.len() / width;
    let at = |job: usize, configuration: usize| configuration * jobs + job;
    let mut costs = vec![0.0; values.len()];
    for (index, value) in values.iter().enumerate() {
        let (job, configuration) = (index / width, index % width);
        let bonus = if job + 1 == jobs { NEWCOMER } else { 0.0 };
        costs[at(job, configuration)] = -(value + bonus);
    }
    let at_most =
        |entries: Vec<(usize, f64)>, upper: f64| Constraint { entries, lower: f64::NEG_INFINITY, upper };
    let all = |job: usize, value: f64| (0..width).map(move |configuration| (at(job, configuration), value));
    let mut constraints = vec![at_most(all(jobs - 1, 1.0).collect(), 1.0)];
    for (kind, &capacity) in capacity.iter().enumerate() {
        let columns = at(0, kind * COUNTS.len())..at(0, (kind + 1) * COUNTS.len());
        let entries = columns.map(|column| (column, f64::from(count_of(column / jobs)))).collect();
        constraints.push(at_most(entries, f64::from(capacity)));
    }
    if let Some(held) = held {
        let kept = held.iter().enumerate().map(|(job, &held)| (at(job, held), -1.0));
        let limit = CHANGES_MAX as f64 - jobs as f64;
        constraints.push(at_most(kept.chain(all(jobs - 1, -1.0)).collect(), limit));
    }
    let one = |job: usize| Constraint { entries: all(job, 1.0).collect(), lower: 1.0, upper: 1.0 };
    constraints.extend((0..jobs - 1).map(one));
    Program { costs, constraints }
}

/// What a job is worth in each configuration.
fn row(world: &World, job: u32) -> Vec<f64> {
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
        let goodput = f64::from(fewest) * (throughput / least);
        root(goodput * useful).min(VALUE_MAX)
    };
    let of = |throughput: f64| if throughput > 0.0 { value(throughput) } else { INFEASIBLE };
    throughputs.into_iter().map(of).collect()
}

/// Samples per second by the published model: in proportion to the devices.
fn throughput(world: &World, job: u32, kind: Kind, devices: u32) -> f64 {
    let per_node = world.site().per_node(kind);
    if per_node == 0 {
        return INFEASIBLE;
    }
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
        self.refused.clear();
        world.retry(|world, job| Tried::or_waits(self.fit(world, job, false)));
    }

    fn on_arrivals(&mut self, world: &mut World) {
        self.refused.clear();
        world.drop_impossible();
        world.take_in(|world, job| Tried::or_waits(self.fit(world, job, true)));
    }
}
