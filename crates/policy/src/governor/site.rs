//! Which nodes to keep for a gang, and its placement on nodes that are kept for it.

use std::collections::BTreeMap;

use wharf_core::{Gang, NodeId, NodeShare, View};

use crate::placement::types_of;

/// Nodes that could hold a gang once all jobs have left them: of one switch where one is large enough, and those with the
/// most idle devices first. `may_keep` states which nodes can be had.
pub(crate) fn choose(view: &View<'_>, gang: &Gang, may_keep: impl Fn(NodeId) -> bool) -> Option<Vec<NodeId>> {
    let topology = view.topology();
    types_of(view, gang).find_map(|kind| {
        let mut switches: BTreeMap<u32, Vec<(NodeId, u32)>> = BTreeMap::new();
        for (index, node) in topology.nodes().iter().enumerate() {
            let id = NodeId::from_index(index);
            let room = capacity(view, gang, id);
            let is_there = view.schedule().is_usable_if_kept(id) && may_keep(id);
            if node.device_type == kind && is_there && room > 0 {
                switches.entry(node.spec.switch).or_default().push((id, room));
            }
        }
        let together = switches.values().filter_map(|nodes| enough(view, gang, nodes.clone()));
        let idle = |nodes: &Vec<NodeId>| -> u32 { nodes.iter().map(|&node| idle(view, node)).sum() };
        together.max_by_key(idle).or_else(|| enough(view, gang, switches.into_values().flatten().collect()))
    })
}

fn idle(view: &View<'_>, node: NodeId) -> u32 {
    view.schedule().idle(view.topology(), node).len()
}

/// Devices of a node that a gang could have on the empty node.
fn capacity(view: &View<'_>, gang: &Gang, node: NodeId) -> u32 {
    match &gang.needs {
        Some(needs) => view.schedule().capacity(view.topology(), node, needs),
        None => view.topology().node(node).spec.devices - view.schedule().broken(node).len(),
    }
}

/// The nodes with the most idle devices that are enough together.
fn enough(view: &View<'_>, gang: &Gang, mut nodes: Vec<(NodeId, u32)>) -> Option<Vec<NodeId>> {
    let needs = gang.needs.as_deref();
    nodes.sort_by_key(|&(node, _)| (std::cmp::Reverse(idle(view, node)), node));
    if let Some(count) = needs.and_then(|needs| needs.nodes).filter(|&count| count > 0) {
        let each = gang.size() / count;
        let fitting: Vec<NodeId> = nodes
            .iter()
            .filter(|(_, room)| *room >= each)
            .map(|&(node, _)| node)
            .take(count as usize)
            .collect();
        return (fitting.len() == count as usize).then_some(fitting);
    }
    if let Some(&(node, _)) = nodes.iter().find(|(_, room)| *room >= gang.size()) {
        return Some(vec![node]);
    }
    let mut missing = gang.size();
    let mut taken = Vec::new();
    for (node, room) in nodes {
        taken.push(node);
        missing = missing.saturating_sub(room);
        if missing == 0 {
            return Some(taken);
        }
    }
    None
}

/// Idle devices of these nodes, kept or not, as many as the gang needs and in the shape that it needs.
pub(crate) fn place(view: &View<'_>, gang: &Gang, nodes: &[NodeId]) -> Option<Vec<NodeShare>> {
    types_of(view, gang).find_map(|kind| {
        let mut rooms: Vec<(NodeId, u32)> = nodes
            .iter()
            .filter(|&&node| view.topology().node(node).device_type == kind)
            .map(|&node| (node, room(view, gang, node)))
            .filter(|&(_, room)| room > 0)
            .collect();
        let take = |node: NodeId, count: u32| {
            view.schedule().share_if_kept(gang, node, count, view.schedule().idle(view.topology(), node))
        };
        let count = gang.needs.as_deref().and_then(|needs| needs.nodes).filter(|&count| count > 0);
        if let Some(count) = count {
            let each = gang.size() / count;
            rooms.retain(|&(_, room)| room >= each);
            let is_enough = rooms.len() >= count as usize && each * count == gang.size();
            let shares = || rooms.iter().take(count as usize).map(|&(node, _)| take(node, each)).collect();
            return is_enough.then(shares);
        }
        let fitting = rooms.iter().filter(|(_, room)| *room >= gang.size()).min_by_key(|(_, room)| *room);
        if let Some(&(node, _)) = fitting {
            return Some(vec![take(node, gang.size())]);
        }
        rooms.sort_by_key(|&(_, room)| std::cmp::Reverse(room));
        let mut missing = gang.size();
        let mut shares = Vec::new();
        for (node, room) in rooms {
            let count = room.min(missing);
            shares.push(take(node, count));
            missing -= count;
            if missing == 0 {
                return Some(shares);
            }
        }
        None
    })
}

/// Idle devices of a node, kept or not, that a gang could have now.
pub(crate) fn room(view: &View<'_>, gang: &Gang, node: NodeId) -> u32 {
    if !view.schedule().is_usable_if_kept(node) {
        return 0;
    }
    let idle = view.schedule().idle(view.topology(), node);
    match &gang.needs {
        Some(needs) => view.schedule().room_if_kept(view.topology(), node, needs, idle),
        None => idle.len(),
    }
}
