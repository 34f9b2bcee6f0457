//! What tells one priority policy from another: the order of jobs.

use std::cmp::Ordering;

use wharf_core::{JobId, Knowledge, Time, View};

/// Device-seconds by which service that is computed in different ways may differ: more than large times are rounded by.
pub(crate) const TOLERANCE_S: f64 = 1e-3;

/// Steps per second of times and service that are compared with each other: coarser than rounding errors, finer than differences that matter.
const STEPS_PER_S: f64 = 1_048_576.0;

/// A place in the order; smaller goes first. Levels are queues, values order the jobs within one.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The queue.
    pub level: u32,
    /// The place within it, which is compared.
    pub value: f64,
    /// As `value`, but not rounded.
    pub exact: f64,
}

impl Key {
    /// A key in the only level.
    pub fn of(value: f64) -> Self {
        // One zero only: a waiting job with -0.0 would go before a running one with 0.0, again and again.
        Self { level: 0, value: value + 0.0, exact: value + 0.0 }
    }

    /// A key in the only level from a time or from service, which order jobs after rounding to the nearest step: sums of thirds or sevenths
    /// of a second that are equal but for rounding errors are a tie.
    pub fn of_seconds(seconds: f64) -> Self {
        let steps = seconds * STEPS_PER_S;
        // Larger numbers have no parts of a step.
        let is_divisible = steps.abs() < 1.0 / f64::EPSILON;
        let value = if is_divisible { steps.round() / STEPS_PER_S } else { seconds };
        Self { exact: seconds, ..Self::of(value) }
    }

    /// A key in a queue.
    pub fn in_level(level: u32, value: f64) -> Self {
        Self { level, ..Self::of(value) }
    }

    /// The key of a time or of service that has changed by so many seconds.
    pub(crate) fn moved(self, seconds: f64) -> Self {
        if seconds == 0.0 {
            self
        } else {
            Self { level: self.level, ..Self::of_seconds(self.exact + seconds) }
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
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

    /// How the value of a running job with this many devices moves per second, where it is made by [`Key::of_seconds`]. Within one gang size
    /// all values move alike, so their order stands still: that is what lets the running jobs stay sorted.
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

    /// A job ended. Returns whether the keys of all jobs have to be computed again.
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

    #[test]
    fn keys_of_service_that_differ_by_rounding_errors_are_equal() {
        let (once, in_parts) = (9445.0, 9445.0 / 3.0 + 9445.0 / 3.0 + 9445.0 / 3.0 + 4e-12);
        assert_ne!(once, in_parts);
        assert_eq!(Key::of_seconds(once), Key::of_seconds(in_parts));
        let shift = 1e5 / 7.0;
        assert_eq!(Key::of_seconds(once).moved(shift).moved(-shift), Key::of_seconds(once));
        assert!(
            Key::of_seconds(once) < Key::of_seconds(once + 1e-5),
            "a difference that is no rounding error"
        );
        assert_eq!(Key::of_seconds(f64::MAX).value, f64::MAX);
    }
}
