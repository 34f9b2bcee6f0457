//! As few nodes as possible: one node for a gang that fits into one, whole nodes of one switch for a larger one.

use wharf_core::{FreeOfType, Gang, NodeShare, Topology, Vacancy};

use super::{Placer, free_of_allowed, share};

/// YARN's way, as Tiresias and Muri use it: the first node in id order that has room.
#[derive(Clone, Copy, Debug, Default)]
pub struct Consolidated;

impl Placer for Consolidated {
    fn place(
        &mut self,
        topology: &Topology,
        vacancy: &Vacancy,
        gang: &Gang,
        placement: &mut Vec<NodeShare>,
    ) -> bool {
        placement.clear();
        free_of_allowed(topology, vacancy, gang).any(|free| {
            if gang.devices <= free.devices_per_node_max() {
                let node = free.first_fit(gang.devices);
                placement.extend(node.map(|node| share(vacancy, node, gang.devices)));
                node.is_some()
            } else {
                free.devices() >= gang.devices
                    && whole_nodes(topology, vacancy, free, gang.devices, placement)
            }
        })
    }
}

/// The first wholly free nodes that hang on one switch, and one more node for what remains.
fn whole_nodes(
    topology: &Topology,
    vacancy: &Vacancy,
    free: &FreeOfType,
    devices: u32,
    placement: &mut Vec<NodeShare>,
) -> bool {
    let switch_of = |node| topology.node(node).spec.switch;
    let mut missing = devices;
    for node in free.idle().iter() {
        if placement.last().is_some_and(|last: &NodeShare| switch_of(last.node) != switch_of(node)) {
            placement.clear();
            missing = devices;
        }
        let size = topology.node(node).spec.devices;
        if missing >= size {
            placement.push(share(vacancy, node, size));
            missing -= size;
        }
        if missing == 0 {
            return true;
        }
        if missing < size && add_remainder(topology, vacancy, free, missing, placement) {
            return true;
        }
    }
    placement.clear();
    false
}

fn add_remainder(
    topology: &Topology,
    vacancy: &Vacancy,
    free: &FreeOfType,
    missing: u32,
    placement: &mut Vec<NodeShare>,
) -> bool {
    let Some(switch) = placement.last().map(|share| topology.node(share.node).spec.switch) else {
        return false;
    };
    let is_usable =
        |node| topology.node(node).spec.switch == switch && placement.iter().all(|share| share.node != node);
    let node = (missing..=free.devices_per_node_max())
        .filter_map(|count| free.with_exactly(count)?.iter().find(|&node| is_usable(node)))
        .min();
    placement.extend(node.map(|node| share(vacancy, node, missing)));
    node.is_some()
}
