//! The Gittins index: the best chance to finish soon, judged by how jobs before it have fared.

use wharf_core::{JobEnd, JobId, Knowledge, Phase, Time, View};

use crate::priority::{Key, Rank, TOLERANCE_S};

/// Service levels: level `k` begins at `LEVEL_S * 2^k` device-seconds.
const LEVEL_S: f64 = 60.0;
const LEVELS: usize = 24;

/// Orders jobs by the largest ratio, over all further amounts of service, of the chance to finish within it to the
/// service expected to be spent. The distribution is learned from the jobs that ended.
#[derive(Clone, Debug)]
pub struct Gittins {
    /// How many times better a waiting job's index must be than a running one's: indexes rise and fall, and every
    /// exchange costs a restart.
    preempt_ratio: f64,
    /// Service of finished jobs, [`exact`].
    finished_s: Vec<f64>,
    /// The index of each level, once there is enough to learn from.
    index: Option<[f64; LEVELS + 1]>,
    learn_at: usize,
}

/// Finished jobs after which the first index is computed; then at every doubling.
const FIRST_LESSON: usize = 16;

impl Gittins {
    /// A policy that has learned nothing yet.
    pub fn new(preempt_ratio: f64) -> Self {
        Self { preempt_ratio, finished_s: Vec::new(), index: None, learn_at: 0 }
    }

    fn service_s(view: &View<'_>, job: JobId) -> f64 {
        view.attained_s(job) * f64::from(view.spec(job).gang.devices)
    }

    fn level(service_s: f64) -> usize {
        (0..LEVELS).take_while(|&level| service_s + TOLERANCE_S >= level_start(level)).count()
    }

    /// The index of every level from the finished jobs' service.
    fn compute(&mut self) {
        self.finished_s.sort_by(f64::total_cmp);
        let mut index = [0.0; LEVELS + 1];
        for (level, value) in index.iter_mut().enumerate() {
            let from = if level == 0 { 0.0 } else { level_start(level - 1) };
            let rest = &self.finished_s[self.finished_s.partition_point(|&service| service <= from)..];
            *value = best_ratio(rest, from, level);
        }
        self.index = Some(index);
    }
}

/// Service to the nearest 1/1024 of a device-second. Sums of such numbers are exact, so that equal ratios compare as equal, and a job
/// that ended at the limit of a level counts as ended there although its gang of seven had 60.000000000000004 device-seconds.
fn exact(service_s: f64) -> f64 {
    (service_s * 1024.0).round() / 1024.0
}

fn level_start(level: usize) -> f64 {
    LEVEL_S * (1u64 << level) as f64
}

/// The best ratio of finishing chance to expected cost, for a job that has had `from` device-seconds.
fn best_ratio(rest: &[f64], from: f64, level: usize) -> f64 {
    let mut best = 0.0_f64;
    for until in (level..=LEVELS).map(level_start) {
        let done = rest.partition_point(|&service| service <= until);
        let spent: f64 = rest[..done].iter().map(|service| service - from).sum::<f64>()
            + (rest.len() - done) as f64 * (until - from);
        if spent > 0.0 {
            best = best.max(done as f64 / spent);
        }
    }
    best
}

impl Rank for Gittins {
    fn knowledge(&self) -> Knowledge {
        Knowledge::Attained
    }

    fn key(&self, view: &View<'_>, job: JobId) -> Key {
        let level = Self::level(Self::service_s(view, job));
        // Before anything is known, less service is the better guess.
        Key::of(self.index.map_or(level as f64, |index| -index[level]))
    }

    fn next_jump(&self, view: &View<'_>, job: JobId) -> Option<Time> {
        let service_s = Self::service_s(view, job);
        let level = Self::level(service_s);
        (level < LEVELS).then(|| {
            let service_s = level_start(level) - service_s;
            view.now.plus(service_s / f64::from(view.spec(job).gang.devices))
        })
    }

    fn may_preempt(&self, waiting: Key, running: Key) -> bool {
        match self.index {
            // Keys are negative indexes.
            Some(_) => -waiting.value > -running.value * self.preempt_ratio,
            None => waiting < running,
        }
    }

    fn learn(&mut self, view: &View<'_>, job: JobId) -> bool {
        if view.job(job).phase != Phase::Ended(JobEnd::Finished) {
            return false;
        }
        self.finished_s.push(exact(Self::service_s(view, job)));
        if self.finished_s.len() < self.learn_at.max(FIRST_LESSON) {
            return false;
        }
        self.learn_at = self.finished_s.len() * 2;
        self.compute();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_that_ends_at_a_limit_counts_as_ended_there_whatever_its_gang() {
        let index_of = |attained_s: f64, devices: f64| {
            let mut gittins = Gittins::new(1.0);
            gittins.finished_s = vec![exact(attained_s * devices); 3];
            gittins.compute();
            gittins.index.expect("computed")
        };
        // 120 / 7 * 7 is more than 120 in binary numbers.
        let (third, seventh) = (120.0 / 3.0, 120.0 / 7.0 + 2e-15);
        assert!(seventh * 7.0 > 120.0);
        assert_eq!(index_of(seventh, 7.0), index_of(third, 3.0));
    }

    #[test]
    fn index_prefers_the_level_at_which_most_jobs_end() {
        // Half of the jobs end within the first minute, the others after many hours.
        let mut gittins = Gittins::new(1.0);
        gittins.finished_s = [[30.0; 10], [90_000.0; 10]].concat();
        gittins.compute();
        let index = gittins.index.expect("computed");
        assert!(index[0] > index[1], "a fresh job is a good bet");
        assert!(index[11] > index[1], "after hours, the long ones come near their end");
    }
}
