//! All placements in force, and what is free beside them.
//!
//! The schedule is what has been *decided*: a job that was told to stop is out of it at once, though its
//! processes may still hold their devices (the [`State`](crate::state::State) knows about those).

use crate::cluster::{DeviceSet, NodeShare};
use crate::ids::{DeviceTypeId, JobId, NodeId};
use crate::job::{Gang, Needs};
use crate::node_set::NodeSet;
use crate::topology::Topology;

/// Most jobs that can share a device.
pub const SLOTS_MAX: usize = 4;

const NOBODY: u32 = u32::MAX;

const MIB_PER_GIB: u64 = 1024;

/// Who is placed where.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    slots: usize,
    /// Devices with more than one job.
    shared: u32,
    nodes: Vec<NodeUse>,
    /// For each device, the jobs placed on it, packed to the front.
    occupants: Vec<[u32; SLOTS_MAX]>,
    placements: Vec<Option<Box<[NodeShare]>>>,
    free: FreeIndex,
    placed_count: u32,
}

#[derive(Clone, Debug, PartialEq)]
struct NodeUse {
    /// Devices without any job; empty while the node is out.
    free: DeviceSet,
    devices: u32,
    device_type: DeviceTypeId,
    is_there: bool,
    is_cordoned: bool,
    /// Kept for a reservation or for one job.
    is_closed: bool,
    /// Devices that must not be used.
    broken: DeviceSet,
    /// What jobs that asked for a share of the machine were promised.
    cpus_used: u64,
    memory_used_mib: u64,
}

impl Schedule {
    /// An empty schedule over these nodes, with up to `slots` jobs on a device.
    pub fn new(topology: &Topology, slots: usize) -> Self {
        let mut schedule = Self {
            slots: slots.clamp(1, SLOTS_MAX),
            shared: 0,
            nodes: Vec::new(),
            occupants: Vec::new(),
            placements: Vec::new(),
            free: FreeIndex::default(),
            placed_count: 0,
        };
        for index in 0..topology.nodes().len() {
            schedule.add_node(topology, NodeId::from_index(index));
        }
        schedule
    }

    /// Jobs that a device can hold at once.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Whether a device can hold several jobs, or does: under a policy that was replaced it may have come to that.
    pub fn is_sharing(&self) -> bool {
        self.slots > 1 || self.shared > 0
    }

    /// Lets a device hold so many jobs from now on. What shares devices already is not disturbed.
    pub(crate) fn set_slots(&mut self, slots: usize) {
        self.slots = slots.clamp(1, SLOTS_MAX);
    }

    /// A job's devices.
    #[inline]
    pub fn placement(&self, job: JobId) -> Option<&[NodeShare]> {
        self.placements.get(job.index())?.as_deref()
    }

    /// How many jobs have a placement.
    pub fn placed_count(&self) -> u32 {
        self.placed_count
    }

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

    /// Processors and memory of a node that no job was promised; what is not known has no end.
    pub fn unpromised(&self, topology: &Topology, node: NodeId) -> (u64, u64) {
        let (spec, used) = (&topology.node(node).spec, &self.nodes[node.index()]);
        let left = |total: u64, used: u64| if total == 0 { u64::MAX } else { total.saturating_sub(used) };
        (
            left(u64::from(spec.cpus), used.cpus_used),
            left(u64::from(spec.memory_gib) * MIB_PER_GIB, used.memory_used_mib),
        )
    }

    /// How many devices of a node a gang with [`Needs`] may have when nobody else is there.
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
        // A reservation's nodes are given by those who keep them, nodes without one to nobody who asks for it.
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
        &self.free
    }

    /// Devices of working nodes without any job.
    #[inline]
    pub fn free_count(&self) -> u32 {
        self.free.types.iter().map(|kind| kind.devices).sum()
    }

    /// The jobs on a device.
    pub fn occupants(&self, topology: &Topology, node: NodeId, device: u32) -> impl Iterator<Item = JobId> {
        occupied(&self.occupants[(topology.node(node).first_device + device) as usize])
    }

    /// The other jobs that share a device with this one, ascending.
    pub fn neighbours(&self, topology: &Topology, job: JobId) -> Vec<JobId> {
        let mut neighbours = Vec::new();
        if self.is_sharing() {
            for share in self.placement(job).unwrap_or_default() {
                for device in share.devices.iter() {
                    neighbours
                        .extend(self.occupants(topology, share.node, device).filter(|&other| other != job));
                }
            }
            neighbours.sort_unstable();
            neighbours.dedup();
        }
        neighbours
    }

    /// The jobs with devices on a node, ascending.
    pub fn jobs_on(&self, topology: &Topology, node: NodeId, jobs: &mut Vec<JobId>) {
        jobs.clear();
        let here = topology.node(node);
        let devices = here.first_device as usize..(here.first_device + here.spec.devices) as usize;
        for device in &self.occupants[devices] {
            for job in occupied(device) {
                if jobs.last() != Some(&job) {
                    jobs.push(job);
                }
            }
        }
        jobs.sort_unstable();
        jobs.dedup();
    }

    pub(crate) fn add_node(&mut self, topology: &Topology, node: NodeId) {
        let spec = topology.node(node);
        let devices = spec.spec.devices;
        self.occupants.resize(self.occupants.len() + devices as usize, [NOBODY; SLOTS_MAX]);
        self.nodes.push(NodeUse {
            free: DeviceSet::EMPTY,
            devices,
            device_type: spec.device_type,
            is_there: true,
            is_cordoned: false,
            is_closed: false,
            broken: DeviceSet::EMPTY,
            cpus_used: 0,
            memory_used_mib: 0,
        });
        self.refresh(topology, node);
    }

    /// Takes a node in or out. A node that goes out must hold no placement.
    pub(crate) fn set_there(&mut self, topology: &Topology, node: NodeId, is_there: bool) {
        self.nodes[node.index()].is_there = is_there;
        self.refresh(topology, node);
    }

    /// Lets a node have new jobs or not; what runs there is not disturbed.
    pub(crate) fn set_cordoned(&mut self, topology: &Topology, node: NodeId, is_cordoned: bool) {
        self.nodes[node.index()].is_cordoned = is_cordoned;
        self.refresh(topology, node);
    }

    /// Keeps a node for somebody or not; what runs there is not disturbed.
    pub(crate) fn set_closed(&mut self, topology: &Topology, node: NodeId, is_closed: bool) {
        self.nodes[node.index()].is_closed = is_closed;
        self.refresh(topology, node);
    }

    /// Takes a device in or out. A device that goes out must hold no placement.
    pub(crate) fn set_broken(&mut self, topology: &Topology, node: NodeId, device: u32, is_broken: bool) {
        let broken = &mut self.nodes[node.index()].broken;
        if is_broken {
            broken.insert(device);
        } else {
            *broken = broken.difference(DeviceSet::single(device));
        }
        self.refresh(topology, node);
    }

    /// A node's working devices without any job, whether or not the node is out, or kept for somebody.
    pub fn idle(&self, topology: &Topology, node: NodeId) -> DeviceSet {
        let mut idle = DeviceSet::EMPTY;
        for device in 0..self.nodes[node.index()].devices {
            if self.occupants(topology, node, device).next().is_none() {
                idle.insert(device);
            }
        }
        idle.difference(self.broken(node))
    }

    /// Finds out anew which devices of a node are free.
    fn refresh(&mut self, topology: &Topology, node: NodeId) {
        let free = if self.is_up(node) { self.idle(topology, node) } else { DeviceSet::EMPTY };
        self.set_free(node, free);
    }

    /// Notes what a job with [`Needs`] is promised, or gives back.
    fn promise(&mut self, share: NodeShare, needs: &Needs, is_given: bool) {
        let node = &mut self.nodes[share.node.index()];
        let devices = u64::from(share.devices.len());
        let (cpus, memory_mib) = (u64::from(needs.cpus) * devices, needs.memory_mib * devices);
        if is_given {
            node.cpus_used += cpus;
            node.memory_used_mib += memory_mib;
        } else {
            node.cpus_used -= cpus;
            node.memory_used_mib -= memory_mib;
        }
    }

    /// Gives a job its devices. The caller has audited them.
    pub(crate) fn place(&mut self, topology: &Topology, job: JobId, gang: &Gang, shares: &[NodeShare]) {
        for share in shares {
            if let Some(needs) = &gang.needs {
                self.promise(*share, needs, true);
            }
            let first = topology.node(share.node).first_device;
            for device in share.devices.iter() {
                let occupants = &mut self.occupants[(first + device) as usize];
                if let Some(index) = occupants.iter().position(|&slot| slot == NOBODY) {
                    occupants[index] = job.0;
                    self.shared += u32::from(index == 1);
                }
            }
            let free = self.free(share.node).difference(share.devices);
            self.set_free(share.node, free);
        }
        if self.placements.len() <= job.index() {
            self.placements.resize(job.index() + 1, None);
        }
        self.placed_count += 1;
        self.placements[job.index()] = Some(shares.into());
    }

    /// Takes a job's devices back and returns them.
    pub(crate) fn release(
        &mut self,
        topology: &Topology,
        job: JobId,
        gang: &Gang,
    ) -> Option<Box<[NodeShare]>> {
        let shares = self.placements.get_mut(job.index())?.take()?;
        self.placed_count -= 1;
        for share in &shares {
            if let Some(needs) = &gang.needs {
                self.promise(*share, needs, false);
            }
            let first = topology.node(share.node).first_device;
            let mut freed = DeviceSet::EMPTY;
            for device in share.devices.iter() {
                let occupants = &mut self.occupants[(first + device) as usize];
                let was_shared = occupants[1] != NOBODY;
                remove(occupants, job);
                self.shared -= u32::from(was_shared && occupants[1] == NOBODY);
                if occupants[0] == NOBODY {
                    freed.insert(device);
                }
            }
            if self.is_up(share.node) {
                let freed = freed.difference(self.broken(share.node));
                self.set_free(share.node, self.free(share.node).union(freed));
            }
        }
        Some(shares)
    }

    fn set_free(&mut self, node: NodeId, free: DeviceSet) {
        let entry = &mut self.nodes[node.index()];
        let (before, after) = (entry.free.len(), free.len());
        entry.free = free;
        if before != after {
            self.free.update(node, entry.device_type, entry.devices, before, after);
        }
    }
}

fn occupied(device: &[u32; SLOTS_MAX]) -> impl Iterator<Item = JobId> {
    device.iter().copied().take_while(|&job| job != NOBODY).map(JobId)
}

fn remove(device: &mut [u32; SLOTS_MAX], job: JobId) {
    if let Some(at) = device.iter().position(|&slot| slot == job.0) {
        device.copy_within(at + 1.., at);
        device[SLOTS_MAX - 1] = NOBODY;
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
