//! The machines as the engine knows them: switch, node, device.

use std::sync::Arc;

use crate::cluster::{ClusterSpec, NodeShare, NodeSpec};
use crate::ids::{DeviceTypeId, NodeId};

/// All nodes that ever joined, with dense numbers for their devices and device types.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Topology {
    nodes: Vec<Node>,
    types: Vec<Arc<str>>,
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
        topology
    }

    /// Adds a node and returns its id.
    pub fn add(&mut self, spec: NodeSpec) -> NodeId {
        let id = NodeId::from_index(self.nodes.len());
        let device_type = self.intern(&spec.device_type);
        let numbers = spec.devices;
        self.nodes.push(Node { spec, device_type, first_device: self.numbers, numbers });
        self.numbers += numbers;
        id
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
