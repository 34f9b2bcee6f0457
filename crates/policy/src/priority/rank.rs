//! What tells one priority policy from another: the order of jobs.

use std::cmp::Ordering;

use wharf_core::{JobId, Knowledge, Time, View};

/// Device-seconds by which service that is computed in different ways may differ: more than large times are rounded by.
pub(crate) const TOLERANCE_S: f64 = 1e-3;

/// A place in the order; smaller goes first. Levels are queues, values order the jobs within one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// The queue.
    pub level: u32,
    /// The place within it.
    pub value: f64,
}

impl Key {
    /// A key in the only level.
    pub fn of(value: f64) -> Self {
        // One zero only: a waiting job with -0.0 would go before a running one with 0.0, again and again.
        Self { level: 0, value: value + 0.0 }
    }
}

impl Eq for Key {}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.level.cmp(&other.level).then(self.value.total_cmp(&other.value))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The order of a priority policy.
pub trait Rank: Send {
    /// What the order depends on.
    fn knowledge(&self) -> Knowledge {
        Knowledge::Durations
    }

    /// A job's place in the order now.
    fn key(&self, view: &View<'_>, job: JobId) -> Key;

    /// How the value of a running job with this many devices moves per second. Within one gang size all values
    /// move alike, so their order stands still: that is what lets the running jobs stay sorted.
    fn slope(&self, _devices: u32) -> f64 {
        0.0
    }

    /// When a running job's key will jump, other than by its slope.
    fn next_jump(&self, _view: &View<'_>, _job: JobId) -> Option<Time> {
        None
    }

    /// Whether a waiting job with key `waiting` may take the devices of a running one with key `running`.
    fn may_preempt(&self, _waiting: Key, _running: Key) -> bool {
        false
    }

    /// The value from which on a running job can be preempted for a waiting one, where running jobs get there as time passes.
    fn victim_from(&self, _waiting: Key) -> Option<f64> {
        None
    }

    /// A job ended. Returns whether the keys of all jobs have to be computed anew.
    fn learn(&mut self, _view: &View<'_>, _job: JobId) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_know_one_zero() {
        assert_eq!(Key::of(-0.0).cmp(&Key::of(0.0)), Ordering::Equal);
    }
}
