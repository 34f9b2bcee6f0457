//! When running jobs reach their time limits, and delayed jobs the end of their delay.

use std::collections::{BTreeMap, BTreeSet};

use wharf_core::{JobId, Time};

/// The time limits of running jobs.
#[derive(Debug, Default)]
pub(crate) struct TimeLimits {
    /// With the generation of the run.
    due: BTreeMap<(Time, JobId), u32>,
    /// The checkpoints that jobs began their last run from that ended with their time limit, in iterations.
    last_starts: BTreeMap<JobId, f64>,
}

impl TimeLimits {
    /// A run of a job reaches its limit then.
    pub(super) fn watch(&mut self, job: JobId, at: Time, generation: u32) {
        self.due.insert((at, job), generation);
    }

    /// The limit of a running job is another one.
    pub(super) fn unwatch(&mut self, job: JobId) {
        self.due.retain(|(_, other), _| *other != job);
    }

    /// When the next run reaches its limit.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.due.keys().next().map(|&(at, _)| at)
    }

    /// Takes out the next run that has reached its limit: the job and the generation.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<(JobId, u32)> {
        let first = self.due.first_entry().filter(|entry| entry.key().0 <= now)?;
        let ((_, job), generation) = first.remove_entry();
        Some((job, generation))
    }

    /// A run ended with its limit. Returns whether the one before it did so from the same checkpoint.
    pub(super) fn note_end(&mut self, job: JobId, began_at: f64) -> bool {
        self.last_starts.insert(job, began_at) == Some(began_at)
    }

    /// Drops the records of a job that has ended.
    pub(super) fn remove(&mut self, job: JobId) {
        self.last_starts.remove(&job);
    }

    /// Drops the times of runs, which are noted again after a replay.
    pub(super) fn reset(&mut self) {
        self.due.clear();
    }
}

/// Seconds from which on a run is no quick failure: a trainer that never reports a checkpoint may have saved one.
const QUICK_S: f64 = 60.0;

/// How many runs in a row ended soon with a code that asks to be resumed, but saved nothing new.
#[derive(Debug, Default)]
pub(crate) struct FruitlessRuns(BTreeMap<JobId, u32>);

impl FruitlessRuns {
    /// A run ended with such a code, after some seconds; none: longer than the head runs. Returns whether it was soon and saved nothing.
    pub(crate) fn note_end(
        &mut self,
        job: JobId,
        began_at: f64,
        checkpointed: f64,
        run_s: Option<f64>,
    ) -> bool {
        let is_fruitless = checkpointed <= began_at && run_s.is_some_and(|seconds| seconds < QUICK_S);
        if is_fruitless {
            *self.0.entry(job).or_default() += 1;
        } else {
            self.remove(job);
        }
        is_fruitless
    }

    pub(super) fn count(&self, job: JobId) -> u32 {
        self.0.get(&job).copied().unwrap_or(0)
    }

    /// Drops the count of a job that is over.
    pub(super) fn remove(&mut self, job: JobId) {
        self.0.remove(&job);
    }
}

/// Held jobs that wait until a time, such as after a failure.
#[derive(Debug, Default)]
pub(crate) struct Delays(BTreeSet<(Time, JobId)>);

impl Delays {
    pub(super) fn add(&mut self, until: Time, job: JobId) {
        self.0.insert((until, job));
    }

    pub(crate) fn next_due(&self) -> Option<Time> {
        self.0.first().map(|&(until, _)| until)
    }

    /// Takes out the next job that has waited long enough, and until when it was to wait.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<(Time, JobId)> {
        self.0.first().filter(|(until, _)| *until <= now)?;
        self.0.pop_first()
    }
}

impl FromIterator<(Time, JobId)> for Delays {
    fn from_iter<I: IntoIterator<Item = (Time, JobId)>>(delays: I) -> Self {
        Self(delays.into_iter().collect())
    }
}
