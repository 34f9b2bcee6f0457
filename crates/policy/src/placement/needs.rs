//! Gangs that ask for more than devices: a shape, a pool, a node, processors or memory.

use std::collections::BTreeMap;

use wharf_core::{Gang, Needs, NodeId, NodeShare, Topology, Vacancy};

use super::{Placer, allowed_types, share, take_in_order};

/// Places gangs with [`Needs`] itself, and leaves all others to a strategy.
///
/// It checks every node: such gangs are rare, and what they need is in no index.
pub struct WithNeeds(pub Box<dyn Placer>);

impl Placer for WithNeeds {
    fn place(
        &mut self,
        topology: &Topology,
        vacancy: &Vacancy,
        gang: &Gang,
        placement: &mut Vec<NodeShare>,
    ) -> bool {
        let Some(needs) = &gang.needs else {
            return self.0.place(topology, vacancy, gang, placement);
        };
        placement.clear();
        allowed_types(topology, gang).any(|kind| {
            let rooms: Vec<(NodeId, u32)> = topology
                .nodes()
                .iter()
                .enumerate()
                .filter(|(_, node)| node.device_type == kind)
                .map(|(index, _)| NodeId::from_index(index))
                .map(|node| (node, vacancy.room(topology, node, needs)))
                .filter(|&(_, room)| room > 0)
                .collect();
            match needs.nodes {
                Some(nodes) => evenly(topology, vacancy, gang, nodes, &rooms, placement),
                None => tightly(vacancy, gang, needs, rooms, placement),
            }
        })
    }
}

/// Equal shares on exactly so many nodes: of one switch where one has enough of them, else of any.
fn evenly(
    topology: &Topology,
    vacancy: &Vacancy,
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
    placement.extend(chosen.into_iter().take(wanted).map(|node| share(vacancy, node, each)));
    true
}

/// On the one node that it fills best, or on those with the most room.
fn tightly(
    vacancy: &Vacancy,
    gang: &Gang,
    needs: &Needs,
    mut rooms: Vec<(NodeId, u32)>,
    placement: &mut Vec<NodeShare>,
) -> bool {
    let fitting = rooms.iter().filter(|(_, room)| *room >= gang.devices).min_by_key(|(_, room)| *room);
    if let Some(&(node, _)) = fitting {
        placement.push(share(vacancy, node, gang.devices));
        return true;
    }
    if needs.node.is_some() {
        return false;
    }
    rooms.sort_by_key(|&(_, room)| std::cmp::Reverse(room));
    take_in_order(vacancy, rooms.into_iter(), gang.devices, placement)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wharf_core::{ClusterSpec, State};

    use super::super::Strategy;
    use super::*;

    /// Two switches with two nodes of four devices and eight processors each; the last node is a pool of its own.
    fn state() -> State {
        let mut cluster = ClusterSpec::uniform("gpu", 4, 4);
        for (index, node) in cluster.nodes.iter_mut().enumerate() {
            node.switch = index as u32 / 2;
            node.cpus = 8;
            node.memory_gib = 16;
            node.pool = if index == 3 { "last" } else { "first" }.into();
        }
        State::new(&cluster, 1)
    }

    fn placed(devices: u32, needs: Needs) -> Option<Vec<(u32, u32)>> {
        let state = state();
        let gang = Gang { needs: Some(Arc::new(needs)), ..Gang::fixed(devices) };
        let mut placement = Vec::new();
        let mut placer = Strategy::Consolidated.placer(0);
        let found = placer.place(state.topology(), state.schedule(), &gang, &mut placement);
        found.then(|| placement.iter().map(|share| (share.node.0, share.devices.len())).collect())
    }

    #[test]
    fn gangs_get_what_they_need_or_nothing() {
        let nodes = |nodes| Needs { nodes: Some(nodes), ..Needs::default() };
        let pool = |pool: &str| Needs { pool: Some(pool.into()), ..Needs::default() };
        let table = [
            ("two nodes of one switch", 4, nodes(2), Some(vec![(0, 2), (1, 2)])),
            ("three nodes of any", 3, nodes(3), Some(vec![(0, 1), (1, 1), (2, 1)])),
            ("not even", 5, nodes(2), None),
            ("more nodes than there are", 5, nodes(5), None),
            ("the other pool", 2, pool("last"), Some(vec![(3, 2)])),
            ("too large for its pool", 5, pool("last"), None),
            ("no such pool", 1, pool("none"), None),
            ("this node", 4, Needs { node: Some("gpu-2".into()), ..Needs::default() }, Some(vec![(2, 4)])),
            ("this node is too small", 5, Needs { node: Some("gpu-2".into()), ..Needs::default() }, None),
            ("four processors each", 2, Needs { cpus: 4, ..Needs::default() }, Some(vec![(0, 2)])),
            ("spread by processors", 3, Needs { cpus: 4, ..Needs::default() }, Some(vec![(0, 2), (1, 1)])),
            ("too many processors", 1, Needs { cpus: 9, ..Needs::default() }, None),
            ("too much memory", 1, Needs { memory_mib: 16 * 1024 + 1, ..Needs::default() }, None),
        ];
        for (what, devices, needs, expected) in table {
            assert_eq!(placed(devices, needs), expected, "{what}");
        }
    }
}
