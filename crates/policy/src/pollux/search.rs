//! A population of allocations, bred towards a small sum of costs.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// Passes over all jobs in which gains are taken, before breeding.
const PASSES_MAX: usize = 24;
/// Of how many jobs one draws again in a child.
const MUTATED: usize = 50;
/// Generations without a better allocation after which breeding ends.
const PATIENCE: u64 = 10;
/// No offer.
const NONE: u16 = u16::MAX;

/// What each offer of each job takes and costs.
#[derive(Clone, Debug)]
pub(super) struct Table {
    capacity: Vec<u32>,
    idle: f64,
    /// Type, devices and cost, job by job.
    offers: Vec<(usize, u32, f64)>,
    starts: Vec<usize>,
    current: Vec<u16>,
}

/// How long to search, and what to draw from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    pub(super) population: usize,
    pub(super) generations: u64,
    /// Evaluations of a job's part of an allocation.
    pub(super) evaluations: u64,
    pub(super) seed: u64,
}

/// For each job the offer that it has, and what all that costs.
#[derive(Clone, Debug, PartialEq)]
struct Allocation {
    picks: Vec<u16>,
    cost: f64,
}

impl Table {
    pub(super) fn new(capacity: &[u32], idle: f64) -> Self {
        Self { capacity: capacity.to_vec(), idle, offers: Vec::new(), starts: vec![0], current: Vec::new() }
    }

    pub(super) fn add(&mut self, costs: impl Iterator<Item = (usize, u32, f64)>, current: Option<usize>) {
        let first = self.offers.len();
        self.offers.extend(costs.take(usize::from(NONE)));
        self.starts.push(self.offers.len());
        let is_known = |pick: &usize| *pick < self.offers.len() - first;
        self.current.push(current.filter(is_known).map_or(NONE, |pick| pick as u16));
    }

    fn jobs(&self) -> usize {
        self.current.len()
    }

    fn of(&self, job: usize) -> &[(usize, u32, f64)] {
        &self.offers[self.starts[job]..self.starts[job + 1]]
    }

    /// What a job costs with an offer, or without.
    pub(super) fn cost(&self, job: usize, pick: Option<usize>) -> f64 {
        pick.map_or(self.idle, |pick| self.of(job)[pick].2)
    }

    fn cost_of(&self, job: usize, pick: u16) -> f64 {
        self.cost(job, (pick != NONE).then_some(usize::from(pick)))
    }

    fn taken(&self, job: usize, pick: u16) -> Option<(usize, u32)> {
        let (kind, count, _) = *self.of(job).get(usize::from(pick))?;
        Some((kind, count))
    }

    fn left(&self, picks: &[u16]) -> Vec<i64> {
        let mut left: Vec<i64> = self.capacity.iter().map(|&count| i64::from(count)).collect();
        for (job, &pick) in picks.iter().enumerate() {
            if let Some((kind, count)) = self.taken(job, pick) {
                left[kind] -= i64::from(count);
            }
        }
        left
    }

    fn price(&self, picks: Vec<u16>) -> Allocation {
        let cost = picks.iter().enumerate().map(|(job, &pick)| self.cost_of(job, pick)).sum();
        Allocation { picks, cost }
    }
}

/// The best allocation that was found, within the capacity.
pub(super) fn search(table: &Table, effort: &Effort) -> Vec<Option<usize>> {
    let jobs = table.jobs();
    if jobs == 0 {
        return Vec::new();
    }
    let mut rng = ChaCha8Rng::seed_from_u64(effort.seed);
    let mut kept = table.current.clone();
    repair(table, &mut kept, 0);
    let mut greedy = vec![NONE; jobs];
    improve(table, &mut greedy);
    let mut both = kept.clone();
    improve(table, &mut both);
    let mut population: Vec<Allocation> = [kept, greedy, both].map(|picks| table.price(picks)).into();
    rank(&mut population, effort.population);
    let affordable = effort.evaluations / jobs as u64 / effort.population.max(1) as u64;
    let mut idle = 0;
    for _ in 0..effort.generations.min(affordable) {
        let (best, parents) = (population[0].cost, population.len());
        for _ in 0..effort.population {
            let child = breed(table, &population[..parents], &mut rng);
            population.push(child);
        }
        rank(&mut population, effort.population);
        idle = if population[0].cost < best { 0 } else { idle + 1 };
        if idle == PATIENCE {
            break;
        }
    }
    let mut best = population.swap_remove(0).picks;
    improve(table, &mut best);
    best.into_iter().map(|pick| (pick != NONE).then_some(usize::from(pick))).collect()
}

/// The best first, each once, and no more than there is room for.
fn rank(population: &mut Vec<Allocation>, room: usize) {
    population
        .sort_by(|one, other| one.cost.total_cmp(&other.cost).then_with(|| one.picks.cmp(&other.picks)));
    population.dedup();
    population.truncate(room);
}

fn breed(table: &Table, population: &[Allocation], rng: &mut ChaCha8Rng) -> Allocation {
    let parent = |rng: &mut ChaCha8Rng| {
        // They are ranked: the better of two is the one before.
        let (one, other) = (rng.random_range(0..population.len()), rng.random_range(0..population.len()));
        &population[one.min(other)].picks
    };
    let (mother, father) = (parent(rng), parent(rng));
    let jobs = table.jobs();
    let mut picks = Vec::with_capacity(jobs);
    let mut coins = 0_u64;
    for job in 0..jobs {
        if job % 64 == 0 {
            coins = rng.random();
        }
        picks.push(if coins >> (job % 64) & 1 == 0 { mother[job] } else { father[job] });
    }
    for _ in 0..=jobs / MUTATED {
        let job = rng.random_range(0..jobs);
        let offers = table.of(job).len();
        // The last draw is no offer.
        let draw = rng.random_range(0..=offers);
        picks[job] = if draw == offers { NONE } else { draw as u16 };
    }
    repair(table, &mut picks, rng.random_range(0..jobs));
    table.price(picks)
}

/// Cuts back what exceeds the capacity, beginning with the job `from`; then gives what is left to those without.
fn repair(table: &Table, picks: &mut [u16], from: usize) {
    let jobs = table.jobs();
    let mut left = table.left(picks);
    let order = || (from..jobs).chain(0..from);
    for job in order() {
        while let Some((kind, count)) = table.taken(job, picks[job]).filter(|&(kind, _)| left[kind] < 0) {
            left[kind] += i64::from(count);
            // The next smaller one of the same type, else none.
            let smaller = picks[job].checked_sub(1).filter(|&pick| {
                table.taken(job, pick).is_some_and(|(other, fewer)| other == kind && fewer < count)
            });
            picks[job] = smaller.unwrap_or(NONE);
            if let Some((kind, count)) = table.taken(job, picks[job]) {
                left[kind] -= i64::from(count);
            }
        }
    }
    for job in order() {
        if picks[job] != NONE || left.iter().all(|&left| left == 0) {
            continue;
        }
        let offers = table.of(job).iter().enumerate();
        let fitting = offers.filter(|&(_, &(kind, count, _))| i64::from(count) <= left[kind]);
        if let Some((pick, &(kind, count, _))) = fitting.min_by_key(|&(_, &(_, count, _))| count) {
            picks[job] = pick as u16;
            left[kind] -= i64::from(count);
        }
    }
}

/// Takes gains while devices do, the largest for each further device first.
fn improve(table: &Table, picks: &mut [u16]) {
    let mut left = table.left(picks);
    for _ in 0..PASSES_MAX {
        let mut gains: Vec<(f64, usize, u16)> = (0..table.jobs())
            .filter_map(|job| best_gain(table, job, picks[job], &left).map(|(rate, pick)| (rate, job, pick)))
            .collect();
        if gains.is_empty() {
            return;
        }
        gains.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        for (_, job, pick) in gains {
            let held = table.taken(job, picks[job]);
            let Some((kind, count)) = table.taken(job, pick) else { continue };
            if i64::from(count) <= left[kind] + returned(held, kind) {
                if let Some((kind, count)) = held {
                    left[kind] += i64::from(count);
                }
                left[kind] -= i64::from(count);
                picks[job] = pick;
            }
        }
    }
}

fn returned(held: Option<(usize, u32)>, kind: usize) -> i64 {
    held.filter(|held| held.0 == kind).map_or(0, |held| i64::from(held.1))
}

fn best_gain(table: &Table, job: usize, pick: u16, left: &[i64]) -> Option<(f64, u16)> {
    let held = table.taken(job, pick);
    let now = table.cost_of(job, pick);
    let mut best: Option<(f64, u16)> = None;
    for (other, &(kind, count, cost)) in table.of(job).iter().enumerate() {
        if cost >= now * (1.0 - 1e-9) || i64::from(count) > left[kind] + returned(held, kind) {
            continue;
        }
        let more = count.saturating_sub(held.map_or(0, |held| held.1)).max(1);
        let rate = (now - cost) / f64::from(more);
        if best.is_none_or(|(highest, _)| rate > highest) {
            best = Some((rate, other as u16));
        }
    }
    best
}
