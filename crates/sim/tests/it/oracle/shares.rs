//! The policies that compute shares of time (Gavel, OSDI'20): every allocation keeps the paper's constraints, and its objective is that
//! of the paper's program, solved again by the textbook simplex method.
//!
//! With `x` the share of time of a job (or a pair of jobs) on a type: `x ≥ 0`; the shares of each job add up to 1 at most; devices ×
//! shares add up to the devices of each type at most.

use std::collections::BTreeMap;

use super::mixed::{self, Case, Moment, Shape, Shares, follow, hold};
use super::simplex::Program;

/// Relative distance from the optimum.
const TOLERANCE: f64 = 1e-6;
/// The same for water filling: levels that have stopped give up 5e-7, and the next one is computed to 1e-6.
const LEVELS: f64 = 2e-6;
/// Floors are other programs' optima, which rounding errors can put out of reach.
const ROUNDED: f64 = 1.0 - 1e-10;

const SHAPE: Shape =
    Shape { jobs_max: 7, devices_max: 4, is_elastic: false, size_max: 4, nodes_max: 2, gap_s: 800.0 };

#[derive(Clone, Copy, Debug, PartialEq)]
enum Goal {
    /// Largest smallest throughput, over that of an equal share of the time on each type, by weight and devices.
    MaxMin,
    /// The same for the second smallest, and so on.
    WaterFilling,
    /// Smallest largest (time since submission + time left) / (time with 1/n of the cluster).
    FinishTime,
    /// Smallest time until the last job ends.
    Makespan,
    /// Largest sum of throughputs, over prices or not, with throughputs that meet deadlines or not.
    Sum { by_price: bool, with_deadlines: bool },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Sight {
    Blind,
    Types,
    Pairs,
}

/// A job's part of a program.
struct Claim {
    job: usize,
    devices: f64,
    /// Iterations per second on each type, as the policy sees them.
    speeds: Vec<f64>,
    elapsed_s: f64,
    remaining: f64,
    weight: f64,
}

/// One allocation, restated.
struct Restated<'a> {
    case: &'a Case,
    time_s: f64,
    capacities: Vec<f64>,
    claims: Vec<Claim>,
    /// Positions of claims that share devices, one or two.
    combos: Vec<Vec<usize>>,
}

impl<'a> Restated<'a> {
    fn new(case: &'a Case, moment: &Moment, goal: Goal, sight: Sight, by_user: bool) -> Self {
        let capacities: Vec<f64> = case.pools.iter().map(|pool| pool.devices() as f64).collect();
        let claims: Vec<Claim> = moment
            .jobs
            .iter()
            .map(|present| {
                let job = &case.jobs[present.job];
                let mut speeds: Vec<f64> =
                    (0..capacities.len()).map(|kind| case.speed(present.job, kind, job.devices)).collect();
                let best = speeds.iter().copied().fold(0.0, f64::max);
                let seen = match goal {
                    Goal::MaxMin | Goal::WaterFilling => 1.0,
                    _ => best,
                };
                if sight == Sight::Blind {
                    speeds.iter_mut().filter(|speed| **speed > 0.0).for_each(|speed| *speed = seen);
                }
                Claim {
                    job: present.job,
                    devices: job.devices as f64,
                    speeds,
                    elapsed_s: present.elapsed_s,
                    remaining: present.remaining,
                    weight: job.weight,
                }
            })
            .collect();
        let mut combos: Vec<Vec<usize>> = (0..claims.len()).map(|claim| vec![claim]).collect();
        if sight == Sight::Pairs {
            for a in 0..claims.len() {
                combos.extend(
                    (a + 1..claims.len())
                        .filter(|&b| claims[a].devices == claims[b].devices)
                        .map(|b| vec![a, b]),
                );
            }
        }
        let mut restated = Self { case, time_s: moment.time_s, capacities, claims, combos };
        if by_user {
            restated.share_by_user();
        }
        restated
    }

    /// Users are equal but for their weights (`u1` counts three times); jobs of a user share by their own weights.
    fn share_by_user(&mut self) {
        let user = |claim: &Claim| self.case.jobs[claim.job].user;
        let weights: Vec<f64> = self
            .claims
            .iter()
            .map(|claim| {
                let own = self.claims.iter().filter(|other| user(other) == user(claim));
                let all: f64 = own.map(|other| other.weight).sum();
                claim.weight / all * if user(claim) == 1 { 3.0 } else { 1.0 }
            })
            .collect();
        self.claims.iter_mut().zip(weights).for_each(|(claim, weight)| claim.weight = weight);
    }

    /// How fast a member of a combination is on a type.
    fn speed(&self, combo: &[usize], member: usize, kind: usize) -> f64 {
        let claim = &self.claims[member];
        let others = combo.iter().filter(|&&other| other != member);
        others.fold(claim.speeds[kind], |speed, &other| {
            speed * self.case.kept(claim.job, self.claims[other].job)
        })
    }

    /// A program with the constraints of shares; the column of a combination on a type is `combo × types + type`.
    fn base(&self, value: impl Fn(&[usize], usize) -> f64) -> Program {
        let types = self.capacities.len();
        let mut program = Program::default();
        for combo in &self.combos {
            for kind in 0..types {
                let can_run = combo.iter().all(|&member| self.claims[member].speeds[kind] > 0.0);
                let column = program.column(if can_run { value(combo, kind) } else { 0.0 });
                if !can_run {
                    program.at_most(vec![(column, 1.0)], 0.0);
                }
            }
        }
        let columns = |combo: usize| (0..types).map(move |kind| (combo * types + kind, 1.0));
        for claim in 0..self.claims.len() {
            let own = (0..self.combos.len()).filter(|&combo| self.combos[combo].contains(&claim));
            program.at_most(own.flat_map(columns).collect(), 1.0);
        }
        for kind in 0..types {
            let used = self.combos.iter().enumerate();
            let terms = used.map(|(index, combo)| (index * types + kind, self.claims[combo[0]].devices));
            program.at_most(terms.collect(), self.capacities[kind]);
        }
        program
    }

    /// Terms of a job's throughput.
    fn throughput(&self, claim: usize) -> Vec<(usize, f64)> {
        let types = self.capacities.len();
        let mut terms = Vec::new();
        for (index, combo) in self.combos.iter().enumerate().filter(|(_, combo)| combo.contains(&claim)) {
            terms.extend((0..types).map(|kind| (index * types + kind, self.speed(combo, claim, kind))));
        }
        terms
    }

    /// The largest level at which all of `rising` have `level × unit`, while others have at least their floors.
    fn level(&self, units: &[f64], rising: &[usize], floors: &BTreeMap<usize, f64>) -> f64 {
        let mut program = self.base(|_, _| 0.0);
        let level = program.column(1.0);
        for &claim in rising {
            let mut terms = self.throughput(claim);
            terms.push((level, -units[claim]));
            program.at_least(&terms, 0.0);
        }
        for (&claim, &floor) in floors {
            program.at_least(&self.throughput(claim), floor);
        }
        // Floors are other programs' optima, so that they can be missed by a rounding error.
        program.solve().map_or(0.0, |found| found[level])
    }

    /// Throughputs of jobs that are equally well off under max-min fairness.
    fn units(&self) -> Vec<f64> {
        let all: f64 = self.capacities.iter().sum();
        let unit = |claim: &Claim| {
            let mixed =
                claim.speeds.iter().zip(&self.capacities).map(|(speed, devices)| speed * devices / all);
            mixed.sum::<f64>() * claim.weight / claim.devices
        };
        self.claims.iter().map(unit).collect()
    }

    /// A job's throughput with 1/n of each type.
    fn isolated(&self, claim: &Claim) -> f64 {
        let part = |kind: usize| self.capacities[kind] / self.claims.len() as f64 / claim.devices;
        let kinds = || (0..self.capacities.len()).filter(|&kind| claim.speeds[kind] > 0.0);
        let all: f64 = kinds().map(part).sum();
        kinds().map(|kind| claim.speeds[kind] * part(kind) / all.max(1.0)).sum()
    }

    /// The claims' throughputs under the shares that the product computed; what is wrong where they break a constraint.
    fn throughputs(&self, shares: &Shares) -> Result<Vec<f64>, String> {
        let types = self.capacities.len();
        let position = |job: usize| self.claims.iter().position(|claim| claim.job == job);
        let (mut rates, mut times) = (vec![0.0; self.claims.len()], vec![0.0; self.claims.len()]);
        let mut used = vec![0.0; types];
        for (jobs, parts) in shares {
            let combo: Option<Vec<usize>> = jobs.iter().map(|&job| position(job)).collect();
            let known = combo.filter(|combo| self.combos.contains(combo));
            let combo = known.ok_or_else(|| format!("shares for {jobs:?}, which cannot share devices"))?;
            for (kind, &part) in parts.iter().enumerate() {
                let can_run = combo.iter().all(|&member| self.claims[member].speeds[kind] > 0.0);
                if part < 0.0 || part > 0.0 && !can_run {
                    return Err(format!("share {part} of {jobs:?} on type {kind}"));
                }
                used[kind] += part * self.claims[combo[0]].devices;
                for &member in &combo {
                    times[member] += part;
                    rates[member] += part * self.speed(&combo, member, kind);
                }
            }
        }
        if let Some(time) = times.iter().find(|&&time| time > 1.0 + TOLERANCE) {
            return Err(format!("a job has {time} of its time"));
        }
        match (0..types).find(|&kind| used[kind] > self.capacities[kind] * (1.0 + TOLERANCE)) {
            Some(kind) => Err(format!("{} of {} devices are shared out", used[kind], self.capacities[kind])),
            None => Ok(rates),
        }
    }
}

fn near(name: &str, product: f64, oracle: f64) -> Result<(), String> {
    let is_near = (product - oracle).abs() <= TOLERANCE * oracle.abs().max(1e-9);
    if is_near { Ok(()) } else { Err(format!("{name}: product {product}, oracle {oracle}")) }
}

fn smallest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::INFINITY, f64::min)
}

fn check_max_min(restated: &Restated<'_>, rates: &[f64]) -> Result<(), String> {
    let units = restated.units();
    let all: Vec<usize> = (0..rates.len()).collect();
    let best = restated.level(&units, &all, &BTreeMap::new());
    near("smallest throughput", smallest(rates.iter().zip(&units).map(|(rate, unit)| rate / unit)), best)
}

/// The level of each claim. Levels rise together; a claim that cannot rise alone while the others keep theirs stops, and keeps the
/// `floor` of its level from then on.
fn levels(
    restated: &Restated<'_>,
    units: &[f64],
    floor: impl Fn(usize, f64) -> f64,
) -> Result<Vec<f64>, String> {
    let mut rising: Vec<usize> = (0..units.len()).collect();
    let mut floors: BTreeMap<usize, f64> = BTreeMap::new();
    let mut levels = vec![0.0_f64; units.len()];
    while !rising.is_empty() {
        let level = restated.level(units, &rising, &floors);
        rising.iter().for_each(|&claim| levels[claim] = levels[claim].max(level));
        let can_rise = |&claim: &usize| {
            let others = rising.iter().filter(|&&other| other != claim);
            let mut kept = floors.clone();
            kept.extend(others.map(|&other| (other, level * units[other] * ROUNDED)));
            restated.level(units, &[claim], &kept) > level * (1.0 + 1e-7)
        };
        let (on, stopped): (Vec<usize>, Vec<usize>) = rising.iter().copied().partition(can_rise);
        if stopped.is_empty() {
            return Err(format!("oracle: no claim stops at {level}"));
        }
        floors.extend(stopped.iter().map(|&claim| (claim, floor(claim, level) * ROUNDED)));
        rising = on;
    }
    Ok(levels)
}

/// A job to which two types are nearly alike turns a loss of 1e-7 into a gain of many times that for others. So a claim that is below
/// the best beside what those that stopped before it have must be at the level that it has where all have exactly theirs: it is not
/// wrong to leave what others lose by a rounding error.
fn check_water_filling(restated: &Restated<'_>, rates: &[f64]) -> Result<(), String> {
    let units = restated.units();
    let below = |levels: &[f64]| -> Vec<usize> {
        let is_below = |claim: &usize| rates[*claim] / units[*claim] < levels[*claim] * (1.0 - LEVELS);
        (0..rates.len()).filter(is_below).collect()
    };
    let beside = levels(restated, &units, |claim, _| rates[claim])?;
    let suspects = below(&beside);
    if suspects.is_empty() {
        return Ok(());
    }
    let exact = levels(restated, &units, |claim, level| level * units[claim])?;
    match below(&exact).into_iter().find(|claim| suspects.contains(claim)) {
        Some(claim) => Err(format!(
            "level of job {}: product {}, oracle {} beside what others have, {} beside what they should",
            restated.claims[claim].job,
            rates[claim] / units[claim],
            beside[claim],
            exact[claim]
        )),
        None => Ok(()),
    }
}

fn check_makespan(restated: &Restated<'_>, rates: &[f64]) -> Result<(), String> {
    let left = |claim: &Claim| claim.remaining;
    let units: Vec<f64> = restated.claims.iter().map(left).collect();
    let all: Vec<usize> = (0..rates.len()).collect();
    let best = 1.0 / restated.level(&units, &all, &BTreeMap::new());
    let own = rates.iter().zip(&units).map(|(rate, left)| left / rate).fold(0.0, f64::max);
    near("makespan", own, best)
}

/// Seconds that each job's work so far would have taken with 1/n of the cluster, and the throughput and remaining work at the last
/// allocation.
type History = BTreeMap<usize, (f64, f64, f64)>;

fn check_finish_time(restated: &Restated<'_>, rates: &[f64], history: &mut History) -> Result<(), String> {
    let mut allowed = Vec::new();
    for claim in &restated.claims {
        let isolated = restated.isolated(claim);
        let past_s = history
            .get(&claim.job)
            .map_or(0.0, |(past_s, speed, left)| past_s + (left - claim.remaining) / speed);
        history.insert(claim.job, (past_s, isolated, claim.remaining));
        allowed.push(past_s + claim.remaining / isolated);
    }
    let ratio = |index: usize| {
        let claim = &restated.claims[index];
        (claim.elapsed_s + claim.remaining / rates[index]) / allowed[index]
    };
    let own = (0..rates.len()).map(ratio).fold(0.0, f64::max);
    let all: Vec<usize> = (0..rates.len()).collect();
    // Whether a ratio can be had: throughputs of remaining / (ratio × allowed - elapsed).
    let can_have = |ratio: f64| {
        let left_s = |(claim, allowed): (&Claim, &f64)| ratio * allowed - claim.elapsed_s;
        let left: Vec<f64> = restated.claims.iter().zip(&allowed).map(left_s).collect();
        if left.iter().any(|&left_s| left_s <= 0.0) {
            return false;
        }
        let units: Vec<f64> =
            restated.claims.iter().zip(&left).map(|(claim, left_s)| claim.remaining / left_s).collect();
        restated.level(&units, &all, &BTreeMap::new()) >= 1.0
    };
    let (low, high) = (own * (1.0 - TOLERANCE), own * (1.0 + TOLERANCE));
    if !can_have(high) {
        return Err(format!("finish-time fairness: product {own}, which the oracle cannot have"));
    }
    if can_have(low) {
        return Err(format!("finish-time fairness: product {own}, oracle at most {low}"));
    }
    Ok(())
}

fn check_sum(
    restated: &Restated<'_>,
    rates: &[f64],
    shares: &Shares,
    by_price: bool,
    with_deadlines: bool,
) -> Result<(), String> {
    let value = |claim: &Claim, kind: usize| {
        claim.speeds[kind] / if by_price { restated.case.pools[kind].price } else { 1.0 }
    };
    let mut program = restated.base(|combo, kind| value(&restated.claims[combo[0]], kind));
    let mut demands: BTreeMap<usize, f64> = BTreeMap::new();
    for (index, claim) in restated.claims.iter().enumerate().filter(|_| with_deadlines) {
        let left_s =
            restated.case.jobs[claim.job].deadline_s.map_or(0.0, |deadline_s| deadline_s - restated.time_s);
        let demand = if left_s > 0.0 { claim.remaining / left_s } else { 0.0 };
        // One that cannot be met with all time on the fastest type does not count.
        let fastest = claim.speeds.iter().copied().fold(0.0, f64::max);
        if demand > 0.0 && demand <= fastest * (1.0 + 1e-9) {
            demands.insert(index, demand);
        }
    }
    let units: Vec<f64> = (0..rates.len()).map(|index| demands.get(&index).copied().unwrap_or(0.0)).collect();
    let wanted: Vec<usize> = demands.keys().copied().collect();
    let part =
        if wanted.is_empty() { 1.0 } else { restated.level(&units, &wanted, &BTreeMap::new()).min(1.0) };
    for (&index, demand) in &demands {
        if rates[index] < demand * part * (1.0 - TOLERANCE) {
            return Err(format!(
                "job {} has {} of {demand} x {part}",
                restated.claims[index].job, rates[index]
            ));
        }
        program.at_least(&restated.throughput(index), demand * part * (1.0 - 1e-8));
    }
    let found = program.solve().ok_or("oracle: demands cannot be met")?;
    let own: f64 = shares
        .iter()
        .flat_map(|(jobs, parts)| parts.iter().enumerate().map(move |(kind, part)| (jobs[0], kind, part)))
        .map(|(job, kind, part)| {
            let claim = restated.claims.iter().find(|claim| claim.job == job);
            part * claim.map_or(0.0, |claim| value(claim, kind))
        })
        .sum();
    near("sum", own, program.value(&found))
}

/// Checks all allocations of a run.
fn check(case: &Case, policy: &str, settings: &[&str], goal: Goal, sight: Sight) -> Result<u64, String> {
    let tracker = follow(case, policy, settings);
    if let Some(error) = tracker.errors.first() {
        return Err(error.clone());
    }
    let by_user = settings.contains(&"fairness=users");
    let (mut count, mut history) = (0, History::new());
    for moment in tracker.moments.iter().filter(|moment| !moment.jobs.is_empty()) {
        let Some(shares) = &moment.shares else { continue };
        let restated = Restated::new(case, moment, goal, sight, by_user);
        let rates = restated.throughputs(shares);
        let verdict = rates.and_then(|rates| match goal {
            Goal::MaxMin => check_max_min(&restated, &rates),
            Goal::WaterFilling => check_water_filling(&restated, &rates),
            Goal::FinishTime => check_finish_time(&restated, &rates, &mut history),
            Goal::Makespan => check_makespan(&restated, &rates),
            Goal::Sum { by_price, with_deadlines } => {
                check_sum(&restated, &rates, shares, by_price, with_deadlines)
            }
        });
        let told = |text: String| {
            let jobs: Vec<String> = moment
                .jobs
                .iter()
                .map(|job| {
                    format!("  job {}: {} s old, {} iterations left", job.job, job.elapsed_s, job.remaining)
                })
                .collect();
            format!("at {} s: {text}\n{}\nshares of the product: {shares:?}", moment.time_s, jobs.join("\n"))
        };
        verdict.map_err(told)?;
        count += 1;
    }
    Ok(count)
}

fn agree(policy: &str, goal: Goal) {
    for (suffix, sight) in [("", Sight::Blind), ("-perf", Sight::Types), ("-packed", Sight::Pairs)] {
        let name = format!("{policy}{suffix}");
        let shape = if sight == Sight::Pairs { Shape { jobs_max: 5, ..SHAPE } } else { SHAPE };
        hold(&name, |seed| mixed::case(shape, seed), |case| check(case, &name, &[], goal, sight));
        if matches!(goal, Goal::MaxMin | Goal::WaterFilling) {
            let settings = ["fairness=users", "user_weights=u1=3"];
            hold(
                &format!("{name} by user"),
                |seed| mixed::case(shape, seed),
                |case| check(case, &name, &settings, goal, sight),
            );
        }
    }
}

#[test]
fn max_min_fairness_on_random_cases_is_the_optimum_of_the_papers_program() {
    agree("max-min-fairness", Goal::MaxMin);
}

#[test]
fn water_filling_on_random_cases_is_the_optimum_of_the_papers_program() {
    agree("max-min-fairness-water-filling", Goal::WaterFilling);
}

#[test]
fn water_filling_leaves_what_others_lose_by_a_rounding_error() {
    // Two jobs give up 5e-7 of their rates on the full type. That would bring a third, which has all its time on the other, 1.7e-6.
    let (case, name) = (mixed::case(SHAPE, 447), "max-min-fairness-water-filling-perf");
    check(&case, name, &[], Goal::WaterFilling, Sight::Types).unwrap();
}

#[test]
fn finish_time_fairness_on_random_cases_is_the_optimum_of_the_papers_program() {
    agree("finish-time-fairness", Goal::FinishTime);
}

#[test]
fn min_total_duration_on_random_cases_is_the_optimum_of_the_papers_program() {
    agree("min-total-duration", Goal::Makespan);
}

#[test]
fn max_sum_throughput_on_random_cases_is_the_optimum_of_the_papers_program() {
    for (policy, by_price, with_deadlines) in [
        ("max-sum-throughput-perf", false, false),
        ("max-sum-throughput-normalized-by-cost-perf", true, false),
        ("max-sum-throughput-normalized-by-cost-perf-slos", true, true),
    ] {
        let goal = Goal::Sum { by_price, with_deadlines };
        hold(policy, |seed| mixed::case(SHAPE, seed), |case| check(case, policy, &[], goal, Sight::Types));
    }
}

/// With n jobs, each has 1/n of the devices of each type that it can run on, and no more than all its time.
#[test]
fn isolated_on_random_cases_gives_equal_parts() {
    hold(
        "isolated",
        |seed| mixed::case(SHAPE, seed),
        |case| {
            let tracker = follow(case, "isolated", &[]);
            let mut count = 0;
            for moment in tracker.moments.iter().filter(|moment| !moment.jobs.is_empty()) {
                let Some(shares) = &moment.shares else { continue };
                let restated = Restated::new(case, moment, Goal::Makespan, Sight::Types, false);
                let rates = restated.throughputs(shares)?;
                for (claim, rate) in restated.claims.iter().zip(rates) {
                    near(&format!("throughput of job {}", claim.job), rate, restated.isolated(claim))?;
                }
                count += 1;
            }
            Ok(count)
        },
    );
}
