//! Profiling of new jobs before the policy hears of them, as `prepend_profile_overhead` has it.

use std::collections::BTreeMap;

use super::decisions::{Kind, Owner, World};

use super::settings::Profiling;

/// The jobs that are profiled, or wait for it: `world.profiling`.
#[derive(Debug)]
pub(super) struct Profilers {
    numbers: Profiling,
    round_s: f64,
    /// Seconds that are left of each job's profiling, and the nodes that it has, where it has begun.
    begun: BTreeMap<u32, (f64, Vec<u32>)>,
}

impl Profilers {
    pub(super) fn new(numbers: Profiling, round_s: f64) -> Self {
        Self { numbers, round_s, begun: BTreeMap::new() }
    }

    /// A job comes.
    pub(super) fn take_in(world: &mut World, job: u32) {
        world.job_mut(job).is_profiling = true;
        world.profiling.push(job);
    }

    /// A round has gone by. Jobs that are through give their nodes back and are submitted.
    pub(super) fn advance(&mut self, world: &mut World) {
        let mut done = Vec::new();
        for &job in &world.profiling {
            let Some((left_s, _)) = self.begun.get_mut(&job) else { continue };
            *left_s -= self.round_s;
            if *left_s <= 0.0 {
                done.push(job);
            }
        }
        world.profiling.retain(|job| !done.contains(job));
        for &job in &done {
            world.job_mut(job).is_profiling = false;
            // The jobs on these nodes lose them, as published.
            for node in self.begun.remove(&job).map(|(_, nodes)| nodes).unwrap_or_default() {
                for device in world.table.site().clone().devices(node) {
                    world.table.set(device, false, Owner::FREE);
                }
            }
        }
        done.append(&mut world.submitted);
        world.submitted = done;
    }

    /// Begins to profile jobs for which there are idle nodes.
    pub(super) fn begin(&mut self, world: &mut World) {
        for job in world.profiling.clone() {
            if self.begun.contains_key(&job) {
                continue;
            }
            let Some(nodes) = self.idle_nodes(world) else { continue };
            for &node in &nodes {
                for device in world.table.site().clone().devices(node) {
                    world.table.set(device, true, Owner::job(job));
                }
            }
            self.begun.insert(job, (self.numbers.seconds, nodes));
        }
    }

    /// Idle nodes of every type, as many as hold the devices that profiling takes. Where a node has more devices than that, none is
    /// needed; but the search ends only once it has passed a node without taking it, so that it takes all idle nodes of the first
    /// type where the very first node is idle.
    fn idle_nodes(&self, world: &World) -> Option<Vec<u32>> {
        let site = world.site();
        let mut all = Vec::new();
        for kind in site.kinds() {
            let needed = (self.numbers.devices / site.per_node(kind)) as usize;
            let nodes = idle_nodes_of(world, kind, needed);
            if nodes.len() < needed {
                return None;
            }
            all.extend(nodes);
        }
        Some(all)
    }
}

fn idle_nodes_of(world: &World, kind: Kind, needed: usize) -> Vec<u32> {
    let site = world.site();
    let mut nodes = Vec::new();
    for node in 0..site.node_count() {
        if site.kind_of(node) == kind && world.table.idle(node) as usize == site.devices(node).len() {
            nodes.push(node);
        }
        if nodes.len() == needed {
            break;
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::crius::decisions::{Job, Lookup, Options, Quota, Shape, Site};

    use super::*;

    fn world() -> World {
        let site = Site::new([("a100", 4), ("a100", 4), ("v100", 16), ("a40", 2), ("a40", 2), ("a40", 2)]);
        let mut world = World::new(Arc::new(site), Lookup::new(3), Options::default());
        for job in 0..2 {
            world.jobs.push(Job::new(0, 1.0, Quota::new(Kind(0), Shape::single(1)), 0.0, 1.0));
            Profilers::take_in(&mut world, job);
        }
        world
    }

    #[test]
    fn everywhere_takes_idle_nodes_of_every_type_for_a_while() {
        let mut world = world();
        let mut profilers = Profilers::new(Profiling { seconds: 240.0, devices: 4 }, 300.0);
        profilers.begin(&mut world);
        // One node of 4, none of 16, two of 2; the second job finds only one of 2 left.
        assert_eq!([0, 1, 2].map(|kind| world.table.idle_of(Kind(kind))), [4, 16, 2]);
        profilers.advance(&mut world);
        assert_eq!((&*world.submitted, &*world.profiling), ([0].as_slice(), [1].as_slice()));
        assert_eq!(world.table.idle_of(Kind(0)), 8);
        assert!(!world.job(0).is_profiling && world.job(1).is_profiling);
    }

    #[test]
    fn a_single_device_takes_all_of_the_first_type_or_nothing() {
        let mut world = world();
        let mut profilers = Profilers::new(Profiling { seconds: 960.0, devices: 1 }, 300.0);
        profilers.begin(&mut world);
        assert_eq!([0, 1, 2].map(|kind| world.table.idle_of(Kind(kind))), [0, 16, 6]);
        for rounds in 1..=4 {
            profilers.advance(&mut world);
            assert_eq!(world.submitted.len(), if rounds < 4 { 0 } else { 2 });
        }
        assert_eq!(world.table.idle_of(Kind(0)), 8);
    }
}
