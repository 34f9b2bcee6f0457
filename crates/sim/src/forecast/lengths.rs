//! How long jobs take, drawn from how long others took.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use wharf_core::JobSpec;

/// A job that was submitted some time ago.
#[derive(Clone, Debug)]
pub struct PastJob {
    /// What it asked for.
    pub spec: JobSpec,
    /// How long it has had devices.
    pub run_s: f64,
    /// Whether it has ended; otherwise it will take longer.
    pub is_over: bool,
    /// Whether its owner said how long it would take.
    pub is_declared: bool,
}

/// Fewer than so many jobs state nothing about another.
const SAMPLES_MIN: usize = 5;

/// How far off a declared length is taken to be where nothing is known of others: from half to twice.
const UNKNOWN_RATIO: (f64, f64) = (0.5, 2.0);

/// How little of a time limit a job may need, where nothing is known of others.
const UNKNOWN_SHARE_MIN: f64 = 0.01;

/// The lengths of jobs, by what they tell about others.
#[derive(Debug, Default)]
pub(super) struct Lengths {
    /// Real by declared length, of jobs of about the same declared length, and of all.
    ratios: BTreeMap<i32, Samples>,
    all_ratios: Samples,
    /// Seconds, of the same user's jobs of the same name; of all jobs of a user; of all jobs.
    by_name: BTreeMap<(Option<Arc<str>>, Arc<str>), Samples>,
    by_user: BTreeMap<Option<Arc<str>>, Samples>,
    all: Samples,
}

impl Lengths {
    pub(super) fn new(past: &[PastJob]) -> Self {
        let mut lengths = Self::default();
        // A job that has not run yet states nothing of lengths.
        for PastJob { spec, run_s, is_over, is_declared } in past.iter().filter(|job| job.run_s > 0.0) {
            if *is_declared && spec.solo_s() > 0.0 {
                let ratio = run_s / spec.solo_s();
                lengths.ratios.entry(magnitude(spec)).or_default().push(ratio, *is_over);
                lengths.all_ratios.push(ratio, *is_over);
            }
            let key = (spec.user.clone(), spec.name.clone());
            lengths.by_name.entry(key).or_default().push(*run_s, *is_over);
            lengths.by_user.entry(spec.user.clone()).or_default().push(*run_s, *is_over);
            lengths.all.push(*run_s, *is_over);
        }
        let all = lengths.by_name.values_mut().chain(lengths.by_user.values_mut());
        let all = all.chain(lengths.ratios.values_mut());
        all.chain([&mut lengths.all_ratios, &mut lengths.all]).for_each(Samples::sort);
        lengths
    }

    /// A length in seconds for a job that has done `ran_s` of it and is not over.
    pub(super) fn draw(&self, spec: &JobSpec, is_declared: bool, ran_s: f64, rng: &mut ChaCha8Rng) -> f64 {
        let drawn = if is_declared {
            let solo_s = spec.solo_s();
            let known = [self.ratios.get(&magnitude(spec)), Some(&self.all_ratios)];
            let ratio = known.into_iter().flatten().find_map(|samples| samples.draw(ran_s / solo_s, rng));
            ratio.unwrap_or_else(|| between(UNKNOWN_RATIO, rng)) * solo_s
        } else {
            let key = (spec.user.clone(), spec.name.clone());
            let known = [self.by_name.get(&key), self.by_user.get(&spec.user), Some(&self.all)];
            let drawn = known.into_iter().flatten().find_map(|samples| samples.draw(ran_s, rng));
            drawn.unwrap_or_else(|| between((UNKNOWN_SHARE_MIN, 1.0), rng) * spec.solo_s())
        };
        if drawn > ran_s { drawn } else { as_long_again(ran_s, rng) }
    }
}

/// About how long a job is said to take: short ones are further off, as starting takes its time.
fn magnitude(spec: &JobSpec) -> i32 {
    spec.solo_s().log2().floor() as i32
}

/// What has lasted longer than all that is known may well last as long again.
fn as_long_again(value: f64, rng: &mut ChaCha8Rng) -> f64 {
    value * (1.0 + rng.random::<f64>())
}

/// Lengths that are known, some of them only as "longer than". Leaving those out would make all jobs look short, as the
/// long ones are those that are not over yet.
#[derive(Debug, Default)]
struct Samples {
    /// Each with whether it is the whole length.
    values: Vec<(f64, bool)>,
    whole: usize,
}

impl Samples {
    fn push(&mut self, value: f64, is_whole: bool) {
        self.values.push((value, is_whole));
        self.whole += usize::from(is_whole);
    }

    fn sort(&mut self) {
        self.values.sort_by(|(left, _), (right, _)| left.total_cmp(right));
    }

    /// One of the lengths above `floor`, by Kaplan's and Meier's estimate; `None` where too few are known.
    fn draw(&self, floor: f64, rng: &mut ChaCha8Rng) -> Option<f64> {
        if self.whole < SAMPLES_MIN {
            return None;
        }
        let above = &self.values[self.values.partition_point(|&(value, _)| value <= floor)..];
        let is_end = |&(index, _): &(usize, &(f64, bool))| {
            let at_risk = (above.len() - index) as f64;
            above[index].1 && rng.random::<f64>() * at_risk < 1.0
        };
        let drawn = above.iter().enumerate().find(is_end).map(|(_, &(value, _))| value);
        let longest = above.last().map_or(floor, |&(value, _)| value);
        Some(drawn.unwrap_or_else(|| as_long_again(longest, rng)))
    }
}

/// A number between two, as likely in each of its halves by ratio.
fn between((low, high): (f64, f64), rng: &mut ChaCha8Rng) -> f64 {
    low * (high / low).powf(rng.random::<f64>())
}
