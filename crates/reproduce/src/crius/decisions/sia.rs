//! Sia as Crius's simulator has it: an integer program chooses type and number of devices together when a job is admitted,
//! with at most three other jobs changing theirs.
//!
//! Kept as published: throughput grows linearly with the number of devices; where a job does not fit one device, the throughput of one
//! device is half of its real value; the number of devices of a running job follows the program one change late,
//! and its devices change only with its type; admitting a job is worth a thousand.
//!
//! Not as published: the solver. [`adjust`] finds the best choice, with its documented tie rule. The published solver scales the -10^9 of
//! infeasible configurations to 1,000, so that its dual tolerance hides differences of goodput up to 0.1: about one program of seven ends
//! below the optimum, at a choice that depends on the order of jobs and types. docs/policies.md has the measured differences.

use wharf_perf::cells::DEVICE_COUNTS as COUNTS;
use wharf_solver::choice::Configuration;

use super::Rules;
use super::adjust::{Holder, adjust};
use super::gavel::{CHANGES_MAX, place_all};
use super::query::INFEASIBLE;
use super::site::{Kind, Shape};
use super::world::{Tried, World};

/// Cost of a restart, in seconds.
const RESTART_S: f64 = 600.0;
/// Least useful share of a job's time.
const USE_MIN: f64 = 0.01;
/// Largest value of a configuration.
const VALUE_MAX: f64 = 3000.0;
/// Value of admitting a job, whatever its configuration.
const NEWCOMER: f64 = 1000.0;

/// `sia`.
#[derive(Clone, Debug, Default)]
pub(super) struct Sia {
    /// Admitted jobs in order, each with its configuration in the last program.
    admitted: Vec<Admitted>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Admitted {
    job: u32,
    kind: Kind,
    devices: u32,
}

impl Admitted {
    fn new(job: u32, configuration: Configuration) -> Self {
        Self { job, kind: Kind(configuration.kind as u8), devices: configuration.count }
    }

    fn has(&self, configuration: &Configuration) -> bool {
        configuration.kind == self.kind.index() && configuration.count == self.devices
    }
}

impl Sia {
    /// Admits a job, if the program and the placement allow.
    fn fit(&mut self, world: &mut World, job: u32, force_opt: bool) -> bool {
        let Some(next) = self.program(world, job) else { return false };
        let before = std::mem::replace(&mut self.admitted, next);
        let is_placed = self.apply(world, &before, force_opt);
        if !is_placed {
            self.admitted.pop();
        }
        is_placed
    }

    /// The configurations of all jobs with the largest sum of values, the newcomer last; `None` where the newcomer gets none.
    fn program(&self, world: &World, job: u32) -> Option<Vec<Admitted>> {
        let mut own = row(world, job);
        own.iter_mut().for_each(|configuration| configuration.value += NEWCOMER);
        let rows: Vec<Vec<Configuration>> =
            self.admitted.iter().map(|admitted| row(world, admitted.job)).collect();
        let mut holders = Vec::with_capacity(rows.len());
        for (admitted, configurations) in self.admitted.iter().zip(&rows) {
            let current = configurations.iter().position(|known| admitted.has(known))?;
            holders.push(Holder { configurations, current });
        }
        let kinds = world.site().kinds();
        let capacity: Vec<u32> = kinds.map(|kind| world.site().kind(kind).device_count()).collect();
        let found = adjust(&capacity, &holders, &own, CHANGES_MAX)?;
        let mut next = self.admitted.clone();
        for (index, to) in found.changes {
            next[index] = Admitted::new(next[index].job, rows[index][to]);
        }
        next.push(Admitted::new(job, own[found.pick]));
        Some(next)
    }

    /// Carries the program out: jobs whose type changed are placed again, with the number of devices of the program before. Where that
    /// fails all jobs keep their devices, but not the recorded number.
    fn apply(&self, world: &mut World, before: &[Admitted], force_opt: bool) -> bool {
        let mut changed = Vec::new();
        for (index, now) in self.admitted.iter().enumerate() {
            let was = before.get(index);
            world.job_mut(now.job).quota.devices = was.unwrap_or(now).devices;
            if was.is_none_or(|was| was.kind != now.kind) {
                changed.push((now.job, now.kind));
            }
        }
        let is_placed = place_all(world, &changed, force_opt);
        if is_placed {
            for admitted in &self.admitted {
                let quota = &mut world.job_mut(admitted.job).quota;
                quota.devices = quota.shape.devices();
            }
        }
        is_placed
    }
}

/// The configurations in which a job can run, with their values.
fn row(world: &World, job: u32) -> Vec<Configuration> {
    let on = |kind: Kind| {
        COUNTS.map(|count| {
            let value = throughput(world, job, kind, count);
            Configuration { kind: kind.index(), count, value }
        })
    };
    let mut row: Vec<Configuration> = world.site().kinds().flat_map(on).collect();
    row.retain(|configuration| configuration.value > 0.0);
    let least = row.iter().map(|configuration| configuration.value).fold(f64::INFINITY, f64::min);
    let fewest = row.iter().map(|configuration| configuration.count).min().unwrap_or(1);
    let state = world.job(job);
    let useful_s = state.executed_s - f64::from(state.reschedules) * RESTART_S;
    let useful = (useful_s / (state.executed_s + RESTART_S)).max(USE_MIN);
    for configuration in &mut row {
        let goodput = f64::from(fewest) * (configuration.value / least);
        configuration.value = (goodput * useful).sqrt().min(VALUE_MAX);
    }
    row
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
        self.admitted.retain(|admitted| !world.ended.contains(&admitted.job));
        world.retry(|world, job| Tried::or_waits(self.fit(world, job, false)));
    }

    fn on_arrivals(&mut self, world: &mut World) {
        world.drop_impossible();
        world.take_in(|world, job| Tried::or_waits(self.fit(world, job, true)));
    }
}
