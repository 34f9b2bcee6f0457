//! Room for a gang: which placed jobs would have to leave for it.

use std::collections::BTreeMap;

use wharf_core::{DeviceSet, DeviceTypeId, FreeOfType, Gang, JobId, Needs, NodeId, NodeShare, Vacancy, View};

use crate::placement::allowed_types;

/// Jobs that have to leave, and the nodes that a gang can have then.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) leaving: Vec<JobId>,
    /// Nodes and how many devices to take of each.
    pub(crate) nodes: Vec<(NodeId, u32)>,
}

impl Room {
    /// The gang's devices, once those who leave are out of the schedule.
    pub(crate) fn placement(&self, view: &View<'_>, gang: &Gang) -> Vec<NodeShare> {
        self.nodes.iter().map(|&(node, count)| view.schedule().share(gang, node, count)).collect()
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
/// waits for free devices: no job has to leave for it. So does one of several groups, one that stays together beyond a node, and one
/// that lacks licences.
fn find_with_needs(
    view: &View<'_>,
    gang: &Gang,
    needs: &Needs,
    candidates: impl IntoIterator<Item = JobId>,
) -> Option<Room> {
    let wanted = needs.nodes.unwrap_or(1).max(1);
    let is_odd = needs.nodes.is_some() && !needs.is_even(gang) || !needs.groups.is_empty();
    let (topology, schedule) = (view.topology(), view.schedule());
    if is_odd || needs.request.within.is_some() || !schedule.has_licences(topology, gang) {
        return None;
    }
    let each = gang.size() / wanted;
    let types: Vec<DeviceTypeId> = allowed_types(topology, gang).collect();
    let is_usable = |id: NodeId| !gang.has_devices() || types.contains(&topology.node(id).device_type);
    let mut rest: Vacancy = (**schedule).clone();
    let all = (0..topology.nodes().len()).map(NodeId::from_index);
    let mut ready: Vec<NodeId> =
        all.filter(|&node| is_usable(node) && rest.room(topology, node, needs) >= each).collect();
    let mut leaving = Vec::new();
    for job in candidates {
        leaving.push(job);
        let shares = schedule.placement(job).unwrap_or_default();
        leave(view, &mut rest, &leaving, job);
        for node in shares.iter().flat_map(|share| topology.groups(share.node)) {
            if is_usable(node) && !ready.contains(&node) && rest.room(topology, node, needs) >= each {
                ready.push(node);
            }
        }
        let kinds = types.iter().filter(|_| gang.has_devices()).map(|&kind| Some(kind));
        for kind in kinds.chain((!gang.has_devices()).then_some(None)) {
            let is_alike = |node: &NodeId| kind.is_none_or(|kind| topology.node(*node).device_type == kind);
            // The latest are the ones that were missing.
            let chosen: Vec<NodeId> =
                ready.iter().copied().filter(is_alike).rev().take(wanted as usize).collect();
            if chosen.len() == wanted as usize {
                return Some(on_nodes(view, &chosen, each, leaving));
            }
        }
    }
    None
}

/// Lets a job leave a vacancy; its devices become free where all others on them have left as well.
fn leave(view: &View<'_>, rest: &mut Vacancy, left: &[JobId], job: JobId) {
    let schedule = view.schedule();
    let shares = schedule.placement(job).unwrap_or_default();
    rest.refund(&view.spec(job).gang, shares);
    for share in shares {
        let is_clear = |device: &u32| {
            schedule.occupants(view.topology(), share.node, *device).all(|other| left.contains(&other))
        };
        let mut clear = DeviceSet::EMPTY;
        share.devices.iter().filter(is_clear).for_each(|device| clear.insert(device));
        rest.add_free(share.node, clear);
    }
}

/// Room on these nodes, for which only those who are on their machines have to leave.
fn on_nodes(view: &View<'_>, nodes: &[NodeId], each: u32, mut leaving: Vec<JobId>) -> Room {
    let host = |node: NodeId| view.topology().node(node).host;
    leaving.retain(|&job| {
        let shares = view.schedule().placement(job).unwrap_or_default();
        shares.iter().any(|share| nodes.iter().any(|&node| host(node) == host(share.node)))
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
