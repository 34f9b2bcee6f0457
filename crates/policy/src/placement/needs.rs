//! Gangs that ask for more than devices: a shape, a pool, a node, processors or memory.

use std::collections::BTreeMap;

use wharf_core::{Gang, Needs, NodeId, NodeShare, Schedule, Topology};

use super::{Placer, allowed_types, share, take_in_order};

/// Places gangs with [`Needs`] itself, and leaves all others to a strategy.
///
/// It looks at every node: such gangs are rare, and what they need is in no index.
pub struct WithNeeds(pub Box<dyn Placer>);

impl Placer for WithNeeds {
    fn place(
        &mut self,
        topology: &Topology,
        schedule: &Schedule,
        gang: &Gang,
        placement: &mut Vec<NodeShare>,
    ) -> bool {
        let Some(needs) = &gang.needs else {
            return self.0.place(topology, schedule, gang, placement);
        };
        placement.clear();
        allowed_types(topology, gang).any(|kind| {
            let rooms: Vec<(NodeId, u32)> = topology
                .nodes()
                .iter()
                .enumerate()
                .filter(|(_, node)| node.device_type == kind)
                .map(|(index, _)| NodeId::from_index(index))
                .map(|node| (node, schedule.room(topology, node, needs)))
                .filter(|&(_, room)| room > 0)
                .collect();
            match needs.nodes {
                Some(nodes) => evenly(topology, schedule, gang, nodes, &rooms, placement),
                None => tightly(schedule, gang, needs, rooms, placement),
            }
        })
    }
}

/// Equal shares on exactly so many nodes: of one switch where one has enough of them, else of any.
fn evenly(
    topology: &Topology,
    schedule: &Schedule,
    gang: &Gang,
    nodes: u32,
    rooms: &[(NodeId, u32)],
    placement: &mut Vec<NodeShare>,
) -> bool {
    let each = gang.devices / nodes.max(1);
    let mut switches: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
    for &(node, _) in rooms.iter().filter(|(_, room)| *room >= each) {
        switches.entry(topology.node(node).spec.switch).or_default().push(node);
    }
    let wanted = nodes as usize;
    let one_switch =
        switches.values().filter(|found| found.len() >= wanted).min_by_key(|found| found.len()).cloned();
    let chosen = one_switch.unwrap_or_else(|| switches.into_values().flatten().collect());
    if chosen.len() < wanted || each * nodes != gang.devices {
        return false;
    }
    placement.extend(chosen.into_iter().take(wanted).map(|node| share(schedule, node, each)));
    true
}

/// On the one node that it fills best, or on those with the most room.
fn tightly(
    schedule: &Schedule,
    gang: &Gang,
    needs: &Needs,
    mut rooms: Vec<(NodeId, u32)>,
    placement: &mut Vec<NodeShare>,
) -> bool {
    let fitting = rooms.iter().filter(|(_, room)| *room >= gang.devices).min_by_key(|(_, room)| *room);
    if let Some(&(node, _)) = fitting {
        placement.push(share(schedule, node, gang.devices));
        return true;
    }
    if needs.node.is_some() {
        return false;
    }
    rooms.sort_by_key(|&(_, room)| std::cmp::Reverse(room));
    take_in_order(schedule, rooms.into_iter(), gang.devices, placement)
}
