//! Two jobs per device, shortest first: the sharing policies of the project derived from Muri's testbed.
//!
//! A waiting job first gets idle devices. If these are too few it shares devices that hold one job: with any job whose
//! memory fits (first-fit sharing, FFS), or only where both gain by it (best sharing, best fit: BSBF). The variants with a
//! final `s` first search for one node that has enough.

mod benefit;
mod memory;
mod queue;

use std::collections::{BTreeMap, BTreeSet};

use wharf_core::{
    Change, Chosen, Decision, DeviceSet, JobId, Knowledge, NodeId, NodeShare, Policy, Reason, View,
};

use crate::placement::{Placer, allowed_types};
use crate::priority::{Key, working_devices};
use crate::rebuild::busy_or_fragmented;
use crate::room;
pub use memory::Memory;
use queue::Queue;

/// A running job with fewer iterations left is not stopped any more.
const ITERATIONS_LEFT_MIN: f64 = 100.0;

/// What can be chosen about pairing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairingOptions {
    /// Whether jobs share only where both gain by it.
    pub only_beneficial: bool,
    /// Whether one node with enough devices is searched for first.
    pub consolidate: bool,
    /// How many times longer a running job must need than a waiting one to be stopped for it; `None`: never.
    pub preempt_ratio: Option<f64>,
    /// Seconds for which a job keeps its devices in any case.
    pub min_run_s: f64,
    /// What a device can hold.
    pub memory: Memory,
}

/// Shortest remaining time first, with up to two jobs on a device.
pub struct Pairing {
    options: PairingOptions,
    placer: Box<dyn Placer>,
    waiting: Queue,
    placed: BTreeSet<JobId>,
    placement: Vec<NodeShare>,
}

/// A device that a job could have: idle ones first, then by what sharing costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seat {
    rank: Key,
    node: NodeId,
    device: u32,
}

impl Pairing {
    /// A policy over an idle cluster.
    pub fn new(options: PairingOptions, placer: Box<dyn Placer>) -> Self {
        let (waiting, placed) = (Queue::default(), BTreeSet::new());
        Self { options, placer, waiting, placed, placement: Vec::new() }
    }

    fn wait(&mut self, view: &View<'_>, job: JobId) {
        self.placed.remove(&job);
        let key = Key::of(view.remaining_s(job).unwrap_or(0.0));
        self.waiting.wait(job, view.spec(job), key);
    }

    fn start(&mut self, decision: &mut Decision<'_>, job: JobId, placement: &[NodeShare]) {
        if decision.start(job, placement) {
            self.waiting.remove(job);
            self.placed.insert(job);
        } else {
            // The audit refused: a bug, already reported.
            self.waiting.block(job);
        }
    }

    fn start_on_idle(&mut self, decision: &mut Decision<'_>, job: JobId) -> bool {
        let view = decision.view();
        let mut placement = std::mem::take(&mut self.placement);
        let gang = &view.spec(job).gang;
        let is_found = self.placer.place(view.topology(), view.schedule(), gang, &mut placement);
        if is_found {
            self.start(decision, job, &placement);
        }
        self.placement = placement;
        is_found
    }

    fn start_shared(&mut self, decision: &mut Decision<'_>, job: JobId) -> bool {
        let placement = self.shared_placement(&decision.view(), job);
        if let Some(placement) = &placement {
            self.start(decision, job, placement);
        }
        placement.is_some()
    }

    fn start_by_preemption(&mut self, decision: &mut Decision<'_>, job: JobId) -> bool {
        let Some(ratio) = self.options.preempt_ratio else { return false };
        let view = decision.view();
        let limit = view.remaining_s(job).unwrap_or(0.0) * ratio;
        let is_stoppable = |other: JobId| {
            let left_s = view.remaining_s(other)?;
            let is_long = view.remaining_iterations(other)? > ITERATIONS_LEFT_MIN;
            (is_long && left_s > limit).then_some((std::cmp::Reverse(Key::of(left_s)), other))
        };
        let mut longest: Vec<_> = self.placed.iter().filter_map(|&other| is_stoppable(other)).collect();
        let until = |other: JobId| view.protected_until(other, self.options.min_run_s);
        let again = longest.iter().filter_map(|&(_, other)| until(other)).min();
        longest.retain(|&(_, other)| until(other).is_none());
        longest.sort_unstable();
        let gang = &view.spec(job).gang;
        let room = room::find(&view, gang, longest.into_iter().map(|(_, other)| other));
        if let Some(again) = again {
            decision.wake_at(again);
        }
        let Some(room) = room else { return false };
        for &victim in &room.leaving {
            if decision.preempt(victim, Some(job), Chosen::LastInOrder) {
                self.wait(&decision.view(), victim);
            }
        }
        let view = decision.view();
        let placement = room.placement(&view, &view.spec(job).gang);
        self.start(decision, job, &placement);
        true
    }

    /// Idle devices and devices with one partner, together as many as the job needs.
    fn shared_placement(&self, view: &View<'_>, job: JobId) -> Option<Vec<NodeShare>> {
        let devices = view.spec(job).gang.devices;
        if view.spec(job).gang.needs.is_some() {
            // Processors and memory are not shared: it waits for idle devices.
            return None;
        }
        let mut ranks = BTreeMap::new();
        for kind in allowed_types(view.topology(), &view.spec(job).gang) {
            let mut by_node: Vec<Vec<Seat>> = Vec::new();
            for (index, node) in view.topology().nodes().iter().enumerate() {
                if node.device_type == kind {
                    by_node.push(self.seats(view, job, NodeId::from_index(index), &mut ranks));
                }
            }
            let one_node = if self.options.consolidate { tightest(&by_node, devices) } else { None };
            let mut seats = one_node.unwrap_or_else(|| by_node.concat());
            if seats.len() >= devices as usize {
                seats.sort_unstable();
                seats.truncate(devices as usize);
                return Some(shares(&seats));
            }
        }
        None
    }

    /// The devices of one node that the job could have.
    fn seats(
        &self,
        view: &View<'_>,
        job: JobId,
        node: NodeId,
        ranks: &mut BTreeMap<JobId, Option<Key>>,
    ) -> Vec<Seat> {
        let schedule = view.schedule();
        if !schedule.is_up(node) {
            return Vec::new();
        }
        let devices = view.topology().node(node).spec.devices;
        let load = f64::from(devices - schedule.free(node).len());
        let seat = |device| {
            let mut occupants = schedule.occupants(view.topology(), node, device);
            let rank = match (occupants.next(), occupants.next()) {
                (None, _) => Some(Key::of(load)),
                (Some(other), None) => {
                    let rank = *ranks.entry(other).or_insert_with(|| self.partner_rank(view, job, other));
                    // First-fit sharing prefers quiet nodes.
                    rank.map(|rank| {
                        if self.options.only_beneficial { rank } else { Key::in_level(rank.level, load) }
                    })
                }
                _ => None,
            };
            rank.map(|rank| Seat { rank, node, device })
        };
        let broken = schedule.broken(node);
        let is_usable = |&device: &u32| !broken.contains(device) && schedule.takes_turns(node, device);
        (0..devices).filter(is_usable).filter_map(seat).collect()
    }

    /// How good a partner a running job is; `None` where it is none.
    fn partner_rank(&self, view: &View<'_>, job: JobId, other: JobId) -> Option<Key> {
        if !self.options.memory.holds(view.spec(job), view.spec(other)) {
            return None;
        }
        let value = if self.options.only_beneficial { benefit::beside(view, job, other)? } else { 0.0 };
        Some(Key::in_level(1, value))
    }
}

/// The seats of the node that has the fewest of those that have enough.
fn tightest(by_node: &[Vec<Seat>], devices: u32) -> Option<Vec<Seat>> {
    let fitting = by_node.iter().filter(|seats| seats.len() >= devices as usize);
    fitting.min_by_key(|seats| seats.len()).cloned()
}

/// Seats as a placement.
fn shares(seats: &[Seat]) -> Vec<NodeShare> {
    let mut by_node: BTreeMap<NodeId, DeviceSet> = BTreeMap::new();
    for seat in seats {
        by_node.entry(seat.node).or_default().insert(seat.device);
    }
    by_node.into_iter().map(|(node, devices)| NodeShare::new(node, devices)).collect()
}

impl Policy for Pairing {
    fn knowledge(&self) -> Knowledge {
        Knowledge::Durations
    }

    fn observe(&mut self, view: &View<'_>, change: Change) {
        match change {
            Change::Arrived(job) | Change::Waiting(job) | Change::Stopping(job) => {
                if view.schedule().placement(job).is_none() {
                    self.wait(view, job);
                }
            }
            Change::Placed(job) => {
                self.waiting.remove(job);
                self.placed.insert(job);
            }
            Change::Ended(job) => {
                self.waiting.remove(job);
                self.placed.remove(&job);
            }
            Change::Running(_) | Change::Node(_) => {}
        }
    }

    fn schedule(&mut self, decision: &mut Decision<'_>) {
        self.waiting.unblock();
        // Gangs for which a shorter job found neither idle devices nor jobs to stop. Whether two share depends on more than gangs.
        let mut full: BTreeSet<usize> = BTreeSet::new();
        while let Some((gang, job)) = self.waiting.first_open() {
            let is_full = full.contains(&gang);
            let is_started =
                !is_full && self.start_on_idle(decision, job) || self.start_shared(decision, job);
            if !is_started && !is_full && self.start_by_preemption(decision, job) {
                // Those who were stopped left devices that jobs without a place before, shorter ones too, may have or share.
                self.waiting.unblock();
                full.clear();
                continue;
            }
            if !is_started {
                full.insert(gang);
                self.waiting.block(job);
            }
        }
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> Reason {
        let (needed, working) = (view.spec(job).gang.devices, working_devices(view, job));
        if needed > working {
            return Reason::NodesOut { needed, working };
        }
        if let Some((first, ahead)) = self.waiting.ahead(job) {
            return Reason::Behind { first, ahead };
        }
        match busy_or_fragmented(view, job) {
            Reason::DevicesBusy { needed, free } => Reason::NoPartner { needed, free },
            other => other,
        }
    }
}
