//! What a gang asks of machines beside whole devices: CPUs, memory, parts of a device, named resources, licences.
//!
//! A placement names nodes, devices and tasks; the amounts that it takes follow from it and the request, so that a
//! [`NodeShare`] stays small.

use std::sync::Arc;

use crate::cluster::NodeShare;
use crate::job::{Gang, Needs};

/// A whole device or a whole CPU, in thousandths.
pub const WHOLE_MILLI: u32 = 1000;

/// Amounts of what machines have, such as one task's.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amounts {
    /// CPUs in thousandths.
    pub cpu_milli: u64,
    /// Main memory.
    pub memory_mib: u64,
    /// Named countable resources, by name.
    pub named: Vec<(Arc<str>, u64)>,
}

impl Amounts {
    /// Whole CPUs and memory.
    pub fn new(cpus: u32, memory_mib: u64) -> Self {
        Self { cpu_milli: u64::from(cpus) * u64::from(WHOLE_MILLI), memory_mib, named: Vec::new() }
    }

    /// Whether nothing is asked for.
    pub fn is_zero(&self) -> bool {
        self.cpu_milli == 0 && self.memory_mib == 0 && self.named.is_empty()
    }

    /// Whole CPUs, rounded up.
    pub fn cpus(&self) -> u32 {
        u32::try_from(self.cpu_milli.div_ceil(WHOLE_MILLI.into())).unwrap_or(u32::MAX)
    }

    /// Adds so many times other amounts.
    pub fn add(&mut self, other: &Self, times: u64) {
        self.cpu_milli = self.cpu_milli.saturating_add(other.cpu_milli.saturating_mul(times));
        self.memory_mib = self.memory_mib.saturating_add(other.memory_mib.saturating_mul(times));
        for (name, count) in &other.named {
            let count = count.saturating_mul(times);
            match self.named.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum = sum.saturating_add(count),
                None => self.named.push((name.clone(), count)),
            }
        }
    }
}

/// The request of one group of equal tasks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// Whole devices of each task; 0 for tasks without devices.
    pub devices: u32,
    /// Number of tasks, where they have no devices: otherwise it follows from the gang's devices.
    pub tasks: u32,
    /// Most tasks on one node; 0 for any number.
    pub tasks_per_node: u32,
    /// The part of its one device, in thousandths; 0 for whole devices.
    pub device_milli: u32,
    /// Amounts of each task.
    pub task: Amounts,
    /// Amounts of each node, whatever its number of tasks.
    pub node: Amounts,
    /// Licences of the whole gang, by name. They belong to the cluster, not to nodes.
    pub licences: Vec<(Arc<str>, u64)>,
    /// Whether no other job may run on its machines.
    pub is_exclusive: bool,
    /// How close together its nodes are.
    pub within: Option<Within>,
}

/// A level of the machines' tree, from the closest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Devices of one node with direct links.
    Domain,
    /// One machine.
    Node,
    /// Machines on one switch.
    Rack,
    /// Racks of one block.
    Block,
}

impl Level {
    /// Every level with its name.
    pub const ALL: [(&'static str, Self); 4] =
        [("domain", Self::Domain), ("node", Self::Node), ("rack", Self::Rack), ("block", Self::Block)];

    /// The name.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// A level of the tree that a gang is to stay within.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Within {
    /// The level.
    pub level: Level,
    /// Whether it waits rather than spread further.
    pub is_required: bool,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            devices: 1,
            tasks: 0,
            tasks_per_node: 0,
            device_milli: 0,
            task: Amounts::default(),
            node: Amounts::default(),
            licences: Vec::new(),
            is_exclusive: false,
            within: None,
        }
    }
}

impl Request {
    /// CPUs and memory for each device.
    pub fn per_device(cpus: u32, memory_mib: u64) -> Self {
        Self { task: Amounts::new(cpus, memory_mib), ..Self::default() }
    }

    /// Tasks without devices.
    pub fn tasks(tasks: u32, task: Amounts) -> Self {
        Self { devices: 0, tasks, task, ..Self::default() }
    }

    /// Whether it takes anything of a machine but whole devices.
    pub fn is_charged(&self) -> bool {
        self.devices == 0
            || self.device_milli > 0
            || self.is_exclusive
            || !self.task.is_zero()
            || !self.node.is_zero()
    }

    /// Whether devices and nodes alone decide about it, so that what is free of devices tells where it fits.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it consists of whole devices with CPUs and memory for each, which is what heads store.
    pub fn is_per_device(&self) -> bool {
        *self == Self::per_device(self.task.cpus(), self.task.memory_mib)
    }

    /// The part of each device: a whole one unless it asks for less.
    pub fn part(&self) -> u32 {
        if self.device_milli == 0 { WHOLE_MILLI } else { self.device_milli }
    }
}

impl Needs {
    /// Whether anything but the choice of nodes and whole devices matters.
    pub fn is_plain(&self) -> bool {
        self.request.is_plain() && self.groups.is_empty()
    }
}

impl Gang {
    /// The request beside devices, where there is one.
    pub fn request(&self) -> Option<&Request> {
        self.needs.as_deref().map(|needs| &needs.request)
    }

    /// The groups of tasks that start together: this one and those beside it.
    pub fn groups(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.needs.iter().flat_map(|needs| needs.groups.iter()))
    }

    /// The group that a share belongs to.
    pub fn group(&self, index: u32) -> Option<&Self> {
        self.groups().nth(index as usize)
    }

    /// In what its size is counted: devices, or tasks where it asks for none.
    pub fn size(&self) -> u32 {
        if self.has_devices() { self.devices } else { self.request().map_or(0, |request| request.tasks) }
    }

    /// Whether its tasks have devices.
    pub fn has_devices(&self) -> bool {
        self.request().is_none_or(|request| request.devices > 0)
    }

    /// Whether all groups together ask for some device.
    pub fn has_any_device(&self) -> bool {
        self.groups().any(Self::has_devices)
    }

    /// The part of its one device, where it asks for less than a whole one.
    pub fn device_part(&self) -> Option<u32> {
        self.request().map(|request| request.device_milli).filter(|&milli| milli > 0)
    }

    /// What one step of its size is: the devices of a task, or one task without devices.
    pub fn step(&self) -> u32 {
        self.request().map_or(1, |request| request.devices.max(1))
    }

    /// Tasks of a share.
    pub fn tasks_in(&self, share: &NodeShare) -> u32 {
        if self.has_devices() { share.devices.len() / self.step() } else { share.tasks }
    }

    /// Its size in a share: devices, or tasks where it asks for none.
    pub fn size_in(&self, share: &NodeShare) -> u32 {
        if self.has_devices() { share.devices.len() } else { share.tasks }
    }

    /// What a share takes of its machine beside whole devices; `None` where that is nothing.
    pub fn charge(&self, share: &NodeShare) -> Option<Charge<'_>> {
        let group = if share.group == 0 { self } else { self.group(share.group)? };
        let request = group.request().filter(|request| request.is_charged())?;
        Some(Charge { request, tasks: u64::from(group.tasks_in(share)) })
    }

    /// Licences of all groups.
    pub fn licences(&self) -> impl Iterator<Item = &(Arc<str>, u64)> {
        self.groups().filter_map(Self::request).flat_map(|request| &request.licences)
    }
}

/// What a share takes of its machine.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The group's request.
    pub request: &'a Request,
    /// Tasks on the machine.
    pub tasks: u64,
}

impl Charge<'_> {
    /// CPUs in thousandths, without those that it has because it is alone.
    pub fn cpu_milli(&self) -> u64 {
        let Request { task, node, .. } = self.request;
        task.cpu_milli.saturating_mul(self.tasks).saturating_add(node.cpu_milli)
    }

    /// Main memory.
    pub fn memory_mib(&self) -> u64 {
        let Request { task, node, .. } = self.request;
        task.memory_mib.saturating_mul(self.tasks).saturating_add(node.memory_mib)
    }

    /// Named resources; a name may come twice.
    pub fn named(&self) -> impl Iterator<Item = (&Arc<str>, u64)> {
        let Request { task, node, .. } = self.request;
        let of_tasks = task.named.iter().map(|(name, count)| (name, count.saturating_mul(self.tasks)));
        of_tasks.chain(node.named.iter().map(|(name, count)| (name, *count)))
    }
}

/// Whether a device type names a part that a device is divided into, such as `1g.10gb`: only who names it gets it.
pub fn is_slice(device_type: &str) -> bool {
    let Some((compute, memory)) = device_type.split_once("g.") else { return false };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let memory = memory.split('.').next().unwrap_or_default().split('+').next().unwrap_or_default();
    digits(compute) && memory.strip_suffix("gb").is_some_and(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slice_profiles_are_told_from_device_types() {
        for (name, expected) in [
            ("1g.10gb", true),
            ("3g.40gb", true),
            ("1g.10gb.me", true),
            ("1g.5gb+me", true),
            ("a100", false),
            ("g.10gb", false),
            ("1g.gb", false),
            ("rtx", false),
            ("1g.10", false),
        ] {
            assert_eq!(is_slice(name), expected, "{name}");
        }
    }

    #[test]
    fn charge_of_a_share_follows_from_tasks_and_nodes() {
        let scratch: Arc<str> = "scratch".into();
        let request = Request {
            devices: 2,
            task: Amounts { named: vec![(scratch.clone(), 3)], ..Amounts::new(4, 100) },
            node: Amounts { cpu_milli: 500, named: vec![(scratch.clone(), 1)], ..Amounts::default() },
            ..Request::default()
        };
        let needs = Needs { request, ..Needs::default() };
        let gang = Gang { needs: Some(Arc::new(needs)), ..Gang::fixed(8) };
        let share = NodeShare::new(crate::NodeId(0), crate::DeviceSet::first(4));
        let charge = gang.charge(&share).expect("it takes CPUs");
        assert_eq!((charge.cpu_milli(), charge.memory_mib()), (8500, 200));
        assert_eq!(charge.named().map(|(_, count)| count).sum::<u64>(), 7);
        assert!(Gang::fixed(8).charge(&share).is_none(), "devices alone take nothing else");
    }
}
