//! Replays a log's allocations, round by round.

use std::collections::BTreeMap;

use wharf_core::{ClusterSpec, DeviceSet, JobId, JobSpec, NodeId, NodeShare, Time};
use wharf_outcome::{Outcome, Recorder};

use super::error::SiaError;
use super::goodput::Batch;
use super::job::Job;
use super::log::{JobLine, Round};
use super::numbers::Numbers;
use super::record::Record;

/// A job at the end of a replayed round: what Sia's simulator would log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The job.
    pub job: JobId,
    /// Epochs that it has done.
    pub epoch: usize,
    /// Progress in steps at the initial batch size.
    pub progress: f64,
    /// Starts but the first.
    pub restarts: Option<u32>,
    /// Samples of a step from now on, as computed.
    pub batch_size: u32,
    /// How often gradients are accumulated before a step, as computed.
    pub accumulated: u32,
    /// When it was done.
    pub end_s: Option<u64>,
}

/// The nodes of a cluster by device type, with what is free in each.
struct Nodes {
    by_type: BTreeMap<String, Vec<NodeId>>,
    free: Vec<DeviceSet>,
}

pub(super) struct Replay<'a> {
    specs: &'a [JobSpec],
    jobs: Vec<Job<'a>>,
    numbers: &'a Numbers,
    nodes: Nodes,
    record: Record<'a>,
}

impl<'a> Replay<'a> {
    pub(super) fn new(
        specs: &'a [JobSpec],
        jobs: Vec<Job<'a>>,
        cluster: &ClusterSpec,
        numbers: &'a Numbers,
        recorder: &'a mut dyn Recorder,
    ) -> Self {
        let mut by_type: BTreeMap<String, Vec<NodeId>> = BTreeMap::new();
        for (index, node) in cluster.nodes.iter().enumerate() {
            by_type.entry(node.device_type.to_string()).or_default().push(NodeId::from_index(index));
        }
        let free = cluster.nodes.iter().map(|node| DeviceSet::first(node.devices)).collect();
        let record = Record::new(specs, cluster.device_count(), recorder);
        Self { specs, jobs, numbers, nodes: Nodes { by_type, free }, record }
    }

    /// Replays all rounds; tells each job's state at the end of each.
    pub(super) fn run(
        mut self,
        rounds: &[Round],
        told: &mut dyn FnMut(u64, &[Step]),
    ) -> Result<Outcome, SiaError> {
        let ids: BTreeMap<&str, usize> =
            self.specs.iter().enumerate().map(|(index, job)| (&*job.name, index)).collect();
        let mut from_s = 0;
        for round in rounds {
            let to_s = round.timestamp.max(from_s);
            for job in &mut self.jobs {
                job.step(from_s, to_s - from_s)?;
            }
            let ends: Vec<Option<u64>> = self.jobs.iter().map(|job| job.end_s).collect();
            self.record.pass(from_s, to_s, &ends);
            let lines: Vec<(usize, &JobLine)> = round
                .submitted_jobs
                .iter()
                .filter_map(|line| ids.get(line.name.as_str()).map(|&index| (index, line)))
                .collect();
            self.allocate(to_s, &lines)?;
            told(to_s, &self.steps(to_s));
            self.take_batches(&lines);
            from_s = to_s;
        }
        Ok(self.record.into_outcome(from_s))
    }

    /// Gives every job the devices that the log says.
    fn allocate(&mut self, now_s: u64, lines: &[(usize, &JobLine)]) -> Result<(), SiaError> {
        let mut changed = Vec::new();
        for &(index, line) in lines {
            let job = &mut self.jobs[index];
            if job.end_s.is_some() {
                continue;
            }
            let devices = line.allocation.devices();
            let shape = devices.map_or_else(Vec::new, |(device_type, nodes)| {
                let limit = self.numbers.profiled_nodes.get(device_type).copied();
                within_profiled(runs(nodes), limit)
            });
            job.allocate(devices.map(|(device_type, _)| device_type), shape)?;
            let held = self.record.held(index);
            if self.nodes.shape(held) != devices.map(|(kind, nodes)| (kind.to_owned(), counts(nodes))) {
                changed.push((index, devices));
            }
        }
        for index in 0..self.jobs.len() {
            let is_over = self.jobs[index].end_s.is_some();
            if is_over || changed.iter().any(|change| change.0 == index) {
                for share in self.record.held(index) {
                    let free = &mut self.nodes.free[share.node.index()];
                    *free = free.union(share.devices);
                }
                self.record.release(now_s, index);
            }
        }
        for (index, devices) in changed {
            let Some((device_type, nodes)) = devices else { continue };
            let shares =
                self.nodes.take(device_type, &counts(nodes)).map_err(|node| SiaError::NoSuchNode {
                    job: self.jobs[index].name.to_owned(),
                    device_type: device_type.to_owned(),
                    node,
                    time_s: now_s,
                })?;
            self.record.start(now_s, index, shares);
        }
        self.record.settle(now_s);
        Ok(())
    }

    fn steps(&self, now_s: u64) -> Vec<Step> {
        let now = Time::from_seconds(now_s as f64);
        let submitted = self.jobs.iter().enumerate().filter(|(index, _)| self.specs[*index].submit <= now);
        submitted
            .map(|(index, job)| Step {
                job: JobId::from_index(index),
                epoch: job.epoch,
                progress: job.progress,
                restarts: job.restarts,
                batch_size: job.batch_size(),
                accumulated: job.batch.accumulated,
                end_s: job.end_s,
            })
            .collect()
    }

    /// Continues with the logged batch sizes, so that a difference in one fit is not carried on.
    fn take_batches(&mut self, lines: &[(usize, &JobLine)]) {
        for &(index, line) in lines {
            let job = &mut self.jobs[index];
            let parts = job.replicas() * (line.accum_steps + 1);
            if job.end_s.is_none() && parts > 0 {
                job.batch = Batch { atomic: line.batch_size / parts, accumulated: line.accum_steps };
            }
        }
    }
}

impl Nodes {
    /// The type and the devices per node of a placement.
    fn shape(&self, held: &[NodeShare]) -> Option<(String, Vec<(u32, u32)>)> {
        let first = held.first()?;
        let (device_type, nodes) = self.by_type.iter().find(|(_, nodes)| nodes.contains(&first.node))?;
        let count = |share: &NodeShare| {
            let node = nodes.iter().position(|node| *node == share.node).unwrap_or_default();
            (node as u32, share.devices.len())
        };
        Some((device_type.clone(), held.iter().map(count).collect()))
    }

    /// Takes devices of nodes, counted within the type; gives the node that has too few.
    fn take(&mut self, device_type: &str, counts: &[(u32, u32)]) -> Result<Vec<NodeShare>, u32> {
        let mut shares = Vec::with_capacity(counts.len());
        for &(index, count) in counts {
            let nodes = self.by_type.get(device_type);
            let node = *nodes.and_then(|nodes| nodes.get(index as usize)).ok_or(index)?;
            let free = &mut self.free[node.index()];
            let devices = free.lowest(count);
            if devices.len() < count {
                return Err(index);
            }
            *free = free.difference(devices);
            shares.push(NodeShare::new(node, devices));
        }
        Ok(shares)
    }
}

/// Devices of each node, in the order given; a node that comes again after another counts again.
fn runs(nodes: &[u32]) -> Vec<u32> {
    nodes.chunk_by(|one, other| one == other).map(|run| run.len() as u32).collect()
}

/// Nodes with their devices.
fn counts(nodes: &[u32]) -> Vec<(u32, u32)> {
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for &node in nodes {
        *counts.entry(node).or_default() += 1;
    }
    counts.into_iter().collect()
}

/// A placement on more nodes than were ever measured is taken to be on those, as evenly as possible.
fn within_profiled(placement: Vec<u32>, limit: Option<u32>) -> Vec<u32> {
    let Some(limit) = limit.filter(|&limit| placement.len() > limit as usize && limit > 0) else {
        return placement;
    };
    let mut left: u32 = placement.iter().sum();
    let each = left.div_ceil(limit);
    let mut fixed = Vec::new();
    while left > 0 {
        fixed.push(each.min(left));
        left -= each.min(left);
    }
    fixed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_of_allocations() {
        assert_eq!(runs(&[0, 0, 1, 1, 1]), [2, 3]);
        assert_eq!(counts(&[2, 2, 0]), [(0, 1), (2, 2)]);
        for (placement, limit, expected) in [
            (vec![4, 4], Some(2), vec![4, 4]),
            (vec![8, 8, 8], Some(2), vec![12, 12]),
            (vec![4, 4, 1], Some(2), vec![5, 4]),
            (vec![1], None, vec![1]),
        ] {
            assert_eq!(within_profiled(placement, limit), expected);
        }
    }
}
