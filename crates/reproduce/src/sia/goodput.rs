//! What a job believes of itself: a model of its step times, fitted to what it has seen, and the batch size that it makes of
//! it (Pollux, OSDI'21).

use std::collections::BTreeMap;

use super::descent::{Bounds, Limits, minimise};

/// Batch sizes that are tried, evenly in their logarithms.
const CANDIDATES: u32 = 50;
/// What keeps a rounded quotient from going up for its last bit.
const SLACK: f64 = 1e-8;
/// The least that a parameter can be.
const LEAST: f64 = 1e-8;

/// Nodes, replicas and local batch size.
pub(super) type Point = (u32, u32, u32);

/// Seconds of a step with its synchronisation, and of that alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StepTime {
    pub(super) step_s: f64,
    pub(super) sync_s: f64,
}

/// Seconds of one step: computing is linear in the local batch size, the network in the replicas, and both overlap as a norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Throughput([f64; 7]);

/// The gradient's squared mean and variance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Gradients {
    pub(super) square: f64,
    pub(super) variance: f64,
}

/// A local batch size and how often it is accumulated before a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Batch {
    pub(super) atomic: u32,
    pub(super) accumulated: u32,
}

/// Where a batch size may lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchRange {
    /// What training begins with.
    pub(super) initial: u32,
    /// The most over all replicas.
    pub(super) most: u32,
    /// The least and the most of one replica.
    pub(super) local: (u32, u32),
}

impl Gradients {
    /// Progress of a step in units of steps at the initial batch size.
    pub(super) fn gain(self, scale: f64) -> f64 {
        (self.variance + self.square) / (self.variance / scale + self.square)
    }

    fn efficiency(self, scale: f64) -> f64 {
        let bottom = self.variance / scale + self.square;
        let gain = if bottom > 0.0 { (self.variance + self.square) / bottom } else { 1.0 };
        gain / scale
    }
}

impl Throughput {
    /// Fits the model to what was seen.
    pub(super) fn fit(seen: &BTreeMap<Point, StepTime>) -> Self {
        let rows: Vec<(Point, StepTime)> = seen.iter().map(|(&point, &time)| (point, time)).collect();
        let mut start = [1e-1, 1e-2, 1e-1, 1e-2, 1e-1, 1e-2, 1.0 + 1e-3];
        let mut bounds = Bounds { lower: [LEAST; 7], upper: [f64::INFINITY; 7] };
        (bounds.lower[6], bounds.upper[6]) = (1.0, 10.0);
        let first_bsz = rows.first().map(|row| row.0.2);
        if rows.iter().all(|row| Some(row.0.2) == first_bsz) {
            let sum: f64 = rows.iter().map(|(_, time)| time.step_s - time.sync_s).sum();
            start[0] = sum / rows.len() as f64 / 2.0;
            (bounds.lower[0], bounds.upper[0]) = (start[0], start[0]);
        }
        // What was not seen yet cannot be fitted.
        let mut fix = |indexes: &[usize]| {
            for &index in indexes {
                start[index] = LEAST;
                bounds.upper[index] = LEAST;
            }
        };
        let is_spread = rows.iter().any(|row| row.0.0 > 1);
        if !is_spread {
            fix(&[2, 3]);
        }
        if !rows.iter().any(|row| row.0.0 == 1 && row.0.1 > 1) {
            fix(&[4, 5]);
        }
        if !rows.iter().any(|row| row.0.1 > 2) {
            fix(&[3, 5]);
        }
        let limits = Limits { decrease: 1e-5, gradient: 1e-5, steps: 15_000 };
        let mut found = minimise(start, bounds, limits, |params| error(params, &rows));
        if !is_spread {
            found[2] = found[2].max(found[4] * 1.1);
            found[3] = found[3].max(found[5] * 1.1);
        }
        Self(found)
    }

    fn samples_per_s(&self, nodes: u32, replicas: u32, batch: Batch) -> f64 {
        let [alpha, beta, .., gamma] = self.0;
        let compute = alpha + beta * f64::from(batch.atomic);
        let network = network(&self.0, nodes, replicas).0;
        let optimise = ((compute.powf(gamma) + network.powf(gamma)).ln() / gamma).exp();
        let total = f64::from(batch.accumulated) * compute + optimise;
        batch.total(replicas) / total
    }

    /// The batch size with the largest goodput on so many nodes and replicas.
    pub(super) fn best_batch(
        &self,
        gradients: Gradients,
        nodes: u32,
        replicas: u32,
        range: BatchRange,
    ) -> Batch {
        let initial = f64::from(range.initial);
        let low = initial.max(f64::from(range.local.0) * f64::from(replicas));
        let mut best = (f64::NEG_INFINITY, Batch::default());
        for index in 0..CANDIDATES {
            let batch = split(geometric(low, f64::from(range.most), index), replicas, range);
            let is_allowed = (range.local.0..=range.local.1).contains(&batch.atomic);
            let goodput = if is_allowed {
                self.samples_per_s(nodes, replicas, batch)
                    * gradients.efficiency(batch.total(replicas) / initial)
            } else {
                0.0
            };
            if goodput > best.0 {
                best = (goodput, batch);
            }
        }
        best.1
    }
}

impl Batch {
    /// Samples of one step over all replicas.
    pub(super) fn total(self, replicas: u32) -> f64 {
        f64::from(replicas) * f64::from(self.atomic) * f64::from(self.accumulated + 1)
    }
}

/// Divides a batch over replicas, and over time where one replica cannot hold its part.
fn split(batch: f64, replicas: u32, range: BatchRange) -> Batch {
    let local = batch / f64::from(replicas);
    let mut accumulated = (local / f64::from(range.local.1) - SLACK).ceil() - 1.0;
    if replicas == 1 && local > f64::from(range.initial) + SLACK {
        accumulated = accumulated.max(1.0);
    }
    let atomic = (local / (accumulated + 1.0) - SLACK).ceil();
    Batch { atomic: atomic as u32, accumulated: accumulated as u32 }
}

/// One of the candidates between two batch sizes.
fn geometric(low: f64, high: f64, index: u32) -> f64 {
    let last = CANDIDATES - 1;
    match index {
        0 => low,
        _ if index == last => high,
        _ => {
            let (from, to) = (low.log10(), high.log10());
            10f64.powf(f64::from(index) * ((to - from) / f64::from(last)) + from)
        }
    }
}

/// Seconds on the network, and which pair of parameters they come from.
fn network(params: &[f64; 7], nodes: u32, replicas: u32) -> (f64, Option<usize>, f64) {
    let more = (f64::from(replicas) - 2.0).max(LEAST);
    let link = if nodes > 1 {
        Some(2)
    } else if replicas > 1 {
        Some(4)
    } else {
        None
    };
    match link {
        Some(index) => (params[index] + params[index + 1] * more, link, more),
        None => (LEAST + LEAST * more, None, more),
    }
}

/// The error of the model, in logarithms, with its gradient.
fn error(params: &[f64; 7], rows: &[(Point, StepTime)]) -> (f64, [f64; 7]) {
    let [alpha, beta, .., gamma] = *params;
    let count = rows.len() as f64;
    let (mut squares, mut slopes) = ([0.0; 2], [[0.0; 7]; 2]);
    for &((nodes, replicas, local), time) in rows {
        let compute = alpha + beta * f64::from(local);
        let (network, link, more) = network(params, nodes, replicas);
        let (powers, logs) = ((compute.powf(gamma), network.powf(gamma)), (compute.ln(), network.ln()));
        let sum = powers.0 + powers.1;
        let difference = [logs.0 - (time.step_s - time.sync_s).ln(), sum.ln() / gamma - time.step_s.ln()];
        for part in 0..2 {
            squares[part] += difference[part] * difference[part];
        }
        let by_compute = [1.0 / compute, powers.0 / compute / sum];
        for part in 0..2 {
            slopes[part][0] += difference[part] * by_compute[part];
            slopes[part][1] += difference[part] * by_compute[part] * f64::from(local);
        }
        if let Some(index) = link {
            let by_network = powers.1 / network / sum;
            slopes[1][index] += difference[1] * by_network;
            slopes[1][index + 1] += difference[1] * by_network * more;
        }
        let by_gamma = (powers.0 * logs.0 + powers.1 * logs.1) / sum / gamma - sum.ln() / (gamma * gamma);
        slopes[1][6] += difference[1] * by_gamma;
    }
    let errors = squares.map(|square| (square / count).sqrt());
    let mut gradient = [0.0; 7];
    for index in 0..7 {
        gradient[index] = slopes[0][index] / count / errors[0] + slopes[1][index] / count / errors[1];
    }
    let mut value = errors[0] + errors[1] + 1e-3 * (gamma - 1.0) * (gamma - 1.0);
    gradient[6] += 2e-3 * (gamma - 1.0);
    for index in [2, 4] {
        let ratio = params[index + 1] / params[index];
        value += 1e-2 * ratio * ratio;
        gradient[index + 1] += 2e-2 * ratio / params[index];
        gradient[index] -= 2e-2 * ratio * ratio / params[index];
    }
    (value, gradient)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradient_is_that_of_the_error() {
        let time = |step_s: f64, sync_s: f64| StepTime { step_s, sync_s };
        let rows =
            [((1, 1, 32), time(0.05, 0.001)), ((1, 4, 64), time(0.09, 0.02)), ((2, 8, 64), time(0.14, 0.06))];
        let params = [0.03, 0.001, 0.05, 0.002, 0.02, 0.001, 1.4];
        let (_, gradient) = error(&params, &rows);
        for index in 0..7 {
            let step = params[index] * 1e-6;
            let (mut high, mut low) = (params, params);
            high[index] += step;
            low[index] -= step;
            let numeric = (error(&high, &rows).0 - error(&low, &rows).0) / (2.0 * step);
            let difference = (numeric - gradient[index]).abs();
            assert!(difference <= 1e-4 * numeric.abs().max(1e-3), "{index}: {numeric} {}", gradient[index]);
        }
    }

    #[test]
    fn a_fit_predicts_what_it_has_seen() {
        let mut seen = BTreeMap::new();
        for (point, step_s, sync_s) in [
            ((1, 1, 32), 0.05, 0.0005),
            ((1, 1, 64), 0.08, 0.0005),
            ((1, 4, 64), 0.10, 0.02),
            ((2, 8, 64), 0.15, 0.07),
        ] {
            seen.insert(point, StepTime { step_s, sync_s });
        }
        let model = Throughput::fit(&seen);
        for (&(nodes, replicas, atomic), time) in &seen {
            let batch = Batch { atomic, accumulated: 0 };
            let predicted = batch.total(replicas) / model.samples_per_s(nodes, replicas, batch);
            assert!((predicted / time.step_s - 1.0).abs() < 0.1, "{predicted} is not {}", time.step_s);
        }
    }

    #[test]
    fn one_replica_accumulates_beyond_the_initial_batch() {
        let range = BatchRange { initial: 128, most: 4096, local: (32, 1024) };
        for (batch, replicas, expected) in [
            (128.0, 1, (128, 0)),
            (200.0, 1, (100, 1)),
            (4096.0, 1, (1024, 3)),
            (4096.0, 4, (1024, 0)),
            (4096.0, 2, (1024, 1)),
        ] {
            let split = split(batch, replicas, range);
            assert_eq!((split.atomic, split.accumulated), expected, "{batch} over {replicas}");
        }
    }
}
