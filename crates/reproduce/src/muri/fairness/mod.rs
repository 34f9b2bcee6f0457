//! Finish-time fairness: shares of a cluster that make the worst-off job as well off as possible.
//!
//! Minimise the largest of (elapsed + remaining / (throughput × share)) / isolated, over shares between 0 and 1 whose
//! devices fit. The largest ratio is unique, the shares are not: usually one job is as slow alone as the optimum
//! allows, and the others may have anything between what they need and what is left. A published simulator
//! that hands this problem to a conic solver takes the point at which that solver's path ends, so that the path matters.
//!
//! [`FinishTimeFairness`] therefore follows the same kind of path as a general primal-dual interior-point solver for the
//! second-order-cone form of the problem, but with linear algebra that knows its structure: each job is a 2 × 2 block,
//! and only the largest ratio and the devices' sum couple them. An iteration is linear in the number of jobs.

mod cone;
mod kkt;
mod path;

pub use path::FinishTimeFairness;

/// One job's part of the problem.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// Seconds since it was submitted.
    pub elapsed_s: f64,
    /// Iterations left.
    pub remaining: f64,
    /// Iterations per second with a full share.
    pub throughput: f64,
    /// What its time is compared with.
    pub isolated: f64,
    /// Devices it uses with a full share.
    pub devices: f64,
}
