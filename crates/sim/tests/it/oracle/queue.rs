//! Policies that serve jobs in an order: fifo, sjf, srtf, srsf, las, tiresias, gittins.

use std::collections::BTreeSet;

use super::place::{Strategy, elsewhere, place};
use super::world::{Phase, Placement, RESTART_S, Rule, World};

/// Of times that are no whole numbers, as where service is divided by three devices.
const ROUNDING: f64 = 1e-6;
/// Device-seconds of service that count as none. Preemption among gangs of one and two devices halves differences of service over and
/// over, so that the rule has to state from where on they are equal.
const SERVICE_ROUNDING: f64 = 1e-3;

/// Smaller goes first; equal keys by job.
type Key = (i64, f64);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Backfill {
    Off,
    Greedy,
    Easy,
}

#[derive(Clone, Debug)]
pub(super) enum Order {
    Fifo {
        age_s: f64,
    },
    Sjf,
    /// Remaining time, or time x devices, and how many times longer a running job must be.
    Shortest {
        by_devices: bool,
        ratio: f64,
    },
    Las {
        quantum_s: f64,
    },
    Tiresias {
        limits_s: Vec<f64>,
        by_devices: bool,
    },
    Gittins {
        ratio: f64,
        finished_s: Vec<f64>,
        index: Vec<f64>,
        lesson: usize,
    },
}

pub(super) struct Queue {
    pub(super) order: Order,
    pub(super) backfill: Backfill,
    pub(super) strategy: Strategy,
}

fn service_s(world: &World<'_>, job: usize) -> f64 {
    world.attained_s(job) * world.jobs[job].devices as f64
}

/// Levels of the Gittins index begin at 0, 60, 120, 240, ... device-seconds.
fn level_start(level: usize) -> f64 {
    if level == 0 { 0.0 } else { 60.0 * f64::powi(2.0, level as i32 - 1) }
}

fn gittins_level(service_s: f64) -> usize {
    (0..=24)
        .rev()
        .find(|&level| service_s + SERVICE_ROUNDING >= level_start(level))
        .expect("level 0 begins at 0")
}

/// The best ratio of jobs that finish within more service to the service that is spent on all, for each level.
fn gittins_index(finished_s: &[f64]) -> Vec<f64> {
    let ratio = |from: f64, until: f64| {
        let alive: Vec<f64> = finished_s.iter().copied().filter(|&service| service > from).collect();
        let done = alive.iter().filter(|&&service| service <= until).count() as f64;
        let spent: f64 = alive.iter().map(|service| service.min(until) - from).sum();
        if spent > 0.0 { done / spent } else { 0.0 }
    };
    let best = |level: usize| {
        let from = level_start(level);
        (level + 1..=25).map(|next| ratio(from, level_start(next))).fold(0.0, f64::max)
    };
    (0..=24).map(best).collect()
}

impl Queue {
    fn key(&self, world: &World<'_>, job: usize) -> Key {
        let spec = &world.jobs[job];
        match &self.order {
            Order::Fifo { age_s } if *age_s > 0.0 => (0, spec.submit_s - f64::from(spec.priority) * age_s),
            Order::Fifo { .. } => (-i64::from(spec.priority), spec.submit_s),
            Order::Sjf => (0, spec.work_s),
            Order::Shortest { by_devices, .. } => {
                let left_s = match world.lives[job].phase {
                    Phase::Running(..) => world.end_s(job) - world.now,
                    _ => RESTART_S + world.lives[job].left_s,
                };
                (0, if *by_devices { left_s * spec.devices as f64 } else { left_s })
            }
            Order::Las { .. } => (0, service_s(world, job)),
            Order::Tiresias { limits_s, by_devices } => {
                let service_s = if *by_devices { service_s(world, job) } else { world.attained_s(job) };
                (
                    limits_s.iter().filter(|&&limit| limit <= service_s + SERVICE_ROUNDING).count() as i64,
                    spec.submit_s,
                )
            }
            Order::Gittins { index, .. } => {
                let level = gittins_level(service_s(world, job));
                (0, if index.is_empty() { level as f64 } else { 0.0 - index[level] })
            }
        }
    }

    /// The key by which jobs are ordered: service to the nearest 2^-20 device-seconds, so that sums of thirds and sevenths of a second that are
    /// equal but for rounding errors are a tie.
    fn place(&self, world: &World<'_>, job: usize) -> Key {
        let (level, value) = self.key(world, job);
        let is_service = matches!(self.order, Order::Las { .. });
        (level, if is_service { (value * f64::powi(2.0, 20)).round() / f64::powi(2.0, 20) } else { value })
    }

    fn may_preempt(&self, waiting: Key, running: Key) -> bool {
        match &self.order {
            Order::Fifo { .. } | Order::Sjf => false,
            Order::Shortest { ratio, .. } => running.1 > waiting.1 * ratio,
            Order::Las { quantum_s } => running.1 - waiting.1 >= *quantum_s - SERVICE_ROUNDING,
            Order::Tiresias { .. } => waiting.0 < running.0,
            Order::Gittins { index, .. } if index.is_empty() => waiting.1 < running.1,
            Order::Gittins { ratio, .. } => -waiting.1 > -running.1 * ratio,
        }
    }

    fn in_order(&self, world: &World<'_>) -> Vec<usize> {
        let mut jobs = world.waiting();
        jobs.sort_by(|&a, &b| order(self.place(world, a), self.place(world, b)).then(a.cmp(&b)));
        jobs
    }

    /// Running jobs that may be preempted for a waiting one, the last in order first.
    fn candidates(&self, world: &World<'_>, head: usize) -> Vec<usize> {
        let key = self.key(world, head);
        let mut jobs = world.running();
        jobs.retain(|&job| !world.fresh.contains(&job) && self.may_preempt(key, self.key(world, job)));
        if let Order::Las { quantum_s } = self.order {
            jobs.retain(|&job| world.now + ROUNDING >= world.since_s(job) + quantum_s);
        }
        jobs.sort_by(|&a, &b| order(self.place(world, b), self.place(world, a)).then(b.cmp(&a)));
        jobs
    }

    /// Preempts for a job and starts it.
    fn preempt_for(&self, world: &mut World<'_>, head: usize) -> bool {
        let spec = &world.jobs[head];
        let is_allowed = |node: usize| spec.types.is_empty() || spec.types.contains(&world.nodes[node].kind);
        let sizes =
            (0..world.nodes.len()).filter(|&node| is_allowed(node)).map(|node| world.nodes[node].size);
        let size = sizes.max().unwrap_or(0);
        let candidates = self.candidates(world, head);
        let found = if spec.devices <= size {
            self.on_one_node(world, head, &candidates, &is_allowed)
        } else {
            on_whole_nodes(world, head, &candidates, size, &is_allowed)
        };
        let Some((victims, nodes)) = found else { return false };
        for victim in victims {
            world.stop(victim, false);
        }
        let free = world.free();
        let mut placement = Placement::new();
        for (node, count) in nodes {
            placement.push((node, free[node].iter().copied().take(count).collect()));
        }
        world.start(head, placement);
        true
    }

    /// Nodes in the order of the last candidate on each: the first that becomes large enough.
    fn on_one_node(
        &self,
        world: &World<'_>,
        head: usize,
        candidates: &[usize],
        is_allowed: &dyn Fn(usize) -> bool,
    ) -> Option<Victims> {
        let devices = world.jobs[head].devices;
        let nodes = candidates.iter().flat_map(|&job| world.placement(job).iter().map(|(node, _)| *node));
        let nodes: Vec<usize> = nodes.filter(|&node| is_allowed(node)).collect();
        nodes.into_iter().find_map(|node| {
            let here = |job: usize| {
                let shares = world.placement(job).iter();
                shares.filter(|share| share.0 == node).map(|share| share.1.len()).sum::<usize>()
            };
            let mut victims = Vec::new();
            let free = |victims: &[usize]| {
                world.free()[node].len() + victims.iter().map(|&job| here(job)).sum::<usize>()
            };
            for &job in candidates.iter().filter(|&&job| here(job) > 0) {
                if free(&victims) < devices {
                    victims.push(job);
                }
            }
            if free(&victims) < devices {
                return None;
            }
            // Those that are not needed keep their devices, the first in order first.
            for job in victims.clone().into_iter().rev() {
                let others: Vec<usize> = victims.iter().copied().filter(|&other| other != job).collect();
                if free(&others) >= devices {
                    victims = others;
                }
            }
            Some((victims, vec![(node, devices)]))
        })
    }

    /// Starts later jobs that do not delay the first one.
    fn backfill(&self, world: &mut World<'_>, head: usize) {
        for job in self.in_order(world).into_iter().filter(|&job| job != head) {
            let free = world.free();
            let Some(first) = place(self.strategy, world.nodes, &free, &world.jobs[job]) else { continue };
            let (at_s, reserved) = self.reservation(world, head);
            let end_s = world.now + RESTART_S + world.lives[job].left_s;
            let choices = [Some(first), elsewhere(world.nodes, &free, &world.jobs[job], &reserved)];
            for placement in choices.into_iter().flatten() {
                if end_s <= at_s || self.fits_beside(world, head, at_s, &placement) {
                    world.start(job, placement);
                    break;
                }
            }
        }
    }

    /// When the first job can start at the earliest, if no other does, and on which nodes.
    fn reservation(&self, world: &World<'_>, head: usize) -> (f64, Vec<usize>) {
        let mut ends: Vec<f64> = world.running().into_iter().map(|job| world.end_s(job)).collect();
        ends.sort_by(f64::total_cmp);
        for end_s in ends {
            let free = free_at(world, end_s);
            if let Some(placement) = place(self.strategy, world.nodes, &free, &world.jobs[head]) {
                return (end_s, placement.into_iter().map(|(node, _)| node).collect());
            }
        }
        (f64::INFINITY, Vec::new())
    }

    /// Whether the first job can still start at a time if these devices are taken then.
    fn fits_beside(&self, world: &World<'_>, head: usize, at_s: f64, taken: &Placement) -> bool {
        let mut free = free_at(world, at_s);
        for (node, devices) in taken {
            free[*node] = &free[*node] - devices;
        }
        place(self.strategy, world.nodes, &free, &world.jobs[head]).is_some()
    }
}

/// Jobs to stop, and nodes with the number of devices to take then.
type Victims = (Vec<usize>, Vec<(usize, usize)>);

fn order(a: Key, b: Key) -> std::cmp::Ordering {
    a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
}

fn free_at(world: &World<'_>, at_s: f64) -> Vec<BTreeSet<usize>> {
    let gone: Vec<usize> = world.running().into_iter().filter(|&job| world.end_s(job) <= at_s).collect();
    world.free_without(&gone)
}

/// Whole nodes and one for the remaining devices, all of one type and switch. Whole nodes are idle ones, in the order of the types that the job
/// names, then those of candidates that hold no other jobs. The remaining devices are on the node with the fewest free ones that are enough, else where the last candidates make room.
fn on_whole_nodes(
    world: &World<'_>,
    head: usize,
    candidates: &[usize],
    size: usize,
    is_allowed: &dyn Fn(usize) -> bool,
) -> Option<Victims> {
    let (whole, rest) = (world.jobs[head].devices / size, world.jobs[head].devices % size);
    let free = world.free();
    let on = |node: usize| -> Vec<usize> {
        let is_here = |&job: &usize| world.placement(job).iter().any(|share| share.0 == node);
        world.running().into_iter().filter(is_here).collect()
    };
    let alike = |one: usize, other: usize| {
        let (one, other) = (&world.nodes[one], &world.nodes[other]);
        (one.kind, one.switch) == (other.kind, other.switch)
    };
    let all = 0..world.nodes.len();
    let mut idle: Vec<usize> = all.clone().collect();
    idle.retain(|&node| is_allowed(node) && free[node].len() == world.nodes[node].size);
    // Types that the job prefers come first.
    let types = &world.jobs[head].types;
    idle.sort_by_key(|&node| types.iter().position(|kind| *kind == world.nodes[node].kind));
    let of_candidates: Vec<usize> =
        candidates.iter().flat_map(|&job| world.placement(job).iter().map(|share| share.0)).collect();
    let clearable = of_candidates
        .iter()
        .copied()
        .filter(|&node| is_allowed(node) && on(node).iter().all(|job| candidates.contains(job)));
    let mut gathered: Vec<usize> = Vec::new();
    for node in idle.into_iter().chain(clearable) {
        if world.nodes[node].size < size || gathered.contains(&node) {
            continue;
        }
        gathered.push(node);
        let mut group: Vec<usize> = gathered.iter().copied().filter(|&other| alike(node, other)).collect();
        if group.len() != whole {
            continue;
        }
        group.sort_unstable();
        let mut victims: BTreeSet<usize> = group.iter().flat_map(|&node| on(node)).collect();
        let mut shares: Vec<(usize, usize)> = group.iter().map(|&node| (node, size)).collect();
        if rest == 0 {
            return Some((victims.into_iter().collect(), shares));
        }
        let other = |node: usize| is_allowed(node) && alike(node, group[0]) && !group.contains(&node);
        let roomy = all.clone().filter(|&node| other(node) && free[node].len() >= rest);
        if let Some(last) = roomy.min_by_key(|&node| free[node].len()) {
            shares.push((last, rest));
            return Some((victims.into_iter().collect(), shares));
        }
        for &last in of_candidates.iter().filter(|&&node| other(node)) {
            let enough = |leaving: &BTreeSet<usize>| {
                let gone: Vec<usize> = leaving.union(&victims).copied().collect();
                world.free_without(&gone)[last].len() >= rest
            };
            let here: Vec<usize> = candidates.iter().copied().filter(|job| on(last).contains(job)).collect();
            let mut leaving = BTreeSet::new();
            for &job in here.iter().filter(|job| !victims.contains(job)) {
                if !enough(&leaving) {
                    leaving.insert(job);
                }
            }
            if !enough(&leaving) {
                continue;
            }
            for job in here.iter().rev().filter(|job| leaving.contains(job)).copied().collect::<Vec<_>>() {
                leaving.remove(&job);
                if !enough(&leaving) {
                    leaving.insert(job);
                }
            }
            victims.extend(leaving);
            shares.push((last, rest));
            return Some((victims.into_iter().collect(), shares));
        }
    }
    None
}

impl Rule for Queue {
    fn decide(&mut self, world: &mut World<'_>) {
        // Gangs of which one did not fit.
        let mut blocked: BTreeSet<(usize, Vec<&str>)> = BTreeSet::new();
        loop {
            let gang = |job: usize| (world.jobs[job].devices, world.jobs[job].types.clone());
            let Some(head) = self.in_order(world).into_iter().find(|&job| !blocked.contains(&gang(job)))
            else {
                return;
            };
            let gang = gang(head);
            if let Some(placement) = place(self.strategy, world.nodes, &world.free(), &world.jobs[head]) {
                world.start(head, placement);
            } else if self.preempt_for(world, head) {
                blocked.clear();
            } else {
                match self.backfill {
                    Backfill::Off => return,
                    Backfill::Greedy => {
                        blocked.insert(gang);
                    }
                    Backfill::Easy => return self.backfill(world, head),
                }
            }
        }
    }

    fn timer(&self, world: &World<'_>) -> Option<f64> {
        let waiting = world.waiting();
        if waiting.is_empty() {
            return None;
        }
        let devices = |job: usize| world.jobs[job].devices as f64;
        let mut times = Vec::new();
        for job in world.running() {
            let service_s = service_s(world, job);
            match &self.order {
                Order::Fifo { .. } | Order::Sjf | Order::Shortest { .. } => {}
                Order::Las { quantum_s } => {
                    times.push(world.since_s(job) + quantum_s);
                    times.extend(waiting.iter().map(|&other| {
                        let behind_s = self.key(world, other).1 + quantum_s - service_s;
                        world.now + behind_s / devices(job)
                    }));
                }
                Order::Tiresias { limits_s, by_devices: true } => {
                    times.extend(limits_s.iter().map(|limit| world.now + (limit - service_s) / devices(job)));
                }
                Order::Tiresias { limits_s, by_devices: false } => {
                    times.extend(limits_s.iter().map(|limit| world.now + limit - world.attained_s(job)));
                }
                Order::Gittins { .. } => times.extend(
                    (1..=24).map(|level| world.now + (level_start(level) - service_s) / devices(job)),
                ),
            }
        }
        times.into_iter().filter(|&time| time > world.now + ROUNDING).min_by(f64::total_cmp)
    }

    fn ended(&mut self, world: &World<'_>, job: usize) {
        if let Order::Gittins { finished_s, index, lesson, .. } = &mut self.order {
            // In 1/1024 of a device-second, so that sums are exact and equal ratios equal.
            finished_s.push((service_s(world, job) * 1024.0).round() / 1024.0);
            if finished_s.len() >= (*lesson).max(16) {
                *lesson = finished_s.len() * 2;
                *index = gittins_index(finished_s);
            }
        }
    }
}
