//! Very large clusters in parts: every part has its jobs and its piece of every type, and is solved alone.
//!
//! Jobs that are alike (devices, the type they prefer, by how much) are dealt to the parts in turn, and which part gets
//! which of them is drawn. Parts then are small copies of the whole, and the answer is close to the exact one as long as
//! parts have some hundred jobs: see the tests for figures.

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
/// `solve` is called once per part with the part's own program; [`Part::of`] and [`Part::rows`] give the part of whatever
/// else it needs. With one part, or fewer jobs than parts, this is the exact program. The first fallback of a part is
/// that of the whole.
pub fn split(
    program: &Program<'_>,
    parts: usize,
    seed: u64,
    whole: Whole,
    mut solve: impl FnMut(&Program<'_>, &Part) -> Shares,
) -> Shares {
    let types = program.capacities.len();
    let jobs = if types == 0 { 0 } else { program.devices.len().min(program.speeds.len() / types) };
    let parts = if parts > jobs { 1 } else { parts.max(1) };
    let mut values = vec![0.0; program.devices.len() * types];
    let (mut objectives, mut fallback) = (Vec::with_capacity(parts), None);
    for part in deal(program, jobs, parts, seed) {
        let share = if jobs == 0 { 1.0 } else { part.jobs.len() as f64 / jobs as f64 };
        let capacities: Vec<f64> = program.capacities.iter().map(|capacity| capacity * share).collect();
        let (devices, speeds) = (part.of(program.devices), part.rows(program.speeds));
        let own = Program { capacities: &capacities, devices: &devices, speeds: &speeds };
        let answer = solve(&own, &part);
        for (row, &job) in answer.values.chunks_exact(types.max(1)).zip(&part.jobs) {
            values[job * types..(job + 1) * types].copy_from_slice(row);
        }
        objectives.push(answer.objective);
        fallback = fallback.or(answer.fallback);
    }
    let objective = match whole {
        Whole::Smallest => objectives.into_iter().fold(f64::INFINITY, f64::min),
        Whole::Largest => objectives.into_iter().fold(0.0, f64::max),
        Whole::Sum => objectives.into_iter().sum(),
    };
    Shares { values, objective, fallback }
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

/// What makes jobs exchangeable: devices, the fastest type, and how much slower the others are on average.
struct Likeness {
    devices: f64,
    fastest: usize,
    others: f64,
}

impl Likeness {
    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        let first = self.devices.total_cmp(&other.devices).then(self.fastest.cmp(&other.fastest));
        first.then(self.others.total_cmp(&other.others))
    }
}

fn likeness(program: &Program<'_>, job: usize) -> Likeness {
    let types = program.capacities.len();
    let row = &program.speeds[job * types..(job + 1) * types];
    let fastest = (0..types).fold(0, |best, j| if row[j] > row[best] { j } else { best });
    Likeness { devices: program.devices[job], fastest, others: row.iter().sum::<f64>() / row[fastest] }
}

/// The next number of a seeded sequence (SplitMix64).
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
