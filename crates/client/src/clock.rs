//! The wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since the Unix epoch by the clock of this machine.
pub fn unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
