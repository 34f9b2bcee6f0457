//! GPU-hours within a sliding window.

use std::collections::VecDeque;

use wharf_core::Time;

/// Parts of a window. What is in the oldest counts until all of it has left the window, so the count is never too low.
const PARTS: f64 = 128.0;

/// The shortest time after which it is worth looking again.
const LOOK_AGAIN_S: f64 = 0.001;

/// Device-seconds used within a window that ends now.
#[derive(Clone, Debug)]
pub(crate) struct Hours {
    /// Device-seconds that may be used.
    limit_s: f64,
    /// Once they are used up, what they have to fall below before anything starts again.
    resume_s: f64,
    is_spent: bool,
    window_s: f64,
    /// Device-seconds by part; the first one's number is `first`.
    parts: VecDeque<f64>,
    first: i64,
    /// Devices in use since `since`.
    devices: u32,
    since: Time,
}

impl Hours {
    /// `resume` is the share of the limit below which things start again once it was used up.
    pub(crate) fn new(hours: f64, window_s: f64, resume: f64, now: Time) -> Self {
        let (limit_s, parts) = (hours * 3600.0, VecDeque::new());
        let resume_s = limit_s * resume;
        Self { limit_s, resume_s, is_spent: false, window_s, parts, first: 0, devices: 0, since: now }
    }

    fn width_s(&self) -> f64 {
        self.window_s / PARTS
    }

    fn part_of(&self, time: Time) -> i64 {
        (time.seconds() / self.width_s()).floor() as i64
    }

    /// When a part begins.
    fn begin(&self, part: i64) -> Time {
        Time::from_seconds(part as f64 * self.width_s())
    }

    /// When nothing of a part is in the window any more.
    fn leaves(&self, part: i64) -> Time {
        self.begin(part + 1).plus(self.window_s)
    }

    /// Counts what is in use up to now, and forgets what has left the window.
    pub(crate) fn advance(&mut self, now: Time) {
        if now > self.since {
            self.add(self.since, now, self.devices);
            self.since = now;
        }
        while !self.parts.is_empty() && self.leaves(self.first) <= now {
            self.parts.pop_front();
            self.first += 1;
        }
    }

    /// Counts devices that were in use from one moment to another, the latter not after now.
    pub(crate) fn add(&mut self, from: Time, to: Time, devices: u32) {
        let from = from.max(Time::from_seconds(to.seconds() - self.window_s));
        let is_past = self.leaves(self.part_of(to)) <= self.since;
        if devices == 0 || to <= from || is_past {
            return;
        }
        let (begin, end) = (self.part_of(from), self.part_of(to));
        self.reach(begin, end);
        for part in begin..=end {
            let overlap_s = self.begin(part + 1).min(to).since(self.begin(part).max(from)).max(0.0);
            if let Some(used) = usize::try_from(part - self.first).ok().and_then(|at| self.parts.get_mut(at))
            {
                *used += overlap_s * f64::from(devices);
            }
        }
    }

    /// Makes room for all parts from one to another.
    fn reach(&mut self, begin: i64, end: i64) {
        if self.parts.is_empty() || end - self.first > 2 * PARTS as i64 {
            // What is so far back is not in any window that ends in the last part.
            self.parts.clear();
            self.first = begin;
        }
        while begin < self.first {
            self.parts.push_front(0.0);
            self.first -= 1;
        }
        while self.first + (self.parts.len() as i64) <= end {
            self.parts.push_back(0.0);
        }
    }

    pub(crate) fn set_devices(&mut self, now: Time, devices: u32) {
        self.advance(now);
        self.devices = devices;
    }

    pub(crate) fn devices(&self) -> u32 {
        self.devices
    }

    fn used_s(&self) -> f64 {
        self.parts.iter().sum()
    }

    /// GPU-hours used within the window, as of the last [`Hours::advance`] and what is in use since then.
    pub(crate) fn used(&self, now: Time) -> f64 {
        (self.used_s() + f64::from(self.devices) * now.since(self.since).max(0.0)) / 3600.0
    }

    pub(crate) fn limit(&self) -> f64 {
        self.limit_s / 3600.0
    }

    /// Whether they were used up when they were last checked.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_spent
    }

    fn is_spent_now(&self) -> bool {
        // What is short by less than a thousandth of a second of one device is a rounding error.
        self.used_s() >= if self.is_spent { self.resume_s } else { self.limit_s } - LOOK_AGAIN_S
    }

    /// Looks whether they are used up; returns whether that has changed.
    pub(crate) fn look(&mut self, now: Time) -> bool {
        self.advance(now);
        let is_spent = self.is_spent_now();
        std::mem::replace(&mut self.is_spent, is_spent) != is_spent
    }

    /// When to look again: when the limit may be reached, or when it may be kept again.
    pub(crate) fn look_at(&self, now: Time) -> Option<Time> {
        let at = if self.is_spent_now() != self.is_spent {
            return Some(now);
        } else if !self.is_spent {
            let left_s = self.limit_s - self.used_s();
            (self.devices > 0).then(|| now.plus(left_s / f64::from(self.devices)))?
        } else if self.devices > 0 {
            self.leaves(self.first)
        } else {
            let mut left_s = self.used_s();
            let mut part = self.first;
            for used_s in &self.parts {
                left_s -= used_s;
                if left_s < self.resume_s - LOOK_AGAIN_S {
                    break;
                }
                part += 1;
            }
            self.leaves(part)
        };
        Some(at.max(now.plus(LOOK_AGAIN_S)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_seconds(seconds)
    }

    /// One hour within 1280 s: parts of ten seconds.
    #[test]
    fn hours_are_used_up_and_come_back() {
        let mut hours = Hours::new(1.0, 1280.0, 1.0, at(0.0));
        hours.set_devices(at(100.0), 10);
        hours.advance(at(200.0));
        assert_eq!((hours.used(at(200.0)) * 3600.0).round(), 1000.0);
        assert!(!hours.look(at(200.0)));
        assert_eq!(hours.look_at(at(200.0)), Some(at(460.0)));
        hours.set_devices(at(460.0), 0);
        assert!(hours.look(at(460.0)) && hours.is_spent());
        // The part from 100 to 110 leaves the window at 1390.
        assert_eq!(hours.look_at(at(460.0)), Some(at(1390.0)));
        assert!(hours.look(at(1390.0)) && !hours.is_spent());
        hours.advance(at(10_000.0));
        assert_eq!(hours.used(at(10_000.0)), 0.0);
    }

    #[test]
    fn those_who_were_stopped_wait_for_a_share_that_is_worth_a_start() {
        let mut hours = Hours::new(1.0, 1280.0, 0.5, at(0.0));
        hours.set_devices(at(0.0), 10);
        hours.set_devices(at(360.0), 0);
        assert!(hours.look(at(360.0)));
        // Half of it was used by 180 s, and the last part of that leaves the window with its end at 190 s.
        assert_eq!(hours.look_at(at(360.0)), Some(at(1470.0)));
    }

    #[test]
    fn a_long_gap_and_the_past_do_no_harm() {
        let mut hours = Hours::new(1.0, 1280.0, 1.0, at(1e7));
        hours.add(at(5e6), at(1e7 - 600.0), 1);
        hours.advance(at(1e7));
        let used_s = hours.used(at(1e7)) * 3600.0;
        assert!((680.0..=700.0).contains(&used_s), "{used_s}");
        hours.set_devices(at(1e7), 1);
        hours.advance(at(2e7));
        let used_s = hours.used(at(2e7)) * 3600.0;
        assert!((1280.0..=1300.0).contains(&used_s), "{used_s}");
    }
}
