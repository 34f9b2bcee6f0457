//! The rules: what a node is worth to a pod, and which of its GPUs the pod gets. All scores are truncated to whole numbers.

use super::fragmentation::Typical;
use super::node::Rest;
use super::settings::Policy;
use super::workload::{Shape, WHOLE};

/// The highest score.
const SCORE_MAX: i64 = 100;

/// CPUs and GPUs of the largest node, in thousandths; every node is measured by them.
const CPUS_MAX: f64 = 128_000.0;
const GPUS_MAX: i64 = 8_000;

/// What a node is worth to a pod that fits; `unusable` is its fragmentation.
pub(super) fn score(policy: Policy, rest: &Rest, unusable: f64, shape: &Shape, typical: &mut Typical) -> i64 {
    match policy {
        Policy::Fgd if shape.is_share() => best_share(rest, unusable, shape, typical).0,
        Policy::Fgd => descent(rest, unusable, shape, &whole_gpus(rest, shape), typical),
        Policy::BestFit => best_fit(rest, shape),
        Policy::DotProd => dot_product(rest, shape),
        Policy::GpuClustering => clustering(rest, shape),
        Policy::GpuPacking => packing(rest, shape),
    }
}

/// The GPUs that a pod gets on a node that it fits.
pub(super) fn gpus(
    policy: Policy,
    rest: &Rest,
    unusable: f64,
    shape: &Shape,
    typical: &mut Typical,
) -> Vec<usize> {
    match policy {
        _ if !shape.is_share() => whole_gpus(rest, shape),
        Policy::Fgd => vec![best_share(rest, unusable, shape, typical).1],
        _ => {
            let fitting = rest.idle.iter().enumerate().filter(|(_, idle)| **idle >= shape.milli);
            fitting.min_by_key(|(_, idle)| **idle).map(|(gpu, _)| gpu).into_iter().collect()
        }
    }
}

/// The first idle GPUs.
fn whole_gpus(rest: &Rest, shape: &Shape) -> Vec<usize> {
    let idle = rest.idle.iter().enumerate().filter(|(_, idle)| **idle == WHOLE);
    idle.map(|(gpu, _)| gpu).take(shape.gpus as usize).collect()
}

/// How much less fragmented a node becomes by a pod on some of its GPUs.
fn descent(rest: &Rest, unusable: f64, shape: &Shape, gpus: &[usize], typical: &mut Typical) -> i64 {
    let after = rest.after(shape, gpus);
    let gained = unusable - typical.unusable(after.gpu_type, after.cpu_milli, &after.idle);
    let sigmoid = 1.0 / (1.0 + (-gained / f64::from(WHOLE)).exp());
    (sigmoid * SCORE_MAX as f64) as i64
}

/// The best GPU for a part of one, with its score; the first of equals.
fn best_share(rest: &Rest, unusable: f64, shape: &Shape, typical: &mut Typical) -> (i64, usize) {
    let mut best: Option<(i64, usize)> = None;
    for (gpu, idle) in rest.idle.iter().enumerate() {
        // Equally idle GPUs are equally good.
        if *idle < shape.milli || rest.idle[..gpu].contains(idle) {
            continue;
        }
        let score = descent(rest, unusable, shape, &[gpu], typical);
        if best.is_none_or(|(highest, _)| score > highest) {
            best = Some((score, gpu));
        }
    }
    best.unwrap_or_default()
}

/// The less is left, the better. The published scaling of all scores to 0 to 100 keeps their order, and is left out.
fn best_fit(rest: &Rest, shape: &Shape) -> i64 {
    let cpus = f64::from(rest.cpu_milli - shape.cpu_milli) / CPUS_MAX;
    let gpus = (f64::from(rest.idle_milli()) - shape.gpu_milli() as f64) / GPUS_MAX as f64;
    ((1.0 - (cpus * 0.5 + gpus * 0.5)) * SCORE_MAX as f64) as i64
}

/// The smaller the product of the request and what is free, the better.
fn dot_product(rest: &Rest, shape: &Shape) -> i64 {
    let gpus_max = GPUS_MAX as f64;
    let cpus = f64::from(rest.cpu_milli) / CPUS_MAX * (f64::from(shape.cpu_milli) / CPUS_MAX);
    let gpus = f64::from(rest.idle_milli()) / gpus_max * (shape.gpu_milli() as f64 / gpus_max);
    ((1.0 - (cpus + gpus) / 2.0) * SCORE_MAX as f64) as i64
}

/// Pods of one class belong together; among equals the fuller node is better.
fn clustering(rest: &Rest, shape: &Shape) -> i64 {
    const QUARTER: i64 = SCORE_MAX / 4;
    if shape.gpus == 0 {
        return 0;
    }
    let quarters = match (rest.classes.has(shape), rest.classes.count()) {
        (true, 1) => 3,
        (true, _) => 2,
        (false, 0) => 1,
        (false, _) => 0,
    };
    QUARTER * (GPUS_MAX - i64::from(rest.idle_milli())) / GPUS_MAX + quarters * QUARTER
}

/// GPUs in use first, then free GPUs of nodes in use, then free nodes.
fn packing(rest: &Rest, shape: &Shape) -> i64 {
    /// The best score of a free node, and of a free GPU.
    const FREE_NODE: i64 = SCORE_MAX / 3;
    const FREE_GPU: i64 = SCORE_MAX / 2;
    if shape.gpus == 0 {
        return 0;
    }
    let free = rest.free_gpus() as i64;
    if free == rest.idle.len() as i64 {
        return (FREE_NODE - free).max(free);
    }
    let mut fitting: Vec<u32> = rest.idle.iter().copied().filter(|&idle| idle >= shape.milli).collect();
    fitting.sort_unstable();
    fitting.truncate(shape.gpus as usize);
    match fitting.iter().filter(|&&idle| idle == WHOLE).count() as i64 {
        0 => {
            let percent: i64 = fitting.iter().map(|&idle| i64::from(idle * 100 / WHOLE)).sum();
            (SCORE_MAX - percent / 10).max(FREE_GPU)
        }
        used => (FREE_GPU - used).max(FREE_NODE),
    }
}
