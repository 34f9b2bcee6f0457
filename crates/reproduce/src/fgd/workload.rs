//! Pods and nodes as this mechanism has them, and the order in which pods arrive.

use std::collections::HashMap;
use std::sync::Arc;

use wharf_core::{ClusterSpec, Gang, JobSpec, Request};

use super::error::FgdError;
use super::go_random::GoRandom;

/// A whole GPU, in thousandths.
pub(super) const WHOLE: u32 = 1000;

/// What pods of one specification ask for. Memory is not part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub(super) cpu_milli: u32,
    pub(super) gpus: u32,
    /// Thousandths of each GPU.
    pub(super) milli: u32,
    /// The types of GPU that will do, `|` between them; any where it is empty.
    pub(super) types: String,
}

impl Shape {
    fn new(gang: &Gang, request: &Request) -> Self {
        let gpus = if gang.has_devices() { gang.devices } else { 0 };
        let milli = if gpus == 0 { 0 } else { request.part() };
        let types: Vec<&str> = gang.device_types.iter().map(|name| &**name).collect();
        Self { cpu_milli: narrow(request.task.cpu_milli), gpus, milli, types: types.join("|") }
    }

    /// Whether it asks for a part of one GPU.
    pub(super) fn is_share(&self) -> bool {
        self.gpus == 1 && self.milli < WHOLE
    }

    pub(super) fn gpu_milli(&self) -> u64 {
        u64::from(self.gpus) * u64::from(self.milli)
    }

    /// Whether GPUs of a type will do.
    pub(super) fn allows(&self, gpu_type: &str) -> bool {
        self.types.is_empty() || self.types.split('|').any(|name| name == gpu_type)
    }
}

/// A pod: the position of its shape, and its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pod {
    pub(super) shape: usize,
    pub(super) memory_mib: u32,
}

/// An empty node.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    /// The position in the cluster.
    pub(super) position: usize,
    pub(super) name: Arc<str>,
    /// The position of its type of GPU.
    pub(super) gpu_type: usize,
    pub(super) cpu_milli: u32,
    pub(super) memory_mib: u64,
    pub(super) gpus: usize,
}

/// A trace and a cluster.
#[derive(Clone)]
pub(super) struct Workload {
    pub(super) shapes: Vec<Shape>,
    /// How many pods of the trace have each shape.
    pub(super) counts: Vec<u64>,
    /// In the order of the trace.
    pub(super) pods: Vec<Pod>,
    /// The positions of the pods by row of their file: a trace is sorted by submission, the published code does not sort.
    by_row: Vec<usize>,
    /// The positions of the pods by name.
    by_name: Vec<usize>,
    pub(super) gpu_types: Vec<Arc<str>>,
    /// By name.
    pub(super) machines: Vec<Machine>,
}

/// The draws that one run needs before its first pod arrives.
pub(super) struct Arrivals {
    /// Positions of pods, in the order in which they arrive.
    pub(super) pods: Vec<usize>,
    /// The machines in the order in which equal scores choose among them.
    pub(super) machines: Vec<Machine>,
}

impl Workload {
    pub(super) fn new(jobs: &[JobSpec], cluster: &ClusterSpec) -> Result<Self, FgdError> {
        if cluster.device_count() == 0 {
            return Err(FgdError::NoDevices);
        }
        let mut known: HashMap<Shape, usize> = HashMap::new();
        let mut counts = Vec::new();
        let mut by_row: Vec<usize> = (0..jobs.len()).collect();
        by_row.sort_by_key(|&job| jobs[job].row);
        let mut pods = vec![Pod::default(); jobs.len()];
        for &position in &by_row {
            let job = &jobs[position];
            let no_portion = || FgdError::NoPortion { job: job.name.to_string() };
            let request = job.gang.request().ok_or_else(no_portion)?;
            let next = known.len();
            let shape = *known.entry(Shape::new(&job.gang, request)).or_insert(next);
            if shape == counts.len() {
                counts.push(0);
            }
            counts[shape] += 1;
            pods[position] = Pod { shape, memory_mib: narrow(request.task.memory_mib) };
        }
        let mut shapes: Vec<(Shape, usize)> = known.into_iter().collect();
        shapes.sort_unstable_by_key(|(_, position)| *position);
        let shapes: Vec<Shape> = shapes.into_iter().map(|(shape, _)| shape).collect();
        if shapes.iter().all(|shape| shape.gpu_milli() == 0) {
            return Err(FgdError::NoDemand);
        }
        let mut by_name: Vec<usize> = (0..jobs.len()).collect();
        by_name.sort_by_key(|&job| &jobs[job].name);
        let (gpu_types, machines) = machines(cluster);
        Ok(Self { shapes, counts, pods, by_row, by_name, gpu_types, machines })
    }

    /// GPUs of all nodes.
    pub(super) fn gpu_count(&self) -> u64 {
        self.machines.iter().map(|machine| machine.gpus as u64).sum()
    }

    /// Draws the order of pods and nodes, in the order of the published code.
    pub(super) fn arrivals(&self, load: f64, seed: u64) -> Arrivals {
        /// Draws before that of the nodes whose use is not known; so many give the published results.
        const UNUSED: usize = 10;
        // Go's seeds are signed.
        let mut random = GoRandom::new(seed as i64);
        // It is only logged.
        random.next();
        let mut pods = self.by_name.clone();
        random.shuffle(&mut pods);
        self.tune(&mut pods, load * (self.gpu_count() * u64::from(WHOLE)) as f64, &mut random);
        (0..UNUSED).for_each(|_| {
            random.next();
        });
        let prefixes = random.permutation(self.machines.len());
        let named = self.machines.iter().zip(prefixes);
        let mut named: Vec<(String, &Machine)> =
            named.map(|(machine, prefix)| (format!("{prefix:04}-{}", machine.name), machine)).collect();
        named.sort_by(|a, b| a.0.cmp(&b.0));
        Arrivals { pods, machines: named.into_iter().map(|(_, machine)| machine.clone()).collect() }
    }

    /// Appends copies of pods, or removes pods, until all of them request so many thousandths of GPUs.
    fn tune(&self, pods: &mut Vec<usize>, target: f64, random: &mut GoRandom) {
        let shape = |pod: usize| &self.shapes[self.pods[pod].shape];
        let mut requested: u64 = self.pods.iter().map(|pod| self.shapes[pod.shape].gpu_milli()).sum();
        if requested as f64 > target {
            while requested as f64 > target {
                let removed = pods.remove(random.below(pods.len()));
                requested -= shape(removed).gpu_milli();
            }
        } else if (requested as f64) < target {
            loop {
                let copied = self.by_row[random.below(self.by_row.len())];
                if (requested + u64::from(shape(copied).milli)) as f64 > target {
                    break;
                }
                requested += shape(copied).gpu_milli();
                pods.push(copied);
            }
        }
    }
}

/// An amount of one pod; the published simulator has no larger ones.
fn narrow(amount: u64) -> u32 {
    u32::try_from(amount).unwrap_or(u32::MAX)
}

/// The types of GPU and the nodes, by name.
fn machines(cluster: &ClusterSpec) -> (Vec<Arc<str>>, Vec<Machine>) {
    const MIB_PER_GIB: u64 = 1024;
    let mut gpu_types: Vec<Arc<str>> = Vec::new();
    let mut machines: Vec<Machine> = Vec::with_capacity(cluster.nodes.len());
    for (position, node) in cluster.nodes.iter().enumerate() {
        let known = gpu_types.iter().position(|name| *name == node.device_type);
        let gpu_type = known.unwrap_or_else(|| {
            gpu_types.push(node.device_type.clone());
            gpu_types.len() - 1
        });
        machines.push(Machine {
            position,
            name: node.name.clone(),
            gpu_type,
            cpu_milli: node.cpus.saturating_mul(1000),
            memory_mib: u64::from(node.memory_gib) * MIB_PER_GIB,
            gpus: node.devices as usize,
        });
    }
    machines.sort_by(|a, b| a.name.cmp(&b.name));
    (gpu_types, machines)
}
