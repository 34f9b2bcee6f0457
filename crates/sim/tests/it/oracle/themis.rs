//! Themis: leases that end together, and offers to the worst-off jobs.

use std::collections::BTreeMap;

use super::place::{Strategy, place};
use super::room::make_room;
use super::world::{Placement, RESTART_S, Rule, World};

pub(super) struct Themis {
    pub(super) lease_s: f64,
    pub(super) knob: f64,
    pub(super) strategy: Strategy,
    pub(super) boundary: Option<f64>,
    /// Ends of leases of running jobs.
    pub(super) leases: BTreeMap<usize, f64>,
}

impl Themis {
    /// Time from submission to completion if it ran from now on without a restart, over the time with a fair share from the start.
    fn unfairness(world: &World<'_>, job: usize) -> f64 {
        let spec = &world.jobs[job];
        let live = world.waiting().len() + world.running().len();
        let devices: usize = world.up_nodes().into_iter().map(|node| world.nodes[node].size).sum();
        let share = devices.max(1) as f64 / live as f64;
        let taken_s = world.now - spec.submit_s + world.work_left_s(job);
        taken_s / (spec.work_s * (spec.devices as f64 / share).max(1.0))
    }

    fn by_need(world: &World<'_>, mut jobs: Vec<usize>) -> Vec<usize> {
        let need = |job: usize| Self::unfairness(world, job);
        jobs.sort_by(|&a, &b| need(b).total_cmp(&need(a)).then(a.cmp(&b)));
        jobs
    }

    fn lease_end(&self, now: f64) -> f64 {
        let next = self.boundary.expect("set by the first decision");
        if (next - now) * 2.0 >= self.lease_s { next } else { next + self.lease_s }
    }

    fn start(&mut self, world: &mut World<'_>, job: usize, placement: Placement) {
        self.leases.insert(job, self.lease_end(world.now));
        world.start(job, placement);
    }

    fn start_on_free(&mut self, world: &mut World<'_>, job: usize) -> bool {
        let placement = place(self.strategy, world.nodes, &world.free(), &world.jobs[job]);
        let is_found = placement.is_some();
        if let Some(placement) = placement {
            self.start(world, job, placement);
        }
        is_found
    }

    fn offer(&mut self, world: &mut World<'_>) {
        let is_expired = |job: &usize| self.leases[job] <= world.now;
        let expired: Vec<usize> = world.running().into_iter().filter(is_expired).collect();
        let bidders = Self::by_need(world, [world.waiting(), expired.clone()].concat());
        let count = (((1.0 - self.knob) * bidders.len() as f64).ceil() as usize).clamp(1, bidders.len());
        let outbid: Vec<usize> =
            bidders[count..].iter().rev().copied().filter(|job| expired.contains(job)).collect();
        for &job in &bidders[..count] {
            if expired.contains(&job) || self.start_on_free(world, job) {
                continue;
            }
            let still: Vec<usize> =
                outbid.iter().copied().filter(|other| world.running().contains(other)).collect();
            let Some((leaving, shares)) = make_room(world, job, &still) else { continue };
            for victim in leaving {
                world.stop(victim, false);
                self.leases.remove(&victim);
            }
            let free = world.free();
            let lowest =
                |(node, count): (usize, usize)| (node, free[node].iter().copied().take(count).collect());
            self.start(world, job, shares.into_iter().map(lowest).collect());
        }
        let end = self.lease_end(world.now);
        for job in expired {
            if let Some(lease) = self.leases.get_mut(&job) {
                *lease = lease.max(end);
            }
        }
    }
}

impl Rule for Themis {
    fn decide(&mut self, world: &mut World<'_>) {
        let running = world.running();
        self.leases.retain(|job, _| running.contains(job));
        let is_due = self.boundary.is_some_and(|boundary| boundary <= world.now);
        if is_due || self.boundary.is_none() {
            self.boundary = Some(world.now + self.lease_s);
        }
        if is_due && !world.waiting().is_empty() {
            self.offer(world);
        }
        for job in Self::by_need(world, world.waiting()) {
            self.start_on_free(world, job);
        }
    }

    fn timer(&self, world: &World<'_>) -> Option<f64> {
        self.boundary.filter(|&boundary| boundary > world.now && !world.waiting().is_empty())
    }
}

impl World<'_> {
    /// Work left, without restarts.
    fn work_left_s(&self, job: usize) -> f64 {
        let end_s = self.end_s(job);
        if end_s.is_finite() {
            (end_s - self.now).min(end_s - self.since_s(job) - RESTART_S)
        } else {
            self.lives[job].left_s
        }
    }
}
