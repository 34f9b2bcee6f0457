//! Placement strategies, restated.

use std::collections::BTreeSet;

use super::world::{Job, Node, Placement};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Strategy {
    Consolidated,
    BestFit,
    TopologyAware,
    /// Any free devices of one type; which, is not restated.
    Any,
}

type Free = [BTreeSet<usize>];

fn lowest(free: &Free, node: usize, count: usize) -> (usize, BTreeSet<usize>) {
    (node, free[node].iter().copied().take(count).collect())
}

/// Where a job goes; `None` where it does not fit.
pub(super) fn place(strategy: Strategy, nodes: &[Node], free: &Free, job: &Job) -> Option<Placement> {
    let mut kinds: Vec<&str> = job.types.clone();
    if kinds.is_empty() {
        for node in nodes {
            if !kinds.contains(&node.kind) {
                kinds.push(node.kind);
            }
        }
    }
    kinds.into_iter().find_map(|kind| {
        let of_kind: Vec<usize> = (0..nodes.len()).filter(|&node| nodes[node].kind == kind).collect();
        match strategy {
            Strategy::Consolidated => consolidated(nodes, free, &of_kind, job.devices),
            Strategy::BestFit | Strategy::TopologyAware | Strategy::Any => {
                spread(strategy, nodes, free, &of_kind, job.devices)
            }
        }
    })
}

/// The first node with enough; a gang larger than a node gets whole nodes of one switch, and the rest on another of its nodes.
fn consolidated(nodes: &[Node], free: &Free, of_kind: &[usize], devices: usize) -> Option<Placement> {
    let size = of_kind.iter().map(|&node| nodes[node].size).max()?;
    if devices <= size {
        let node = of_kind.iter().copied().find(|&node| free[node].len() >= devices)?;
        return Some(vec![lowest(free, node, devices)]);
    }
    let switches: BTreeSet<u32> = of_kind.iter().map(|&node| nodes[node].switch).collect();
    switches.into_iter().find_map(|switch| {
        let here: Vec<usize> = of_kind.iter().copied().filter(|&node| nodes[node].switch == switch).collect();
        let whole = here.iter().copied().filter(|&node| free[node].len() == size);
        let whole: Vec<usize> = whole.take(devices / size).collect();
        if whole.len() < devices / size {
            return None;
        }
        let mut placement: Placement = whole.iter().map(|&node| lowest(free, node, size)).collect();
        let rest = devices % size;
        if rest > 0 {
            let last = here.into_iter().find(|node| !whole.contains(node) && free[*node].len() >= rest)?;
            placement.push(lowest(free, last, rest));
        }
        Some(placement)
    })
}

/// The tightest node; else devices of several nodes, as long as enough of the type are free.
fn spread(
    strategy: Strategy,
    nodes: &[Node],
    free: &Free,
    of_kind: &[usize],
    devices: usize,
) -> Option<Placement> {
    if of_kind.iter().map(|&node| free[node].len()).sum::<usize>() < devices {
        return None;
    }
    if let Some(node) = tightest(free, of_kind, devices, &[]) {
        return Some(vec![lowest(free, node, devices)]);
    }
    let mut emptiest = of_kind.to_vec();
    emptiest.sort_by_key(|&node| (std::cmp::Reverse(free[node].len()), node));
    if strategy == Strategy::TopologyAware {
        let switch_free = |switch: u32| -> usize {
            of_kind.iter().filter(|&&node| nodes[node].switch == switch).map(|&node| free[node].len()).sum()
        };
        let switches: BTreeSet<u32> = of_kind.iter().map(|&node| nodes[node].switch).collect();
        let enough = switches.into_iter().filter(|&switch| switch_free(switch) >= devices);
        match enough.min_by_key(|&switch| switch_free(switch)) {
            Some(switch) => emptiest.retain(|&node| nodes[node].switch == switch),
            None => emptiest.sort_by_key(|&node| {
                let switch = nodes[node].switch;
                (std::cmp::Reverse(switch_free(switch)), switch, std::cmp::Reverse(free[node].len()), node)
            }),
        }
    }
    let mut placement = Vec::new();
    let mut missing = devices;
    for node in emptiest {
        let share = lowest(free, node, missing);
        missing -= share.1.len();
        if !share.1.is_empty() {
            placement.push(share);
        }
    }
    (missing == 0).then_some(placement)
}

/// The node with the fewest free devices that are enough.
fn tightest(free: &Free, of_kind: &[usize], devices: usize, without: &[usize]) -> Option<usize> {
    let fitting =
        of_kind.iter().copied().filter(|node| !without.contains(node) && free[*node].len() >= devices);
    fitting.min_by_key(|&node| (free[node].len(), node))
}

/// The tightest node that is not among `without`, for a gang that fits into one.
pub(super) fn elsewhere(nodes: &[Node], free: &Free, job: &Job, without: &[usize]) -> Option<Placement> {
    let mut kinds: Vec<&str> = job.types.clone();
    if kinds.is_empty() {
        kinds = nodes.iter().map(|node| node.kind).collect();
    }
    kinds.into_iter().find_map(|kind| {
        let of_kind: Vec<usize> = (0..nodes.len()).filter(|&node| nodes[node].kind == kind).collect();
        tightest(free, &of_kind, job.devices, without).map(|node| vec![lowest(free, node, job.devices)])
    })
}
