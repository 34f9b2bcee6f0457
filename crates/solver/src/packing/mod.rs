//! Shares of time for jobs that may run two to a device.
//!
//! A job runs alone or beside one other job of equally many devices, on one of a few device types. A combination (a
//! job or a pair, with a type) has a share of time; the shares of a job's combinations add up to at most one, and the devices of
//! a type are not exceeded. What is wanted is that the worst-off job is as well off as possible, by one of four measures: see
//! [`Program::max_min`], [`Program::makespan`], [`Program::finish_time`] and [`Program::water_filling`].
//!
//! Written out, `n` jobs have `n (n + 1) / 2` combinations per type. But jobs are of few kinds, and only kinds have
//! speeds, so this works on classes of jobs of one kind.

mod classes;
mod greedy;
mod level;
mod parts;
mod simplex;
mod solve;
mod spread;

use solve::Aim;

/// What there is to share, and between whom.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// Devices of each type.
    pub capacities: &'a [f64],
    /// The kind of each job. Jobs of one kind have equal speeds, so a kind is a workload with a number of devices.
    pub kinds: &'a [usize],
    /// Devices of each job. Only jobs with equally many can be a pair.
    pub devices: &'a [u32],
    /// Iterations per second of a job alone, kinds × types. Zero means that it does not run there.
    pub alone: &'a [f64],
    /// Iterations per second of a job of the first kind beside one of the second, kinds × kinds × types. Zero (of
    /// either) means that they do not run together.
    pub beside: &'a [f64],
    /// So many classes of equal jobs are distinguished; if there are more, similar ones are merged. [`CLASSES`] is a good
    /// compromise.
    pub classes: usize,
    /// Work limit: pivots of the simplex method. [`PIVOTS`] is plenty.
    pub pivots: usize,
}

/// With so many classes a program takes tens of milliseconds. With one class per kind 0.12 % of a makespan was lost in
/// one measurement of 256 jobs, with two nothing that could be measured.
pub const CLASSES: usize = 64;

/// A work limit that ordinary programs stay far below.
pub const PIVOTS: usize = 20_000;

/// The share of time of one combination.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Index of the job.
    pub job: usize,
    /// Index of the job beside it, which is larger.
    pub partner: Option<usize>,
    /// Index of the type.
    pub device_type: usize,
    /// Fraction of time, above zero.
    pub share: f64,
}

/// How shares were found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Method {
    /// No shares are better.
    Exact,
    /// Jobs of one kind whose demands differ were merged into a few classes. Only pairs within a class lose by that: they
    /// are spread evenly over its jobs.
    Merged,
    /// There are so many kinds that jobs and devices were dealt out to this many parts, each solved by itself
    /// (POP: Narayanan et al., SOSP 2021).
    Parts(usize),
    /// The work limit ended water-filling: the smallest ratio is the best possible, but others may not be.
    Stopped,
    /// The work limit was reached, so every job has its equal share of the devices, without pairs.
    Greedy,
}

/// Shares, and how good they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Combinations with a share, ordered by job, partner and type.
    pub shares: Vec<Share>,
    /// The value of the measure for these shares; zero for programs in which no job can run.
    pub objective: f64,
    /// How they were found.
    pub method: Method,
    /// Jobs without a speed anywhere, or whose demand is not a number. The measure leaves them out.
    pub stranded: Vec<usize>,
    /// Pivots that were made.
    pub pivots: usize,
}

/// What finish-time fairness must know about a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// Iterations left.
    pub remaining: f64,
    /// Seconds since it arrived.
    pub elapsed_s: f64,
    /// Seconds it would take from arrival to end with a cluster of its own share: what its time is compared with.
    pub isolated_s: f64,
}

/// The iterations per second that a job needs to reach a level, as a function of the level: convex and increasing.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Demand {
    /// Needed at any level.
    fixed: f64,
    /// `amount × level / (1 - elapsed × level)` is needed on top.
    amount: f64,
    elapsed: f64,
}

impl Demand {
    const fn linear(amount: f64) -> Self {
        Self { fixed: 0.0, amount, elapsed: 0.0 }
    }

    /// Iterations per second for a level, infinite where no speed is enough.
    fn at(&self, level: f64) -> f64 {
        let left = 1.0 - self.elapsed * level;
        if self.amount <= 0.0 {
            self.fixed
        } else if left > 0.0 {
            self.fixed + self.amount * level / left
        } else {
            f64::INFINITY
        }
    }

    /// How fast that rises.
    fn slope(&self, level: f64) -> f64 {
        self.amount / (1.0 - self.elapsed * level).powi(2)
    }

    /// Where the tangent at a level begins; without rounding for linear demands.
    fn intercept(&self, level: f64) -> f64 {
        self.fixed - self.slope(level) * self.elapsed * level * level
    }

    /// The highest level that a speed reaches.
    fn reached(&self, speed: f64) -> f64 {
        let free = (speed - self.fixed).max(0.0);
        if self.amount <= 0.0 { f64::INFINITY } else { free / (self.amount + self.elapsed * free) }
    }
}

impl Program<'_> {
    /// Makes the smallest of throughput over target as large as possible: the objective is that ratio.
    #[must_use]
    pub fn max_min(&self, targets: &[f64]) -> Answer {
        let demands: Vec<Demand> = targets.iter().map(|&target| Demand::linear(target)).collect();
        solve::answer(self, &demands, Aim::Highest)
    }

    /// Makes the time until the last job ends as short as possible, with shares that never change: the objective is
    /// that time in seconds.
    #[must_use]
    pub fn makespan(&self, remaining: &[f64]) -> Answer {
        let answer = self.max_min(remaining);
        Answer { objective: inverse(answer.objective), ..answer }
    }

    /// Makes the largest of (elapsed + remaining / throughput) / isolated as small as possible: the objective is that
    /// ratio.
    #[must_use]
    pub fn finish_time(&self, claims: &[Claim]) -> Answer {
        // A ratio of at most 1 / level takes remaining / (isolated / level - elapsed) iterations per second.
        let demand = |claim: &Claim| Demand {
            fixed: 0.0,
            amount: claim.remaining / claim.isolated_s,
            elapsed: claim.elapsed_s / claim.isolated_s,
        };
        let answer = solve::answer(self, &claims.iter().map(demand).collect::<Vec<Demand>>(), Aim::Highest);
        Answer { objective: inverse(answer.objective), ..answer }
    }

    /// As [`Self::max_min`], then among those shares the ones that make the second-smallest ratio largest, and so on:
    /// the objective is still the smallest ratio.
    #[must_use]
    pub fn water_filling(&self, targets: &[f64]) -> Answer {
        let demands: Vec<Demand> = targets.iter().map(|&target| Demand::linear(target)).collect();
        solve::answer(self, &demands, Aim::Fill)
    }

    /// Iterations per second of every job.
    #[must_use]
    pub fn throughputs(&self, shares: &[Share]) -> Vec<f64> {
        let mut throughputs = vec![0.0; self.kinds.len()];
        for share in shares {
            let kind = self.kinds[share.job];
            match share.partner {
                None => throughputs[share.job] += share.share * self.speed(kind, share.device_type),
                Some(partner) => {
                    let other = self.kinds[partner];
                    throughputs[share.job] += share.share * self.speed_beside(kind, other, share.device_type);
                    throughputs[partner] += share.share * self.speed_beside(other, kind, share.device_type);
                }
            }
        }
        throughputs
    }

    fn types(&self) -> usize {
        self.capacities.len()
    }

    fn kind_count(&self) -> usize {
        if self.types() == 0 { 0 } else { self.alone.len() / self.types() }
    }

    /// Speeds that are not numbers count as none.
    fn speed(&self, kind: usize, device_type: usize) -> f64 {
        speed_or_none(self.alone.get(kind * self.types() + device_type))
    }

    fn speed_beside(&self, kind: usize, other: usize, device_type: usize) -> f64 {
        let kinds = self.kind_count();
        let index =
            (kind < kinds && other < kinds).then(|| (kind * kinds + other) * self.types() + device_type);
        speed_or_none(index.and_then(|index| self.beside.get(index)))
    }
}

fn speed_or_none(speed: Option<&f64>) -> f64 {
    speed.copied().filter(|speed| speed.is_finite() && *speed > 0.0).unwrap_or(0.0)
}

/// A level as a time or ratio, which is the smaller the better.
fn inverse(level: f64) -> f64 {
    if level > 0.0 { 1.0 / level } else { 0.0 }
}
