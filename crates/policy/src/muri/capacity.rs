//! A sketch of the cluster as if it were empty: which gangs would fit into it together.

use std::collections::BTreeMap;

use wharf_core::{DeviceTypeId, Gang, NodeId, View};

use crate::placement::allowed_types;
use crate::rebuild::Group;

/// Free devices of working nodes, by type. Only counts: the placer decides where a gang really goes.
#[derive(Clone)]
pub(super) struct Capacity {
    types: Vec<OfType>,
    devices: u32,
}

#[derive(Clone, Default)]
struct OfType {
    /// What is left of each node.
    nodes: Vec<Left>,
    size_max: u32,
    /// For each count of devices, the first node that may have so many left: they only become fewer.
    cursors: BTreeMap<u32, usize>,
}

#[derive(Clone)]
struct Left {
    free: u32,
    size: u32,
    switch: u32,
}

impl Capacity {
    /// All working nodes, empty but for groups that stay.
    pub(super) fn beside(view: &View<'_>, pinned: &[Group]) -> Self {
        let first = pinned.iter().filter_map(|group| group.first());
        let mut taken: BTreeMap<NodeId, u32> = BTreeMap::new();
        for share in first.flat_map(|&job| view.schedule().placement(job).unwrap_or_default()) {
            *taken.entry(share.node).or_default() += share.devices.len();
        }
        let topology = view.topology();
        let mut types: Vec<OfType> = topology.types().iter().map(|_| OfType::default()).collect();
        let mut devices = 0;
        for (index, node) in topology.nodes().iter().enumerate() {
            let id = NodeId::from_index(index);
            if view.schedule().is_up(id) {
                let size = node.spec.devices;
                let free = size.saturating_sub(taken.get(&id).copied().unwrap_or(0));
                let kind = &mut types[node.device_type.index()];
                kind.nodes.push(Left { free, size, switch: node.spec.switch });
                kind.size_max = kind.size_max.max(size);
                devices += free;
            }
        }
        Self { types, devices }
    }

    /// Devices of all working nodes, without those of groups that stay.
    pub(super) fn devices(&self) -> u32 {
        self.devices
    }

    /// Takes room for a gang, where there is some.
    pub(super) fn take(&mut self, view: &View<'_>, gang: &Gang) -> bool {
        let allowed: Vec<DeviceTypeId> = allowed_types(view.topology(), gang).collect();
        allowed.into_iter().any(|kind| {
            let kind = &mut self.types[kind.index()];
            if gang.devices <= kind.size_max {
                kind.take_from_one(gang.devices)
            } else {
                kind.take_whole(gang.devices)
            }
        })
    }
}

impl OfType {
    fn take_from_one(&mut self, devices: u32) -> bool {
        let cursor = self.cursors.entry(devices).or_insert(0);
        while let Some(node) = self.nodes.get_mut(*cursor) {
            if node.free >= devices {
                node.free -= devices;
                return true;
            }
            *cursor += 1;
        }
        false
    }

    /// Whole nodes, of one switch where one has enough.
    fn take_whole(&mut self, devices: u32) -> bool {
        let is_whole = |node: &Left| node.free == node.size;
        let mut by_switch: BTreeMap<u32, u32> = BTreeMap::new();
        let mut in_all = 0;
        for node in self.nodes.iter().filter(|node| is_whole(node)) {
            *by_switch.entry(node.switch).or_default() += node.size;
            in_all += node.size;
        }
        if in_all < devices {
            return false;
        }
        let switch = by_switch.iter().find(|&(_, &sum)| sum >= devices).map(|(&switch, _)| switch);
        let mut missing = devices;
        for node in self.nodes.iter_mut().filter(|node| is_whole(node)) {
            if missing > 0 && switch.is_none_or(|switch| switch == node.switch) {
                let taken = node.size.min(missing);
                node.free -= taken;
                missing -= taken;
            }
        }
        true
    }
}
