//! The one program that all others are made of, in numbers that are near one.

use super::Program;

/// Maximise `Σ value × x + gain × level` over shares `x` with, for each job, `rate ≥ floor + slope × level`.
///
/// Only types with capacity and jobs that can run are in it. Speeds are divided by the job's fastest, floors and slopes
/// likewise.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) types: usize,
    /// Index in the caller's program.
    pub(super) job_of: Vec<usize>,
    pub(super) type_of: Vec<usize>,
    pub(super) capacities: Vec<f64>,
    pub(super) devices: Vec<f64>,
    /// Row-major, as are `values`.
    pub(super) speeds: Vec<f64>,
    pub(super) fastest: Vec<f64>,
    pub(super) values: Vec<f64>,
    pub(super) floors: Vec<f64>,
    pub(super) slopes: Vec<f64>,
    pub(super) gain: f64,
}

/// Numbers that are not finite or negative are zero.
pub(super) fn clean(number: f64) -> f64 {
    if number.is_finite() && number > 0.0 { number } else { 0.0 }
}

impl Model {
    /// The shares' part of a program, without anything to make best.
    pub(super) fn new(program: &Program<'_>) -> Self {
        let all_types = program.capacities.len();
        let type_of: Vec<usize> = (0..all_types).filter(|&j| clean(program.capacities[j]) > 0.0).collect();
        let types = type_of.len();
        let capacities = type_of.iter().map(|&j| program.capacities[j]).collect();
        let mut model = Self { types, type_of, capacities, ..Self::default() };
        if types == 0 {
            return model;
        }
        for (job, row) in program.speeds.chunks_exact(all_types).enumerate() {
            let Some(&devices) = program.devices.get(job) else { break };
            let speed = |j: &usize| clean(row[*j]);
            let fastest = model.type_of.iter().map(speed).fold(0.0, f64::max);
            if fastest > 0.0 && devices.is_finite() && devices >= 0.0 {
                model.job_of.push(job);
                model.devices.push(devices);
                model.fastest.push(fastest);
                model.speeds.extend(model.type_of.iter().map(|j| speed(j) / fastest));
            }
        }
        let jobs = model.job_of.len();
        model.values = vec![0.0; jobs * types];
        model.floors = vec![0.0; jobs];
        model.slopes = vec![0.0; jobs];
        model
    }

    pub(super) fn jobs(&self) -> usize {
        self.job_of.len()
    }

    /// Whether a job's rate has a lower bound.
    pub(super) fn demands(&self, job: usize) -> bool {
        self.slopes[job] > 0.0 || self.floors[job] > 0.0
    }

    /// Whether anything is to be made best, or any shares will do.
    pub(super) fn has_objective(&self) -> bool {
        self.gain > 0.0 || self.values.iter().any(|&value| value != 0.0)
    }

    /// Pairs of a variable and its multiplier.
    pub(super) fn pairs(&self) -> usize {
        let cells = self.speeds.iter().filter(|&&speed| speed > 0.0).count();
        let demands = (0..self.jobs()).filter(|&job| self.demands(job)).count();
        cells + self.jobs() + demands + self.types
    }

    /// The largest level that rates allow.
    pub(super) fn level(&self, rates: &[f64]) -> f64 {
        let limited = (0..self.jobs()).filter(|&i| self.slopes[i] > 0.0);
        limited.map(|i| (rates[i] - self.floors[i]) / self.slopes[i]).fold(f64::INFINITY, f64::min)
    }

    /// Rate of a job that has the cluster for itself, in units of its fastest speed.
    pub(super) fn rate_alone(&self, job: usize) -> f64 {
        self.rate_alone_on(job, &[])
    }

    /// Rate of a job that has all types for itself that are not closed.
    pub(super) fn rate_alone_on(&self, job: usize, closed: &[bool]) -> f64 {
        let row = &self.speeds[job * self.types..][..self.types];
        let mut order: Vec<usize> = (0..self.types).filter(|&j| closed.get(j) != Some(&true)).collect();
        order.sort_by(|&one, &other| row[other].total_cmp(&row[one]));
        let (mut time, mut rate) = (1.0, 0.0);
        for j in order {
            let share = (self.capacities[j] / self.devices[job]).min(time);
            time -= share;
            rate += share * row[j];
        }
        rate
    }

    /// What each job's rate (in units of its fastest speed) is multiplied with; zero for jobs that do not count.
    pub(super) fn targets(&self, numbers: &[f64], target: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        let number = |&job: &usize| numbers.get(job).copied().map_or(0.0, clean);
        let jobs = self.job_of.iter().zip(&self.fastest).map(|(job, &fastest)| (number(job), fastest));
        jobs.map(|(number, fastest)| if number > 0.0 { clean(target(number, fastest)) } else { 0.0 })
            .collect()
    }

    /// Rate of each job, in units of its fastest speed.
    pub(super) fn rates(&self, shares: &[f64]) -> Vec<f64> {
        shares
            .chunks_exact(self.types.max(1))
            .zip(self.speeds.chunks_exact(self.types.max(1)))
            .map(|(x, a)| x.iter().zip(a).map(|(x, a)| x * a).sum())
            .collect()
    }

    /// Shares in the caller's order, with zeros for all that is left out.
    pub(super) fn spread(&self, program: &Program<'_>, shares: &[f64]) -> Vec<f64> {
        let all_types = program.capacities.len();
        let mut values = vec![0.0; program.devices.len() * all_types];
        for (row, &job) in shares.chunks_exact(self.types.max(1)).zip(&self.job_of) {
            for (&share, &j) in row.iter().zip(&self.type_of) {
                values[job * all_types + j] = share;
            }
        }
        values
    }

    /// Makes shares that break a constraint by a rounding error keep it.
    pub(super) fn repair(&self, shares: &mut [f64]) {
        let mut used = vec![0.0; self.types];
        for (job, row) in shares.chunks_exact_mut(self.types.max(1)).enumerate() {
            for (share, &speed) in row.iter_mut().zip(&self.speeds[job * self.types..]) {
                *share = if speed > 0.0 { clean(*share) } else { 0.0 };
            }
            let sum: f64 = row.iter().sum();
            for (share, used) in row.iter_mut().zip(&mut used) {
                *share /= sum.max(1.0);
                *used += self.devices[job] * *share;
            }
        }
        for (j, used) in used.iter().enumerate() {
            if *used > self.capacities[j] {
                let scale = self.capacities[j] / used;
                shares.iter_mut().skip(j).step_by(self.types).for_each(|share| *share *= scale);
            }
        }
    }

    /// Shares by capacity, as if every job had its own part of every type: neither best nor worst for any job.
    pub(super) fn even(&self) -> Vec<f64> {
        let occupied: f64 = self.devices.iter().sum();
        let all: f64 = self.capacities.iter().sum();
        let part = |j: usize| self.capacities[j] / occupied.max(all);
        let mut shares: Vec<f64> =
            (0..self.jobs() * self.types).map(|cell| part(cell % self.types)).collect();
        self.repair(&mut shares);
        shares
    }
}
