//! Who has which device: the table that every decision of the published simulator reads and writes.

use std::sync::Arc;

use super::site::{Kind, Shape, Site};

/// Who owns a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner(u32);

impl Owner {
    /// Nobody.
    pub const FREE: Self = Self(u32::MAX);

    /// A job that the rules do not see, or a node that is out: such devices stay as they are.
    pub const OUT: Self = Self(u32::MAX - 255);

    /// A job, by its place in the world's jobs.
    pub const fn job(job: u32) -> Self {
        Self(job)
    }

    /// Stands in for all devices of a type that are not to be had.
    pub const fn fake(kind: Kind) -> Self {
        Self(u32::MAX - 1 - kind.0 as u32)
    }

    /// The job, if it is one.
    pub const fn as_job(self) -> Option<u32> {
        if self.0 < u32::MAX - 256 { Some(self.0) } else { None }
    }

    /// Whether it stands in for devices that are not to be had.
    pub const fn is_fake(self) -> bool {
        self.0 > Self::OUT.0 && self.0 < Self::FREE.0
    }
}

/// So many devices of a node.
pub type Share = (u32, u32);

/// Status and owner of every device; how many are idle is kept for each node and type.
///
/// A device can be idle and yet have an owner: a search lends it out, and who owned it is still to be told.
#[derive(Debug, PartialEq)]
pub struct Table {
    site: Arc<Site>,
    owner: Vec<Owner>,
    is_used: Vec<bool>,
    idle: Vec<u32>,
    idle_of_kind: Vec<u32>,
}

impl Clone for Table {
    fn clone(&self) -> Self {
        Self {
            site: self.site.clone(),
            owner: self.owner.clone(),
            is_used: self.is_used.clone(),
            idle: self.idle.clone(),
            idle_of_kind: self.idle_of_kind.clone(),
        }
    }

    /// Takes over the contents without new memory.
    fn clone_from(&mut self, other: &Self) {
        self.site.clone_from(&other.site);
        self.owner.clone_from(&other.owner);
        self.is_used.clone_from(&other.is_used);
        self.idle.clone_from(&other.idle);
        self.idle_of_kind.clone_from(&other.idle_of_kind);
    }
}

impl Table {
    /// All devices idle.
    pub fn new(site: Arc<Site>) -> Self {
        let devices = site.device_count() as usize;
        let idle = (0..site.node_count()).map(|node| site.devices(node).len() as u32).collect();
        let idle_of_kind = site.kinds().map(|kind| site.kind(kind).device_count()).collect();
        Self { owner: vec![Owner::FREE; devices], is_used: vec![false; devices], idle, idle_of_kind, site }
    }

    /// The machines.
    #[inline]
    pub fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// Idle devices of a node ("bubbles").
    #[inline]
    pub fn idle(&self, node: u32) -> u32 {
        self.idle[node as usize]
    }

    /// Idle devices of a type.
    #[inline]
    pub fn idle_of(&self, kind: Kind) -> u32 {
        self.idle_of_kind[kind.index()]
    }

    /// Who owns a device.
    #[inline]
    pub fn owner(&self, device: usize) -> Owner {
        self.owner[device]
    }

    /// Whether a device is in use.
    #[inline]
    pub fn is_used(&self, device: usize) -> bool {
        self.is_used[device]
    }

    /// Sets status and owner of a device.
    pub fn set(&mut self, device: usize, is_used: bool, owner: Owner) {
        if self.is_used[device] != is_used {
            let node = self.site.node_of(device);
            let kind = self.site.kind_of(node);
            let (idle, idle_of_kind) = (&mut self.idle[node as usize], &mut self.idle_of_kind[kind.index()]);
            if is_used {
                *idle -= 1;
                *idle_of_kind -= 1;
            } else {
                *idle += 1;
                *idle_of_kind += 1;
            }
            self.is_used[device] = is_used;
        }
        self.owner[device] = owner;
    }

    /// Status and owner of all devices of a type.
    pub fn contents(&self, kind: Kind) -> impl Iterator<Item = (bool, Owner)> + '_ {
        let devices = self.site.kind(kind).devices.clone();
        (devices.start as usize..devices.end as usize)
            .map(|device| (self.is_used[device], self.owner[device]))
    }

    /// Gives an owner `devices` devices, equally many on each of the nodes: the first ones that are idle or its own; what else it
    /// has there becomes idle. Changes nothing and is `false` where a node has too few.
    pub fn place(&mut self, owner: Owner, devices: u32, nodes: &[u32]) -> bool {
        let each = devices / (nodes.len() as u32).max(1);
        let has_room = |node: &u32| {
            let usable = self.site.devices(*node).filter(|device| self.is_usable(*device, owner)).count();
            usable as u32 >= each
        };
        if nodes.is_empty() || !nodes.iter().all(has_room) {
            return false;
        }
        for &node in nodes {
            let mut left = each;
            for device in self.site.devices(node) {
                if left > 0 && self.is_usable(device, owner) {
                    self.set(device, true, owner);
                    left -= 1;
                } else if self.owner[device] == owner {
                    self.set(device, false, Owner::FREE);
                }
            }
        }
        true
    }

    fn is_usable(&self, device: usize, owner: Owner) -> bool {
        !self.is_used[device] || self.owner[device] == owner
    }

    /// Takes all devices from an owner.
    pub fn release(&mut self, owner: Owner) {
        for device in 0..self.owner.len() {
            if self.owner[device] == owner {
                self.set(device, false, Owner::FREE);
            }
        }
    }

    /// Takes all devices of a type from an owner.
    pub fn release_of(&mut self, owner: Owner, kind: Kind) {
        let devices = self.site.kind(kind).devices.clone();
        for device in devices.start as usize..devices.end as usize {
            if self.owner[device] == owner {
                self.set(device, false, Owner::FREE);
            }
        }
    }

    /// The devices of an owner, in order.
    pub fn devices_of(&self, owner: Owner) -> impl Iterator<Item = usize> + '_ {
        self.owner.iter().enumerate().filter(move |(_, other)| **other == owner).map(|(device, _)| device)
    }

    /// How many devices of each node an owner has, in the order of nodes.
    pub fn shares_of(&self, owner: Owner, out: &mut Vec<Share>) {
        out.clear();
        for device in self.devices_of(owner) {
            let node = self.site.node_of(device);
            match out.last_mut() {
                Some(share) if share.0 == node => share.1 += 1,
                _ => out.push((node, 1)),
            }
        }
    }

    /// As [`Table::shares_of`], looking only at devices of one type.
    pub fn shares_in(&self, owner: Owner, kind: Kind, out: &mut Vec<Share>) {
        out.clear();
        let devices = self.site.kind(kind).devices.clone();
        for device in devices.start as usize..devices.end as usize {
            if self.owner[device] == owner {
                let node = self.site.node_of(device);
                match out.last_mut() {
                    Some(share) if share.0 == node => share.1 += 1,
                    _ => out.push((node, 1)),
                }
            }
        }
    }

    /// Jobs that own a device which had another owner or status before, each once, in the order of devices.
    pub fn newly_owned(&self, before: &Self, out: &mut Vec<u32>) {
        out.clear();
        for device in 0..self.owner.len() {
            if self.owner[device] == before.owner[device] && self.is_used[device] == before.is_used[device] {
                continue;
            }
            if let Some(job) = self.owner[device].as_job()
                && !out.contains(&job)
            {
                out.push(job);
            }
        }
    }

    /// The nodes of a type with the most idle devices, as many as a shape needs (of equals the first): `false` where too few
    /// have enough.
    pub fn emptiest(&self, kind: Kind, shape: Shape, out: &mut Vec<u32>) -> bool {
        out.clear();
        if self.idle_of(kind) < shape.devices() {
            return false;
        }
        out.extend(self.site.nodes(kind).filter(|node| self.idle(*node) >= shape.per_host));
        if out.len() < shape.hosts as usize {
            return false;
        }
        out.sort_by_key(|node| std::cmp::Reverse(self.idle(*node)));
        out.truncate(shape.hosts as usize);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table::new(Arc::new(Site::new([("a40", 2), ("a40", 2), ("a10", 2)])))
    }

    #[test]
    fn devices_are_given_and_taken() {
        let mut table = table();
        let (one, two, a40) = (Owner::job(0), Owner::job(1), Kind(0));
        assert!(table.place(one, 1, &[0]));
        assert!(!table.place(two, 4, &[0, 1]), "the first node has one left");
        assert_eq!((table.idle(0), table.idle(1), table.idle_of(a40)), (1, 2, 3), "nothing was taken");
        assert!(table.place(one, 2, &[0]), "what it has counts");
        let before = table.clone();
        table.release(one);
        assert!(table.place(two, 2, &[0]));
        let (mut shares, mut jobs) = (Vec::new(), Vec::new());
        table.shares_of(two, &mut shares);
        table.newly_owned(&before, &mut jobs);
        assert_eq!((shares, jobs), (vec![(0, 2)], vec![1]));
        table.set(0, false, two);
        assert_eq!((table.idle(0), table.owner(0)), (1, two), "lent out");
        assert!(table.place(one, 1, &[0]));
        assert_eq!(table.owner(0), one);
        assert!(table.place(two, 2, &[1]) && table.place(two, 1, &[1]));
        assert_eq!(
            (table.idle(1), table.owner(2), table.owner(3)),
            (1, two, Owner::FREE),
            "it gave one back"
        );
    }

    #[test]
    fn emptiest_nodes_come_first_and_then_the_first() {
        let mut table = table();
        let mut nodes = Vec::new();
        assert!(table.place(Owner::job(0), 1, &[0]));
        assert!(table.emptiest(Kind(0), Shape::single(1), &mut nodes));
        assert_eq!(nodes, [1]);
        assert!(table.emptiest(Kind(0), Shape { hosts: 2, per_host: 1 }, &mut nodes));
        assert_eq!(nodes, [1, 0]);
        assert!(!table.emptiest(Kind(0), Shape { hosts: 2, per_host: 2 }, &mut nodes));
    }

    #[test]
    fn stand_ins_are_no_jobs() {
        let fake = Owner::fake(Kind(3));
        assert_eq!((fake.as_job(), fake.is_fake(), Owner::FREE.is_fake()), (None, true, false));
        assert_eq!((Owner::OUT.as_job(), Owner::OUT.is_fake()), (None, false));
        assert_eq!(Owner::job(7).as_job(), Some(7));
    }
}
