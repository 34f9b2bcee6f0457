//! Devices that are kept for one waiting job, so that smaller ones do not take them one by one indefinitely.

use wharf_core::{DeviceTypeId, Gang, JobId, Needs, NodeId, NodeShare, View};

use crate::placement::{all_of, allowed_types, share, take_in_order, types_of};
use crate::room::node_size_max;

/// Nodes on which no other job may start until the holder has its devices.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reservation {
    pub(crate) holder: JobId,
    pub(crate) nodes: Vec<NodeId>,
}

/// A node that could be kept, and how much of it is to be had already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) node: NodeId,
    pub(crate) open: u32,
    pub(crate) size: u32,
    pub(crate) switch: u32,
}

/// The nodes on which a gang will have its devices soonest, as far as one can tell without durations: those with the
/// most open ones.
pub(crate) fn reserve(
    view: &View<'_>,
    job: JobId,
    candidates: impl Fn(DeviceTypeId) -> Vec<Candidate>,
) -> Option<Reservation> {
    let gang = &view.spec(job).gang;
    let choices = types_of(view, gang).filter_map(|kind| {
        let nodes = candidates(kind);
        if let Some(count) = gang.needs.as_ref().and_then(|needs| needs.nodes).filter(|&count| count > 0) {
            return most_open(nodes, count as usize);
        }
        let largest = || nodes.iter().map(|node| node.size).max().unwrap_or(0);
        if gang.size() <= if gang.has_devices() { node_size_max(view, &[kind]) } else { largest() } {
            let large = nodes.iter().filter(|node| node.size >= gang.size());
            let best = large.min_by_key(|node| (std::cmp::Reverse(node.open), node.node))?;
            return Some((best.open, vec![best.node]));
        }
        several_nodes(nodes, gang.size())
    });
    let (_, nodes) = choices.max_by_key(|&(open, _)| open)?;
    Some(Reservation { holder: job, nodes })
}

fn most_open(mut nodes: Vec<Candidate>, count: usize) -> Option<(u32, Vec<NodeId>)> {
    nodes.sort_by_key(|node| (std::cmp::Reverse(node.open), node.node));
    nodes.truncate(count);
    (nodes.len() == count)
        .then(|| (nodes.iter().map(|node| node.open).sum(), nodes.iter().map(|node| node.node).collect()))
}

/// The most open nodes of one switch (of all, where no switch has enough devices), and their open devices.
fn several_nodes(mut nodes: Vec<Candidate>, devices: u32) -> Option<(u32, Vec<NodeId>)> {
    nodes.sort_by_key(|node| (std::cmp::Reverse(node.open), node.node));
    let gather = |nodes: &mut dyn Iterator<Item = &Candidate>| {
        let (mut missing, mut open, mut chosen) = (devices, 0, Vec::new());
        for node in nodes {
            if missing == 0 {
                break;
            }
            missing = missing.saturating_sub(node.size);
            open += node.open;
            chosen.push(node.node);
        }
        (missing == 0).then_some((open, chosen))
    };
    let mut switches: Vec<u32> = nodes.iter().map(|node| node.switch).collect();
    switches.sort_unstable();
    switches.dedup();
    let on_one = switches
        .into_iter()
        .filter_map(|switch| gather(&mut nodes.iter().filter(|node| node.switch == switch)));
    on_one.max_by_key(|&(open, _)| open).or_else(|| gather(&mut nodes.iter()))
}

/// Working nodes of a type that can hold a gang's share, with their free devices.
pub(crate) fn by_free(view: &View<'_>, kind: DeviceTypeId, gang: &Gang) -> Vec<Candidate> {
    let (topology, schedule) = (view.topology(), view.schedule());
    let nodes = topology.nodes().iter().enumerate().map(|(index, node)| (NodeId::from_index(index), node));
    let of_kind = nodes.filter(|&(id, node)| node.device_type == kind && schedule.is_up(id));
    of_kind
        .filter_map(|(id, node)| {
            let (size, open) = match &gang.needs {
                None => (node.spec.devices - schedule.broken(id).len(), schedule.free(id).len()),
                Some(needs) => (schedule.capacity(topology, id, needs), schedule.room(topology, id, needs)),
            };
            let nodes = gang.needs.as_ref().and_then(|needs| needs.nodes);
            let each = nodes.filter(|&nodes| nodes > 0).map_or(1, |nodes| gang.size() / nodes);
            (size >= each).then_some(Candidate { node: id, open, size, switch: node.spec.switch })
        })
        .collect()
}

/// Free devices of nodes that are not among `without`, instead of `found`: of the tightest node, or of the most free ones where
/// what was found is spread as well.
pub(crate) fn place_elsewhere(
    view: &View<'_>,
    gang: &Gang,
    found: &[NodeShare],
    without: &[NodeId],
) -> Option<Vec<NodeShare>> {
    let (topology, schedule) = (view.topology(), view.schedule());
    if gang.needs.is_some() {
        return one_with_needs(view, gang, without);
    }
    allowed_types(topology, gang).find_map(|kind| {
        let free = schedule.free_index().of_type(kind)?;
        let size = free.devices_per_node_max();
        let mut tightest = (gang.devices..=size).filter_map(|count| free.with_exactly(count));
        let node = tightest.find_map(|nodes| nodes.iter().find(|node| !without.contains(node)));
        if let Some(node) = node {
            return Some(vec![share(schedule, node, gang.devices)]);
        }
        if found.len() <= gang.devices.div_ceil(size.max(1)) as usize {
            return None;
        }
        let mut placement = Vec::new();
        let nodes = free.most_free_first().filter(|node| !without.contains(node));
        take_in_order(schedule, all_of(nodes), gang.devices, &mut placement).then_some(placement)
    })
}

fn one_with_needs(view: &View<'_>, gang: &Gang, without: &[NodeId]) -> Option<Vec<NodeShare>> {
    let is_spread = |needs: &Needs| needs.nodes.is_some_and(|nodes| nodes > 1) || !needs.groups.is_empty();
    if gang.needs.as_deref().is_some_and(is_spread) || !view.schedule().has_licences(view.topology(), gang) {
        return None;
    }
    types_of(view, gang).find_map(|kind| {
        let nodes = by_free(view, kind, gang).into_iter();
        let fitting = nodes.filter(|node| node.open >= gang.size() && !without.contains(&node.node));
        let tightest = fitting.min_by_key(|node| node.open)?;
        Some(vec![view.schedule().share(gang, tightest.node, gang.size())])
    })
}
