//! Room for a gang where jobs leave in a given order.

use std::collections::BTreeSet;

use super::world::World;

/// Jobs that leave, and nodes with numbers of devices.
pub(super) type Room = (Vec<usize>, Vec<(usize, usize)>);

/// Lets candidates leave one after the other until a node has enough devices, or whole nodes of one switch for a gang larger than a
/// node. Returns who has to leave, and nodes with numbers of devices.
pub(super) fn make_room(world: &World<'_>, job: usize, candidates: &[usize]) -> Option<Room> {
    let spec = &world.jobs[job];
    let up = world.up_nodes();
    let is_allowed = |node: usize| spec.types.is_empty() || spec.types.contains(&world.nodes[node].kind);
    let all = (0..world.nodes.len()).filter(|&node| is_allowed(node));
    let size = all.map(|node| world.nodes[node].size).max()?;
    let nodes: Vec<usize> = up.into_iter().filter(|&node| is_allowed(node)).collect();
    let clear = |node: usize, gone: &[usize]| world.free_without(gone)[node].len();
    if spec.devices <= size {
        for count in 1..=candidates.len() {
            let gone = &candidates[..count];
            for &(node, _) in world.placement(gone[count - 1]) {
                if !nodes.contains(&node) || clear(node, gone) < spec.devices {
                    continue;
                }
                let is_here = |job: &usize| world.placement(*job).iter().any(|share| share.0 == node);
                let mut leaving: Vec<usize> = gone.iter().copied().filter(is_here).collect();
                for index in (0..leaving.len()).rev() {
                    let mut fewer = leaving.clone();
                    fewer.remove(index);
                    if clear(node, &fewer) >= spec.devices {
                        leaving = fewer;
                    }
                }
                return Some((leaving, vec![(node, spec.devices)]));
            }
        }
        return None;
    }
    whole_nodes(world, job, candidates, &nodes)
}

/// Wholly clear nodes of one type and switch, or of all switches where none has enough devices.
fn whole_nodes(world: &World<'_>, job: usize, candidates: &[usize], nodes: &[usize]) -> Option<Room> {
    let devices = world.jobs[job].devices;
    let place_of = |node: usize| (world.nodes[node].kind, world.nodes[node].switch);
    let size_of = |nodes: &[usize]| nodes.iter().map(|&node| world.nodes[node].size).sum::<usize>();
    let together = |place| nodes.iter().copied().filter(|&node| place_of(node) == place).collect::<Vec<_>>();
    let is_across = !nodes.iter().any(|&node| size_of(&together(place_of(node))) >= devices);
    // In the order in which they become clear.
    let mut clear: Vec<usize> = Vec::new();
    for count in 0..=candidates.len() {
        let gone = &candidates[..count];
        let mut next: Vec<usize> = match count {
            0 => nodes.to_vec(),
            _ => world.placement(gone[count - 1]).iter().map(|share| share.0).collect(),
        };
        next.retain(|node| {
            let is_whole = world.free_without(gone)[*node].len() == world.nodes[*node].size;
            nodes.contains(node) && !clear.contains(node) && is_whole
        });
        for node in next {
            clear.push(node);
            let is_alike = |other: &&usize| {
                let (one, other) = (place_of(node), place_of(**other));
                one.0 == other.0 && (is_across || one.1 == other.1)
            };
            let alike: Vec<usize> = clear.iter().filter(is_alike).copied().collect();
            if count == 0 || size_of(&alike) < devices {
                continue;
            }
            // The latest ones, as many as are needed.
            let mut chosen: Vec<usize> = Vec::new();
            for node in alike.into_iter().rev() {
                if size_of(&chosen) < devices {
                    chosen.push(node);
                }
            }
            let is_on = |job: &usize| world.placement(*job).iter().any(|share| chosen.contains(&share.0));
            let leaving: BTreeSet<usize> = world.running().into_iter().filter(is_on).collect();
            let mut missing = devices;
            let mut shares = Vec::new();
            for node in chosen {
                shares.push((node, missing.min(world.nodes[node].size)));
                missing -= missing.min(world.nodes[node].size);
            }
            return Some((leaving.into_iter().collect(), shares));
        }
    }
    None
}
