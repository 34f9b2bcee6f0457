//! The tightest node, else the tightest switch, else the fewest switches.

use std::collections::BTreeMap;

use wharf_core::{FreeOfType, Gang, NodeId, NodeShare, Topology, Vacancy};

use super::{Placer, all_of, take_in_order, tightest_or};

/// Keeps a gang as close together as the free devices allow, and never refuses where enough are free.
#[derive(Clone, Copy, Debug, Default)]
pub struct TopologyAware;

impl Placer for TopologyAware {
    fn place(
        &mut self,
        topology: &Topology,
        vacancy: &Vacancy,
        gang: &Gang,
        placement: &mut Vec<NodeShare>,
    ) -> bool {
        tightest_or(topology, vacancy, gang, placement, |free, placement| {
            let nodes = by_closeness(topology, vacancy, free, gang.devices);
            take_in_order(vacancy, all_of(nodes.into_iter()), gang.devices, placement)
        })
    }
}

/// Nodes with free devices: those of the tightest switch that suffices, or of the emptiest switches first.
fn by_closeness(topology: &Topology, vacancy: &Vacancy, free: &FreeOfType, devices: u32) -> Vec<NodeId> {
    let mut switches: BTreeMap<u32, (u32, Vec<NodeId>)> = BTreeMap::new();
    for node in free.most_free_first() {
        let (count, nodes) = switches.entry(topology.node(node).spec.switch).or_default();
        *count += vacancy.free(node).len();
        nodes.push(node);
    }
    if let Some((_, nodes)) =
        switches.values().filter(|(count, _)| *count >= devices).min_by_key(|(count, _)| *count)
    {
        return nodes.clone();
    }
    let mut emptiest: Vec<_> = switches.into_values().collect();
    emptiest.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    emptiest.into_iter().flat_map(|(_, nodes)| nodes).collect()
}
