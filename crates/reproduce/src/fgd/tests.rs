//! Packing against an oracle that follows the definitions, pod by pod and GPU by GPU, and keeps nothing.

use std::sync::Arc;

use proptest::prelude::*;
use wharf_core::{Amounts, ClusterSpec, JobSpec, Needs, NodeSpec, Request, Time};

use super::fragmentation::Typical;
use super::run::Cluster;
use super::settings::{Policy, Settings};
use super::workload::{Machine, Pod, Shape, Workload};

const TYPES: [&str; 2] = ["t4", "g2"];

/// What a pod asks for, in few sizes, so that equal scores and exact fits occur.
fn pod() -> impl Strategy<Value = (u32, u32, u32, u32, usize)> {
    let part = prop_oneof![Just(1000), Just(500), Just(460), Just(300), Just(100)];
    let whole = prop_oneof![Just(2u32), Just(4)];
    let gpus = prop_oneof![
        1 => Just((0, 0)),
        5 => part.prop_map(|milli| (1, milli)),
        2 => whole.prop_map(|gpus| (gpus, 1000)),
    ];
    let cpus = prop_oneof![Just(0u32), Just(1500), Just(4000), Just(9000)];
    (cpus, 0..40_000u32, gpus, 0..8usize)
        .prop_map(|(cpus, memory, (gpus, milli), spec)| (cpus, memory, gpus, milli, spec))
}

fn job(
    index: usize,
    (cpu_milli, memory_mib, gpus, device_milli, spec): (u32, u32, u32, u32, usize),
) -> JobSpec {
    let mut job = JobSpec::new(&format!("pod-{index}"), Time::ZERO, gpus, 0.0, 0.0);
    let task = Amounts { cpu_milli: cpu_milli.into(), memory_mib: memory_mib.into(), named: Vec::new() };
    let request = match gpus {
        0 => Request::tasks(1, task),
        _ => Request { devices: gpus, device_milli: device_milli % 1000, task, ..Request::default() },
    };
    job.gang.needs = Some(Arc::new(Needs { request, ..Needs::default() }));
    job.gang.device_types = match spec {
        0 | 1 => Arc::from([TYPES[spec].into()]),
        2 => TYPES.map(Arc::from).into(),
        _ => Arc::from([]),
    };
    job
}

fn cluster(nodes: &[(usize, u32, u32, u32)]) -> ClusterSpec {
    let node = |(index, &(kind, devices, cpus, memory_gib)): (usize, &(usize, u32, u32, u32))| NodeSpec {
        name: format!("node-{index}").into(),
        device_type: TYPES[kind].into(),
        devices,
        cpus,
        memory_gib,
        switch: 0,
        pool: NodeSpec::no_pool(),
        details: None,
    };
    ClusterSpec::of(nodes.iter().enumerate().map(node).collect())
}

/// A node, with nothing but what is left on it.
#[derive(Clone, Debug)]
struct Plain {
    gpu_type: String,
    cpu_milli: u32,
    memory_mib: u64,
    idle: Vec<u32>,
    classes: Vec<String>,
}

/// The published rules, from their definitions.
struct Oracle {
    /// Typical specifications with their frequencies.
    typical: Vec<(f64, Shape)>,
    nodes: Vec<Plain>,
}

fn class(shape: &Shape) -> String {
    if shape.gpus == 1 && shape.milli < 1000 { "share".to_owned() } else { format!("{}-gpu", shape.gpus) }
}

fn is_allowed(shape: &Shape, gpu_type: &str) -> bool {
    shape.types.split('|').all(str::is_empty) || shape.types.split('|').any(|name| name == gpu_type)
}

impl Oracle {
    fn new(workload: &Workload, machines: &[Machine], percent: f64) -> Self {
        let mut specifications: Vec<(usize, u32, u32, u32, String)> = Vec::new();
        for shape in &workload.shapes {
            let equal = workload.pods.iter().filter(|pod| workload.shapes[pod.shape] == *shape).count();
            specifications.push((equal, shape.cpu_milli, shape.milli, shape.gpus, shape.types.clone()));
        }
        specifications.sort();
        specifications.reverse();
        let total = workload.pods.len() as f64;
        let mut covered = 0;
        let mut typical = Vec::new();
        for (count, cpu_milli, milli, gpus, types) in specifications {
            if (covered as f64) < percent / 100.0 * total {
                covered += count;
                typical.push((count as f64, Shape { cpu_milli, gpus, milli, types }));
            }
        }
        typical.iter_mut().for_each(|(frequency, _)| *frequency /= covered as f64);
        let plain = |machine: &Machine| Plain {
            gpu_type: workload.gpu_types[machine.gpu_type].to_string(),
            cpu_milli: machine.cpu_milli,
            memory_mib: machine.memory_mib,
            idle: vec![1000; machine.gpus],
            classes: Vec::new(),
        };
        Self { typical, nodes: machines.iter().map(plain).collect() }
    }

    /// The idle thousandths that a typical pod could not use, in the mean.
    fn unusable(&self, node: &Plain) -> f64 {
        let mut sum = 0.0;
        for (frequency, pod) in &self.typical {
            let fitting = node.idle.iter().filter(|idle| **idle >= pod.milli).count();
            let could_run = pod.gpus > 0
                && is_allowed(pod, &node.gpu_type)
                && fitting >= pod.gpus as usize
                && node.cpu_milli >= pod.cpu_milli;
            for &idle in &node.idle {
                if !could_run || idle < pod.milli {
                    sum += frequency * f64::from(idle);
                }
            }
        }
        sum
    }

    /// All ways to give a pod GPUs of a node: for a part each GPU that has it, otherwise the first idle ones.
    fn ways(node: &Plain, shape: &Shape) -> Vec<Vec<usize>> {
        let fitting: Vec<usize> = (0..node.idle.len()).filter(|&gpu| node.idle[gpu] >= shape.milli).collect();
        if shape.gpus == 1 && shape.milli < 1000 {
            fitting.into_iter().map(|gpu| vec![gpu]).collect()
        } else if fitting.len() >= shape.gpus as usize {
            vec![fitting[..shape.gpus as usize].to_vec()]
        } else {
            Vec::new()
        }
    }

    fn after(node: &Plain, shape: &Shape, gpus: &[usize]) -> Plain {
        let mut after = node.clone();
        after.cpu_milli -= shape.cpu_milli;
        for &gpu in gpus {
            after.idle[gpu] -= shape.milli;
        }
        after
    }

    fn score(&self, policy: Policy, node: &Plain, shape: &Shape, gpus: &[usize]) -> f64 {
        let after = Self::after(node, shape, gpus);
        let left: u32 = after.idle.iter().sum();
        let free: u32 = node.idle.iter().sum();
        let requested = f64::from(shape.gpus * shape.milli);
        match policy {
            Policy::Fgd => {
                let gained = self.unusable(node) - self.unusable(&after);
                100.0 / (1.0 + (-gained / 1000.0).exp())
            }
            Policy::BestFit => {
                100.0 * (1.0 - 0.5 * f64::from(after.cpu_milli) / 128_000.0 - 0.5 * f64::from(left) / 8000.0)
            }
            Policy::DotProd => {
                let cpus = f64::from(shape.cpu_milli) * f64::from(node.cpu_milli) / 128_000f64.powi(2);
                100.0 * (1.0 - 0.5 * (cpus + requested * f64::from(free) / 8000f64.powi(2)))
            }
            _ if shape.gpus == 0 => 0.0,
            Policy::GpuClustering => {
                let has_own = node.classes.contains(&class(shape));
                let has_others = node.classes.iter().any(|other| *other != class(shape));
                let base = match (has_own, has_others) {
                    (true, false) => 75,
                    (true, true) => 50,
                    (false, false) => 25,
                    (false, true) => 0,
                };
                f64::from(25 * (8000 - free) / 8000 + base)
            }
            Policy::GpuPacking => {
                let free = node.idle.iter().filter(|idle| **idle == 1000).count() as i32;
                if free == node.idle.len() as i32 {
                    return f64::from((33 - free).max(free));
                }
                let mut order: Vec<u32> =
                    node.idle.iter().copied().filter(|idle| *idle >= shape.milli).collect();
                order.sort_unstable();
                let chosen = &order[..shape.gpus as usize];
                let used = chosen.iter().filter(|idle| **idle == 1000).count() as i32;
                if used > 0 {
                    return f64::from((50 - used).max(33));
                }
                let percent: u32 = chosen.iter().map(|idle| idle * 100 / 1000).sum();
                f64::from((100 - percent as i32 / 10).max(50))
            }
        }
    }

    /// Every node with its scores for a pod: one for each way to place it.
    fn scores(&self, policy: Policy, shape: &Shape, pod: Pod) -> Vec<(usize, Vec<usize>, f64)> {
        let mut scores = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let has_room = node.cpu_milli >= shape.cpu_milli && node.memory_mib >= u64::from(pod.memory_mib);
            if !has_room || shape.gpus > 0 && !is_allowed(shape, &node.gpu_type) {
                continue;
            }
            for gpus in Self::ways(node, shape) {
                let score = self.score(policy, node, shape, &gpus);
                scores.push((index, gpus, score));
            }
        }
        scores
    }

    fn place(&mut self, node: usize, shape: &Shape, pod: Pod, gpus: &[usize]) {
        let mut after = Self::after(&self.nodes[node], shape, gpus);
        after.memory_mib -= u64::from(pod.memory_mib);
        if shape.gpus > 0 {
            after.classes.push(class(shape));
        }
        self.nodes[node] = after;
    }
}

/// Sums of the oracle are rounded in another order.
const ROUNDING: f64 = 1e-6;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn packing_is_that_of_the_oracle(
        pods in prop::collection::vec(pod(), 1..60),
        nodes in prop::collection::vec((0..2usize, 1..9u32, 8..40u32, 16..200u32), 1..8),
        seed in any::<u64>(),
        percent in prop_oneof![Just(95.0), Just(50.0), Just(100.0)],
    ) {
        let jobs: Vec<JobSpec> = pods.into_iter().enumerate().map(|(index, pod)| job(index, pod)).collect();
        let has_demand = jobs.iter().any(|job| job.gang.devices > 0);
        let Ok(workload) = Workload::new(&jobs, &cluster(&nodes)) else {
            prop_assert!(!has_demand);
            return Ok(());
        };
        let arrivals = workload.arrivals(1.3, seed);
        for policy in Policy::ALL {
            let mut oracle = Oracle::new(&workload, &arrivals.machines, percent);
            let pods: Vec<(Pod, Shape)> = arrivals
                .pods
                .iter()
                .map(|&pod| (workload.pods[pod], workload.shapes[workload.pods[pod].shape].clone()))
                .collect();
            let settings = Settings { policy, load: 1.3, typical_percent: percent };
            let mut packed = Cluster::new(workload.clone(), &arrivals.machines, &settings);
            for (pod, shape) in pods {
                let scores = oracle.scores(policy, &shape, pod);
                let found = packed.place(pod);
                prop_assert_eq!(found.is_some(), !scores.is_empty());
                let Some((node, gpus)) = found else { continue };
                let choice = scores.iter().find(|(index, way, _)| *index == node && *way == gpus);
                prop_assert!(choice.is_some(), "{policy:?}: {node} {gpus:?} of {scores:?}");
                let chosen = choice.map_or(0.0, |choice| choice.2);
                if policy != Policy::Fgd && shape.gpus == 1 && shape.milli < 1000 {
                    // The fullest GPU that still has the part.
                    let idle = &oracle.nodes[node].idle;
                    prop_assert!(idle.iter().all(|other| *other < shape.milli || *other >= idle[gpus[0]]));
                }
                for (other, way, score) in scores {
                    // A score at the edge of two whole numbers may be rounded to either.
                    let is_before = (other, &way) < (node, &gpus) && (policy == Policy::Fgd || other < node);
                    let (least, most) = ((chosen + ROUNDING).floor(), (score - ROUNDING).floor());
                    prop_assert!(most <= least, "{policy:?}: {other} {way:?} is better than {node} {gpus:?}");
                    prop_assert!(!is_before || most < least || at_edge(chosen) || at_edge(score),
                        "{policy:?}: {other} {way:?} is as good as {node} {gpus:?}, and comes first");
                }
                oracle.place(node, &shape, pod, &gpus);
                let expected: f64 = oracle.nodes.iter().map(|node| oracle.unusable(node)).sum();
                prop_assert!((packed.unusable() - expected).abs() < ROUNDING);
            }
        }
    }
}

fn at_edge(score: f64) -> bool {
    (score - score.round()).abs() < 2.0 * ROUNDING
}

#[test]
fn fragmentation_by_hand() {
    let jobs: Vec<JobSpec> = [
        // Half of the pods need 500 of a GPU, a quarter two GPUs, a quarter none.
        (1000, 0, 1, 500, 7),
        (1000, 0, 1, 500, 7),
        (1000, 0, 2, 1000, 0),
        (1000, 0, 0, 0, 7),
    ]
    .into_iter()
    .enumerate()
    .map(|(index, pod)| job(index, pod))
    .collect();
    let workload = Workload::new(&jobs, &cluster(&[(0, 4, 8, 16), (1, 4, 8, 16)])).unwrap();
    let mut typical = Typical::new(&workload, 100.0);
    for (gpu_type, cpu_milli, idle, expected) in [
        // Only the pod without a GPU leaves all idle.
        (0, 8000, vec![1000, 1000], 0.25 * 2000.0),
        // The GPU with 400 left is too small for either.
        (0, 8000, vec![400, 1000, 1000], 0.5 * 400.0 + 0.25 * 400.0 + 0.25 * 2400.0),
        // Two whole GPUs are not there.
        (0, 8000, vec![600, 1000], 0.25 * 1600.0 + 0.25 * 1600.0),
        // Two GPUs must be of the other type.
        (1, 8000, vec![1000, 1000], 0.25 * 2000.0 + 0.25 * 2000.0),
        // Without CPUs nothing is usable.
        (0, 500, vec![1000, 1000], 2000.0),
        (0, 500, vec![0, 0], 0.0),
    ] {
        assert_eq!(typical.unusable(gpu_type, cpu_milli, &idle), expected, "{idle:?}");
    }
}

#[test]
fn workload_sorted_by_submission_arrives_in_the_order_of_its_file() {
    let shapes = [(1000, 64, 1, 300, 7), (2000, 32, 1, 700, 7), (500, 16, 2, 1000, 7), (4000, 8, 0, 0, 7)];
    let file: Vec<JobSpec> =
        (0..20).map(|row| JobSpec { row: row as u32, ..job(row, shapes[row % shapes.len()]) }).collect();
    let sorted: Vec<JobSpec> = file.iter().rev().cloned().collect();
    let cluster = cluster(&[(0, 8, 64, 64), (1, 8, 64, 64), (0, 4, 32, 32)]);
    let arrivals = |jobs: &[JobSpec]| {
        let workload = Workload::new(jobs, &cluster).unwrap();
        let arrivals = workload.arrivals(1.5, 42);
        let pods = arrivals.pods.iter().map(|&pod| (jobs[pod].name.to_string(), workload.pods[pod]));
        pods.collect::<Vec<_>>()
    };
    assert!(arrivals(&file).len() > file.len(), "pods are copied");
    assert_eq!(arrivals(&file), arrivals(&sorted));
}
