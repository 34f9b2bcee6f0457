//! The machines as the engine knows them: switch, node, device.

use std::sync::Arc;

use crate::cluster::{ClusterSpec, DeviceSet, NodeShare, NodeSpec};
use crate::ids::{DeviceTypeId, NodeId};
use crate::request::{Level, WHOLE_MILLI};

const MIB_PER_GIB: u64 = 1024;

/// All nodes that ever joined, with dense numbers for their devices and device types.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Topology {
    nodes: Vec<Node>,
    types: Vec<Arc<str>>,
    licences: Vec<(Arc<str>, u64)>,
    /// Numbers of devices that were given out.
    numbers: u32,
}

/// One machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What was declared.
    pub spec: NodeSpec,
    /// The type of its devices.
    pub device_type: DeviceTypeId,
    /// The number of its first device among all devices.
    pub first_device: u32,
    /// The first device group of its machine: itself unless the machine has several.
    pub host: NodeId,
    /// Its machine's device groups from this one on.
    groups: u32,
    /// Numbers kept for its devices: at least as many as it has.
    numbers: u32,
}

impl Topology {
    /// The topology of a whole cluster.
    pub fn new(cluster: &ClusterSpec) -> Self {
        let mut topology = Self::default();
        for node in &cluster.nodes {
            topology.add(node.clone());
        }
        topology.licences.clone_from(&cluster.licences);
        topology
    }

    /// Adds a node and returns its id.
    pub fn add(&mut self, spec: NodeSpec) -> NodeId {
        let id = NodeId::from_index(self.nodes.len());
        let device_type = self.intern(&spec.device_type);
        let numbers = spec.devices;
        let host = self.host_of(&spec).unwrap_or(id);
        self.nodes.push(Node { spec, device_type, first_device: self.numbers, host, groups: 1, numbers });
        for before in &mut self.nodes[host.index()..id.index()] {
            before.groups += 1;
        }
        self.numbers += numbers;
        id
    }

    /// The machine that a further device group belongs to: that of the node before it.
    fn host_of(&self, spec: &NodeSpec) -> Option<NodeId> {
        let name = spec.details.as_deref()?.host.as_ref()?;
        let host = self.nodes.last()?.host;
        (self.node(host).spec.name == *name).then_some(host)
    }

    /// The device groups of a node's machine, which have consecutive ids.
    pub fn groups(&self, node: NodeId) -> impl Iterator<Item = NodeId> + use<> {
        let host = self.node(node).host;
        (host.0..host.0 + self.node(host).groups).map(NodeId)
    }

    /// Where a node's devices begin among those of its machine.
    pub fn offset(&self, node: NodeId) -> u32 {
        let host = self.node(node).host.index();
        self.nodes[host..node.index()].iter().map(|group| group.spec.devices).sum()
    }

    /// A placement as one list of devices for each machine (and group of the job): the first node of the machine stands for it, and
    /// devices are counted over all its device groups.
    pub fn by_machine(&self, placement: &[NodeShare]) -> Vec<NodeShare> {
        let mut merged: Vec<NodeShare> = Vec::with_capacity(placement.len());
        for share in placement {
            let (host, offset) = (self.node(share.node).host, self.offset(share.node));
            let devices = DeviceSet(share.devices.0 << offset);
            match merged.iter_mut().find(|known| known.node == host && known.group == share.group) {
                Some(known) => {
                    known.devices = known.devices.union(devices);
                    known.tasks += share.tasks;
                }
                None => merged.push(NodeShare { node: host, devices, ..*share }),
            }
        }
        merged
    }

    /// Licences of the whole cluster.
    pub fn licences(&self) -> &[(Arc<str>, u64)] {
        &self.licences
    }

    pub(crate) fn set_licences(&mut self, licences: Vec<(Arc<str>, u64)>) {
        self.licences = licences;
    }

    /// CPUs (in thousandths) and memory of a node's machine; unlimited where unknown.
    pub fn machine_amounts(&self, node: NodeId) -> (u64, u64) {
        let spec = &self.node(self.node(node).host).spec;
        let known = |amount: u64| if amount == 0 { u64::MAX } else { amount };
        (
            known(u64::from(spec.cpus) * u64::from(WHOLE_MILLI)),
            known(u64::from(spec.memory_gib) * MIB_PER_GIB),
        )
    }

    /// How much of a named resource a node's machine has.
    pub fn resource(&self, node: NodeId, name: &str) -> u64 {
        let spec = &self.node(self.node(node).host).spec;
        let all = spec.details.iter().flat_map(|details| &details.resources);
        all.filter(|(known, _)| **known == *name).map(|(_, count)| *count).sum()
    }

    /// Where a node is at a level of the tree: equal for nodes that are together there.
    pub fn place_at(&self, node: NodeId, level: Level) -> (u32, u32, u32) {
        let here = self.node(node);
        let block = here.spec.details.as_deref().map_or(0, |details| details.block);
        match level {
            Level::Block => (block, 0, 0),
            Level::Rack => (block, here.spec.switch, 0),
            Level::Node | Level::Domain => (block, here.spec.switch, here.host.0),
        }
    }

    /// The closest level that a placement stays within; `None` where it spreads over blocks, or is empty.
    pub fn span(&self, placement: &[NodeShare]) -> Option<Level> {
        let (first, rest) = placement.split_first()?;
        let are_together = |level| {
            rest.iter().all(|share| self.place_at(share.node, level) == self.place_at(first.node, level))
        };
        if rest.is_empty() && self.domain(first.node, first.devices).is_some() {
            return Some(Level::Domain);
        }
        [Level::Node, Level::Rack, Level::Block].into_iter().find(|&level| are_together(level))
    }

    /// The domain that devices of a node belong to, where they belong to one.
    pub fn domain(&self, node: NodeId, devices: DeviceSet) -> Option<u32> {
        let size = self.domain_size(node);
        let mut domains = devices.iter().map(|device| device / size);
        let first = domains.next().unwrap_or(0);
        domains.all(|other| other == first).then_some(first)
    }

    /// Devices in each domain of a node; at least 1.
    pub fn domain_size(&self, node: NodeId) -> u32 {
        let spec = &self.node(node).spec;
        let size = spec.details.as_deref().map_or(0, |details| details.domain);
        if size == 0 { spec.devices.max(1) } else { size }
    }

    /// Replaces what was declared of a node. Where it has more devices than before, they all get new numbers.
    pub(crate) fn replace(&mut self, node: NodeId, spec: NodeSpec) {
        let device_type = self.intern(&spec.device_type);
        let known = &mut self.nodes[node.index()];
        if spec.devices > known.numbers {
            (known.first_device, known.numbers) = (self.numbers, spec.devices);
            self.numbers += spec.devices;
        }
        (known.spec, known.device_type) = (spec, device_type);
    }

    /// A node.
    #[inline]
    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.index()]
    }

    /// All nodes by id.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Devices in all nodes, working or not.
    pub fn device_count(&self) -> u32 {
        self.nodes.iter().map(|node| node.spec.devices).sum()
    }

    /// Numbers that devices have or had.
    pub(crate) fn numbers(&self) -> usize {
        self.numbers as usize
    }

    /// The device types, by first appearance.
    pub fn types(&self) -> &[Arc<str>] {
        &self.types
    }

    /// The id of a device type.
    pub fn type_id(&self, name: &str) -> Option<DeviceTypeId> {
        self.types.iter().position(|known| &**known == name).map(DeviceTypeId::from_index)
    }

    /// The type of a placement's devices; `None` where there are none, or several types.
    pub fn type_of(&self, placement: &[NodeShare]) -> Option<DeviceTypeId> {
        let mut types = placement.iter().map(|share| self.node(share.node).device_type);
        let first = types.next()?;
        types.all(|other| other == first).then_some(first)
    }

    fn intern(&mut self, name: &Arc<str>) -> DeviceTypeId {
        self.type_id(name).unwrap_or_else(|| {
            self.types.push(name.clone());
            DeviceTypeId::from_index(self.types.len() - 1)
        })
    }
}
