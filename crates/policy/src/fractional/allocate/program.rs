//! Allocators that solve a program: throughput, time or fairness is optimized.

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_core::{JobId, Knowledge};
use wharf_solver::sharing::{self, Finish, Shares};

use super::packed;
use crate::fractional::{Allocation, Allocator, Claim, Problem};

/// What is made as good as it can be.
#[derive(Clone, Debug)]
pub enum Measure {
    /// The throughput of the job that is worst off, compared with an equal share of the cluster.
    MaxMin,
    /// The same, then that of the next, and so on.
    WaterFilling,
    /// The time that jobs take from submission to end, compared with an equal share of the cluster all the while.
    FinishTime(History),
    /// The time until the last job is done.
    Makespan,
    /// The sum of all throughputs.
    Sum {
        /// Whether iterations on expensive devices count for less.
        by_price: bool,
        /// Whether jobs with deadlines get what they need to be done in time.
        with_deadlines: bool,
    },
}

/// What is known of the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// All are taken to be alike.
    Blind,
    /// How fast each job is on each type.
    Types,
    /// Also how fast jobs are that share devices.
    Pairs,
}

/// Whose shares are to be fair.
#[derive(Clone, Debug, Default)]
pub struct Fairness {
    /// Whether users are equals, however many jobs they have.
    pub by_user: bool,
    /// What users are to get in relation to each other; 1 for those who are not named.
    pub weights: BTreeMap<String, f64>,
}

impl Fairness {
    /// What each job should get in relation to others.
    fn of(&self, claims: &[Claim]) -> Vec<f64> {
        if !self.by_user {
            return claims.iter().map(|claim| claim.weight).collect();
        }
        let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
        let user = |claim: &'_ Claim| claim.user.clone().unwrap_or_default();
        let users: Vec<Arc<str>> = claims.iter().map(user).collect();
        for (claim, user) in claims.iter().zip(&users) {
            *sums.entry(user).or_default() += claim.weight;
        }
        let weight = |user: &str| self.weights.get(user).copied().unwrap_or(1.0);
        claims.iter().zip(&users).map(|(claim, user)| weight(user) * claim.weight / sums[&**user]).collect()
    }
}

/// How far jobs would be with an equal share of the cluster.
#[derive(Clone, Debug, Default)]
pub struct History {
    jobs: BTreeMap<JobId, Progress>,
}

#[derive(Clone, Copy, Debug)]
struct Progress {
    /// Seconds that its work so far would have taken with an equal share.
    isolated_s: f64,
    remaining: f64,
    isolated_speed: f64,
}

impl History {
    /// For each claim, the seconds from submission to end that its time is compared with.
    fn allowances(&mut self, problem: &Problem<'_>, speeds: &[f64]) -> Vec<f64> {
        let types = problem.types();
        let mut jobs = BTreeMap::new();
        let mut allowances = Vec::with_capacity(problem.claims.len());
        for (position, claim) in problem.claims.iter().enumerate() {
            let row = &speeds[position * types..(position + 1) * types];
            let shares =
                super::equal_split(&problem.capacities, problem.claims.len(), claim.devices, |kind| {
                    row[kind] > 0.0
                });
            let isolated_speed: f64 = row.iter().zip(&shares).map(|(speed, share)| speed * share).sum();
            let before = self.jobs.get(&claim.job);
            let passed_s = before.map_or(0.0, |before| {
                let done = (before.remaining - claim.remaining).max(0.0);
                before.isolated_s + done / before.isolated_speed.max(f64::MIN_POSITIVE)
            });
            let left_s = claim.remaining / isolated_speed.max(f64::MIN_POSITIVE);
            allowances.push((passed_s + left_s).max(f64::MIN_POSITIVE));
            jobs.insert(
                claim.job,
                Progress { isolated_s: passed_s, remaining: claim.remaining, isolated_speed },
            );
        }
        self.jobs = jobs;
        allowances
    }
}

/// An allocator that solves a program.
#[derive(Clone, Debug)]
pub struct Optimal {
    /// What is made as good as it can be.
    pub measure: Measure,
    /// What it knows.
    pub sight: Sight,
    /// Whose shares are to be fair.
    pub fairness: Fairness,
}

/// A claim's throughput with an equal part of the time on each type, by which throughputs are compared.
pub(super) fn proportional(problem: &Problem<'_>, speeds: &[f64]) -> Vec<f64> {
    let total: f64 = problem.capacities.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let rows = speeds.chunks(problem.types().max(1));
    rows.map(|row| row.iter().zip(&problem.capacities).map(|(speed, room)| speed * room / total).sum())
        .collect()
}

impl Optimal {
    fn speeds(&self, problem: &Problem<'_>) -> Vec<f64> {
        match (self.sight, &self.measure) {
            (Sight::Types | Sight::Pairs, _) => problem.speeds.clone(),
            // To a fair share all devices are worth the same, whatever the job.
            (Sight::Blind, Measure::MaxMin | Measure::WaterFilling) => {
                problem.speeds.iter().map(|&speed| if speed > 0.0 { 1.0 } else { 0.0 }).collect()
            }
            (Sight::Blind, _) => problem.blind_speeds(),
        }
    }

    /// Throughputs of jobs that are equally well off.
    fn targets(&self, problem: &Problem<'_>, speeds: &[f64]) -> Vec<f64> {
        let weights = self.fairness.of(&problem.claims);
        let norms = proportional(problem, speeds);
        let claims = problem.claims.iter().zip(weights).zip(norms);
        claims.map(|((claim, weight), norm)| weight * norm / f64::from(claim.devices.max(1))).collect()
    }

    fn solve(&mut self, problem: &Problem<'_>, speeds: &[f64]) -> Shares {
        let devices = problem.devices();
        let program = sharing::Program { capacities: &problem.capacities, devices: &devices, speeds };
        let remaining: Vec<f64> = problem.claims.iter().map(|claim| claim.remaining).collect();
        let factors = |targets: Vec<f64>| -> Vec<f64> {
            targets.into_iter().map(|target| if target > 0.0 { 1.0 / target } else { 0.0 }).collect()
        };
        match &mut self.measure {
            Measure::MaxMin => sharing::max_min(&program, &factors(self.targets(problem, speeds))),
            Measure::WaterFilling => {
                sharing::water_filling(&program, &factors(self.targets(problem, speeds)))
            }
            Measure::Makespan => sharing::makespan(&program, &remaining),
            Measure::FinishTime(history) => {
                let allowances = history.allowances(problem, speeds);
                let claims = problem.claims.iter().zip(allowances);
                let finish = |(claim, allowance_s): (&Claim, f64)| Finish {
                    elapsed_s: claim.elapsed_s,
                    remaining: claim.remaining,
                    allowance_s,
                };
                sharing::finish_time(&program, &claims.map(finish).collect::<Vec<_>>())
            }
            Measure::Sum { by_price, with_deadlines } => {
                let price =
                    |cell: usize| if *by_price { problem.prices[cell % problem.types()] } else { 1.0 };
                let values: Vec<f64> =
                    speeds.iter().enumerate().map(|(cell, speed)| speed / price(cell)).collect();
                let demand = |claim: &Claim| match claim.left_s {
                    Some(left_s) if left_s > 0.0 => claim.remaining / left_s,
                    _ => 0.0,
                };
                let demands: Option<Vec<f64>> =
                    with_deadlines.then(|| problem.claims.iter().map(demand).collect());
                sharing::max_sum(&program, &values, demands.as_deref())
            }
        }
    }

    fn solve_packed(&mut self, problem: &Problem<'_>) -> Allocation {
        let targets = self.targets(problem, &problem.speeds);
        let allowances = match &mut self.measure {
            Measure::FinishTime(history) => history.allowances(problem, &problem.speeds),
            _ => Vec::new(),
        };
        packed::solve(problem, &self.measure, &targets, &allowances)
    }
}

impl Allocator for Optimal {
    fn knowledge(&self) -> Knowledge {
        match &self.measure {
            Measure::MaxMin | Measure::WaterFilling => Knowledge::Attained,
            Measure::Sum { with_deadlines: false, .. } => Knowledge::Attained,
            Measure::FinishTime(_) | Measure::Makespan | Measure::Sum { .. } => Knowledge::Durations,
        }
    }

    fn allocate(&mut self, problem: &Problem<'_>) -> Allocation {
        if self.sight == Sight::Pairs {
            return self.solve_packed(problem);
        }
        let speeds = self.speeds(problem);
        let shares = self.solve(problem, &speeds);
        Allocation { fallback: shares.fallback, ..Allocation::of_rows(problem, &shares.values) }
    }
}
