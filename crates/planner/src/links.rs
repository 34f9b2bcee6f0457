//! What it costs devices to talk: a time for the message and a time for each byte, from measured tables or from data sheets.

use crate::comm::{CommTables, Operation, Route};

/// Elements of 32 bits from which a table tells the rate rather than the message: 128 MiB.
const LARGE_ELEMENTS: u64 = 1 << 25;

/// A way between devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// In 10⁹ bytes a second.
    pub gb_per_s: f64,
    /// The time of a message without content.
    pub latency_s: f64,
}

impl Link {
    fn time_s(self, bytes: f64) -> f64 {
        bytes / (self.gb_per_s * 1e9) + self.latency_s
    }
}

/// The ways of devices of one type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Links {
    /// What a ring of devices within a node passes on; the latency is that of two devices, and grows with the logarithm.
    pub near: Link,
    /// What a node passes on to another, shared by all rings that leave it.
    pub far: Link,
    /// One device to another of its node.
    pub send_near: Link,
    /// One device to another of another node.
    pub send_far: Link,
    /// What rings within a node were measured to pass on, by their size.
    pub rings: Rings,
}

/// Rings of 2, 4, 8 and so on devices within a node, where they were measured: how the time of a message grows with their number, and
/// what they take from each other, is not the same everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rings([Option<Link>; 8]);

impl Rings {
    /// Rings on a switch whose links have so much, as NCCL's all-reduce on A100 with NVSwitch was measured (busbw of nccl-tests, 1 MB to 1 GB;
    /// 2, 4 and 8 devices): small rings reach less of the link, and a message takes longer the more devices it passes.
    pub(crate) fn switched(link_gb_per_s: f64) -> Self {
        let mut rings = Self::default();
        for (at, ring) in rings.0.iter_mut().enumerate() {
            let size = f64::from(2_u32 << at);
            let gb_per_s = 1.06 * link_gb_per_s * size / (size + 0.4);
            *ring = Some(Link { gb_per_s, latency_s: (30e-6 + 7e-6 * size.min(16.0)) / size.log2() });
        }
        rings
    }

    /// The same with links of other bandwidth.
    pub(crate) fn faster(self, factor: f64) -> Self {
        Self(self.0.map(|ring| ring.map(|link| Link { gb_per_s: link.gb_per_s * factor, ..link })))
    }

    fn at(size: usize) -> Option<usize> {
        (size >= 2 && size.is_power_of_two()).then(|| size.ilog2() as usize - 1)
    }

    fn of(&self, size: u32) -> Option<Link> {
        *self.0.get(Self::at(size as usize)?)?
    }
}

/// Devices that do something together: so many, so far apart in the order of devices, with so many on a node. All devices of
/// the gang are in such groups, which do the same at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Members.
    pub size: u32,
    /// From one to the next.
    pub stride: u32,
    /// Devices on a node.
    pub per_node: u32,
}

impl Links {
    /// Those of a data sheet, where sending is as fast as passing on.
    #[must_use]
    pub fn of(near: Link, far: Link) -> Self {
        Self { near, far, send_near: near, send_far: far, rings: Rings::default() }
    }

    /// As measured, where it was: the middle of what the tables say of large amounts and of single elements. Tables with
    /// InfiniBand are preferred where there are both.
    #[must_use]
    pub fn measured(self, tables: &CommTables, device_type: &str) -> Self {
        let mut found = Found::default();
        let is_own = |route: &Route| &*route.device_type == device_type;
        let has_infiniband = tables.curves().any(|(route, _)| is_own(route) && route.is_infiniband);
        for (route, curve) in tables.curves().filter(|(route, _)| is_own(route)) {
            if route.hosts > 1 && route.is_infiniband != has_infiniband {
                continue;
            }
            let points = || curve.points();
            let Some((_, latency_s)) = points().next() else { continue };
            let Some((largest, _)) = points().last() else { continue };
            let elements = largest.min(LARGE_ELEMENTS);
            let Some(time_s) = curve.time_s(elements as f64) else { continue };
            found.add(route, latency_s, 4.0 * elements as f64 / 1e9 / time_s);
        }
        found.links(self)
    }

    /// All get the sum of what each has.
    #[must_use]
    pub fn all_reduce_s(&self, group: Group, bytes: f64) -> f64 {
        self.exchange_s(group, 2.0 * bytes)
    }

    /// All get everything, of which each has its part; or each has something for every other.
    #[must_use]
    pub fn exchange_s(&self, group: Group, bytes: f64) -> f64 {
        if group.size < 2 || bytes <= 0.0 {
            return 0.0;
        }
        let size = f64::from(group.size);
        let link = self.ring(group);
        (size - 1.0) / size * bytes / (link.gb_per_s * 1e9) + link.latency_s * size.log2()
    }

    /// What a group has, while all the others do the same.
    fn ring(&self, group: Group) -> Link {
        if group.size * group.stride <= group.per_node {
            return self.rings.of(group.size).unwrap_or(self.near);
        }
        let on_node = (group.per_node / group.stride).max(1);
        let rings = (group.per_node / on_node).max(1);
        let gb_per_s = (self.far.gb_per_s / f64::from(rings)).min(self.near.gb_per_s);
        Link { gb_per_s, latency_s: self.far.latency_s }
    }

    /// The devices of a stage give so much each to those of the next, in a gang of so many: the slowest do, which are on two nodes where
    /// the gang is, and share what leaves a node with all of the stage that are there.
    #[must_use]
    pub fn send_s(&self, stage: Group, devices: u32, bytes: f64) -> f64 {
        let near_s = self.send_near.time_s(bytes);
        if devices <= stage.per_node {
            return near_s;
        }
        let sharing = f64::from(stage.size.min(stage.per_node));
        self.send_far.time_s(bytes * sharing).max(near_s)
    }
}

/// What tables say, by what it is.
#[derive(Default)]
struct Found {
    near: Vec<Link>,
    /// Those of [`Rings`].
    rings: [Vec<Link>; 8],
    far: Vec<Link>,
    send_near: Vec<Link>,
    send_far: Vec<Link>,
}

impl Found {
    fn add(&mut self, route: &Route, latency_s: f64, gb_per_s: f64) {
        match route.operation {
            Operation::AllReduce => {
                let groups = groups(&route.groups);
                let Some(first) = groups.first().filter(|group| group.len() > 1) else { return };
                let size = first.len() as f64;
                let passed = 2.0 * (size - 1.0) / size * gb_per_s;
                let latency_s = latency_s / size.log2();
                let node = |device: &u32| device / route.per_host.max(1);
                if first.iter().all(|device| node(device) == node(&first[0])) {
                    let link = Link { gb_per_s: passed, latency_s };
                    self.near.push(link);
                    if let Some(own) = Rings::at(first.len()).and_then(|at| self.rings.get_mut(at)) {
                        own.push(link);
                    }
                } else {
                    let rings =
                        groups.iter().filter(|group| group.iter().any(|device| node(device) == 0)).count();
                    self.far.push(Link { gb_per_s: passed * rings as f64, latency_s });
                }
            }
            // Those with groups let many send at once.
            Operation::Send if route.groups.is_empty() => {
                let link = Link { gb_per_s, latency_s };
                if route.hosts > 1 { self.send_far.push(link) } else { self.send_near.push(link) }
            }
            _ => {}
        }
    }

    fn links(self, otherwise: Links) -> Links {
        Links {
            near: middle(&self.near).unwrap_or(otherwise.near),
            far: middle(&self.far).unwrap_or(otherwise.far),
            send_near: middle(&self.send_near).unwrap_or(otherwise.send_near),
            send_far: middle(&self.send_far).unwrap_or(otherwise.send_far),
            rings: Rings(self.rings.map(|own| middle(&own))),
        }
    }
}

fn middle(links: &[Link]) -> Option<Link> {
    let median = |pick: fn(&Link) -> f64| {
        let mut values: Vec<f64> = links.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied();
        Some(f64::midpoint(at(values.len().checked_sub(1)? / 2)?, at(values.len() / 2)?))
    };
    Some(Link { gb_per_s: median(|link| link.gb_per_s)?, latency_s: median(|link| link.latency_s)? })
}

/// The devices of `[[0,1],[2,3]]`.
fn groups(text: &str) -> Vec<Vec<u32>> {
    let inner = text.trim_start_matches('[').trim_end_matches(']');
    let group = |part: &str| part.split(',').filter_map(|word| word.trim().parse().ok()).collect();
    inner.split("],[").map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(u32, u32, &str, u64, f64)]) -> CommTables {
        let mut tables = CommTables::default();
        for &(hosts, per_host, groups, elements, seconds) in rows {
            let operation = if groups.is_empty() { Operation::Send } else { Operation::AllReduce };
            let route = Route {
                device_type: "x".into(),
                hosts,
                per_host,
                is_infiniband: false,
                operation,
                groups: groups.into(),
            };
            tables.insert(route, elements, seconds);
        }
        tables
    }

    #[test]
    fn links_are_read_from_tables_and_give_their_times_back() {
        let large = LARGE_ELEMENTS;
        let second = 4.0 * large as f64 / 1e9;
        let tables = table(&[
            (1, 4, "[[0,1],[2,3]]", 1, 3e-5),
            (1, 4, "[[0,1],[2,3]]", large, second / 20.0),
            (2, 2, "[[0,2],[1,3]]", 1, 1e-4),
            (2, 2, "[[0,2],[1,3]]", large, second / 2.0),
            (2, 1, "", 1, 1e-3),
            (2, 1, "", large, second / 5.0),
        ]);
        let sheet = Link { gb_per_s: 7.0, latency_s: 7e-6 };
        let links = Links::of(sheet, sheet).measured(&tables, "x");
        assert_eq!(links.near, Link { gb_per_s: 20.0, latency_s: 3e-5 });
        // Two rings leave a node, each with 2 GB/s.
        assert_eq!(links.far, Link { gb_per_s: 4.0, latency_s: 1e-4 });
        assert_eq!(links.send_far, Link { gb_per_s: 5.0, latency_s: 1e-3 });
        assert_eq!(links.send_near, sheet, "not measured");
        let bytes = 4.0 * large as f64;
        let all = |size, stride| links.all_reduce_s(Group { size, stride, per_node: 2 }, bytes);
        assert!((all(2, 2) - (second / 2.0 + 1e-4)).abs() < 1e-9);
        assert!(all(4, 1) < all(2, 2) * 2.0, "one ring has the node's link alone");
        assert_eq!(Links::of(sheet, sheet).measured(&tables, "y"), Links::of(sheet, sheet));
    }

    #[test]
    fn stages_on_two_nodes_send_over_the_network() {
        let near = Link { gb_per_s: 100.0, latency_s: 0.0 };
        let links = Links::of(near, Link { gb_per_s: 10.0, latency_s: 0.0 });
        let stage = |size| Group { size, stride: 1, per_node: 8 };
        assert_eq!(links.send_s(stage(4), 8, 1e9), 0.01, "all are on one node");
        assert_eq!(links.send_s(stage(1), 16, 1e9), 0.1, "the eighth and the ninth are not");
        assert_eq!(links.send_s(stage(4), 16, 1e9), 0.4, "four of a stage leave the node at once");
        assert_eq!(links.send_s(stage(16), 32, 1e9), 0.8, "no more than a node has");
    }
}
