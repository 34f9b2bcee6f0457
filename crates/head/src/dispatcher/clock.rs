//! The dispatcher's time.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use wharf_core::Time;

/// The source of the engine's time. The head's own follows the wall; tests drive theirs by hand.
pub(crate) trait Clock: Send {
    /// The present, never earlier than what it returned before.
    fn now(&self) -> Time;
}

/// The engine's time, and its place in the calendar.
pub(crate) struct EngineClock {
    clock: Box<dyn Clock>,
    epoch_unix_s: f64,
}

impl EngineClock {
    /// The engine's time began at `epoch_unix_s`.
    pub(crate) fn new(clock: Box<dyn Clock>, epoch_unix_s: f64) -> Self {
        Self { clock, epoch_unix_s }
    }

    /// The engine's present.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// When the engine's time began, in seconds since the Unix epoch.
    pub(crate) fn epoch_unix_s(&self) -> f64 {
        self.epoch_unix_s
    }

    /// A time of the engine in seconds since the Unix epoch.
    pub(crate) fn unix_s(&self, time: Time) -> f64 {
        self.epoch_unix_s + time.seconds()
    }

    /// A time that is given in seconds since the Unix epoch, where it is in the future.
    pub(crate) fn future(&self, unix_s: f64) -> Option<Time> {
        Time::try_new(unix_s - self.epoch_unix_s).filter(|time| *time > self.now())
    }
}

/// Time as it passes. Corrections of the machine's clock while the head runs do not disturb it.
pub(crate) struct Wall {
    began: Instant,
    offset_s: f64,
}

impl Wall {
    /// A clock that continues from `last`, for an engine whose time began at `epoch_unix_s`.
    pub(crate) fn new(epoch_unix_s: f64, last: Time) -> Self {
        Self { began: Instant::now(), offset_s: (unix_s() - epoch_unix_s).max(last.seconds()) }
    }
}

impl Clock for Wall {
    fn now(&self) -> Time {
        Time::from_seconds(self.offset_s + self.began.elapsed().as_secs_f64())
    }
}

/// Seconds since the Unix epoch; a clock before that counts as its beginning.
pub(crate) fn unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
