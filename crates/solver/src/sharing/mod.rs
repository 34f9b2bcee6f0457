//! Shares of few device types for many jobs: the programs behind policies that share time in proportion.
//!
//! A share `x[i][j]` is the part of its time that job `i` runs on type `j`. Shares are not negative, a job's shares
//! sum to one at most, and the devices that they occupy (`devices[i] × x[i][j]`, summed over jobs) fit each type.
//! A job's rate is the sum of `speeds[i][j] × x[i][j]`. The functions differ in what they make best.
//!
//! **Who is left out.** A job that can run on no type (no positive speed on a type with capacity) gets zeros, and so do
//! jobs whose own numbers make no sense (not finite, negative devices). Neither counts in a minimum or maximum. Numbers
//! that are not finite or negative in capacities and speeds count as zero.
//!
//! **Which optimum.** The best value is unique, the shares are not. The answer is (to the precision of the method) the
//! analytic centre of all best shares: equal jobs get equal shares, what is left over is spread over all that can use
//! it, and nothing sits on a corner without need. Interior-point solvers end there, or near it.
//!
//! **Work.** No function loops without a limit. Where a limit is reached, or the numbers are too far apart to certify
//! an answer, [`Shares::fallback`] states what was done instead.

mod filling;
mod general;
mod interior;
mod model;
mod programs;
mod split;

pub use filling::water_filling;
pub use programs::{feasible, finish_time, makespan, makespan_bisect, max_min, max_sum};
pub use split::{Part, Whole, split};

/// The cluster and its jobs.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// Devices of each type.
    pub capacities: &'a [f64],
    /// Devices that each job occupies while it runs.
    pub devices: &'a [f64],
    /// Iterations per second of each job on each type: row-major, jobs × types. Zero: it cannot run there.
    pub speeds: &'a [f64],
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    /// Share of each job on each type: row-major, jobs × types.
    pub values: Vec<f64>,
    /// What was optimised, as these shares have it. Zero where no job counts.
    pub objective: f64,
    /// What was done instead of the exact answer, if anything.
    pub fallback: Option<&'static str>,
}

/// One job's claim to be finished in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finish {
    /// Seconds since it was submitted.
    pub elapsed_s: f64,
    /// Iterations left.
    pub remaining: f64,
    /// Seconds that its whole time is compared with.
    pub allowance_s: f64,
}
