//! Free devices of a cluster, indexed by device type and count.
//!
//! A vacancy can be cloned and changed apart from the schedule it belongs to: a forecast of what will be free once some jobs
//! have ended.

use crate::cluster::{DeviceSet, NodeShare};
use crate::ids::{DeviceTypeId, NodeId};
use crate::job::{Gang, Needs};
use crate::node_set::NodeSet;
use crate::topology::Topology;

const MIB_PER_GIB: u64 = 1024;

/// Free devices, processors and memory of every node.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Vacancy {
    pub(crate) nodes: Vec<NodeUse>,
    index: FreeIndex,
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
    /// What jobs that asked for a share of the machine were promised.
    pub(crate) cpus_used: u64,
    pub(crate) memory_used_mib: u64,
}

impl NodeUse {
    /// A node that is there, with nothing free yet.
    pub(crate) fn new(devices: u32, device_type: DeviceTypeId) -> Self {
        Self {
            free: DeviceSet::EMPTY,
            devices,
            device_type,
            is_there: true,
            is_cordoned: false,
            is_closed: false,
            broken: DeviceSet::EMPTY,
            cpus_used: 0,
            memory_used_mib: 0,
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

    /// Processors and memory of a node that no job was promised; unlimited where unknown.
    pub fn unpromised(&self, topology: &Topology, node: NodeId) -> (u64, u64) {
        let (spec, used) = (&topology.node(node).spec, &self.nodes[node.index()]);
        let left = |total: u64, used: u64| if total == 0 { u64::MAX } else { total.saturating_sub(used) };
        (
            left(u64::from(spec.cpus), used.cpus_used),
            left(u64::from(spec.memory_gib) * MIB_PER_GIB, used.memory_used_mib),
        )
    }

    /// How many devices of a node a gang with [`Needs`] may have on an empty node.
    pub fn capacity(&self, topology: &Topology, node: NodeId, needs: &Needs) -> u32 {
        let spec = &topology.node(node).spec;
        if !needs.allow(spec) {
            return 0;
        }
        let all = |total: u64| if total == 0 { u64::MAX } else { total };
        let (cpus, memory_mib) = (all(spec.cpus.into()), all(u64::from(spec.memory_gib) * MIB_PER_GIB));
        let fits = needs.devices_within(cpus, memory_mib);
        (spec.devices - self.broken(node).len()).min(u32::try_from(fits).unwrap_or(u32::MAX))
    }

    /// How many free devices of a node a gang with [`Needs`] may have.
    pub fn room(&self, topology: &Topology, node: NodeId, needs: &Needs) -> u32 {
        // Nodes of a reservation are assigned by the holder of the reservation, and its jobs get no other nodes.
        if needs.reservation.is_some() || !needs.allow(&topology.node(node).spec) {
            return 0;
        }
        let (cpus, memory_mib) = self.unpromised(topology, node);
        let fits = needs.devices_within(cpus, memory_mib);
        self.free(node).len().min(u32::try_from(fits).unwrap_or(u32::MAX))
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

    /// Takes devices for a gang.
    pub fn take(&mut self, gang: &Gang, shares: &[NodeShare]) {
        for share in shares {
            if let Some(needs) = &gang.needs {
                self.promise(*share, needs, true);
            }
            self.set_free(share.node, self.free(share.node).difference(share.devices));
        }
    }

    /// Gives devices of a gang back; those of nodes that are out, and broken ones, do not become free.
    pub fn give_back(&mut self, gang: &Gang, shares: &[NodeShare]) {
        for share in shares {
            if let Some(needs) = &gang.needs {
                self.promise(*share, needs, false);
            }
            self.add_free(share.node, share.devices);
        }
    }

    /// Adds devices that no job has any more.
    pub(crate) fn add_free(&mut self, node: NodeId, devices: DeviceSet) {
        if self.is_up(node) {
            let devices = devices.difference(self.broken(node));
            self.set_free(node, self.free(node).union(devices));
        }
    }

    /// Records the processors and memory that a job with [`Needs`] is promised, or gives back.
    pub(crate) fn promise(&mut self, share: NodeShare, needs: &Needs, is_given: bool) {
        let node = &mut self.nodes[share.node.index()];
        let devices = u64::from(share.devices.len());
        let (cpus, memory_mib) = (u64::from(needs.cpus) * devices, needs.memory_mib * devices);
        if is_given {
            node.cpus_used += cpus;
            node.memory_used_mib += memory_mib;
        } else {
            node.cpus_used = node.cpus_used.saturating_sub(cpus);
            node.memory_used_mib = node.memory_used_mib.saturating_sub(memory_mib);
        }
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
