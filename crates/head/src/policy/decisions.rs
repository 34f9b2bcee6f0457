//! The policy's latest decisions, for views of what it does.

use std::collections::VecDeque;

use wharf_core::{Chosen, JobId, StopReason};

/// Decisions that are stored, and jobs of each that are named.
const STORED_MAX: usize = 300;
const NAMED_MAX: usize = 40;

/// A job that had to give its devices back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stopped {
    pub(crate) job: u32,
    pub(crate) why: StopReason,
    /// For which job, and why it was this one, where the policy reports that.
    pub(crate) to: Option<u32>,
    pub(crate) chosen: Option<Chosen>,
}

/// One decision that changed something.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Decided {
    pub(crate) number: u64,
    /// In the engine's time.
    pub(crate) time_s: f64,
    pub(crate) took_s: f64,
    pub(crate) policy: String,
    /// Before it: jobs that waited, and devices that were free.
    pub(crate) waiting: u32,
    pub(crate) free: u32,
    /// The first of those that were given devices, and of those that had to give theirs back; and how many there were.
    pub(crate) started: Vec<u32>,
    pub(crate) stopped: Vec<Stopped>,
    pub(crate) started_count: u32,
    pub(crate) stopped_count: u32,
}

impl Decided {
    pub(crate) fn note_start(&mut self, job: JobId) {
        self.started_count += 1;
        if self.started.len() < NAMED_MAX {
            self.started.push(job.0);
        }
    }

    /// A job is about to be requested to stop, for another one.
    pub(crate) fn note_way(&mut self, job: JobId, to: Option<JobId>, chosen: Chosen) {
        if self.stopped.len() < NAMED_MAX {
            let (to, chosen) = (to.map(|to| to.0), Some(chosen));
            self.stopped.push(Stopped { job: job.0, why: StopReason::Preempted, to, chosen });
        }
    }

    pub(crate) fn note_stop(&mut self, job: JobId, why: StopReason) {
        self.stopped_count += 1;
        let has_room = self.stopped.len() < NAMED_MAX;
        match self.stopped.last_mut() {
            Some(told) if told.job == job.0 => told.why = why,
            _ if has_room => self.stopped.push(Stopped { job: job.0, why, to: None, chosen: None }),
            _ => {}
        }
    }

    fn is_nothing(&self) -> bool {
        self.started_count == 0 && self.stopped_count == 0
    }
}

/// The latest decisions.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    latest: VecDeque<Decided>,
    count: u64,
    fallbacks: u64,
    refusals: usize,
}

impl Decisions {
    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The latest that changed something, the oldest first.
    pub(crate) fn latest(&self) -> impl Iterator<Item = &Decided> {
        self.latest.iter()
    }

    /// Fallbacks and refusals since the last decision, from their totals.
    pub(super) fn count_since_last(&mut self, fallbacks: u64, refusals: usize) -> (u64, u64) {
        // Another policy counts from the beginning.
        let more = fallbacks.checked_sub(self.fallbacks).unwrap_or(fallbacks);
        let refused = refusals.saturating_sub(self.refusals) as u64;
        (self.fallbacks, self.refusals) = (fallbacks, refusals);
        (more, refused)
    }

    /// Counts a decision, and stores it where it changed something.
    pub(super) fn add(&mut self, decided: Decided) {
        self.count += 1;
        if !decided.is_nothing() {
            self.latest.push_back(Decided { number: self.count, ..decided });
            while self.latest.len() > STORED_MAX {
                self.latest.pop_front();
            }
        }
    }
}
