//! How much of a gang a node could hold: by free devices, and by what its machine has left of everything else.

use std::fmt;
use std::sync::Arc;

use crate::accounts::{Dimension, MachineUse, licences_of};
use crate::cluster::{DeviceSet, NodeShare};
use crate::ids::NodeId;
use crate::job::{Gang, Needs};
use crate::request::{Amounts, Charge, Request, WHOLE_MILLI};
use crate::topology::Topology;
use crate::vacancy::Vacancy;

impl Vacancy {
    /// How much of a gang (in devices, or in tasks where it asks for none) an empty node could hold.
    pub fn capacity(&self, topology: &Topology, node: NodeId, needs: &Needs) -> u32 {
        let spec = &topology.node(node).spec;
        if !needs.allow(spec) {
            return 0;
        }
        let devices = DeviceSet::first(spec.devices).difference(self.broken(node)).len();
        let request = &needs.request;
        if request.devices == 0 && self.host(node) != node {
            return 0;
        }
        let tasks = Left::empty(topology, node).tasks(request);
        match (request.devices, request.device_milli) {
            (0, _) => tasks,
            (_, 1..) => u32::from(devices > 0 && tasks > 0),
            (each, _) => (devices / each).min(tasks).saturating_mul(each),
        }
    }

    /// How much of a gang (in devices, or in tasks where it asks for none) a node could hold now.
    pub fn room(&self, topology: &Topology, node: NodeId, needs: &Needs) -> u32 {
        // Nodes of a reservation are assigned by the holder of the reservation, and its jobs get no other nodes.
        if needs.reservation.is_some() || !self.is_up(node) {
            return 0;
        }
        self.room_if_kept(topology, node, needs, self.free(node))
    }

    /// As [`Vacancy::room`], also of a node that is kept, with these free devices.
    pub fn room_if_kept(&self, topology: &Topology, node: NodeId, needs: &Needs, free: DeviceSet) -> u32 {
        if !needs.allow(&topology.node(node).spec) {
            return 0;
        }
        let request = &needs.request;
        if request.is_plain() {
            return free.len();
        }
        // Tasks without devices are on the machine, for which its first node stands.
        if request.devices == 0 && self.host(node) != node {
            return 0;
        }
        if self.is_exclusive(node) || request.is_exclusive && !self.is_idle_machine(topology, node) {
            return 0;
        }
        let tasks = Left::now(self, topology, node).tasks(request);
        match (request.devices, request.device_milli) {
            (0, _) => tasks,
            (_, milli @ 1..) => u32::from(tasks > 0 && self.device_with(node, milli, free).is_some()),
            (each, _) => (free.len() / each).min(tasks).saturating_mul(each),
        }
    }

    /// Whether no job has anything of a node's machine, as far as devices and accounts tell.
    pub(crate) fn is_idle_machine(&self, topology: &Topology, node: NodeId) -> bool {
        self.accounts.machine(self.host(node)) == MachineUse::default()
            && topology.groups(node).all(|group| {
                let devices = DeviceSet::first(topology.node(group).spec.devices);
                self.is_up(group) && self.free(group) == devices.difference(self.broken(group))
            })
    }

    /// The device that a part of so many thousandths goes to: the fullest of those that are given in parts, or else the first of
    /// the free ones.
    pub fn device_with(&self, node: NodeId, milli: u32, free: DeviceSet) -> Option<u32> {
        let fits =
            |&(device, used): &(u32, u32)| used + milli <= WHOLE_MILLI && !self.broken(node).contains(device);
        // Of equally full ones, the first.
        let fullest = self
            .accounts()
            .parts(node)
            .filter(fits)
            .max_by_key(|&(device, used)| (used, std::cmp::Reverse(device)));
        fullest.map(|(device, _)| device).or_else(|| free.iter().next())
    }

    /// A gang's share of a node: so many of its devices, or of its tasks where it asks for none.
    pub fn share(&self, gang: &Gang, node: NodeId, size: u32) -> NodeShare {
        self.share_if_kept(gang, node, size, self.free(node))
    }

    /// As [`Vacancy::share`], also of a node that is kept, with these free devices.
    pub fn share_if_kept(&self, gang: &Gang, node: NodeId, size: u32, free: DeviceSet) -> NodeShare {
        if !gang.has_devices() {
            return NodeShare::tasks(node, size);
        }
        match gang.device_part() {
            Some(milli) => {
                let device = self.device_with(node, milli, free);
                NodeShare::new(node, device.map_or(DeviceSet::EMPTY, DeviceSet::single))
            }
            None => NodeShare::new(node, free.lowest(size)),
        }
    }

    /// Whether the licences that no job has suffice for a gang.
    pub fn has_licences(&self, topology: &Topology, gang: &Gang) -> bool {
        self.scarce_licence(topology, gang).is_none()
    }

    /// The licence of which too few are left for a gang.
    pub fn scarce_licence(&self, topology: &Topology, gang: &Gang) -> Option<Dimension> {
        gang.needs.as_ref()?;
        let wanted = |name: &str| {
            gang.licences().filter(|(known, _)| **known == *name).map(|(_, count)| count).sum::<u64>()
        };
        let mut scarce = gang
            .licences()
            .filter(|(name, _)| self.accounts().licences(name) + wanted(name) > licences_of(topology, name));
        scarce.next().map(|(name, _)| Dimension::Licence(name.clone()))
    }
}

/// What a machine has left beside devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left<'a> {
    cpu_milli: u64,
    memory_mib: u64,
    topology: &'a Topology,
    node: NodeId,
    used: Option<&'a Vacancy>,
}

impl<'a> Left<'a> {
    /// An empty machine.
    pub(crate) fn empty(topology: &'a Topology, node: NodeId) -> Self {
        let (cpu_milli, memory_mib) = topology.machine_amounts(node);
        Self { cpu_milli, memory_mib, topology, node, used: None }
    }

    /// A machine as it is.
    pub(crate) fn now(vacancy: &'a Vacancy, topology: &'a Topology, node: NodeId) -> Self {
        let empty = Self::empty(topology, node);
        let used = vacancy.accounts().machine(vacancy.host(node));
        let left = |all: u64, used: u64| if all == u64::MAX { all } else { all.saturating_sub(used) };
        Self {
            cpu_milli: left(empty.cpu_milli, used.cpu_milli),
            memory_mib: left(empty.memory_mib, used.memory_mib),
            used: Some(vacancy),
            ..empty
        }
    }

    /// Tasks that what is left suffices for; the first that has no room for one task is the scarce one.
    pub(crate) fn tasks(&self, request: &Request) -> u32 {
        self.bounds(request).map(|(_, tasks)| tasks).min().unwrap_or(u32::MAX)
    }

    /// For each dimension that the request mentions, how many tasks it allows; no dimension for the limit of tasks on a node.
    fn bounds(&self, request: &Request) -> impl Iterator<Item = (Option<Dimension>, u32)> {
        let bound = |left: u64, node: u64, task: u64| -> u32 {
            let tasks = left.checked_sub(node).map_or(0, |left| left.checked_div(task).unwrap_or(u64::MAX));
            u32::try_from(tasks).unwrap_or(u32::MAX)
        };
        let limit = if request.tasks_per_node == 0 { u32::MAX } else { request.tasks_per_node };
        let names = request.task.named.iter().chain(&request.node.named).map(|(name, _)| name);
        let count = |amounts: &[(std::sync::Arc<str>, u64)], name: &str| -> u64 {
            amounts.iter().filter(|(known, _)| **known == *name).map(|(_, count)| *count).sum()
        };
        let named = names.map(move |name| {
            let used = self.used.map_or(0, |vacancy| vacancy.accounts().named(vacancy.host(self.node), name));
            let left = self.topology.resource(self.node, name).saturating_sub(used);
            let tasks = bound(left, count(&request.node.named, name), count(&request.task.named, name));
            (Some(Dimension::Resource(name.clone())), tasks)
        });
        let cpus = bound(self.cpu_milli, request.node.cpu_milli, request.task.cpu_milli);
        let memory = bound(self.memory_mib, request.node.memory_mib, request.task.memory_mib);
        [(None, limit), (Some(Dimension::Cpus), cpus), (Some(Dimension::Memory), memory)]
            .into_iter()
            .chain(named)
    }
}

/// Something that keeps a gang from starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scarcity {
    /// Of what there is too little.
    pub what: Dimension,
    /// How much a task (of a licence: the whole gang) asks for.
    pub needed: u64,
    /// The most that a node which it may use (of a licence: the cluster) has left.
    pub most: u64,
}

impl fmt::Display for Scarcity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, needed, most } = self;
        let milli = |amount: &u64| {
            let (whole, rest) = (amount / u64::from(WHOLE_MILLI), amount % u64::from(WHOLE_MILLI));
            if rest == 0 {
                whole.to_string()
            } else {
                format!("{whole}.{rest:03}").trim_end_matches('0').to_owned()
            }
        };
        let is_enough = needed <= most;
        let mut on_node = |needed: &str, unit: &str, most: &str| {
            if is_enough {
                return write!(
                    f,
                    "needs {needed} {unit} for each task, and the nodes that it may use have too little left together"
                );
            }
            write!(
                f,
                "needs {needed} {unit} on a node, the most that a node which it may use has left is {most}"
            )
        };
        match what {
            Dimension::Cpus => on_node(&milli(needed), "CPUs", &milli(most)),
            Dimension::Memory => on_node(&needed.to_string(), "MiB of memory", &most.to_string()),
            Dimension::DeviceParts => on_node(&milli(needed), "of a device", &milli(most)),
            Dimension::Resource(name) => {
                on_node(&needed.to_string(), &format!("of resource `{name}`"), &most.to_string())
            }
            Dimension::Licence(name) => write!(f, "needs {needed} of licence `{name}`, {most} are left"),
            Dimension::Exclusive => write!(f, "needs nodes without other jobs, and too few are idle"),
            Dimension::Devices => write!(f, "needs more devices than are free"),
        }
    }
}

impl Vacancy {
    /// What keeps a gang from being placed: the one dimension without which `is_placed` finds a place for it, or else the first
    /// of which no node has enough for a task. `None` where only whole devices are missing, or their places do not suit.
    pub fn scarcity(
        &self,
        topology: &Topology,
        gang: &Gang,
        mut is_placed: impl FnMut(&Gang) -> bool,
    ) -> Option<Scarcity> {
        if let Some(what) = self.scarce_licence(topology, gang) {
            return Some(self.measure(topology, gang, what));
        }
        let mut found = None;
        for (index, group) in gang.groups().enumerate() {
            let Some(request) = group.request() else { continue };
            for what in dimensions(request) {
                let here = self.measure(topology, group, what.clone());
                if is_placed(&without(gang, index, &what)) {
                    return Some(here);
                }
                if here.most < here.needed {
                    found = found.or(Some(here));
                }
            }
        }
        found
    }

    /// How much of something a gang asks for, and the most that a node has.
    fn measure(&self, topology: &Topology, gang: &Gang, what: Dimension) -> Scarcity {
        if let Dimension::Licence(name) = &what {
            let needed = gang.licences().filter(|(known, _)| known == name).map(|(_, count)| count).sum();
            let most = licences_of(topology, name).saturating_sub(self.accounts().licences(name));
            return Scarcity { what, needed, most };
        }
        let (Some(needs), Some(request)) = (gang.needs.as_deref(), gang.request()) else {
            return Scarcity { what, needed: 0, most: 0 };
        };
        let nodes = (0..topology.nodes().len()).map(NodeId::from_index);
        let usable = nodes.filter(|&node| {
            let spec = &topology.node(node).spec;
            self.is_up(node) && needs.allow(spec) && (!gang.has_devices() || gang.allows(&spec.device_type))
        });
        let most = usable.map(|node| self.left_of(topology, node, &what)).max().unwrap_or(0);
        let share = NodeShare { tasks: 1, ..NodeShare::new(NodeId(0), DeviceSet::first(gang.step())) };
        let charge = Charge { request, tasks: gang.tasks_in(&share).into() };
        let needed = match &what {
            Dimension::Cpus => charge.cpu_milli(),
            Dimension::Memory => charge.memory_mib(),
            Dimension::DeviceParts => request.device_milli.into(),
            Dimension::Resource(name) => {
                charge.named().filter(|(known, _)| *known == name).map(|(_, count)| count).sum()
            }
            Dimension::Devices | Dimension::Exclusive | Dimension::Licence(_) => 1,
        };
        Scarcity { what, needed, most }
    }

    /// How much of something a node's machine has left.
    fn left_of(&self, topology: &Topology, node: NodeId, what: &Dimension) -> u64 {
        let left = Left::now(self, topology, node);
        match what {
            Dimension::Cpus => left.cpu_milli,
            Dimension::Memory => left.memory_mib,
            Dimension::Resource(name) => {
                topology.resource(node, name).saturating_sub(self.accounts().named(self.host(node), name))
            }
            Dimension::DeviceParts if !self.free(node).is_empty() => WHOLE_MILLI.into(),
            Dimension::DeviceParts => {
                let parts = self.accounts().parts(node).map(|(_, used)| WHOLE_MILLI.saturating_sub(used));
                parts.max().unwrap_or(0).into()
            }
            Dimension::Exclusive => {
                u64::from(!self.is_exclusive(node) && self.is_idle_machine(topology, node))
            }
            Dimension::Devices | Dimension::Licence(_) => 0,
        }
    }
}

/// The dimensions that a request mentions, whole devices aside.
fn dimensions(request: &Request) -> Vec<Dimension> {
    let mut all = Vec::new();
    let Amounts { cpu_milli, memory_mib, .. } = request.task;
    all.extend((cpu_milli + request.node.cpu_milli > 0).then_some(Dimension::Cpus));
    all.extend((memory_mib + request.node.memory_mib > 0).then_some(Dimension::Memory));
    let names = request.task.named.iter().chain(&request.node.named);
    all.extend(names.map(|(name, _)| Dimension::Resource(name.clone())));
    all.extend((request.device_milli > 0).then_some(Dimension::DeviceParts));
    all.extend(request.is_exclusive.then_some(Dimension::Exclusive));
    all
}

/// A gang without what one of its groups asks for of something.
fn without(gang: &Gang, group: usize, what: &Dimension) -> Gang {
    let mut gang = gang.clone();
    let Some(needs) = gang.needs.as_mut().map(Arc::make_mut) else { return gang };
    let inner = match group.checked_sub(1) {
        Some(index) => needs.groups.get_mut(index).and_then(|group| group.needs.as_mut()).map(Arc::make_mut),
        None => Some(needs),
    };
    let Some(needs) = inner else { return gang };
    let request = &mut needs.request;
    for amounts in [&mut request.task, &mut request.node] {
        match what {
            Dimension::Cpus => amounts.cpu_milli = 0,
            Dimension::Memory => amounts.memory_mib = 0,
            Dimension::Resource(name) => amounts.named.retain(|(known, _)| known != name),
            Dimension::Devices | Dimension::DeviceParts | Dimension::Exclusive | Dimension::Licence(_) => {}
        }
    }
    match what {
        Dimension::Exclusive => request.is_exclusive = false,
        Dimension::DeviceParts => (request.devices, request.tasks) = (0, 1),
        _ => {}
    }
    gang
}
