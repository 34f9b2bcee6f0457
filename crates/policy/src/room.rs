//! Room for a gang: which placed jobs would have to leave for it.

use std::collections::BTreeMap;

use wharf_core::{
    DeviceSet, DeviceTypeId, FreeOfType, Gang, JobId, Needs, NodeId, NodeShare, Schedule, View,
};

use crate::placement::{allowed_types, share};

/// Jobs that have to leave, and the nodes that a gang can have then.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) leaving: Vec<JobId>,
    /// Nodes and how many devices to take of each.
    pub(crate) nodes: Vec<(NodeId, u32)>,
}

impl Room {
    /// The gang's devices, once those who leave are out of the schedule.
    pub(crate) fn placement(&self, schedule: &Schedule) -> Vec<NodeShare> {
        self.nodes.iter().map(|&(node, count)| share(schedule, node, count)).collect()
    }
}

/// Lets the candidates leave, one after the other, until the gang has room: on one node, or on whole nodes of one switch
/// where it is larger than a node. Those who turn out not to be in the way stay.
pub(crate) fn find(
    view: &View<'_>,
    gang: &Gang,
    candidates: impl IntoIterator<Item = JobId>,
) -> Option<Room> {
    if let Some(needs) = &gang.needs {
        return find_with_needs(view, gang, needs, candidates);
    }
    let types: Vec<DeviceTypeId> = allowed_types(view.topology(), gang).collect();
    let is_on_one_node = gang.devices <= node_size_max(view, &types);
    let mut whole = WholeNodes::default();
    if !is_on_one_node {
        whole = WholeNodes::new(view, &types, gang.devices);
    }
    let mut nodes: BTreeMap<NodeId, Clearing> = BTreeMap::new();
    let mut leaving = Vec::new();
    for job in candidates {
        leaving.push(job);
        for share in view.schedule().placement(job).unwrap_or_default() {
            let node = view.topology().node(share.node);
            if !types.contains(&node.device_type) || !view.schedule().is_up(share.node) {
                continue;
            }
            let clearing = nodes.entry(share.node).or_insert_with(|| Clearing::new(view, share.node));
            clearing.leave(share.devices);
            let clear = clearing.clear.len();
            if is_on_one_node {
                if clear >= gang.devices {
                    return Some(one_node(view, share.node, gang.devices, leaving));
                }
            } else if clear == node.spec.devices
                && let Some(chosen) = whole.add(view, share.node)
            {
                return Some(whole_nodes(view, chosen, gang.devices));
            }
        }
    }
    None
}

/// As [`find`], for a gang that asks for more than devices. One that is larger than a node and names no number of nodes
/// waits for free devices: no job has to leave for it.
fn find_with_needs(
    view: &View<'_>,
    gang: &Gang,
    needs: &Needs,
    candidates: impl IntoIterator<Item = JobId>,
) -> Option<Room> {
    let wanted = needs.nodes.unwrap_or(1).max(1);
    let each = gang.devices / wanted;
    let types: Vec<DeviceTypeId> = allowed_types(view.topology(), gang).collect();
    let is_usable = |id: NodeId| {
        let node = view.topology().node(id);
        types.contains(&node.device_type) && view.schedule().is_up(id) && needs.allow(&node.spec)
    };
    let all = (0..view.topology().nodes().len()).map(NodeId::from_index);
    let mut ready: Vec<NodeId> = all
        .filter(|&node| is_usable(node) && view.schedule().room(view.topology(), node, needs) >= each)
        .collect();
    let mut nodes: BTreeMap<NodeId, (Clearing, u64, u64)> = BTreeMap::new();
    let mut leaving = Vec::new();
    for job in candidates {
        leaving.push(job);
        for share in view.schedule().placement(job).unwrap_or_default() {
            if !is_usable(share.node) || ready.contains(&share.node) {
                continue;
            }
            let (clearing, cpus, memory_mib) = nodes.entry(share.node).or_insert_with(|| {
                let (cpus, memory_mib) = view.schedule().unpromised(view.topology(), share.node);
                (Clearing::new(view, share.node), cpus, memory_mib)
            });
            clearing.leave(share.devices);
            if let Some(given) = &view.spec(job).gang.needs {
                let devices = u64::from(share.devices.len());
                *cpus = cpus.saturating_add(u64::from(given.cpus) * devices);
                *memory_mib = memory_mib.saturating_add(given.memory_mib * devices);
            }
            let fits = needs.devices_within(*cpus, *memory_mib) >= u64::from(each);
            if fits && clearing.clear.len() >= each {
                ready.push(share.node);
            }
        }
        for kind in &types {
            let alike = ready.iter().copied().filter(|&node| view.topology().node(node).device_type == *kind);
            // The latest are the ones that were missing.
            let chosen: Vec<NodeId> = alike.rev().take(wanted as usize).collect();
            if chosen.len() == wanted as usize {
                return Some(on_nodes(view, &chosen, each, leaving));
            }
        }
    }
    None
}

/// Room on these nodes, for which only those who are there have to leave.
fn on_nodes(view: &View<'_>, nodes: &[NodeId], each: u32, mut leaving: Vec<JobId>) -> Room {
    leaving.retain(|&job| {
        let shares = view.schedule().placement(job).unwrap_or_default();
        shares.iter().any(|share| nodes.contains(&share.node))
    });
    Room { leaving, nodes: nodes.iter().map(|&node| (node, each)).collect() }
}

/// Most devices in a node of these types.
pub(crate) fn node_size_max(view: &View<'_>, types: &[DeviceTypeId]) -> u32 {
    let index = view.schedule().free_index();
    types
        .iter()
        .filter_map(|&kind| index.of_type(kind))
        .map(FreeOfType::devices_per_node_max)
        .max()
        .unwrap_or(0)
}

/// One node while jobs leave it.
struct Clearing {
    /// Jobs that are still on each device.
    left: Vec<u8>,
    /// Devices without any.
    clear: DeviceSet,
}

impl Clearing {
    fn new(view: &View<'_>, node: NodeId) -> Self {
        let devices = view.topology().node(node).spec.devices;
        let on = |device| view.schedule().occupants(view.topology(), node, device).count() as u8;
        Self { left: (0..devices).map(on).collect(), clear: view.schedule().free(node) }
    }

    fn leave(&mut self, devices: DeviceSet) {
        for device in devices.iter() {
            let left = &mut self.left[device as usize];
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.clear.insert(device);
            }
        }
    }
}

fn one_node(view: &View<'_>, node: NodeId, devices: u32, left: Vec<JobId>) -> Room {
    let here = |job: JobId| {
        let shares = view.schedule().placement(job).unwrap_or_default();
        shares.iter().find(|share| share.node == node).map(|share| share.devices)
    };
    let mut leaving: Vec<(JobId, DeviceSet)> =
        left.into_iter().filter_map(|job| Some((job, here(job)?))).collect();
    // The first candidates are the best to leave: the others are given back their places where that can be.
    for index in (0..leaving.len()).rev() {
        let mut clearing = Clearing::new(view, node);
        for (_, share) in leaving.iter().enumerate().filter(|&(other, _)| other != index).map(|(_, job)| job)
        {
            clearing.leave(*share);
        }
        if clearing.clear.len() >= devices {
            leaving.remove(index);
        }
    }
    Room { leaving: leaving.into_iter().map(|(job, _)| job).collect(), nodes: vec![(node, devices)] }
}

fn whole_nodes(view: &View<'_>, chosen: Vec<NodeId>, devices: u32) -> Room {
    let mut room = Room { leaving: Vec::new(), nodes: Vec::new() };
    let mut missing = devices;
    let mut jobs = Vec::new();
    for node in chosen {
        view.schedule().jobs_on(view.topology(), node, &mut jobs);
        room.leaving.extend_from_slice(&jobs);
        let count = view.topology().node(node).spec.devices.min(missing);
        room.nodes.push((node, count));
        missing -= count;
    }
    room.leaving.sort_unstable();
    room.leaving.dedup();
    room
}

/// Wholly clear nodes, by type and switch.
#[derive(Default)]
struct WholeNodes {
    needed: u32,
    /// No switch has enough devices: nodes of several have to do.
    is_across: bool,
    clear: BTreeMap<(DeviceTypeId, u32), (u32, Vec<NodeId>)>,
}

impl WholeNodes {
    fn new(view: &View<'_>, types: &[DeviceTypeId], needed: u32) -> Self {
        let mut by_switch: BTreeMap<(DeviceTypeId, u32), u32> = BTreeMap::new();
        for (index, node) in view.topology().nodes().iter().enumerate() {
            if view.schedule().is_up(NodeId::from_index(index)) {
                *by_switch.entry((node.device_type, node.spec.switch)).or_default() += node.spec.devices;
            }
        }
        let is_across = !by_switch.iter().any(|((kind, _), &sum)| types.contains(kind) && sum >= needed);
        let mut whole = Self { needed, is_across, clear: BTreeMap::new() };
        let index = view.schedule().free_index();
        for free in types.iter().filter_map(|&kind| index.of_type(kind)) {
            for node in free.idle().iter() {
                // Idle nodes alone are not enough, or the gang would have been placed.
                whole.add(view, node);
            }
        }
        whole
    }

    /// Adds a node, and returns nodes that suffice once there are some.
    fn add(&mut self, view: &View<'_>, node: NodeId) -> Option<Vec<NodeId>> {
        let here = view.topology().node(node);
        let switch = if self.is_across { 0 } else { here.spec.switch };
        let (sum, nodes) = self.clear.entry((here.device_type, switch)).or_default();
        *sum += here.spec.devices;
        nodes.push(node);
        if *sum < self.needed {
            return None;
        }
        // The latest are the ones that were missing; take no more than needed.
        let mut missing = self.needed;
        let enough = nodes.iter().rev().take_while(|&&node| {
            let is_missing = missing > 0;
            missing = missing.saturating_sub(view.topology().node(node).spec.devices);
            is_missing
        });
        Some(enough.copied().collect())
    }
}
