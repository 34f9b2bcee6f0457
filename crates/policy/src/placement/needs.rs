//! Gangs that ask for more than devices: a shape, a pool, a node, CPUs, memory, parts of devices, several groups.

use std::collections::BTreeMap;

use wharf_core::{DeviceSet, DeviceTypeId, Gang, Level, Needs, NodeId, NodeShare, Topology, Vacancy, Within};

use super::{Placer, allowed_types};

/// Places gangs with [`Needs`] itself, and leaves all others to a strategy.
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
        if !vacancy.has_licences(topology, gang) {
            return false;
        }
        if needs.groups.is_empty() {
            return place_group(topology, vacancy, gang, needs, placement);
        }
        groups(topology, vacancy, gang, placement)
    }
}

/// One group after the other, each on what those before it leave.
fn groups(topology: &Topology, vacancy: &Vacancy, gang: &Gang, placement: &mut Vec<NodeShare>) -> bool {
    let mut rest = vacancy.clone();
    let mut shares = Vec::new();
    for (index, group) in (0..).zip(gang.groups()) {
        let plain = Needs::default();
        let needs = group.needs.as_deref().unwrap_or(&plain);
        shares.clear();
        if !place_group(topology, &rest, group, needs, &mut shares) {
            placement.clear();
            return false;
        }
        shares.iter_mut().for_each(|share| share.group = index);
        rest.take(gang, &shares);
        placement.append(&mut shares);
    }
    true
}

/// Nodes with how much of a gang they can hold now.
type Rooms = Vec<(NodeId, u32)>;

/// One group of tasks, on nodes of one device type (of any where it has no devices).
fn place_group(
    topology: &Topology,
    vacancy: &Vacancy,
    gang: &Gang,
    needs: &Needs,
    placement: &mut Vec<NodeShare>,
) -> bool {
    if !gang.has_devices() {
        return place_on(topology, vacancy, gang, needs, None, placement);
    }
    allowed_types(topology, gang).any(|kind| place_on(topology, vacancy, gang, needs, Some(kind), placement))
}

fn place_on(
    topology: &Topology,
    vacancy: &Vacancy,
    gang: &Gang,
    needs: &Needs,
    kind: Option<DeviceTypeId>,
    placement: &mut Vec<NodeShare>,
) -> bool {
    placement.clear();
    let is_whole = gang.has_devices() && gang.device_part().is_none();
    if is_whole && needs.nodes.is_none() && needs.request.within.is_none() {
        // Free devices are in an index: most gangs are placed, or found to be too large, without a look at all nodes.
        let Some(free) = kind.and_then(|kind| vacancy.free_index().of_type(kind)) else { return false };
        if free.devices() < gang.devices {
            return false;
        }
        let tightest =
            (gang.devices.max(1)..=free.devices_per_node_max()).filter_map(|count| free.with_exactly(count));
        let mut fitting = tightest.flat_map(|nodes| nodes.iter());
        if let Some(node) = fitting.find(|&node| vacancy.room(topology, node, needs) >= gang.devices) {
            placement.push(vacancy.share(gang, node, gang.devices));
            return true;
        }
    }
    let nodes = topology.nodes().iter().enumerate();
    let rooms: Rooms = nodes
        .filter(|(_, node)| kind.is_none_or(|kind| node.device_type == kind))
        .map(|(index, _)| NodeId::from_index(index))
        .map(|node| (node, vacancy.room(topology, node, needs)))
        .filter(|&(_, room)| room > 0)
        .collect();
    match needs.request.within {
        None => fill(topology, vacancy, gang, needs, rooms, placement),
        Some(within) => together(topology, vacancy, gang, needs, within, &rooms, placement),
    }
}

/// In the shape that the gang asks for, on any of these nodes.
fn fill(
    topology: &Topology,
    vacancy: &Vacancy,
    gang: &Gang,
    needs: &Needs,
    rooms: Rooms,
    placement: &mut Vec<NodeShare>,
) -> bool {
    match needs.nodes {
        Some(nodes) if needs.is_even(gang) => evenly(topology, vacancy, gang, nodes, &rooms, placement),
        Some(nodes) => unevenly(vacancy, gang, nodes, rooms, placement),
        None => tightly(vacancy, gang, needs, rooms, placement),
    }
}

/// Within one part of the machines' tree: the one with the least room that suffices. Ranks follow the tree.
fn together(
    topology: &Topology,
    vacancy: &Vacancy,
    gang: &Gang,
    needs: &Needs,
    within: Within,
    rooms: &Rooms,
    placement: &mut Vec<NodeShare>,
) -> bool {
    if within.level == Level::Domain && in_domain(topology, vacancy, gang, rooms, placement) {
        return true;
    }
    let mut parts: BTreeMap<(u32, u32, u32), (u64, Rooms)> = BTreeMap::new();
    for &(node, room) in rooms {
        let (sum, nodes) = parts.entry(topology.place_at(node, within.level)).or_default();
        *sum += u64::from(room);
        nodes.push((node, room));
    }
    let mut parts: Vec<(u64, Rooms)> = parts.into_values().collect();
    parts.retain(|(sum, _)| *sum >= u64::from(gang.size()));
    parts.sort_by_key(|(sum, _)| *sum);
    let is_domain_required = within.is_required && within.level == Level::Domain;
    let is_found = !is_domain_required
        && parts.into_iter().any(|(_, rooms)| fill(topology, vacancy, gang, needs, rooms, placement))
        || !within.is_required && fill(topology, vacancy, gang, needs, rooms.clone(), placement);
    placement.sort_by_key(|share| (topology.place_at(share.node, Level::Node), share.node));
    is_found
}

/// On devices of one domain: the one with the fewest free devices that suffice.
fn in_domain(
    topology: &Topology,
    vacancy: &Vacancy,
    gang: &Gang,
    rooms: &Rooms,
    placement: &mut Vec<NodeShare>,
) -> bool {
    let size = gang.size();
    let domains = rooms.iter().filter(|(_, room)| *room >= size).flat_map(|&(node, _)| {
        let width = topology.domain_size(node);
        let free = vacancy.free(node);
        let count = topology.node(node).spec.devices.div_ceil(width);
        (0..count).map(move |domain| {
            let below = DeviceSet::first(domain * width);
            let devices = DeviceSet::first(((domain + 1) * width).min(128)).difference(below);
            (node, free.intersection(devices))
        })
    });
    let tightest = domains.filter(|(_, free)| free.len() >= size).min_by_key(|(_, free)| free.len());
    placement.extend(tightest.map(|(node, free)| NodeShare::new(node, free.lowest(size))));
    tightest.is_some()
}

/// Equal shares on exactly so many nodes: of one switch where one has enough of them, else of any.
fn evenly(
    topology: &Topology,
    vacancy: &Vacancy,
    gang: &Gang,
    nodes: u32,
    rooms: &Rooms,
    placement: &mut Vec<NodeShare>,
) -> bool {
    let each = gang.size() / nodes.max(1);
    let mut switches: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
    for &(node, _) in rooms.iter().filter(|(_, room)| *room >= each) {
        switches.entry(topology.node(node).spec.switch).or_default().push(node);
    }
    let wanted = nodes as usize;
    let one_switch =
        switches.values().filter(|found| found.len() >= wanted).min_by_key(|found| found.len()).cloned();
    let chosen = one_switch.unwrap_or_else(|| switches.into_values().flatten().collect());
    if chosen.len() < wanted || each * nodes != gang.size() {
        return false;
    }
    placement.extend(chosen.into_iter().take(wanted).map(|node| vacancy.share(gang, node, each)));
    true
}

/// At least one task on each of exactly so many nodes, and as many as fit on those with the most room.
fn unevenly(
    vacancy: &Vacancy,
    gang: &Gang,
    nodes: u32,
    mut rooms: Rooms,
    placement: &mut Vec<NodeShare>,
) -> bool {
    rooms.sort_by_key(|&(_, room)| std::cmp::Reverse(room));
    rooms.truncate(nodes as usize);
    let (step, size) = (gang.step(), gang.size());
    let sum: u64 = rooms.iter().map(|&(_, room)| u64::from(room)).sum();
    let least = u64::from(step) * u64::from(nodes);
    if rooms.len() != nodes as usize || sum < u64::from(size) || u64::from(size) < least || size % step > 0 {
        return false;
    }
    let mut spare = size - step * nodes;
    for (node, room) in rooms {
        let more = spare.min(room - step);
        spare -= more;
        placement.push(vacancy.share(gang, node, step + more));
    }
    true
}

/// On the one node that it fills best, or on those with the most room.
fn tightly(
    vacancy: &Vacancy,
    gang: &Gang,
    needs: &Needs,
    mut rooms: Rooms,
    placement: &mut Vec<NodeShare>,
) -> bool {
    let size = gang.size();
    let fitting = rooms.iter().filter(|(_, room)| *room >= size).min_by_key(|(_, room)| *room);
    if let Some(&(node, _)) = fitting {
        placement.push(vacancy.share(gang, node, size));
        return true;
    }
    if needs.node.is_some() {
        return false;
    }
    rooms.sort_by_key(|&(_, room)| std::cmp::Reverse(room));
    let mut missing = size;
    for (node, room) in rooms {
        let count = room.min(missing);
        missing -= count;
        placement.push(vacancy.share(gang, node, count));
        if missing == 0 {
            return true;
        }
    }
    placement.clear();
    false
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wharf_core::{ClusterSpec, Request, State};

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
        let request = |request: Request| Needs { request, ..Needs::default() };
        let cpus = |cpus| request(Request::per_device(cpus, 0));
        let pool = |pool: &str| Needs { pool: Some(pool.into()), ..Needs::default() };
        let table = [
            ("two nodes of one switch", 4, nodes(2), Some(vec![(0, 2), (1, 2)])),
            ("three nodes of any", 3, nodes(3), Some(vec![(0, 1), (1, 1), (2, 1)])),
            ("not even", 5, nodes(2), Some(vec![(0, 4), (1, 1)])),
            ("more nodes than there are", 5, nodes(5), None),
            ("the other pool", 2, pool("last"), Some(vec![(3, 2)])),
            ("too large for its pool", 5, pool("last"), None),
            ("no such pool", 1, pool("none"), None),
            ("this node", 4, Needs { node: Some("gpu-2".into()), ..Needs::default() }, Some(vec![(2, 4)])),
            ("this node is too small", 5, Needs { node: Some("gpu-2".into()), ..Needs::default() }, None),
            ("four processors each", 2, cpus(4), Some(vec![(0, 2)])),
            ("spread by processors", 3, cpus(4), Some(vec![(0, 2), (1, 1)])),
            ("too many processors", 1, cpus(9), None),
            ("too much memory", 1, request(Request::per_device(0, 16 * 1024 + 1)), None),
        ];
        for (what, devices, needs, expected) in table {
            assert_eq!(placed(devices, needs), expected, "{what}");
        }
    }
}
