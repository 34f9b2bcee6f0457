//! What the policy decided lately, for people who want to know what it does.

use std::collections::VecDeque;
use std::time::Duration;

use wharf_core::{Chosen, JobId, StopReason};

use crate::dispatcher::Dispatcher;

/// Decisions that are remembered, and jobs of each that are named.
const KEPT_MAX: usize = 300;
const NAMED_MAX: usize = 40;

/// A job that had to give its devices back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stopped {
    pub(crate) job: u32,
    pub(crate) why: StopReason,
    /// For whom, and why it was this one, where the policy said so.
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
    pub(crate) latest: VecDeque<Decided>,
    /// How many there were.
    pub(crate) count: u64,
    fallbacks: u64,
    refusals: usize,
}

impl Dispatcher {
    /// The policy was called: keeps what it changed, and counts.
    pub(crate) fn note_decision(&mut self, decided: Decided, took: Duration) {
        let policy = self.kept.policy.as_ref().map_or("", |choice| choice.name.as_str());
        self.meter.note_decision(policy, took);
        let decisions = &mut self.decisions;
        let fallbacks = self.engine.rounds().map_or(0, |notes| notes.fallbacks);
        let refusals = self.engine.violations().len();
        // Another policy counts from the beginning.
        let more = fallbacks.checked_sub(decisions.fallbacks).unwrap_or(fallbacks);
        let refused = refusals.saturating_sub(decisions.refusals) as u64;
        self.meter.note_trouble(policy, more, refused);
        (decisions.fallbacks, decisions.refusals) = (fallbacks, refusals);
        decisions.count += 1;
        if !decided.is_nothing() {
            let (number, policy) = (decisions.count, policy.to_owned());
            decisions.latest.push_back(Decided { number, policy, took_s: took.as_secs_f64(), ..decided });
            while decisions.latest.len() > KEPT_MAX {
                decisions.latest.pop_front();
            }
        }
    }
}
