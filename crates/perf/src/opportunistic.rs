//! Opportunistic sharing: a job fills the gaps of another that has the right of way.
//!
//! The slowdown that Muri's simulator gives to AntMan's opportunistic jobs (OSDI'20): a stage proceeds only while the
//! guaranteed neighbour leaves that stage's resource idle, and what does not fit waits for the neighbour's next iteration.

use crate::interleave::Stages;

/// Two opportunistic jobs on one device each run at half speed.
pub const BOTH_OPPORTUNISTIC_FACTOR: f64 = 2.0;

/// Seconds per iteration of a job in the gaps of a guaranteed neighbour: a whole number of the neighbour's iterations.
///
/// Stages whose gaps have no length are taken to need none; the caller's job is never faster than alone, which is
/// for the caller to enforce.
pub fn iteration_beside_s(own: Stages, neighbour: Stages, neighbour_iteration_s: f64) -> f64 {
    let Stages { data_s, mut compute_s, mut network_s } = own;
    let Stages { data_s: other_data, compute_s: other_compute, network_s: other_network } = neighbour;

    let gap = other_compute + other_network;
    let (mut iterations, rest) = laps(data_s, gap);
    if rest > 0.0 {
        iterations += 1.0;
        compute_s -= compute_s.min(other_network).min(gap - rest);
    }
    let (whole, rest) = laps(compute_s, other_data + other_network);
    iterations += whole;
    if rest > 0.0 {
        iterations += 1.0;
        if rest < other_data {
            network_s -= network_s.min(other_data + other_compute - rest);
        }
    }
    let (whole, rest) = laps(network_s, other_data + other_compute);
    iterations += whole;
    if rest > other_data {
        iterations += 1.0;
    }
    iterations * neighbour_iteration_s
}

/// Whole gaps that a stage fills, and what is left of it.
fn laps(stage_s: f64, gap_s: f64) -> (f64, f64) {
    if gap_s > 0.0 { ((stage_s / gap_s).floor(), stage_s % gap_s) } else { (0.0, 0.0) }
}
