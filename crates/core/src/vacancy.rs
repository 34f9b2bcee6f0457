//! Free devices of a cluster, indexed by device type and count.
//!
//! A vacancy can be cloned and changed apart from the schedule it belongs to: a forecast of what will be free once some jobs
//! have ended.

use crate::accounts::Accounts;
use crate::cluster::{DeviceSet, NodeShare};
use crate::ids::{DeviceTypeId, NodeId};
use crate::job::Gang;
use crate::node_set::NodeSet;

/// Free devices of every node, and what jobs have of machines beside them.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Vacancy {
    pub(crate) nodes: Vec<NodeUse>,
    index: FreeIndex,
    pub(crate) accounts: Accounts,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeUse {
    /// Devices without any job; empty while the node is out.
    pub(crate) free: DeviceSet,
    pub(crate) devices: u32,
    pub(crate) device_type: DeviceTypeId,
    pub(crate) is_there: bool,
    pub(crate) is_cordoned: bool,
    /// Kept for a reservation or for one job.
    pub(crate) is_closed: bool,
    /// Devices that must not be used.
    pub(crate) broken: DeviceSet,
    /// The first device group of its machine, and how many the machine has.
    pub(crate) host: NodeId,
    pub(crate) groups: u32,
}

impl NodeUse {
    /// A node that is there, with nothing free yet.
    pub(crate) fn new(devices: u32, device_type: DeviceTypeId, host: NodeId) -> Self {
        Self {
            free: DeviceSet::EMPTY,
            devices,
            device_type,
            is_there: true,
            is_cordoned: false,
            is_closed: false,
            broken: DeviceSet::EMPTY,
            host,
            groups: 1,
        }
    }
}

impl Vacancy {
    /// A node's devices without any job; none while the node is out.
    #[inline]
    pub fn free(&self, node: NodeId) -> DeviceSet {
        self.nodes[node.index()].free
    }

    /// Whether the node can be given any job.
    #[inline]
    pub fn is_up(&self, node: NodeId) -> bool {
        let node = &self.nodes[node.index()];
        node.is_there && !node.is_cordoned && !node.is_closed
    }

    /// Whether the node is kept: it gets only those jobs that it is kept for.
    pub fn is_closed(&self, node: NodeId) -> bool {
        self.nodes[node.index()].is_closed
    }

    /// Whether a job that the node is kept for could be given its devices.
    pub fn is_usable_if_kept(&self, node: NodeId) -> bool {
        let node = &self.nodes[node.index()];
        node.is_there && !node.is_cordoned
    }

    /// Whether the node is there; jobs may run on one that gets no new ones.
    pub fn is_there(&self, node: NodeId) -> bool {
        self.nodes[node.index()].is_there
    }

    /// Whether the node gets no new jobs.
    pub fn is_cordoned(&self, node: NodeId) -> bool {
        self.nodes[node.index()].is_cordoned
    }

    /// A node's devices that must not be used.
    pub fn broken(&self, node: NodeId) -> DeviceSet {
        self.nodes[node.index()].broken
    }

    /// What is free, by device type and count.
    #[inline]
    pub fn free_index(&self) -> &FreeIndex {
        &self.index
    }

    /// Devices of working nodes without any job.
    #[inline]
    pub fn free_count(&self) -> u32 {
        self.index.types.iter().map(|kind| kind.devices).sum()
    }

    /// What jobs have of machines beside whole devices.
    #[inline]
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Takes devices, and all that comes with them, for a gang.
    pub fn take(&mut self, gang: &Gang, shares: &[NodeShare]) {
        if gang.needs.is_some() {
            let nodes = &self.nodes;
            self.accounts.charge(|node| nodes[node.index()].host, gang, shares);
        }
        for share in shares {
            self.set_free(share.node, self.free(share.node).difference(share.devices));
            if self.is_exclusive(share.node) {
                self.groups(share.node).for_each(|group| self.set_free(group, DeviceSet::EMPTY));
            }
        }
    }

    /// Gives devices of a gang back; those of nodes that are out, and broken ones, do not become free.
    pub fn give_back(&mut self, gang: &Gang, shares: &[NodeShare]) {
        self.refund(gang, shares);
        for share in shares {
            self.add_free(share.node, share.devices);
        }
    }

    /// Gives back all but the devices. A machine that a job had for itself is wholly free.
    pub fn refund(&mut self, gang: &Gang, shares: &[NodeShare]) {
        if gang.needs.is_none() {
            return;
        }
        let nodes = &self.nodes;
        self.accounts.refund(|node| nodes[node.index()].host, gang, shares);
        let alone = shares
            .iter()
            .filter(|share| gang.charge(share).is_some_and(|charge| charge.request.is_exclusive));
        for node in alone.flat_map(|share| self.groups(share.node)).collect::<Vec<_>>() {
            let devices = DeviceSet::first(self.nodes[node.index()].devices);
            // Those that the job had itself are added by the caller.
            let own = shares
                .iter()
                .filter(|share| share.node == node)
                .fold(DeviceSet::EMPTY, |all, share| all.union(share.devices));
            self.add_free(node, devices.difference(own));
        }
    }

    /// Adds devices that no job has any more. A device of which a job has a part is not free.
    pub fn add_free(&mut self, node: NodeId, devices: DeviceSet) {
        if self.is_up(node) && !self.is_exclusive(node) {
            let mut devices = devices.difference(self.broken(node));
            for (device, _) in self.accounts.parts(node) {
                devices = devices.difference(DeviceSet::single(device));
            }
            self.set_free(node, self.free(node).union(devices));
        }
    }

    /// The first device group of a node's machine.
    #[inline]
    pub fn host(&self, node: NodeId) -> NodeId {
        self.nodes[node.index()].host
    }

    /// Whether a job has the node's machine for itself.
    #[inline]
    pub fn is_exclusive(&self, node: NodeId) -> bool {
        self.accounts.is_exclusive(self.host(node))
    }

    /// Whether jobs can take turns on a device: not where one has its machine for itself, or a part of it.
    #[inline]
    pub fn takes_turns(&self, node: NodeId, device: u32) -> bool {
        !self.is_exclusive(node) && self.accounts.part(node, device).is_none()
    }

    /// The device groups of a node's machine.
    pub(crate) fn groups(&self, node: NodeId) -> impl Iterator<Item = NodeId> + use<> {
        let host = self.host(node);
        (host.0..host.0 + self.nodes[host.index()].groups).map(NodeId)
    }

    pub(crate) fn set_free(&mut self, node: NodeId, free: DeviceSet) {
        let entry = &mut self.nodes[node.index()];
        let (before, after) = (entry.free.len(), free.len());
        entry.free = free;
        if before != after {
            self.index.update(node, entry.device_type, entry.devices, before, after);
        }
    }
}

/// Nodes by how many free devices they have, for each device type: a place is found without looking at every node.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct FreeIndex {
    types: Vec<FreeOfType>,
}

/// What is free of one device type.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct FreeOfType {
    /// `by_count[k]`: nodes with exactly `k + 1` free devices.
    by_count: Vec<NodeSet>,
    /// Nodes that are wholly free.
    idle: NodeSet,
    devices: u32,
}

impl FreeIndex {
    /// What is free of one device type.
    pub fn of_type(&self, kind: DeviceTypeId) -> Option<&FreeOfType> {
        self.types.get(kind.index())
    }

    fn update(&mut self, node: NodeId, kind: DeviceTypeId, devices: u32, before: u32, after: u32) {
        if self.types.len() <= kind.index() {
            self.types.resize_with(kind.index() + 1, || FreeOfType {
                idle: NodeSet::with_capacity(1),
                ..FreeOfType::default()
            });
        }
        let entry = &mut self.types[kind.index()];
        if entry.by_count.len() < devices as usize {
            entry.by_count.resize_with(devices as usize, || NodeSet::with_capacity(1));
        }
        entry.devices = entry.devices + after - before;
        if before > 0 {
            entry.by_count[before as usize - 1].remove(node);
        }
        if after > 0 {
            entry.by_count[after as usize - 1].insert(node);
        }
        if before == devices {
            entry.idle.remove(node);
        }
        if after == devices {
            entry.idle.insert(node);
        }
    }
}

impl FreeOfType {
    /// Free devices in all nodes of the type.
    pub fn devices(&self) -> u32 {
        self.devices
    }

    /// Nodes that are wholly free.
    pub fn idle(&self) -> &NodeSet {
        &self.idle
    }

    /// Nodes with exactly `count` free devices.
    pub fn with_exactly(&self, count: u32) -> Option<&NodeSet> {
        self.by_count.get((count as usize).checked_sub(1)?)
    }

    /// Most devices in a node of the type.
    pub fn devices_per_node_max(&self) -> u32 {
        self.by_count.len() as u32
    }

    /// The lowest node id with at least `count` free devices.
    pub fn first_fit(&self, count: u32) -> Option<NodeId> {
        self.by_count.get((count.max(1) as usize) - 1..)?.iter().filter_map(NodeSet::first).min()
    }

    /// The node with the fewest free devices that are enough; the lowest id among equals.
    pub fn best_fit(&self, count: u32) -> Option<NodeId> {
        self.by_count.get((count.max(1) as usize) - 1..)?.iter().find_map(NodeSet::first)
    }

    /// Nodes with any free device, those with the most first, the lowest id among equals.
    pub fn most_free_first(&self) -> impl Iterator<Item = NodeId> {
        self.by_count.iter().rev().flat_map(NodeSet::iter)
    }
}
