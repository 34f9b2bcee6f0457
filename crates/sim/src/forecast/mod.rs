//! When a waiting job will start: many simulations of what may come, drawn from what has been.
//!
//! Each of them begins with the cluster's present. Jobs take as long as others took, given that they are not over yet, and new
//! jobs arrive as they did in some stretch of the past. What the simulations agree on is the prediction, and how far
//! they differ is its interval.

mod lengths;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use wharf_core::{JobId, JobSpec, NodeShare, Phase, Regime, Time};

pub use lengths::PastJob;

use crate::present::{Present, go_on};
use crate::run::RunError;
use lengths::Lengths;
use wharf_outcome::Recorder;

/// How often the truth is to lie in the interval.
pub const CONFIDENCE: f64 = 0.8;

/// How many futures are drawn.
pub const DRAWS: u32 = 60;

/// The share of the futures that lies below, and above, the interval.
const TAIL: f64 = 0.03;

/// How much further away either end of the interval is put: futures are drawn from the past, which they will not quite be
/// like.
const MARGIN: f64 = 1.6;

/// Fewer than so many past jobs state nothing about what will arrive.
const ARRIVALS_MIN: usize = 10;

/// How often the past is repeated before no more jobs arrive.
const ARRIVAL_CYCLES: u32 = 3;

/// When a job will start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// As likely earlier as later; `None` where it starts in less than half of the futures.
    pub median: Option<Time>,
    /// The interval begins.
    pub low: Option<Time>,
    /// The interval ends; `None` where there is no telling.
    pub high: Option<Time>,
}

/// What is known beside a cluster's present.
pub struct Knowledge<'a> {
    /// Jobs that were submitted so far, also those that are not over.
    pub past: &'a [PastJob],
    /// Whether the owner of a job that is not over said how long it would take.
    pub is_declared: &'a dyn Fn(JobId) -> bool,
    /// Makes the policy.
    pub make: &'a dyn Fn() -> Result<Regime, RunError>,
    /// What the policy is called.
    pub policy: &'a str,
}

/// Notes when jobs start, and has seen enough when all have.
struct Starts {
    missing: usize,
    starts: BTreeMap<JobId, Option<Time>>,
}

impl Recorder for Starts {
    fn is_satisfied(&self) -> bool {
        self.missing == 0
    }

    fn started(&mut self, time: Time, job: JobId, _placement: &[NodeShare], _group: &[JobId]) {
        if let Some(start @ None) = self.starts.get_mut(&job) {
            *start = Some(time);
            self.missing -= 1;
        }
    }
}

/// Predicts when jobs that wait will start. Equal inputs and seeds give equal predictions.
///
/// # Errors
/// As [`go_on`].
pub fn forecast(
    present: &Present,
    known: &Knowledge<'_>,
    jobs: &[JobId],
    seed: u64,
) -> Result<BTreeMap<JobId, Forecast>, RunError> {
    let lengths = Lengths::new(known.past);
    let mut starts: BTreeMap<JobId, Vec<Option<Time>>> = BTreeMap::new();
    for draw in 0..DRAWS {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(u64::from(draw));
        let future = future(present, known, &lengths, &mut rng);
        let mut seen = Starts { missing: jobs.len(), starts: jobs.iter().map(|&job| (job, None)).collect() };
        go_on(future, known.policy, (known.make)()?, &mut seen)?;
        for (job, start) in seen.starts {
            starts.entry(job).or_default().push(start);
        }
    }
    Ok(starts.into_iter().map(|(job, starts)| (job, summed_up(present.now, starts))).collect())
}

/// The present with the middle of what its jobs may take as their lengths, and nothing more to come.
pub fn expected(present: &Present, known: &Knowledge<'_>, seed: u64) -> Present {
    let lengths = Lengths::new(known.past);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut expected = present.clone();
    for (job, spec, life) in present.state.jobs().filter(|(_, _, life)| !life.is_ended()) {
        let iteration_s = spec.iteration_ms / 1000.0;
        let ran_s = life.done(present.now) * iteration_s;
        let mut drawn: Vec<f64> =
            (0..DRAWS).map(|_| lengths.draw(spec, (known.is_declared)(job), ran_s, &mut rng)).collect();
        drawn.sort_by(f64::total_cmp);
        expected.actual.insert(job, drawn[drawn.len() / 2] / iteration_s);
    }
    expected
}

/// One of the futures that a present may have.
fn future(present: &Present, known: &Knowledge<'_>, lengths: &Lengths, rng: &mut ChaCha8Rng) -> Present {
    let mut future = present.clone();
    for (job, spec, life) in present.state.jobs().filter(|(_, _, life)| !life.is_ended()) {
        if matches!(life.phase, Phase::Held) && !present.waits.contains_key(&job) {
            continue;
        }
        let iteration_s = spec.iteration_ms / 1000.0;
        let ran_s = life.done(present.now) * iteration_s;
        let length_s = lengths.draw(spec, (known.is_declared)(job), ran_s, rng);
        future.actual.insert(job, length_s / iteration_s);
    }
    if known.past.len() >= ARRIVALS_MIN {
        let first = present.state.next_job().0;
        for (offset, (spec, run_s)) in arrivals(present.now, known.past, lengths, rng).into_iter().enumerate()
        {
            future.actual.insert(JobId(first + offset as u32), run_s * 1000.0 / spec.iteration_ms);
            future.arrivals.push(spec);
        }
    }
    future
}

/// Jobs as they came in the past, from a random moment of it on.
fn arrivals(now: Time, past: &[PastJob], lengths: &Lengths, rng: &mut ChaCha8Rng) -> Vec<(JobSpec, f64)> {
    let first = past.iter().map(|job| job.spec.submit).fold(now, Time::min);
    let window_s = now.since(first).max(1.0);
    let from_s = rng.random::<f64>() * window_s;
    let mut all: Vec<(f64, &PastJob)> =
        past.iter().map(|job| ((job.spec.submit.since(first) - from_s).rem_euclid(window_s), job)).collect();
    all.sort_by(|(left, _), (right, _)| left.total_cmp(right));
    let mut drawn = Vec::new();
    for cycle in 0..ARRIVAL_CYCLES {
        let begin = now.plus(f64::from(cycle) * window_s);
        for &(after_s, job) in &all {
            let run_s = match job.is_over {
                true => job.run_s,
                false => lengths.draw(&job.spec, job.is_declared, job.run_s, rng),
            };
            drawn.push((JobSpec { submit: begin.plus(after_s), ..job.spec.clone() }, run_s));
        }
    }
    drawn
}

fn summed_up(now: Time, mut starts: Vec<Option<Time>>) -> Forecast {
    // Futures in which it does not start come last.
    starts.sort_by_key(|start| (start.is_none(), *start));
    let last = starts.len() - 1;
    let at = |share: f64| starts[((last as f64 * share).round() as usize).min(last)];
    let away = |time: Time, times: f64| now.plus(time.since(now) * times);
    Forecast {
        median: at(0.5),
        low: at(TAIL).map(|low| away(low, 1.0 / MARGIN)),
        high: at(1.0 - TAIL).map(|high| away(high, MARGIN)),
    }
}
