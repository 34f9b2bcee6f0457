//! What an allocator is asked, and what it answers.

use std::sync::Arc;

use wharf_core::{JobId, JobSpec, PerfModel, Topology};

/// One job's part of a problem.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The job.
    pub job: JobId,
    /// Devices of its gang.
    pub devices: u32,
    /// What it should get in relation to others.
    pub weight: f64,
    /// Whose it is.
    pub user: Option<Arc<str>>,
    /// Seconds since it was submitted.
    pub elapsed_s: f64,
    /// Iterations left; 0 to an allocator that is not entitled to know.
    pub remaining: f64,
    /// Seconds until it should be done, where it has a deadline.
    pub left_s: Option<f64>,
    /// The type of the devices that it has.
    pub running_on: Option<usize>,
    /// The job that shares them.
    pub partner: Option<JobId>,
}

/// All jobs that want a part of the cluster, and how fast each would be where.
pub struct Problem<'a> {
    /// Usable devices of each type.
    pub capacities: Vec<f64>,
    /// What an hour of one device of each type costs; 1 if not all prices are known.
    pub prices: Vec<f64>,
    /// Whether running jobs may be moved to other types.
    pub is_moving: bool,
    /// The jobs, by id. Each can run somewhere.
    pub claims: Vec<Claim>,
    /// Iterations per second of each job on each type, row by row; 0 where it cannot run.
    pub speeds: Vec<f64>,
    /// What states how fast pairs are.
    pub pairs: Pairs<'a>,
}

/// How fast two jobs are that share their devices.
pub struct Pairs<'a> {
    pub(super) topology: &'a Topology,
    pub(super) perf: &'a dyn PerfModel,
    pub(super) specs: Vec<&'a JobSpec>,
}

impl Pairs<'_> {
    /// Iterations per second of the claims at two positions, on the same devices of a type.
    pub fn speeds(&self, first: usize, second: usize, device_type: usize) -> [f64; 2] {
        let kind = wharf_core::DeviceTypeId::from_index(device_type);
        let (a, b) = (self.specs[first], self.specs[second]);
        let speed = |own: &JobSpec, other: &JobSpec| {
            self.perf.speed(self.topology, own, kind, own.gang.devices, &[other])
        };
        [speed(a, b), speed(b, a)]
    }

    /// The names of the device types.
    pub fn type_names(&self) -> &[Arc<str>] {
        self.topology.types()
    }

    /// What a claim trains, as far as speed depends on it: equal ones are equally fast beside equal ones.
    pub fn spec(&self, position: usize) -> &JobSpec {
        self.specs[position]
    }
}

impl Problem<'_> {
    /// How many device types there are.
    pub fn types(&self) -> usize {
        self.capacities.len()
    }

    /// One job's speeds.
    pub fn row(&self, position: usize) -> &[f64] {
        &self.speeds[position * self.types()..(position + 1) * self.types()]
    }

    /// Whether two jobs may share devices: equally many, and nothing asked of the nodes beside them, because processors and
    /// memory are not shared.
    pub fn can_pair(&self, first: usize, second: usize) -> bool {
        let has_needs = |position: usize| self.pairs.specs[position].gang.needs.is_some();
        self.claims[first].devices == self.claims[second].devices && !has_needs(first) && !has_needs(second)
    }

    /// The gangs, for solvers.
    pub fn devices(&self) -> Vec<f64> {
        self.claims.iter().map(|claim| f64::from(claim.devices)).collect()
    }

    /// Speeds of the same jobs to an allocator that does not know how devices differ: its best, wherever it can run.
    pub fn blind_speeds(&self) -> Vec<f64> {
        let mut speeds = self.speeds.clone();
        for row in speeds.chunks_mut(self.types().max(1)) {
            let best = row.iter().copied().fold(0.0, f64::max);
            row.iter_mut().filter(|speed| **speed > 0.0).for_each(|speed| *speed = best);
        }
        speeds
    }
}

/// A job by itself, or two that share their devices; the second is the larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Combo {
    /// The job, or the first of two.
    pub first: JobId,
    /// The other.
    pub second: Option<JobId>,
}

impl Combo {
    /// A job by itself.
    pub fn single(job: JobId) -> Self {
        Self { first: job, second: None }
    }

    /// Two jobs.
    pub fn pair(a: JobId, b: JobId) -> Self {
        Self { first: a.min(b), second: Some(a.max(b)) }
    }

    /// Its jobs, ascending.
    pub fn jobs(self) -> impl Iterator<Item = JobId> {
        std::iter::once(self.first).chain(self.second)
    }
}

/// Which part of the time who is to have devices of which type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocation {
    /// Shares of time, by combination; for each device type one, none below 0.
    pub shares: Vec<(Combo, Vec<f64>)>,
    /// The approximation that had to do, where the exact answer would have taken too long.
    pub fallback: Option<&'static str>,
}

impl Allocation {
    /// Shares of the jobs by themselves, from a solver's rows.
    pub fn of_rows(problem: &Problem<'_>, rows: &[f64]) -> Self {
        let types = problem.types();
        let share = |(claim, row): (&Claim, &[f64])| (Combo::single(claim.job), row.to_vec());
        let shares = problem.claims.iter().zip(rows.chunks(types.max(1))).map(share).collect();
        Self { shares, fallback: None }
    }

    /// Claims that get a whole device type each, or nothing yet.
    pub fn of_types(problem: &Problem<'_>, types: &[Option<usize>]) -> Self {
        let mut rows = vec![0.0; problem.speeds.len()];
        for (position, kind) in types.iter().enumerate() {
            if let Some(kind) = kind {
                rows[position * problem.types() + kind] = 1.0;
            }
        }
        Self::of_rows(problem, &rows)
    }
}
