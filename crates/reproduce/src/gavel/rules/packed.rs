//! Policies that solve a program over jobs, pairs of jobs, and types.

use std::collections::BTreeMap;

use wharf_solver::packing::{Answer, CLASSES, Claim, Method, PIVOTS, Program};
use wharf_solver::sharing::Finish;

use super::super::error::GavelError;
use super::super::settings::{Goal, Settings};
use super::super::workload::Workload;
use super::makespan::{self as search, Combination, Group};
use super::programs::{Past, fairness_factors, isolated_speeds};
use super::{Rule, Shares, Snapshot, value};

/// A policy with a program of its own.
pub(super) struct Packed {
    goal: Goal,
    is_inside: bool,
    past: Past,
    fallbacks: u64,
    /// Speeds of all classes beside each other, once they are known.
    beside: Vec<f64>,
}

impl Packed {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            goal: settings.policy.goal,
            is_inside: settings.is_inside,
            past: Past::default(),
            fallbacks: 0,
            beside: Vec::new(),
        }
    }

    /// The best answer, and the speeds that every job must have for shares to be as good.
    fn solve(&mut self, snapshot: &Snapshot<'_>, program: &Program<'_>) -> (Answer, Option<Vec<f64>>) {
        let workload = snapshot.workload;
        let speeds: Vec<f64> =
            snapshot.jobs.iter().flat_map(|&job| workload.speeds(job).iter().copied()).collect();
        let targets: Vec<f64> =
            fairness_factors(snapshot, &speeds).into_iter().map(|factor| 1.0 / factor).collect();
        match self.goal {
            Goal::WaterFilling => {
                let answer = program.water_filling(&targets);
                let needed = program.throughputs(&answer.shares);
                (answer, Some(needed.into_iter().map(|speed| speed * (1.0 - GIVEN_UP)).collect()))
            }
            Goal::FinishTime => {
                let isolated = isolated_speeds(snapshot, &speeds);
                let claims = self.past.claims(snapshot, isolated);
                let claim = |claim: &Finish| Claim {
                    remaining: claim.remaining,
                    elapsed_s: claim.elapsed_s,
                    isolated_s: claim.allowance_s,
                };
                let answer = program.finish_time(&claims.iter().map(claim).collect::<Vec<Claim>>());
                let worst = answer.objective * (1.0 + GIVEN_UP);
                let speed = |claim: &Finish| claim.remaining / (worst * claim.allowance_s - claim.elapsed_s);
                (answer, Some(claims.iter().map(speed).collect()))
            }
            Goal::Makespan => {
                let remaining: Vec<f64> = snapshot.jobs.iter().map(|&job| snapshot.remaining(job)).collect();
                let answer = program.makespan(&remaining);
                let makespan_s = search::searched(answer.objective);
                let needed =
                    makespan_s.map(|makespan_s| remaining.iter().map(|left| left / makespan_s).collect());
                (answer, needed)
            }
            _ => {
                let answer = program.max_min(&targets);
                let least = answer.objective * (1.0 - GIVEN_UP);
                (answer, Some(targets.iter().map(|target| target * least).collect()))
            }
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
        let (answer, needed) = self.solve(snapshot, &program);
        let needed = needed.filter(|needed| self.is_inside && needed.iter().all(|speed| *speed > 0.0));
        let is_filled = needed.is_some_and(|needed| fill_inside(snapshot, &needed, &capacities, shares));
        self.beside = beside;
        if is_filled {
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

/// The part of the best that shares from inside give up: the best ones alone have no inside.
const GIVEN_UP: f64 = 1e-4;

/// Fills in shares with which every job has the speed needed, from inside of all such, where the published code's solver ends.
fn fill_inside(snapshot: &Snapshot<'_>, needed: &[f64], capacities: &[f64], shares: &mut Shares) -> bool {
    /// With more groups the matrix of a step takes too long.
    const GROUPS_MAX: usize = 400;
    let (members, groups) = grouped(snapshot, needed);
    if groups.len() > GROUPS_MAX {
        return false;
    }
    let combinations = combinations(snapshot, &members);
    let Some(inside) = search::shares(&combinations, &groups, capacities) else { return false };
    let width = snapshot.workload.width();
    for (combination, row) in combinations.iter().zip(inside.chunks_exact(width)) {
        let row: Vec<f64> = row.iter().map(|share| share.clamp(0.0, 1.0)).collect();
        let [first, second] = combination.groups.map(|group| &members[group]);
        if !combination.is_pair {
            first
                .iter()
                .for_each(|place| shares.singles[place * width..(place + 1) * width].copy_from_slice(&row));
            continue;
        }
        let is_same = combination.groups[0] == combination.groups[1];
        for &one in first {
            for &other in second.iter().filter(|other| !is_same || one < **other) {
                let pair = [snapshot.jobs[one.min(other)], snapshot.jobs[one.max(other)]];
                shares.pairs.insert(pair, row.clone());
            }
        }
    }
    true
}

/// Jobs of one class that need the same speed, nearly, by their places.
fn grouped(snapshot: &Snapshot<'_>, needed: &[f64]) -> (Vec<Vec<usize>>, Vec<Group>) {
    let mut known: BTreeMap<(u32, i64), usize> = BTreeMap::new();
    let (mut members, mut groups): (Vec<Vec<usize>>, Vec<Group>) = (Vec::new(), Vec::new());
    for (place, (&job, &speed)) in snapshot.jobs.iter().zip(needed).enumerate() {
        // What was computed for equal jobs differs in its last digits.
        let key = (
            snapshot.workload.jobs[job as usize].class,
            (speed.max(f64::MIN_POSITIVE).ln() * 1e7).round() as i64,
        );
        let group = *known.entry(key).or_insert(groups.len());
        if group == groups.len() {
            members.push(Vec::new());
            groups.push(Group { gang: f64::from(snapshot.gang(job)), speed, count: 0.0 });
        }
        members[group].push(place);
        groups[group].count += 1.0;
        groups[group].speed = groups[group].speed.min(speed);
    }
    (members, groups)
}

/// Jobs of every group, and pairs of jobs with equal gangs. The published code keeps their speeds in single precision.
fn combinations(snapshot: &Snapshot<'_>, members: &[Vec<usize>]) -> Vec<Combination> {
    let (workload, jobs) = (snapshot.workload, snapshot.jobs);
    let single = |speed: f64| f64::from(speed as f32);
    let class = |group: usize| workload.jobs[jobs[members[group][0]] as usize].class;
    let mut combinations = Vec::new();
    for group in 0..members.len() {
        let own = &workload.classes[class(group) as usize];
        let speeds = own.speeds.iter().map(|&speed| [single(speed), 0.0]).collect();
        combinations.push(Combination { groups: [group, group], is_pair: false, speeds });
        for other in group..members.len() {
            let is_pair = own.gang == workload.classes[class(other) as usize].gang;
            if is_pair && (group != other || members[group].len() > 1) {
                let speeds = workload.speeds_beside(class(group), class(other));
                let speeds = speeds.into_iter().map(|speeds| speeds.map(single)).collect();
                combinations.push(Combination { groups: [group, other], is_pair: true, speeds });
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
