//! A run: pods arrive, the best node of those that can hold one gets it.

use wharf_core::{DeviceSet, JobId, NodeId, NodeShare, Time};
use wharf_outcome::{Packing, Recorder};

use super::curves::{Curves, Moment};
use super::fragmentation::Typical;
use super::node::{Rest, Rests};
use super::score;
use super::settings::{Policy, Settings};
use super::workload::{Machine, Pod, Workload};

/// What a state of a node is worth to a specification: not yet known, or whether it fits and its score.
type Rating = Option<Option<i64>>;

/// A cluster that fills up.
pub(super) struct Cluster {
    policy: Policy,
    workload: Workload,
    typical: Typical,
    rests: Rests,
    /// For each specification, the ratings of all rests as far as they were needed: only a node that changed has a rest that is new.
    ratings: Vec<Vec<Rating>>,
    /// For each node, in the order in which equal scores choose: the position of its rest, and its free memory.
    nodes: Vec<(usize, u64)>,
}

impl Cluster {
    pub(super) fn new(workload: Workload, machines: &[Machine], settings: &Settings) -> Self {
        let mut typical = Typical::new(&workload, settings.typical_percent);
        let mut rests = Rests::default();
        let nodes =
            machines.iter().map(|machine| (rests.add(Rest::of(machine), &mut typical), machine.memory_mib));
        let nodes = nodes.collect();
        let ratings = vec![Vec::new(); workload.shapes.len()];
        Self { policy: settings.policy, workload, typical, rests, ratings, nodes }
    }

    /// Places a pod; returns its node and GPUs where there is room.
    pub(super) fn place(&mut self, pod: Pod) -> Option<(usize, Vec<usize>)> {
        let mut best: Option<(i64, usize)> = None;
        for node in 0..self.nodes.len() {
            let (rest, memory_mib) = self.nodes[node];
            if memory_mib < u64::from(pod.memory_mib) {
                continue;
            }
            if let Some(score) = self.rate(rest, pod.shape)
                && best.is_none_or(|(highest, _)| score > highest)
            {
                best = Some((score, node));
            }
        }
        let (_, node) = best?;
        let shape = &self.workload.shapes[pod.shape];
        let (position, memory_mib) = &mut self.nodes[node];
        let (rest, unusable) = (self.rests.get(*position), self.rests.unusable(*position));
        let gpus = score::gpus(self.policy, rest, unusable, shape, &mut self.typical);
        let mut after = rest.after(shape, &gpus);
        if self.policy == Policy::GpuClustering {
            after.add_class(shape);
        }
        *position = self.rests.add(after, &mut self.typical);
        *memory_mib -= u64::from(pod.memory_mib);
        Some((node, gpus))
    }

    /// What a rest is worth to a specification.
    fn rate(&mut self, position: usize, shape: usize) -> Option<i64> {
        let ratings = &mut self.ratings[shape];
        if position >= ratings.len() {
            ratings.resize(position + 1, None);
        }
        if let Some(known) = ratings[position] {
            return known;
        }
        let (rest, shape) = (self.rests.get(position), &self.workload.shapes[shape]);
        let is_allowed = shape.gpus == 0 || shape.allows(&self.workload.gpu_types[rest.gpu_type]);
        let rating = (is_allowed && rest.fits(shape)).then(|| {
            score::score(self.policy, rest, self.rests.unusable(position), shape, &mut self.typical)
        });
        ratings[position] = Some(rating);
        rating
    }

    /// The fragmentation of all nodes.
    pub(super) fn unusable(&self) -> f64 {
        self.nodes.iter().map(|&(position, _)| self.rests.unusable(position)).sum()
    }
}

/// Packs a workload. The number of an arrival stands for its time; copies of pods are not jobs of the trace, and not recorded.
pub(super) fn run(
    workload: Workload,
    settings: &Settings,
    seed: u64,
    recorder: &mut dyn Recorder,
) -> Packing {
    let arrivals = workload.arrivals(settings.load, seed);
    let mut curves = Curves::new(workload.gpu_count());
    let mut cluster = Cluster::new(workload, &arrivals.machines, settings);
    let (mut requested, mut used) = (0, 0);
    for (number, &arrival) in arrivals.pods.iter().enumerate() {
        let pod = cluster.workload.pods[arrival];
        let (time, job) = (Time::from_seconds(number as f64), JobId::from_index(arrival));
        // Copies come last.
        let is_job = number < cluster.workload.pods.len();
        let milli = cluster.workload.shapes[pod.shape].gpu_milli();
        requested += milli;
        curves.arrivals += 1;
        if is_job {
            recorder.submitted(time, job);
        }
        if let Some((node, gpus)) = cluster.place(pod) {
            curves.placed += 1;
            used += milli;
            if is_job {
                let node = NodeId::from_index(arrivals.machines[node].position);
                let devices = DeviceSet(gpus.iter().fold(0, |devices, gpu| devices | 1 << gpu));
                // A pod without GPUs has no place in terms of devices.
                let shares = [NodeShare::new(node, devices)];
                let placement = if gpus.is_empty() { &shares[..0] } else { &shares[..] };
                recorder.started(time, job, placement, &[job]);
            }
        }
        curves.add(Moment { requested, used, unusable: cluster.unusable() });
    }
    curves.into_packing()
}
