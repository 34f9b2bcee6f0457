//! Finish-time fairness, after Themis.
//!
//! A job's ratio is ρ = T_shared / T_independent: how long it took, against how long it would have taken
//! alone on its fair share of the cluster. T_shared is its completion time. For T_independent, let n be the
//! mean number of jobs in the system (submitted, not done, itself included) from its submission to its end,
//! and D the cluster's devices. Its fair share is D / n devices; where the g devices it asks for are more
//! than that, it would run slower in proportion:
//!
//! T_independent = solo time × max(1, g × n / D)
//!
//! ρ ≤ 1 means that sharing cost the job nothing; ρ = 2 that it took twice as long as its fair share
//! promised. Two simplifications: n is a mean over the job's stay, where Themis projects from each moment,
//! and speed is taken as proportional to devices.

use serde::{Deserialize, Serialize};
use wharf_core::JobSpec;
use wharf_outcome::{JobRecord, Outcome};

use crate::stats;

/// A job that ran undisturbed can miss 1 by the rounding of its end time; that is not unfair.
const ROUNDING: f64 = 1e-6;

/// Finish-time fairness over the jobs that have a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fairness {
    /// Jobs with a ratio.
    pub jobs: u64,
    /// The worst ratio.
    pub rho_max: f64,
    /// The mean ratio.
    pub rho_mean: f64,
    /// The share of jobs with a ratio above 1 (by more than one part in a million, which is rounding).
    pub unfair_share: f64,
    /// Jain's index of the ratios: 1 where all jobs fare alike.
    pub jain: f64,
}

impl Fairness {
    /// Sums up ratios as [`finish_time_ratios`] gives them; `None` where no job has one.
    pub fn new(ratios: &[Option<f64>]) -> Option<Self> {
        let known: Vec<f64> = ratios.iter().flatten().copied().collect();
        let unfair = known.iter().filter(|&&ratio| ratio > 1.0 + ROUNDING).count();
        Some(Self {
            jobs: known.len() as u64,
            rho_max: known.iter().copied().max_by(f64::total_cmp)?,
            rho_mean: stats::mean(&known)?,
            unfair_share: unfair as f64 / known.len() as f64,
            jain: stats::jain_index(&known)?,
        })
    }
}

/// Each job's ρ, by position in the outcome; `None` for jobs that do not count, are not done or have no solo time.
pub fn finish_time_ratios(specs: &[JobSpec], outcome: &Outcome) -> Vec<Option<f64>> {
    let presence = Presence::new(&outcome.jobs);
    let device_count = f64::from(outcome.device_count.max(1));
    let ratio = |job: &JobRecord| {
        let (end_s, jct_s) = (job.end?.seconds(), job.jct_s()?);
        let solo_s = specs.get(job.job.index())?.solo_s();
        let present_mean = presence.mean(job.submit.seconds(), end_s);
        let independent_s = solo_s * (f64::from(job.devices) * present_mean / device_count).max(1.0);
        if independent_s > 0.0 { stats::finite(jct_s / independent_s) } else { None }
    };
    outcome.jobs.iter().map(|job| ratio(job).filter(|_| outcome.counts(job))).collect()
}

/// How many jobs were in the system, as a step function with its integral.
struct Presence {
    /// `(time, integral up to it, jobs from it on)`, ascending.
    steps: Vec<(f64, f64, f64)>,
}

impl Presence {
    fn new(jobs: &[JobRecord]) -> Self {
        let arrivals = jobs.iter().map(|job| (job.submit.seconds(), 1.0));
        let departures = jobs.iter().filter_map(|job| Some((job.end?.seconds(), -1.0)));
        let mut changes: Vec<(f64, f64)> = arrivals.chain(departures).collect();
        changes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut steps: Vec<(f64, f64, f64)> = Vec::with_capacity(changes.len());
        for (time, change) in changes {
            let (before, integral, count) = steps.last().copied().unwrap_or((time, 0.0, 0.0));
            steps.push((time, integral + count * (time - before), count + change));
        }
        Self { steps }
    }

    fn integral(&self, time: f64) -> f64 {
        let after = self.steps.partition_point(|step| step.0 <= time);
        let step = after.checked_sub(1).and_then(|index| self.steps.get(index));
        step.map_or(0.0, |&(start, integral, count)| integral + count * (time - start))
    }

    /// The mean from `start` to `end`; at least one, because the job that asks is there itself.
    fn mean(&self, start: f64, end: f64) -> f64 {
        if end > start { ((self.integral(end) - self.integral(start)) / (end - start)).max(1.0) } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn ratios_of_four_jobs_by_hand() {
        // In the system: 2 from 10, 2 from 20 (one left, one came), 3 from 30, 2 from 50, 1 from 90.
        // alpha: n = 2,                     share 4/2 = 2 ≥ 1 device:   10 / 10
        // beta:  n = (20×2 + 20×3)/40 = 2.5, 2 × 2.5 / 4 = 1.25:        40 / 25
        // gamma: n = (10×2 + 20×3 + 40×2)/70 = 16/7, 2 × 16/7 / 4 = 8/7: 70 / (40 × 8/7)
        let ratios = finish_time_ratios(&fixture::specs(), &fixture::outcome());
        for (ratio, expected) in ratios.iter().zip([Some(1.0), Some(1.6), Some(1.53125), None]) {
            assert!(
                (ratio.unwrap_or(-1.0) - expected.unwrap_or(-1.0)).abs() < 1e-12,
                "{ratio:?} {expected:?}"
            );
        }
        let fairness = Fairness::new(&ratios).unwrap();
        assert_eq!((fairness.jobs, fairness.rho_max, fairness.unfair_share), (3, 1.6, 2.0 / 3.0));
        assert!((fairness.rho_mean - 4.13125 / 3.0).abs() < 1e-12);
        assert!(
            (fairness.jain - 4.13125_f64.powi(2) / (3.0 * (1.0 + 2.56 + 1.53125_f64.powi(2)))).abs() < 1e-12
        );
    }

    #[test]
    fn ratios_of_nothing_are_none() {
        assert_eq!(Fairness::new(&finish_time_ratios(&[], &fixture::empty_outcome())), None);
        assert_eq!(finish_time_ratios(&[], &fixture::outcome()), [None; 4]);
    }
}
