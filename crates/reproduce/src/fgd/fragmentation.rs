//! Fragmentation: the idle GPUs of a node that a typical pod could not use.

use std::cmp::Reverse;

use super::workload::{Shape, Workload};

/// A specification that many pods have.
#[derive(Clone, Debug)]
struct TypicalPod {
    /// Of all typical pods, the part with this specification.
    frequency: f64,
    cpu_milli: u32,
    gpus: u32,
    /// The position of its part of a GPU among those of all typical pods; `None` where it asks for no GPU.
    part: Option<usize>,
    /// Whether GPUs of each type will do.
    allowed: Vec<bool>,
}

/// Why a pod leaves GPUs idle. The parts are summed up by cause first, as published: sums round.
#[derive(Clone, Copy)]
enum Cause {
    CpusAndGpus,
    Gpus,
    Cpus,
    NoGpuRequested,
    NoGpuRequestedNorCpus,
    GpuType,
}

const CAUSES: usize = Cause::GpuType as usize + 1;

/// The typical pods of a workload.
#[derive(Clone, Debug)]
pub(super) struct Typical {
    pods: Vec<TypicalPod>,
    /// The parts of a GPU that they ask for, rising.
    parts: Vec<u32>,
    /// For each part, how many GPUs of the node in question have it, and what is idle on the others.
    usable: Vec<(u32, u32)>,
}

impl Typical {
    /// The most frequent specifications that cover so many percent of a workload's pods.
    pub(super) fn new(workload: &Workload, percent: f64) -> Self {
        let total: u64 = workload.counts.iter().sum();
        let mut ranked: Vec<(u64, &Shape)> = workload.counts.iter().copied().zip(&workload.shapes).collect();
        ranked.sort_by_key(|&(count, shape)| {
            Reverse((count, shape.cpu_milli, shape.milli, shape.gpus, &shape.types))
        });
        let wanted = percent * total as f64 / 100.0;
        let mut covered = 0;
        let end = ranked.iter().position(|(count, _)| {
            covered += count;
            covered as f64 >= wanted
        });
        ranked.truncate(end.map_or(ranked.len(), |last| last + 1));
        let mut parts: Vec<u32> =
            ranked.iter().map(|(_, shape)| shape.milli).filter(|&milli| milli > 0).collect();
        parts.sort_unstable();
        parts.dedup();
        let total = total as f64;
        let pod = |(count, shape): (u64, &Shape)| TypicalPod {
            frequency: count as f64 / total / (covered as f64 / total),
            cpu_milli: shape.cpu_milli,
            gpus: shape.gpus,
            part: parts.binary_search(&shape.milli).ok(),
            allowed: workload.gpu_types.iter().map(|gpu_type| shape.allows(gpu_type)).collect(),
        };
        let pods = ranked.into_iter().map(pod).collect();
        let usable = vec![(0, 0); parts.len()];
        Self { pods, parts, usable }
    }

    /// The thousandths of idle GPUs on a node that a typical pod could not use: the mean over them.
    pub(super) fn unusable(&mut self, gpu_type: usize, cpu_milli: u32, idle: &[u32]) -> f64 {
        for (&part, usable) in self.parts.iter().zip(&mut self.usable) {
            *usable = idle.iter().fold((0, 0), |(fitting, below), &milli| {
                if milli >= part { (fitting + 1, below) } else { (fitting, below + milli) }
            });
        }
        let all: u32 = idle.iter().sum();
        let mut sums = [0.0; CAUSES];
        for pod in &self.pods {
            let has_cpus = cpu_milli >= pod.cpu_milli;
            let (cause, milli) = match pod.part {
                None if has_cpus => (Cause::NoGpuRequested, all),
                None => (Cause::NoGpuRequestedNorCpus, all),
                Some(_) if !pod.allowed[gpu_type] => (Cause::GpuType, all),
                Some(part) => {
                    let (fitting, below) = self.usable[part];
                    match (fitting >= pod.gpus, has_cpus) {
                        (true, true) => (Cause::Gpus, below),
                        (true, false) => (Cause::Cpus, all),
                        (false, true) => (Cause::Gpus, all),
                        (false, false) => (Cause::CpusAndGpus, all),
                    }
                }
            };
            sums[cause as usize] += pod.frequency * f64::from(milli);
        }
        sums.iter().sum()
    }
}
