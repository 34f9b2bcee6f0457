//! What jobs have of machines beside whole devices: CPUs, memory, parts of devices, named resources, and the cluster's licences.
//!
//! The tables are empty until a job asks for such a thing, so that a cluster of whole devices pays nothing for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::NodeShare;
use crate::ids::NodeId;
use crate::job::Gang;
use crate::topology::Topology;

/// Sums over jobs.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Accounts {
    /// By the id of the machine's first node; shorter where no later machine is charged.
    machines: Vec<MachineUse>,
    named: BTreeMap<(NodeId, Arc<str>), u64>,
    /// Thousandths of devices that are given in parts.
    parts: BTreeMap<(NodeId, u32), u32>,
    licences: BTreeMap<Arc<str>, u64>,
}

/// What jobs have of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MachineUse {
    /// CPUs in thousandths.
    pub cpu_milli: u64,
    /// Main memory.
    pub memory_mib: u64,
    /// Shares of jobs that take anything beside whole devices.
    pub shares: u32,
    /// Those of them that have the machine for themselves.
    pub exclusive: u32,
}

impl Accounts {
    /// What jobs have of a node's machine.
    #[inline]
    pub fn machine(&self, host: NodeId) -> MachineUse {
        self.machines.get(host.index()).copied().unwrap_or_default()
    }

    /// Whether a job has the machine for itself.
    #[inline]
    pub fn is_exclusive(&self, host: NodeId) -> bool {
        self.machines.get(host.index()).is_some_and(|machine| machine.exclusive > 0)
    }

    /// What jobs have of a named resource of a machine.
    pub fn named(&self, host: NodeId, name: &Arc<str>) -> u64 {
        if self.named.is_empty() { 0 } else { self.named.get(&(host, name.clone())).copied().unwrap_or(0) }
    }

    /// The thousandths of a device that jobs have, where it is given in parts.
    #[inline]
    pub fn part(&self, node: NodeId, device: u32) -> Option<u32> {
        if self.parts.is_empty() { None } else { self.parts.get(&(node, device)).copied() }
    }

    /// The devices of a node that are given in parts, with the thousandths that jobs have.
    pub fn parts(&self, node: NodeId) -> impl Iterator<Item = (u32, u32)> {
        self.parts.range((node, 0)..=(node, u32::MAX)).map(|(&(_, device), &milli)| (device, milli))
    }

    /// Licences that jobs have.
    pub fn licences(&self, name: &str) -> u64 {
        self.licences.get(name).copied().unwrap_or(0)
    }

    /// Whether no job has any licence.
    pub fn has_no_licences(&self) -> bool {
        self.licences.is_empty()
    }

    /// Charges a gang's placement.
    pub(crate) fn charge(&mut self, hosts: impl Fn(NodeId) -> NodeId, gang: &Gang, shares: &[NodeShare]) {
        for (name, count) in gang.licences() {
            *self.licences.entry(name.clone()).or_default() += count;
        }
        for share in shares {
            let Some(charge) = gang.charge(share) else { continue };
            let host = hosts(share.node);
            if self.machines.len() <= host.index() {
                self.machines.resize(host.index() + 1, MachineUse::default());
            }
            let machine = &mut self.machines[host.index()];
            machine.cpu_milli = machine.cpu_milli.saturating_add(charge.cpu_milli());
            machine.memory_mib = machine.memory_mib.saturating_add(charge.memory_mib());
            machine.shares += 1;
            machine.exclusive += u32::from(charge.request.is_exclusive);
            for (name, count) in charge.named() {
                *self.named.entry((host, name.clone())).or_default() += count;
            }
            if charge.request.device_milli > 0 {
                for device in share.devices.iter() {
                    *self.parts.entry((share.node, device)).or_default() += charge.request.device_milli;
                }
            }
        }
    }

    /// Takes back what was charged.
    pub(crate) fn refund(&mut self, hosts: impl Fn(NodeId) -> NodeId, gang: &Gang, shares: &[NodeShare]) {
        for (name, count) in gang.licences() {
            lower(&mut self.licences, name, *count);
        }
        for share in shares {
            let Some(charge) = gang.charge(share) else { continue };
            let host = hosts(share.node);
            let Some(machine) = self.machines.get_mut(host.index()) else { continue };
            machine.cpu_milli = machine.cpu_milli.saturating_sub(charge.cpu_milli());
            machine.memory_mib = machine.memory_mib.saturating_sub(charge.memory_mib());
            machine.shares = machine.shares.saturating_sub(1);
            machine.exclusive = machine.exclusive.saturating_sub(charge.request.is_exclusive.into());
            for (name, count) in charge.named() {
                lower(&mut self.named, &(host, name.clone()), count);
            }
            if charge.request.device_milli > 0 {
                for device in share.devices.iter() {
                    let key = (share.node, device);
                    let left = self
                        .parts
                        .get(&key)
                        .map_or(0, |milli| milli.saturating_sub(charge.request.device_milli));
                    if left == 0 {
                        self.parts.remove(&key);
                    } else {
                        self.parts.insert(key, left);
                    }
                }
            }
        }
        while self.machines.last().is_some_and(|machine| *machine == MachineUse::default()) {
            self.machines.pop();
        }
    }

    /// What of a machine is exceeded, where anything is.
    pub(crate) fn excess(&self, topology: &Topology, host: NodeId) -> Option<Dimension> {
        self.excess_with(&Self::default(), topology, host)
    }

    /// What of a machine is exceeded by these accounts and others together.
    pub(crate) fn excess_with(&self, other: &Self, topology: &Topology, host: NodeId) -> Option<Dimension> {
        let (machine, beside) = (self.machine(host), other.machine(host));
        let (cpu_milli, memory_mib) = topology.machine_amounts(host);
        if machine.cpu_milli.saturating_add(beside.cpu_milli) > cpu_milli {
            return Some(Dimension::Cpus);
        }
        if machine.memory_mib.saturating_add(beside.memory_mib) > memory_mib {
            return Some(Dimension::Memory);
        }
        let from = (host, Arc::from(""));
        let named = self.named.range(from..).take_while(|((node, _), _)| *node == host);
        let mut over = named.filter(|((_, name), count)| {
            count.saturating_add(other.named(host, name)) > topology.resource(host, name)
        });
        over.next().map(|((_, name), _)| Dimension::Resource(name.clone()))
    }

    /// The licence of which jobs have more than there are, where there is one.
    pub(crate) fn licence_excess(&self, topology: &Topology) -> Option<Dimension> {
        let mut over = self.licences.iter().filter(|(name, count)| **count > licences_of(topology, name));
        over.next().map(|(name, _)| Dimension::Licence(name.clone()))
    }
}

/// How many licences of a name the cluster has.
pub(crate) fn licences_of(topology: &Topology, name: &str) -> u64 {
    topology.licences().iter().filter(|(known, _)| **known == *name).map(|(_, count)| *count).sum()
}

fn lower<K: Ord>(table: &mut BTreeMap<K, u64>, key: &K, by: u64) {
    if let Some(count) = table.get_mut(key) {
        *count = count.saturating_sub(by);
        if *count == 0 {
            table.remove(key);
        }
    }
}

/// Something that machines, or the cluster, have a limited amount of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Whole devices.
    Devices,
    /// Parts of devices.
    DeviceParts,
    /// CPUs.
    Cpus,
    /// Main memory.
    Memory,
    /// A machine without other jobs.
    Exclusive,
    /// A named resource of machines.
    Resource(Arc<str>),
    /// A licence of the cluster.
    Licence(Arc<str>),
}

impl std::fmt::Display for Dimension {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Devices => write!(f, "devices"),
            Self::DeviceParts => write!(f, "part of a device"),
            Self::Cpus => write!(f, "CPUs"),
            Self::Memory => write!(f, "memory"),
            Self::Exclusive => write!(f, "nodes without other jobs"),
            Self::Resource(name) => write!(f, "resource `{name}`"),
            Self::Licence(name) => write!(f, "licences `{name}`"),
        }
    }
}
