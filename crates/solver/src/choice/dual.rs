//! Prices of device types: the minimum of the Lagrangian dual, by the ellipsoid method.

use super::{Limits, Problem};

/// Prices and what follows from them.
#[derive(Clone, Debug)]
pub(super) struct Dual {
    /// Of one device of each type.
    pub(super) prices: Vec<f64>,
    /// What no choice can exceed.
    pub(super) bound: f64,
    pub(super) is_converged: bool,
    pub(super) steps: u64,
}

/// What every job would take at these prices: the dual's value, and devices left over (below 0: missing) of each type.
fn evaluate(problem: &Problem<'_>, prices: &[f64], left: &mut [f64]) -> f64 {
    let mut value = 0.0;
    for (kind, &capacity) in problem.capacity.iter().enumerate() {
        value += prices[kind] * f64::from(capacity);
        left[kind] = f64::from(capacity);
    }
    for job in 0..problem.jobs() {
        let mut best = (0.0, None);
        for configuration in problem.of(job).iter().filter(|it| problem.is_possible(it)) {
            let net = configuration.value - prices[configuration.kind] * f64::from(configuration.count);
            if net > best.0 {
                best = (net, Some(configuration));
            }
        }
        value += best.0;
        if let Some(taken) = best.1 {
            left[taken.kind] -= f64::from(taken.count);
        }
    }
    value
}

/// The largest price at which a job would still take a device of each type.
fn highest(problem: &Problem<'_>) -> Vec<f64> {
    let mut highest = vec![0.0; problem.capacity.len()];
    for configuration in problem.configurations.iter().filter(|it| problem.is_possible(it)) {
        let price = configuration.value / f64::from(configuration.count.max(1));
        let known: &mut f64 = &mut highest[configuration.kind];
        *known = known.max(price);
    }
    highest
}

/// Finds prices at which the dual is least, up to a part of the resolution.
pub(super) fn solve(problem: &Problem<'_>, limits: &Limits) -> Dual {
    let kinds = problem.capacity.len();
    let cost = problem.configurations.len().max(1) as u64;
    let highest = highest(problem);
    // The method needs two dimensions at least; an unused one does no harm.
    let size = kinds.max(2);
    let mut center: Vec<f64> =
        (0..size).map(|kind| highest.get(kind).copied().unwrap_or(0.0) / 2.0).collect();
    let mut shape = vec![0.0; size * size];
    for kind in 0..size {
        let radius = (center[kind] + f64::MIN_POSITIVE.sqrt()) * (size as f64).sqrt();
        shape[kind * size + kind] = radius * radius;
    }
    let mut left = vec![0.0; size];
    let mut best = Dual { prices: vec![0.0; kinds], bound: f64::INFINITY, is_converged: false, steps: 0 };
    let mut image = vec![0.0; size];
    while best.steps + cost <= limits.steps {
        let outside = (0..size).find(|&kind| center[kind] < 0.0);
        let mut depth = 0.0;
        if let Some(kind) = outside {
            left.fill(0.0);
            left[kind] = -1.0;
        } else {
            best.steps += cost;
            left.fill(0.0);
            let value = evaluate(problem, &center, &mut left);
            if value < best.bound {
                best.bound = value;
                best.prices.copy_from_slice(&center[..kinds]);
            }
            depth = value - best.bound;
        }
        for row in 0..size {
            image[row] = (0..size).map(|column| shape[row * size + column] * left[column]).sum();
        }
        let width = image.iter().zip(&left).map(|(image, slope)| image * slope).sum::<f64>().max(0.0).sqrt();
        let tolerance = (limits.resolution / 4.0).max(1e-5 * best.bound.min(f64::MAX));
        if outside.is_none() && width - depth <= tolerance || width <= f64::MIN_POSITIVE {
            best.is_converged = true;
            break;
        }
        let depth = if let Some(kind) = outside { -center[kind] } else { depth };
        cut(&mut center, &mut shape, &image, width, (depth / width).clamp(0.0, 0.999));
    }
    if best.bound.is_infinite() {
        best.bound = problem.configurations.iter().map(|it| it.value.max(0.0)).sum();
    }
    best
}

/// Keeps the part of the ellipsoid beyond a cut at `alpha` of the way from its center.
fn cut(center: &mut [f64], shape: &mut [f64], image: &[f64], width: f64, alpha: f64) {
    let size = center.len();
    let n = size as f64;
    let shift = (1.0 + n * alpha) / (n + 1.0);
    let shrink = 2.0 * (1.0 + n * alpha) / ((n + 1.0) * (1.0 + alpha));
    let grow = n * n / (n * n - 1.0) * (1.0 - alpha * alpha);
    for row in 0..size {
        center[row] -= shift * image[row] / width;
        for column in 0..size {
            let place = &mut shape[row * size + column];
            *place = grow * (*place - shrink * image[row] * image[column] / (width * width));
        }
    }
}
