//! The machines as the published simulator orders them: device types in the order of the cluster, and the nodes of a type in a row.

use std::ops::Range;
use std::sync::Arc;

/// A device type, by its place in the cluster's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u8);

impl Kind {
    /// As an index.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A locality: so many devices on each of so many nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Nodes.
    pub hosts: u32,
    /// Devices on each.
    pub per_host: u32,
}

impl Shape {
    /// All devices on one node.
    pub const fn single(devices: u32) -> Self {
        Self { hosts: 1, per_host: devices }
    }

    /// So many devices on as few nodes of `per_node` devices as hold them, equally many on each.
    pub fn best(devices: u32, per_node: u32) -> Self {
        let devices = devices.max(1);
        let most = devices.min(per_node.max(1));
        let per_host = (1..=most).rev().find(|per_host| devices.is_multiple_of(*per_host)).unwrap_or(1);
        Self { hosts: devices / per_host, per_host }
    }

    /// Devices on all nodes.
    #[inline]
    pub const fn devices(self) -> u32 {
        self.hosts * self.per_host
    }

    /// The same devices on twice as many nodes; `None` where there is one on each already.
    pub const fn halved(self) -> Option<Self> {
        if self.per_host > 1 && self.per_host.is_multiple_of(2) {
            Some(Self { hosts: self.hosts * 2, per_host: self.per_host / 2 })
        } else {
            None
        }
    }
}

/// What is known of a device type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindInfo {
    /// Its name.
    pub name: Arc<str>,
    /// Devices on a node (the most, where nodes differ).
    pub per_node: u32,
    /// Its nodes.
    pub nodes: Range<u32>,
    /// Its devices.
    pub devices: Range<u32>,
}

impl KindInfo {
    /// How many devices there are of it.
    pub fn device_count(&self) -> u32 {
        self.devices.end - self.devices.start
    }
}

/// The machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    kinds: Vec<KindInfo>,
    kind_of_node: Vec<Kind>,
    /// The first device of each node, and one past the last of all.
    first: Vec<u32>,
    node_of_device: Vec<u32>,
    /// The caller's number of each node.
    origin: Vec<u32>,
}

impl Site {
    /// From the type and the number of devices of each node. Types come in the order in which they appear, and the nodes of
    /// a type one after the other.
    pub fn new<'a>(nodes: impl IntoIterator<Item = (&'a str, u32)>) -> Self {
        let nodes: Vec<(&str, u32)> = nodes.into_iter().collect();
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in &nodes {
            if !names.contains(name) {
                names.push(name);
            }
        }
        let mut site = Self {
            kinds: Vec::new(),
            kind_of_node: Vec::new(),
            first: vec![0],
            node_of_device: Vec::new(),
            origin: Vec::new(),
        };
        for (name, kind) in names.into_iter().zip(0..=u8::MAX) {
            let (first_node, first_device) = (site.node_count(), site.device_count());
            let mut per_node = 0;
            for (index, &(_, devices)) in nodes.iter().enumerate().filter(|(_, node)| node.0 == name) {
                let node = site.node_count();
                per_node = per_node.max(devices);
                site.kind_of_node.push(Kind(kind));
                site.origin.push(index as u32);
                site.node_of_device.extend((0..devices).map(|_| node));
                site.first.push(site.node_of_device.len() as u32);
            }
            let (nodes, devices) = (first_node..site.node_count(), first_device..site.device_count());
            site.kinds.push(KindInfo { name: name.into(), per_node, nodes, devices });
        }
        site
    }

    /// All types.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> + use<> {
        (0..self.kinds.len()).map(|index| Kind(index as u8))
    }

    /// What is known of a type.
    #[inline]
    pub fn kind(&self, kind: Kind) -> &KindInfo {
        &self.kinds[kind.index()]
    }

    /// The type of that name.
    pub fn find(&self, name: &str) -> Option<Kind> {
        self.kinds().find(|kind| *self.kind(*kind).name == *name)
    }

    /// Devices on a node of a type.
    #[inline]
    pub fn per_node(&self, kind: Kind) -> u32 {
        self.kind(kind).per_node
    }

    /// Nodes of a type.
    #[inline]
    pub fn nodes(&self, kind: Kind) -> Range<u32> {
        self.kind(kind).nodes.clone()
    }

    /// So many devices of a type on as few nodes as hold them.
    pub fn best(&self, kind: Kind, devices: u32) -> Shape {
        Shape::best(devices, self.per_node(kind))
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> u32 {
        self.kind_of_node.len() as u32
    }

    /// How many devices there are.
    pub fn device_count(&self) -> u32 {
        self.node_of_device.len() as u32
    }

    /// The type of a node.
    #[inline]
    pub fn kind_of(&self, node: u32) -> Kind {
        self.kind_of_node[node as usize]
    }

    /// The devices of a node.
    #[inline]
    pub fn devices(&self, node: u32) -> Range<usize> {
        self.first[node as usize] as usize..self.first[node as usize + 1] as usize
    }

    /// The node of a device.
    #[inline]
    pub fn node_of(&self, device: usize) -> u32 {
        self.node_of_device[device]
    }

    /// The caller's number of a node.
    pub fn origin(&self, node: u32) -> u32 {
        self.origin[node as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_a_type_are_in_a_row() {
        let site = Site::new([("a100", 4), ("a40", 2), ("a100", 4), ("a40", 2)]);
        let (a100, a40) = (Kind(0), Kind(1));
        assert_eq!(site.find("a40"), Some(a40));
        assert_eq!(site.find("v100"), None);
        assert_eq!((site.nodes(a100), site.nodes(a40)), (0..2, 2..4));
        assert_eq!((0..4).map(|node| site.origin(node)).collect::<Vec<_>>(), [0, 2, 1, 3]);
        assert_eq!((site.devices(1), site.devices(3), site.node_of(9)), (4..8, 10..12, 2));
        assert_eq!(site.kind(a40).device_count(), 4);
    }

    #[test]
    fn shapes() {
        for (devices, per_node, hosts, per_host) in
            [(1, 4, 1, 1), (8, 2, 4, 2), (16, 16, 1, 16), (6, 4, 2, 3)]
        {
            let shape = Shape { hosts, per_host };
            assert_eq!(Shape::best(devices, per_node), shape, "{devices} on nodes of {per_node}");
            assert_eq!(shape.devices(), devices);
        }
        assert_eq!(Shape { hosts: 2, per_host: 2 }.halved(), Some(Shape { hosts: 4, per_host: 1 }));
        assert_eq!(Shape { hosts: 4, per_host: 1 }.halved(), None);
    }
}
