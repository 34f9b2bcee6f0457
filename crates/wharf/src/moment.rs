//! Moments as people read them.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A moment in the zone of this machine, to the second.
pub(crate) fn local(unix_s: f64) -> String {
    let Ok(timestamp) = Timestamp::from_second(unix_s as i64) else { return format!("{unix_s} s") };
    timestamp.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}
