//! AntMan: guaranteed jobs run as if alone, opportunistic ones use what these leave.

use std::collections::BTreeMap;

use wharf_core::{
    Change, Decision, DeviceSet, DeviceTypeId, Gang, JobId, Knowledge, NodeId, NodeShare, Policy, Reason,
    View,
};

use crate::placement::{Placer, allowed_types};
use crate::priority::classes::Classes;
use crate::priority::{Key, working_devices};
use crate::reserve::{self, Candidate, Reservation};
use crate::room::node_size_max;

/// AntMan (OSDI'20). A device holds at most one guaranteed and one opportunistic job; nothing is preempted.
pub struct AntMan {
    placer: Box<dyn Placer>,
    guaranteed: Classes,
    opportunistic: Classes,
    reservation: Option<Reservation>,
}

/// A node's devices on which a job of some kind could run.
struct Open {
    node: NodeId,
    devices: DeviceSet,
    size: u32,
    switch: u32,
}

fn is_guaranteed(view: &View<'_>, job: JobId) -> bool {
    view.spec(job).priority >= 0
}

/// The devices of each working node without another job of this one's kind.
fn open_nodes(view: &View<'_>, kind: DeviceTypeId, job: JobId) -> Vec<Open> {
    let wants_guarantee = is_guaranteed(view, job);
    let schedule = view.schedule();
    let nodes = view.topology().nodes().iter().enumerate();
    let nodes = nodes.map(|(index, node)| (NodeId::from_index(index), node));
    let open = |node: NodeId, size: u32| {
        // Two jobs of one kind are on a device where the priority of one was changed while they ran.
        let is_open = |device: &u32| {
            let others = || schedule.occupants(view.topology(), node, *device);
            schedule.takes_turns(node, *device)
                && others().count() < schedule.slots()
                && others().all(|other| is_guaranteed(view, other) != wants_guarantee)
        };
        let mut devices = DeviceSet::EMPTY;
        (0..size).filter(is_open).for_each(|device| devices.insert(device));
        devices.difference(schedule.broken(node))
    };
    nodes
        .filter(|&(id, node)| node.device_type == kind && schedule.is_up(id))
        .map(|(id, node)| Open {
            node: id,
            devices: open(id, node.spec.devices),
            size: node.spec.devices,
            switch: node.spec.switch,
        })
        .collect()
}

/// `count` open devices of a node, idle ones first.
fn take(view: &View<'_>, open: &Open, count: u32) -> NodeShare {
    let idle = open.devices.intersection(view.schedule().free(open.node)).lowest(count);
    let shared = open.devices.difference(idle).lowest(count - idle.len());
    NodeShare::new(open.node, idle.union(shared))
}

/// Open devices of several nodes, in order, as many as the gang needs.
fn take_all<'a>(
    view: &View<'_>,
    nodes: impl IntoIterator<Item = &'a Open>,
    devices: u32,
) -> Option<Vec<NodeShare>> {
    let mut missing = devices;
    let mut shares = Vec::new();
    for open in nodes {
        let count = open.devices.len().min(missing);
        if count > 0 {
            shares.push(take(view, open, count));
            missing -= count;
        }
        if missing == 0 {
            return Some(shares);
        }
    }
    None
}

/// The node with the fewest open devices that are enough.
fn take_tightest(view: &View<'_>, nodes: &[Open], devices: u32) -> Option<Vec<NodeShare>> {
    let fitting = nodes.iter().filter(|open| open.devices.len() >= devices);
    let tightest = fitting.min_by_key(|open| open.devices.len())?;
    Some(vec![take(view, tightest, devices)])
}

/// Nodes of one switch, wholly open.
fn take_whole(view: &View<'_>, nodes: &[Open], devices: u32) -> Option<Vec<NodeShare>> {
    let mut by_switch: BTreeMap<u32, Vec<&Open>> = BTreeMap::new();
    for open in nodes.iter().filter(|open| open.devices.len() == open.size) {
        by_switch.entry(open.switch).or_default().push(open);
    }
    by_switch.into_values().find_map(|nodes| take_all(view, nodes, devices))
}

impl AntMan {
    /// A policy over an idle cluster.
    pub fn new(placer: Box<dyn Placer>) -> Self {
        let (guaranteed, opportunistic) = (Classes::default(), Classes::default());
        Self { placer, guaranteed, opportunistic, reservation: None }
    }

    /// Takes a job out of both queues: its kind may have changed since it was put into one.
    fn unqueue(&mut self, job: JobId) {
        self.guaranteed.remove(job);
        self.opportunistic.remove(job);
    }

    /// Nodes that are reserved for others.
    fn reserved(&self, job: JobId) -> &[NodeId] {
        self.reservation.as_ref().filter(|held| held.holder != job).map_or(&[], |held| &held.nodes)
    }

    fn idle_placement(&mut self, view: &View<'_>, gang: &Gang, without: &[NodeId]) -> Option<Vec<NodeShare>> {
        let mut shares = Vec::new();
        let is_found = self.placer.place(view.topology(), view.schedule(), gang, &mut shares);
        (is_found && shares.iter().all(|share| !without.contains(&share.node))).then_some(shares)
    }

    fn guaranteed_placement(&mut self, view: &View<'_>, job: JobId) -> Option<Vec<NodeShare>> {
        let gang = &view.spec(job).gang;
        let without = self.reserved(job).to_vec();
        if let Some(shares) = self.idle_placement(view, gang, &without) {
            return Some(shares);
        }
        if gang.needs.is_some() {
            // Processors and memory are not shared: it waits for idle devices.
            return None;
        }
        let own = self.reservation.as_ref().filter(|held| held.holder == job);
        allowed_types(view.topology(), gang).find_map(|kind| {
            let mut nodes = open_nodes(view, kind, job);
            nodes.retain(|open| !without.contains(&open.node));
            let found = if gang.devices <= node_size_max(view, &[kind]) {
                take_tightest(view, &nodes, gang.devices)
            } else {
                take_whole(view, &nodes, gang.devices)
            };
            found.or_else(|| {
                let own = own?;
                take_all(view, nodes.iter().filter(|open| own.nodes.contains(&open.node)), gang.devices)
            })
        })
    }

    fn opportunistic_placement(&mut self, view: &View<'_>, job: JobId) -> Option<Vec<NodeShare>> {
        let gang = &view.spec(job).gang;
        if let Some(shares) = self.idle_placement(view, gang, &[]) {
            return Some(shares);
        }
        if gang.needs.is_some() {
            return None;
        }
        allowed_types(view.topology(), gang).find_map(|kind| {
            let mut nodes = open_nodes(view, kind, job);
            take_tightest(view, &nodes, gang.devices).or_else(|| {
                nodes.sort_by_key(|open| std::cmp::Reverse(open.devices.len()));
                take_all(view, &nodes, gang.devices)
            })
        })
    }

    fn start_guaranteed(&mut self, decision: &mut Decision<'_>) {
        self.check_reservation(&decision.view());
        self.guaranteed.unblock();
        while let Some((class, job)) = self.guaranteed.first_open() {
            let placement = self.guaranteed_placement(&decision.view(), job);
            if placement.is_some_and(|shares| decision.start(job, &shares)) {
                self.guaranteed.remove(job);
                if self.reservation.as_ref().is_some_and(|held| held.holder == job) {
                    self.reservation = None;
                }
                continue;
            }
            if self.reservation.is_none() {
                self.reservation = reserve(&decision.view(), job);
            }
            self.guaranteed.block(class);
        }
    }

    fn start_opportunistic(&mut self, decision: &mut Decision<'_>) {
        self.opportunistic.unblock();
        while let Some((class, job)) = self.opportunistic.first_open() {
            let placement = self.opportunistic_placement(&decision.view(), job);
            if placement.is_some_and(|shares| decision.start(job, &shares)) {
                self.opportunistic.remove(job);
            } else {
                self.opportunistic.block(class);
            }
        }
    }

    /// Gives up a reservation whose holder is not waiting any more, is not the first one, or whose nodes are out.
    fn check_reservation(&mut self, view: &View<'_>) {
        let first = self.guaranteed.first();
        let place = |job: JobId| (view.spec(job).submit, job);
        self.reservation = self.reservation.take().filter(|held| {
            self.guaranteed.waiting_key(held.holder).is_some()
                && first.is_none_or(|first| place(first) >= place(held.holder))
                && held.nodes.iter().all(|&node| view.schedule().is_up(node))
        });
    }
}

/// Nodes for a guaranteed job, by how many of their devices are without another one.
fn reserve(view: &View<'_>, job: JobId) -> Option<Reservation> {
    reserve::reserve(view, job, |kind| {
        let candidate = |open: Open| Candidate {
            node: open.node,
            open: open.devices.len(),
            size: open.size,
            switch: open.switch,
        };
        open_nodes(view, kind, job).into_iter().map(candidate).collect()
    })
}

impl Policy for AntMan {
    fn knowledge(&self) -> Knowledge {
        Knowledge::Attained
    }

    fn observe(&mut self, view: &View<'_>, change: Change) {
        match change {
            Change::Arrived(job) | Change::Waiting(job) | Change::Stopping(job) => {
                if view.schedule().placement(job).is_none() {
                    self.unqueue(job);
                    let key = Key::of(view.spec(job).submit.seconds());
                    let is_guaranteed = is_guaranteed(view, job);
                    let queue = if is_guaranteed { &mut self.guaranteed } else { &mut self.opportunistic };
                    queue.wait(job, &view.spec(job).gang, key);
                }
            }
            Change::Placed(job) | Change::Ended(job) => self.unqueue(job),
            Change::Running(_) | Change::Node(_) => {}
        }
    }

    fn schedule(&mut self, decision: &mut Decision<'_>) {
        self.start_guaranteed(decision);
        self.start_opportunistic(decision);
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> Reason {
        let gang = &view.spec(job).gang;
        let (needed, working) = (gang.devices, working_devices(view, job));
        if needed > working {
            return Reason::NodesOut { needed, working };
        }
        let queue = if is_guaranteed(view, job) { &self.guaranteed } else { &self.opportunistic };
        if let Some((first, ahead)) = queue.ahead(job) {
            return Reason::Behind { first, ahead };
        }
        let reserved = if is_guaranteed(view, job) { self.reserved(job) } else { &[] };
        let open = |with_reserved: bool| {
            let of_kind = |kind| {
                let nodes = open_nodes(view, kind, job).into_iter();
                let nodes = nodes.filter(|open| with_reserved || !reserved.contains(&open.node));
                nodes.map(|open| open.devices.len()).sum::<u32>()
            };
            allowed_types(view.topology(), gang).map(of_kind).max().unwrap_or(0)
        };
        match (open(false), open(true), &self.reservation) {
            (free, all, Some(held)) if free < needed && all >= needed && held.holder != job => {
                Reason::Reserved { holder: held.holder }
            }
            (free, ..) if free < needed => Reason::DevicesBusy { needed, free },
            (free, ..) => Reason::Fragmented { needed, free },
        }
    }
}
