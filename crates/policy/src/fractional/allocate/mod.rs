//! The allocators of the family, each named as its paper names it.

mod allox;
mod fifo;
mod gandiva;
mod isolated;
mod packed;
mod program;

pub use allox::AlloX;
pub use fifo::{Fifo, FifoChoice};
pub use gandiva::Gandiva;
pub use isolated::Isolated;
pub use program::{Fairness, History, Measure, Optimal, Sight};

use super::problem::Problem;

/// How much two jobs on the same devices of a type get done, each in relation to itself alone there: 2 is as if they had
/// devices of their own, 1 as if they took turns.
fn pair_gain(problem: &Problem<'_>, first: usize, second: usize, device_type: usize) -> f64 {
    let alone = [problem.row(first)[device_type], problem.row(second)[device_type]];
    let beside = problem.pairs.speeds(first, second, device_type);
    let part = |index: usize| if alone[index] > 0.0 { beside[index] / alone[index] } else { 0.0 };
    part(0) + part(1)
}

/// Equal shares of every type for `count` parties, for one with so many devices: at most all of its time, and only
/// where it can run.
fn equal_split(capacities: &[f64], count: usize, devices: u32, can_run: impl Fn(usize) -> bool) -> Vec<f64> {
    let part = |kind: usize| {
        if can_run(kind) { capacities[kind] / count.max(1) as f64 / f64::from(devices.max(1)) } else { 0.0 }
    };
    let mut row: Vec<f64> = (0..capacities.len()).map(part).collect();
    let sum: f64 = row.iter().sum();
    if sum > 1.0 {
        row.iter_mut().for_each(|share| *share /= sum);
    }
    row
}
