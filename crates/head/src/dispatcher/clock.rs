//! The dispatcher's present.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use wharf_core::Time;

/// Tells the engine's time. The head's own follows the wall; tests drive theirs by hand.
pub(crate) trait Clock: Send {
    /// The present, never earlier than what it told before.
    fn now(&self) -> Time;
}

/// Time as it passes. Corrections of the machine's clock while the head runs do not disturb it.
pub(crate) struct Wall {
    began: Instant,
    offset_s: f64,
}

impl Wall {
    /// A clock that goes on from `last`, for an engine whose time began at `epoch_unix_s`.
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
