//! Free devices, and the way gangs are gathered from them.

use wharf_core::{ClusterSpec, DEVICES_PER_NODE_MAX, DeviceSet, NodeId, NodeSet, NodeShare};

use super::error::BloxError;

/// Devices that no job holds, by node.
#[derive(Clone, Debug)]
pub(super) struct Free {
    devices: Vec<DeviceSet>,
    /// Nodes with a free device.
    nodes: NodeSet,
    count: u32,
}

impl Free {
    pub(super) fn new(cluster: &ClusterSpec) -> Result<Self, BloxError> {
        if let Some(node) = cluster.nodes.iter().find(|node| node.devices > DEVICES_PER_NODE_MAX) {
            return Err(BloxError::LargeNode { node: node.name.to_string(), devices: node.devices });
        }
        let devices: Vec<_> = cluster.nodes.iter().map(|node| DeviceSet::first(node.devices)).collect();
        let mut nodes = NodeSet::with_capacity(devices.len());
        for (index, _) in devices.iter().enumerate().filter(|(_, devices)| !devices.is_empty()) {
            nodes.insert(NodeId::from_index(index));
        }
        if nodes.is_empty() {
            return Err(BloxError::NoDevices);
        }
        Ok(Self { devices, nodes, count: cluster.device_count() })
    }

    /// How many devices are free.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Gathers a gang from node after node; each gives up to the whole gang, and the sum must hit it exactly.
    pub(super) fn find(&self, gang: u32, shares: &mut Vec<NodeShare>) -> bool {
        shares.clear();
        if gang > self.count {
            return false;
        }
        let mut gathered = 0;
        for node in self.nodes.iter() {
            let devices = self.devices[node.index()].lowest(gang);
            gathered += devices.len();
            shares.push(NodeShare::new(node, devices));
            if gathered >= gang {
                // The published code continues adding, but a sum that is past the gang never comes back to it.
                return gathered == gang;
            }
        }
        false
    }

    /// Takes the devices of a placement.
    pub(super) fn take(&mut self, shares: &[NodeShare]) {
        for share in shares {
            let left = &mut self.devices[share.node.index()];
            *left = left.difference(share.devices);
            self.count -= share.devices.len();
            if left.is_empty() {
                self.nodes.remove(share.node);
            }
        }
    }

    /// Gives back the devices of a placement.
    pub(super) fn give_back(&mut self, shares: &[NodeShare]) {
        for share in shares {
            let left = &mut self.devices[share.node.index()];
            debug_assert!(left.intersection(share.devices).is_empty(), "a device is free twice");
            *left = left.union(share.devices);
            self.count += share.devices.len();
            self.nodes.insert(share.node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gangs_must_add_up_exactly() {
        let cluster = ClusterSpec::uniform("gpu", 3, 4);
        let mut shares = Vec::new();
        // Devices taken from the first node; a gang; how it is gathered.
        for (taken, gang, expected) in [
            (0, 4, Some(vec![4])),
            (0, 8, Some(vec![4, 4])),
            (0, 6, None),
            (1, 4, None),
            (1, 8, None),
            (1, 7, Some(vec![3, 4])),
            (2, 6, Some(vec![2, 4])),
            (4, 8, Some(vec![4, 4])),
            (0, 13, None),
        ] {
            let mut free = Free::new(&cluster).unwrap();
            if taken > 0 {
                assert!(free.find(taken, &mut shares));
                free.take(&shares);
            }
            let found = free.find(gang, &mut shares);
            let sizes: Vec<u32> = shares.iter().map(|share| share.devices.len()).collect();
            assert_eq!(found.then_some(sizes), expected, "{gang} after {taken}");
        }
    }
}
