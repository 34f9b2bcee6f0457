//! The configurations that a job can be offered: so many devices of one type.

use wharf_core::{Gang, JobId, NodeId, View};

use crate::placement::allowed_types;

/// One way to run a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// The device type.
    pub kind: usize,
    /// Devices.
    pub count: u32,
    /// Iterations per second; more than 0.
    pub speed: f64,
}

/// The working nodes of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// How many.
    pub nodes: u32,
    /// Devices of the largest node.
    pub size: u32,
    /// Devices of all.
    pub devices: u32,
}

/// The working nodes by type.
pub fn pools(view: &View<'_>) -> Vec<Pool> {
    let mut pools = vec![Pool::default(); view.topology().types().len()];
    for (index, node) in view.topology().nodes().iter().enumerate() {
        let id = NodeId::from_index(index);
        if view.schedule().is_up(id) {
            let pool = &mut pools[node.device_type.index()];
            let devices = node.spec.devices - view.schedule().broken(id).len();
            pool.nodes += 1;
            pool.size = pool.size.max(devices);
            pool.devices += devices;
        }
    }
    pools
}

/// Numbers of devices that make sense on nodes of one type: powers of two within a node, then whole nodes, up to eight of
/// them one by one, then by doubling. What the gang asks for, and the least that it can run on, are among them.
fn counts(gang: &Gang, pool: Pool) -> Vec<u32> {
    let within = (0..32).map(|power| 1_u32 << power).take_while(|&count| count < pool.size);
    let nodes = (1..=8).chain((4..16).map(|power| 1_u32 << power)).take_while(|&nodes| nodes <= pool.nodes);
    let whole = nodes.map(|nodes| nodes.saturating_mul(pool.size));
    let mut counts: Vec<u32> = within.chain(whole).collect();
    counts.extend([gang.devices, gang.devices_min]);
    let is_rigid = gang.needs.is_some();
    counts.retain(|&count| {
        let is_taken = (gang.devices_min..=gang.devices_max).contains(&count);
        count > 0 && count <= pool.devices && is_taken && (!is_rigid || count == gang.devices)
    });
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// Everything that a job can be offered, by type and number. A job of unknown speed is taken to be equally fast
/// everywhere.
pub fn offers(view: &View<'_>, job: JobId, pools: &[Pool]) -> Vec<Offer> {
    let (topology, spec) = (view.topology(), view.spec(job));
    let mut offers = Vec::new();
    for kind in allowed_types(topology, &spec.gang) {
        for count in counts(&spec.gang, pools[kind.index()]) {
            let speed = view.perf().speed(topology, spec, kind, count, &[]);
            let speed = if speed.is_finite() { speed.max(0.0) } else { 0.0 };
            offers.push(Offer { kind: kind.index(), count, speed });
        }
    }
    if offers.iter().all(|offer| offer.speed <= 0.0) {
        offers.iter_mut().for_each(|offer| offer.speed = 1.0);
    }
    offers.retain(|offer| offer.speed > 0.0);
    offers.sort_by_key(|offer| (offer.kind, offer.count));
    offers.dedup_by_key(|offer| (offer.kind, offer.count));
    offers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_within_a_node_and_whole_nodes() {
        let elastic = |min, devices, max| Gang { devices_min: min, devices_max: max, ..Gang::fixed(devices) };
        let four = Pool { nodes: 3, size: 4, devices: 12 };
        let eight = Pool { nodes: 20, size: 8, devices: 160 };
        for (gang, pool, expected) in [
            (Gang::fixed(3), four, vec![3]),
            (Gang::fixed(16), four, vec![]),
            (elastic(1, 2, 64), four, vec![1, 2, 4, 8, 12]),
            (elastic(3, 3, 9), four, vec![3, 4, 8]),
            (elastic(1, 1, 200), eight, vec![1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 128]),
        ] {
            assert_eq!(counts(&gang, pool), expected, "{gang:?}");
        }
    }
}
