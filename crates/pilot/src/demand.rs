//! What of all that waits in a head could run in a pilot.

use std::collections::{BTreeMap, BTreeSet};

use wharf_proto::{Demand, LimitUse};

use crate::settings::Shape;

/// Waiting jobs that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Devices of each.
    pub devices: u32,
    /// On exactly so many nodes; 0: on as many as it likes.
    pub nodes: u32,
    /// How many there are.
    pub jobs: u32,
}

/// What stands for the types that a job does not name.
const ANY_TYPE: &str = "*";

/// What waiting jobs could use of pilots of this shape, as far as limits let them. `max` is the largest number of pilots.
#[must_use]
pub fn wants(
    demands: &[Demand],
    limits: &[LimitUse],
    shape: &Shape,
    device_type: Option<&str>,
    max: u32,
) -> Vec<Want> {
    let mut left = Left::new(limits);
    let fitting = demands.iter().filter(|demand| fits(demand, shape, device_type, max));
    fitting
        .map(|demand| {
            let jobs = left.take(demand, device_type);
            Want { devices: demand.devices, nodes: demand.nodes, jobs }
        })
        .filter(|want| want.jobs > 0)
        .collect()
}

/// Whether a job could run if there were as many pilots as there may be.
fn fits(demand: &Demand, shape: &Shape, device_type: Option<&str>, max: u32) -> bool {
    let in_pool = demand.pool.is_empty() || demand.pool == shape.pool;
    // A type that is not known yet may be the right one.
    let is_type = |name: &String| *name == ANY_TYPE || device_type.is_none_or(|own| own == name);
    let of_type = demand.device_types.is_empty() || demand.device_types.iter().any(is_type);
    let nodes = u64::from(shape.nodes) * u64::from(max);
    let in_all = u64::from(demand.devices) <= nodes * u64::from(shape.devices);
    let per_node = match demand.nodes {
        0 => demand.devices.min(shape.devices),
        nodes => demand.devices.div_ceil(nodes),
    };
    let on_nodes = u64::from(demand.nodes) <= nodes && per_node <= shape.devices;
    // A gang that spreads is not held to what one node has beside its devices.
    let is_small = demand.devices <= shape.devices || demand.nodes > 0;
    let per_node = u64::from(per_node);
    let has_cpus = shape.cpus == 0 || !is_small || u64::from(demand.cpus) * per_node <= shape.cpus.into();
    let has_memory = shape.memory_mib == 0 || !is_small || demand.memory_mib * per_node <= shape.memory_mib;
    in_pool && of_type && in_all && on_nodes && has_cpus && has_memory
}

/// What limits leave.
struct Left {
    /// By whose they are and what they count.
    counts: BTreeMap<(String, String), f64>,
    /// Who has used up what is allowed within some time.
    spent: BTreeSet<String>,
}

impl Left {
    fn new(limits: &[LimitUse]) -> Self {
        let left = |limit: &LimitUse| {
            ((limit.whose.clone(), limit.what.clone()), (limit.limit - limit.used).max(0.0))
        };
        let (counts, over_time): (Vec<&LimitUse>, Vec<&LimitUse>) =
            limits.iter().partition(|limit| limit.per_s == 0.0);
        let spent = over_time.into_iter().filter(|limit| limit.used >= limit.limit);
        Self {
            counts: counts.into_iter().map(left).collect(),
            spent: spent.map(|limit| limit.whose.clone()).collect(),
        }
    }

    /// How many of these jobs may run, which from then on count as if they did.
    fn take(&mut self, demand: &Demand, device_type: Option<&str>) -> u32 {
        let typed = device_type.map(|name| format!("{name} devices"));
        let mut counted = vec![("jobs".to_owned(), 1.0), ("devices".to_owned(), f64::from(demand.devices))];
        counted.extend(typed.map(|what| (what, f64::from(demand.devices))));
        if demand.owners.iter().any(|whose| self.spent.contains(whose)) {
            return 0;
        }
        let keys = || {
            demand.owners.iter().flat_map(|whose| {
                counted.iter().map(move |(what, each)| ((whose.clone(), what.clone()), *each))
            })
        };
        let may = |(key, each): (_, f64)| self.counts.get(&key).map(|left| (left / each).floor());
        let jobs = keys().filter_map(may).fold(f64::from(demand.jobs), f64::min);
        for (key, each) in keys() {
            if let Some(left) = self.counts.get_mut(&key) {
                *left -= jobs * each;
            }
        }
        jobs as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape =
        Shape { nodes: 1, devices: 4, device_type: None, pool: String::new(), cpus: 8, memory_mib: 0 };

    fn demand(devices: u32, jobs: u32) -> Demand {
        Demand { user: "ann".into(), owners: vec!["user ann".into()], devices, jobs, ..Demand::default() }
    }

    fn counted(demand: Demand) -> u32 {
        wants(&[demand], &[], &SHAPE, Some("v100"), 3).iter().map(|want| want.jobs).sum()
    }

    #[test]
    fn only_what_could_run_in_pilots_counts() {
        let typed = |name: &str| Demand { device_types: vec![name.into()], ..demand(1, 1) };
        for (demand, expected) in [
            (demand(1, 5), 5),
            (demand(12, 1), 1),
            (demand(13, 1), 0),
            (Demand { nodes: 3, ..demand(12, 1) }, 1),
            (Demand { nodes: 4, ..demand(4, 1) }, 0),
            (Demand { nodes: 1, ..demand(8, 1) }, 0),
            (Demand { pool: "big".into(), ..demand(1, 1) }, 0),
            (typed("v100"), 1),
            (typed("a40"), 0),
            (typed("*"), 1),
            (Demand { cpus: 2, ..demand(4, 1) }, 1),
            (Demand { cpus: 3, ..demand(4, 1) }, 0),
        ] {
            assert_eq!(counted(demand.clone()), expected, "{demand:?}");
        }
        let in_pool = Shape { pool: "big".into(), ..SHAPE };
        let big = Demand { pool: "big".into(), ..demand(1, 1) };
        assert_eq!(wants(&[big, demand(1, 1)], &[], &in_pool, None, 3).len(), 2);
    }

    #[test]
    fn demand_beyond_limits_is_not_counted() {
        let limit = |whose: &str, what: &str, limit, used| LimitUse {
            whose: whose.into(),
            what: what.into(),
            limit,
            used,
            ..LimitUse::default()
        };
        let limits = [limit("user ann", "devices", 6.0, 2.0), limit("user bob", "jobs", 1.0, 0.0)];
        let of = |name: &str, owners: &[&str], devices, jobs| Demand {
            user: name.into(),
            owners: owners.iter().map(ToString::to_string).collect(),
            ..demand(devices, jobs)
        };
        let bob = of("bob", &["user bob"], 1, 7);
        let found = |demands: &[Demand], limits: &[LimitUse]| -> Vec<u32> {
            wants(demands, limits, &SHAPE, None, 9).iter().map(|want| want.jobs).collect()
        };
        let jobs = found(&[demand(1, 3), demand(2, 9), bob], &limits);
        assert_eq!(jobs, [3, 1], "ann has four devices left, of which three are taken; bob one job");

        // Those of one group share what it may have; who has used up hours asks for nothing.
        let limits = [limit("group vision", "devices", 5.0, 0.0), limit("pool big", "jobs", 1.0, 0.0)];
        let (ann, bob) = (of("ann", &["group vision"], 4, 3), of("bob", &["group vision"], 1, 3));
        assert_eq!(found(&[ann, bob], &limits), [1, 1]);
        assert_eq!(found(&[of("cid", &["group vision", "pool big"], 1, 9)], &limits), [1]);
        let hours = |used| [LimitUse { per_s: 3600.0, ..limit("group vision", "GPU-hours", 8.0, used) }];
        let dora = || [of("dora", &["group vision"], 1, 2)];
        assert_eq!(found(&dora(), &hours(7.9)), [2]);
        assert!(found(&dora(), &hours(8.0)).is_empty());
    }
}
