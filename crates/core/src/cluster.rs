//! Machines: what a cluster consists of, and sets of devices in it.

use std::fmt;
use std::sync::Arc;

/// Most devices in one node: a [`DeviceSet`] has a bit for each.
pub const DEVICES_PER_NODE_MAX: u32 = 128;

/// A cluster as described by a file or a short form: nodes in id order, grouped under switches.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ClusterSpec {
    /// The nodes; a node's position is its id.
    pub nodes: Vec<NodeSpec>,
    /// Licences of the whole cluster, by name.
    pub licences: Vec<(Arc<str>, u64)>,
}

impl ClusterSpec {
    /// `nodes` equal nodes under one switch.
    pub fn uniform(device_type: &str, nodes: u32, devices: u32) -> Self {
        let device_type: Arc<str> = device_type.into();
        let node = |index| NodeSpec {
            name: format!("{device_type}-{index}").into(),
            device_type: device_type.clone(),
            devices,
            cpus: NodeSpec::CPUS_PER_DEVICE * devices,
            memory_gib: NodeSpec::MEMORY_GIB_PER_DEVICE * devices,
            switch: 0,
            pool: NodeSpec::no_pool(),
            details: None,
        };
        Self::of((0..nodes).map(node).collect())
    }

    /// A cluster of these nodes, without licences.
    pub fn of(nodes: Vec<NodeSpec>) -> Self {
        Self { nodes, licences: Vec::new() }
    }

    /// Whether every machine has devices of one type, no named resources, and the cluster no licences.
    pub fn is_plain(&self) -> bool {
        let is_plain = |node: &NodeSpec| {
            let details = node.details.as_deref();
            node.devices > 0
                && details.is_none_or(|details| details.host.is_none() && details.resources.is_empty())
        };
        self.licences.is_empty() && self.nodes.iter().all(is_plain)
    }

    /// Whether any node belongs to a pool.
    pub fn has_pools(&self) -> bool {
        self.nodes.iter().any(|node| !node.pool.is_empty())
    }

    /// Devices in all nodes.
    pub fn device_count(&self) -> u32 {
        self.nodes.iter().map(|node| node.devices).sum()
    }
}

/// One machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Unique name.
    pub name: Arc<str>,
    /// The type of all its devices.
    pub device_type: Arc<str>,
    /// How many devices it has, at most [`DEVICES_PER_NODE_MAX`].
    pub devices: u32,
    /// CPU cores.
    pub cpus: u32,
    /// Main memory.
    pub memory_gib: u32,
    /// The switch it hangs on.
    pub switch: u32,
    /// The part of the cluster that it belongs to; empty where there are no parts.
    pub pool: Arc<str>,
    /// What few nodes have.
    pub details: Option<Arc<NodeDetails>>,
}

/// What few nodes have.
///
/// A machine with devices of several types is several nodes, one for each *device group*: the first has the machine's name,
/// CPUs, memory and resources, and the others follow it and name it as their host. Policies place gangs on device groups as on
/// any node; what a machine has beside devices is accounted for it as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeDetails {
    /// The machine of a further device group, which is the first node before it with that name.
    pub host: Option<Arc<str>>,
    /// Memory of each device; 0 where unknown.
    pub device_memory_mib: u64,
    /// Named countable resources of the machine.
    pub resources: Vec<(Arc<str>, u64)>,
    /// The block that its rack (its switch) belongs to.
    pub block: u32,
    /// Devices with direct links to each other: so many from the first on, and so on; 0 for all.
    pub domain: u32,
}

impl NodeSpec {
    /// CPU cores assumed per device where a short form names none.
    pub const CPUS_PER_DEVICE: u32 = 8;
    /// Memory assumed per device where a short form names none.
    pub const MEMORY_GIB_PER_DEVICE: u32 = 64;

    /// The device type of a node without devices.
    pub const NO_DEVICES: &str = "cpu";

    /// The name of the machine.
    pub fn machine(&self) -> &str {
        self.details.as_deref().and_then(|details| details.host.as_deref()).unwrap_or(&self.name)
    }

    /// The name of a machine's further device group.
    pub fn group_name(machine: &str, device_type: &str) -> Arc<str> {
        format!("{machine}/{device_type}").into()
    }

    /// The pool of a node that belongs to none.
    pub fn no_pool() -> Arc<str> {
        Arc::from("")
    }
}

/// A set of one node's devices, by their index in the node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DeviceSet(pub u128);

impl DeviceSet {
    /// No device.
    pub const EMPTY: Self = Self(0);

    /// The first `count` devices.
    #[inline]
    pub const fn first(count: u32) -> Self {
        debug_assert!(count <= DEVICES_PER_NODE_MAX);
        if count >= DEVICES_PER_NODE_MAX { Self(u128::MAX) } else { Self((1 << count) - 1) }
    }

    /// One device.
    #[inline]
    pub const fn single(index: u32) -> Self {
        Self(1 << index)
    }

    /// How many devices are in the set.
    #[inline]
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether there is none.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the device with this index is in the set.
    #[inline]
    pub const fn contains(self, index: u32) -> bool {
        self.0 >> index & 1 == 1
    }

    /// Adds a device.
    #[inline]
    pub const fn insert(&mut self, index: u32) {
        self.0 |= 1 << index;
    }

    /// Devices in either set.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Devices in both sets.
    #[inline]
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Devices in this set and not in the other.
    #[inline]
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The `count` devices with the lowest indexes; all where there are fewer.
    #[inline]
    #[must_use]
    pub const fn lowest(self, count: u32) -> Self {
        let mut rest = self.0;
        let mut taken = 0;
        while taken < count && rest != 0 {
            rest &= rest - 1;
            taken += 1;
        }
        Self(self.0 & !rest)
    }

    /// The indexes, ascending.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let index = rest.trailing_zeros();
                rest &= rest - 1;
                index
            })
        })
    }
}

impl fmt::Debug for DeviceSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// What a gang has on one node: a placement is a list of these, each node at most once for each group of the gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeShare {
    /// The node.
    pub node: crate::ids::NodeId,
    /// Its devices that belong to the placement; empty only for tasks without devices.
    pub devices: DeviceSet,
    /// Tasks without devices; those with devices follow from their number.
    pub tasks: u32,
    /// The group of a heterogeneous job; 0 for the first.
    pub group: u32,
}

impl NodeShare {
    /// Devices of a node.
    #[inline]
    pub const fn new(node: crate::ids::NodeId, devices: DeviceSet) -> Self {
        Self { node, devices, tasks: 0, group: 0 }
    }

    /// Tasks without devices on a node.
    pub const fn tasks(node: crate::ids::NodeId, tasks: u32) -> Self {
        Self { node, devices: DeviceSet::EMPTY, tasks, group: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_set_lowest_takes_from_the_front() {
        for (set, count, expected) in [(0b1011, 2, 0b0011), (0b1100, 1, 0b0100), (0b1, 3, 0b1), (0b1, 0, 0)] {
            assert_eq!(DeviceSet(set).lowest(count), DeviceSet(expected));
        }
        assert_eq!(DeviceSet::first(128).len(), 128);
        assert_eq!(DeviceSet(0b1010).iter().collect::<Vec<_>>(), [1, 3]);
    }
}
