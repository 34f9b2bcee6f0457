//! Policies that solve a program over jobs, pairs of jobs, and types.

use std::collections::BTreeMap;

use wharf_solver::packing::{Answer, CLASSES, Claim, Method, PIVOTS, Program};

use super::super::error::GavelError;
use super::super::settings::{Goal, Settings};
use super::super::workload::Workload;
use super::makespan::{self as search, Combination};
use super::programs::{Past, fairness_factors, isolated_speeds};
use super::{Rule, Shares, Snapshot, value};

/// A policy with a program of its own.
pub(super) struct Packed {
    goal: Goal,
    past: Past,
    fallbacks: u64,
    /// Speeds of all classes beside each other, once they are known.
    beside: Vec<f64>,
}

impl Packed {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { goal: settings.policy.goal, past: Past::default(), fallbacks: 0, beside: Vec::new() }
    }

    fn solve(&mut self, snapshot: &Snapshot<'_>, program: &Program<'_>) -> Answer {
        let workload = snapshot.workload;
        let speeds: Vec<f64> =
            snapshot.jobs.iter().flat_map(|&job| workload.speeds(job).iter().copied()).collect();
        let targets = || -> Vec<f64> {
            fairness_factors(snapshot, &speeds).into_iter().map(|factor| 1.0 / factor).collect()
        };
        match self.goal {
            Goal::WaterFilling => program.water_filling(&targets()),
            Goal::FinishTime => {
                let isolated = isolated_speeds(snapshot, &speeds);
                let claims = self.past.claims(snapshot, isolated);
                let claim = |claim: &wharf_solver::sharing::Finish| Claim {
                    remaining: claim.remaining,
                    elapsed_s: claim.elapsed_s,
                    isolated_s: claim.allowance_s,
                };
                program.finish_time(&claims.iter().map(claim).collect::<Vec<Claim>>())
            }
            Goal::Makespan => {
                let remaining: Vec<f64> = snapshot.jobs.iter().map(|&job| snapshot.remaining(job)).collect();
                program.makespan(&remaining)
            }
            _ => program.max_min(&targets()),
        }
    }
}

impl Rule for Packed {
    fn allocate(&mut self, snapshot: &Snapshot<'_>, shares: &mut Shares) -> Result<(), GavelError> {
        if snapshot.jobs.is_empty() {
            self.past.forget();
            return Ok(());
        }
        if self.goal == Goal::CostWithDeadlines {
            self.fallbacks += u64::from(!value::fill(snapshot, shares));
            return Ok(());
        }
        let workload = snapshot.workload;
        if self.beside.is_empty() {
            self.beside = beside(workload);
        }
        let width = workload.width();
        let capacities: Vec<f64> = workload.capacities.iter().map(|&count| f64::from(count)).collect();
        let kinds: Vec<usize> =
            snapshot.jobs.iter().map(|&job| workload.jobs[job as usize].class as usize).collect();
        let devices: Vec<u32> = snapshot.jobs.iter().map(|&job| snapshot.gang(job)).collect();
        let alone: Vec<f64> =
            workload.classes.iter().flat_map(|class| class.speeds.iter().copied()).collect();
        let beside = std::mem::take(&mut self.beside);
        let program = Program {
            capacities: &capacities,
            kinds: &kinds,
            devices: &devices,
            alone: &alone,
            beside: &beside,
            classes: CLASSES,
            pivots: PIVOTS,
        };
        let answer = self.solve(snapshot, &program);
        self.beside = beside;
        if self.goal == Goal::Makespan && fill_inside(snapshot, answer.objective, shares) {
            return Ok(());
        }
        self.fallbacks += u64::from(matches!(answer.method, Method::Greedy | Method::Stopped));
        for share in answer.shares {
            let value = share.share.clamp(0.0, 1.0);
            match share.partner {
                None => shares.singles[share.job * width + share.device_type] = value,
                Some(partner) => {
                    let members = [snapshot.jobs[share.job], snapshot.jobs[partner]];
                    shares.pairs.entry(members).or_insert_with(|| vec![0.0; width])[share.device_type] =
                        value;
                }
            }
        }
        Ok(())
    }

    fn fallbacks(&self) -> u64 {
        self.fallbacks
    }
}

/// Fills in shares for the makespan that the published search ends at, from inside of all that reach it.
fn fill_inside(snapshot: &Snapshot<'_>, shortest_s: f64, shares: &mut Shares) -> bool {
    /// With more jobs the matrix of a step takes too long.
    const JOBS_MAX: usize = 400;
    let (workload, jobs) = (snapshot.workload, snapshot.jobs);
    let Some(makespan_s) = search::searched(shortest_s).filter(|_| jobs.len() <= JOBS_MAX) else {
        return false;
    };
    let combinations = combinations(snapshot);
    let gangs: Vec<f64> = jobs.iter().map(|&job| f64::from(snapshot.gang(job))).collect();
    let remaining: Vec<f64> = jobs.iter().map(|&job| snapshot.remaining(job)).collect();
    let capacities: Vec<f64> = workload.capacities.iter().map(|&count| f64::from(count)).collect();
    let Some(inside) = search::shares(&combinations, &gangs, &remaining, &capacities, makespan_s) else {
        return false;
    };
    let width = workload.width();
    for (combination, row) in combinations.iter().zip(inside.chunks_exact(width)) {
        let row = row.iter().map(|share| share.clamp(0.0, 1.0));
        let [first, second] = combination.members;
        if first == second {
            shares.singles[first * width..(first + 1) * width]
                .iter_mut()
                .zip(row)
                .for_each(|(to, share)| *to = share);
        } else {
            shares.pairs.insert([jobs[first], jobs[second]], row.collect());
        }
    }
    true
}

/// Every job, and every pair of jobs with equal gangs. The published code keeps their speeds in single precision.
fn combinations(snapshot: &Snapshot<'_>) -> Vec<Combination> {
    let (workload, jobs) = (snapshot.workload, snapshot.jobs);
    let single = |speed: f64| f64::from(speed as f32);
    let mut known: BTreeMap<[u32; 2], Vec<[f64; 2]>> = BTreeMap::new();
    let mut combinations = Vec::new();
    for (index, &job) in jobs.iter().enumerate() {
        let speeds = workload.speeds(job).iter().map(|&speed| [single(speed), 0.0]).collect();
        combinations.push(Combination { members: [index, index], speeds });
        for (other, &partner) in jobs.iter().enumerate().skip(index + 1) {
            if snapshot.gang(job) == snapshot.gang(partner) {
                let classes = [job, partner].map(|job| workload.jobs[job as usize].class);
                let speeds =
                    known.entry(classes).or_insert_with(|| workload.speeds_beside(classes[0], classes[1]));
                let speeds = speeds.iter().map(|speeds| speeds.map(single)).collect();
                combinations.push(Combination { members: [index, other], speeds });
            }
        }
    }
    combinations
}

/// Steps per second of jobs of one class beside one of another, classes × classes × types.
fn beside(workload: &Workload<'_>) -> Vec<f64> {
    let classes = 0..workload.classes.len() as u32;
    let mut speeds = Vec::new();
    for first in classes.clone() {
        for second in classes.clone() {
            let is_pair = workload.classes[first as usize].gang == workload.classes[second as usize].gang;
            if is_pair {
                speeds.extend(workload.speeds_beside(first, second).iter().map(|speeds| speeds[0]));
            } else {
                speeds.resize(speeds.len() + workload.width(), 0.0);
            }
        }
    }
    speeds
}
