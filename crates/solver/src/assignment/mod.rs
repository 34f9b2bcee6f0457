//! Assignment at least cost: rows to columns, and jobs to the queues of machines.
//!
//! [`assign`] is the general rectangular problem. Its optimum is often not unique, and a published simulator acts on
//! the optimum that scipy's `linear_sum_assignment` happens to return, so this one checks columns in the same order and
//! prefers the same one among equals.
//!
//! [`Queues`] is the problem of AlloX: every job gets a machine and a position in its queue, so that the sum of the
//! times until jobs end is least. A job that is `k`-th from the end of its queue delays `k` ends, its own included, so it
//! costs `k` times its own duration. As a matrix that has a column for every machine and position; here machines of one
//! type and free positions are never stored.

mod auction;
mod exact;
mod grouped;
mod rectangular;

pub use rectangular::{Unassignable, assign};

/// Jobs that wait for machines of several types.
#[derive(Clone, Copy, Debug)]
pub struct Queues<'a> {
    /// Iterations left, per job.
    pub remaining: &'a [f64],
    /// Seconds since the job arrived, per job. They add the same to every choice of a job: they cannot change which
    /// assignments are best, but they take part in the rounding that decides between equals.
    pub waits: &'a [f64],
    /// Iterations per second, jobs × types. Zero counts as 1e-10, as in the published simulator.
    pub speeds: &'a [f64],
    /// Free machines of each type. Machines are numbered type by type.
    pub machines: &'a [usize],
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Place {
    /// Index of the machine's type.
    pub device_type: usize,
    /// Number of the machine, over all types.
    pub machine: usize,
    /// How many jobs of the same machine run after this one.
    pub position: usize,
}

/// How the places were found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Method {
    /// The sum of the jobs' ends is least.
    Exact,
    /// An auction was stopped when the sum was certain to be within 1.5 % of the least, waits not counted.
    Auction,
    /// The work limit ended the search, so jobs went one by one where they ended first.
    Greedy,
}

/// The answer of [`Queues::fast`].
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// Per job; none if there is no machine at all.
    pub places: Vec<Option<Place>>,
    /// How they were found.
    pub method: Method,
}

impl Queues<'_> {
    /// Number of jobs.
    #[must_use]
    pub fn jobs(&self) -> usize {
        self.remaining.len()
    }

    /// Seconds that a job needs on a type.
    #[must_use]
    pub fn duration_s(&self, job: usize, device_type: usize) -> f64 {
        let speed = self.speeds.get(job * self.machines.len() + device_type).copied().unwrap_or(0.0);
        let duration_s = self.remaining[job] / if speed == 0.0 { 1e-10 } else { speed };
        // What is not a number or negative would win or lose against everything by accident.
        if duration_s.is_finite() { duration_s.max(0.0) } else { f64::MAX.sqrt() }
    }

    /// Jobs × types.
    fn durations_s(&self) -> Vec<f64> {
        let types = self.machines.len();
        (0..self.jobs() * types).map(|index| self.duration_s(index / types, index % types)).collect()
    }

    /// Seconds that a job needs on its best type among those that have machines.
    fn shortest_s(&self, job: usize) -> f64 {
        let types = (0..self.machines.len()).filter(|&kind| self.machines[kind] > 0);
        types.map(|kind| self.duration_s(job, kind)).fold(f64::INFINITY, f64::min)
    }

    /// The sum of durations times delayed ends, which the places are chosen to make small.
    #[must_use]
    pub fn cost(&self, places: &[Option<Place>]) -> f64 {
        let cost = |(job, place): (usize, &Option<Place>)| {
            place.map_or(0.0, |place| (place.position + 1) as f64 * self.duration_s(job, place.device_type))
        };
        places.iter().enumerate().map(cost).sum()
    }

    /// The places that scipy's `linear_sum_assignment` gives for the written-out matrix, equal costs included.
    ///
    /// Quadratic to cubic in the number of jobs, whatever the number of machines.
    #[must_use]
    pub fn exact(&self) -> Vec<Option<Place>> {
        exact::places(self)
    }

    /// Places of least cost, or near it, for many jobs. Among equals any may be chosen, but always the same.
    #[must_use]
    pub fn fast(&self) -> Placement {
        grouped::places(self)
    }
}
