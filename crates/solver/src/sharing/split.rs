//! Very large clusters in parts: every part has its jobs and its piece of every type, and is solved alone.
//!
//! Jobs that are alike (the type they prefer, by how much, devices) are dealt to the parts in turn, and which part gets
//! which of them is drawn. A part gets as much of every type as its jobs ask for, beside all others. Parts then are small
//! copies of the whole, and the answer is close to the exact one as long as parts have some hundred jobs: see the tests
//! for figures.

use super::model::clean;
use super::{Program, Shares};

/// How the objective of the whole follows from the parts'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// The smallest, for [`max_min`](super::max_min) and [`water_filling`](super::water_filling).
    Smallest,
    /// The largest, for [`makespan`](super::makespan) and [`finish_time`](super::finish_time).
    Largest,
    /// The sum, for [`max_sum`](super::max_sum).
    Sum,
}

/// Which jobs are in a part.
#[derive(Clone, Debug)]
pub struct Part {
    jobs: Vec<usize>,
    types: usize,
}

impl Part {
    /// The part's jobs as indices of the whole, ascending.
    pub fn jobs(&self) -> &[usize] {
        &self.jobs
    }

    /// The part's entries of a slice with one per job.
    pub fn of<T: Copy>(&self, values: &[T]) -> Vec<T> {
        self.jobs.iter().filter_map(|&job| values.get(job).copied()).collect()
    }

    /// The part's rows of a row-major slice, jobs × types.
    pub fn rows(&self, values: &[f64]) -> Vec<f64> {
        let row = |&job: &usize| values.get(job * self.types..(job + 1) * self.types);
        self.jobs.iter().filter_map(row).flatten().copied().collect()
    }
}

/// Solves a program in `parts` and puts the answers together.
///
/// `sizes` state how much each job asks for in comparison to the others, in device-seconds or anything proportional to
/// them: devices × weight for shares by weight, devices × remaining work / mean speed for makespans. Jobs without a size
/// that is positive count as if they asked for nothing.
///
/// `solve` is called once or twice per part with the part's own program; [`Part::of`] and [`Part::rows`] give the part of whatever
/// else it needs. With one part, or fewer jobs than parts, this is the exact program. The first fallback of a part is
/// that of the whole.
pub fn split(
    program: &Program<'_>,
    sizes: &[f64],
    (parts, seed): (usize, u64),
    whole: Whole,
    mut solve: impl FnMut(&Program<'_>, &Part) -> Shares,
) -> Shares {
    let types = program.capacities.len();
    let rows = program.speeds.len().checked_div(types).unwrap_or(0);
    let jobs = program.devices.len().min(rows);
    let count = if parts > jobs { 1 } else { parts.max(1) };
    let parts = deal(program, jobs, count, seed);
    let asked: Vec<f64> = parts.iter().map(|part| part.of(sizes).into_iter().map(clean).sum()).collect();
    let mut portions = normalised(&asked);
    let (best, objectives) = pass(program, &parts, &portions, whole, &mut solve);
    if count > 1 && whole != Whole::Sum {
        // Parts that are worse off than others get more, in proportion: what one pass leaves of the difference is small.
        for (portion, objective) in portions.iter_mut().zip(objectives) {
            *portion *= if whole == Whole::Largest { objective } else { 1.0 / objective };
        }
        let (second, _) = pass(program, &parts, &normalised(&portions), whole, &mut solve);
        let better = match whole {
            Whole::Largest => second.objective < best.objective,
            Whole::Smallest | Whole::Sum => second.objective > best.objective,
        };
        if better {
            return second;
        }
    }
    best
}

/// Portions that add up to one, all equal if these cannot.
fn normalised(portions: &[f64]) -> Vec<f64> {
    let all: f64 = portions.iter().sum();
    let usable = all.is_finite() && all > 0.0 && portions.len() > 1;
    let equal = 1.0 / portions.len() as f64;
    portions.iter().map(|portion| if usable { portion / all } else { equal }).collect()
}

/// Solves all parts with their portions of the capacities.
fn pass(
    program: &Program<'_>,
    parts: &[Part],
    portions: &[f64],
    whole: Whole,
    solve: &mut impl FnMut(&Program<'_>, &Part) -> Shares,
) -> (Shares, Vec<f64>) {
    let types = program.capacities.len();
    let mut values = vec![0.0; program.devices.len() * types];
    let (mut objectives, mut fallback) = (Vec::with_capacity(parts.len()), None);
    for (part, portion) in parts.iter().zip(portions) {
        let capacities: Vec<f64> = program.capacities.iter().map(|capacity| capacity * portion).collect();
        let (devices, speeds) = (part.of(program.devices), part.rows(program.speeds));
        let own = Program { capacities: &capacities, devices: &devices, speeds: &speeds };
        let answer = solve(&own, part);
        for (row, &job) in answer.values.chunks_exact(types.max(1)).zip(&part.jobs) {
            values[job * types..(job + 1) * types].copy_from_slice(row);
        }
        objectives.push(answer.objective);
        fallback = fallback.or(answer.fallback);
    }
    let objective = match whole {
        Whole::Smallest => objectives.iter().copied().fold(f64::INFINITY, f64::min),
        Whole::Largest => objectives.iter().copied().fold(0.0, f64::max),
        Whole::Sum => objectives.iter().sum(),
    };
    (Shares { values, objective, fallback }, objectives)
}

fn deal(program: &Program<'_>, jobs: usize, parts: usize, seed: u64) -> Vec<Part> {
    let types = program.capacities.len();
    let mut state = seed;
    let mut order: Vec<(Likeness, u64, usize)> =
        (0..jobs).map(|job| (likeness(program, job), draw(&mut state), job)).collect();
    order.sort_by(|one, other| one.0.compare(&other.0).then((one.1, one.2).cmp(&(other.1, other.2))));
    let mut dealt = vec![Part { jobs: Vec::with_capacity(jobs / parts + 1), types }; parts];
    let mut turn: Vec<usize> = (0..parts).collect();
    for (place, (_, _, job)) in order.into_iter().enumerate() {
        if place % parts == 0 {
            for last in (1..parts).rev() {
                turn.swap(last, (draw(&mut state) % (last as u64 + 1)) as usize);
            }
        }
        dealt[turn[place % parts]].jobs.push(job);
    }
    dealt.iter_mut().for_each(|part| part.jobs.sort_unstable());
    dealt
}

/// What makes jobs exchangeable: the fastest type, devices, and how much slower the other types are on average.
struct Likeness {
    fastest: usize,
    devices: f64,
    others: f64,
}

impl Likeness {
    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        let first = self.fastest.cmp(&other.fastest).then(self.devices.total_cmp(&other.devices));
        first.then(self.others.total_cmp(&other.others))
    }
}

fn likeness(program: &Program<'_>, job: usize) -> Likeness {
    let types = program.capacities.len();
    let row = &program.speeds[job * types..(job + 1) * types];
    let fastest = (0..types).fold(0, |best, j| if row[j] > row[best] { j } else { best });
    Likeness { fastest, devices: program.devices[job], others: row.iter().sum::<f64>() / row[fastest] }
}

/// The next number of a seeded sequence (SplitMix64).
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
