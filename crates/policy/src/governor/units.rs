//! Durations and moments as people write them.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, de};
use wharf_core::{Time, parse_seconds};

/// A duration in seconds: `90`, `90s`, `1h30m`, `7d`, `2w`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Duration(pub(crate) f64);

/// A moment: a date, or so long after the limits were applied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// Seconds since the Unix epoch.
    Unix(f64),
    /// Seconds after the limits were applied.
    After(f64),
}

/// What moments are reckoned from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Origin {
    /// When the engine's time began, in seconds since the Unix epoch.
    pub unix_s: f64,
    /// When the limits were applied.
    pub applied: Time,
}

impl Moment {
    /// The moment in the engine's time.
    pub(crate) fn at(self, origin: Origin) -> Time {
        match self {
            Self::Unix(unix_s) => Time::from_seconds(unix_s - origin.unix_s),
            Self::After(seconds) => origin.applied.plus(seconds),
        }
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_seconds(text.trim()).map(Self).ok_or_else(|| {
            de::Error::custom(format!("`{text}` is not a duration; write `90s`, `1h30m`, `7d` or `2w`"))
        })
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed = match text.strip_prefix('+') {
            Some(duration) => parse_seconds(duration.trim()).map(Self::After),
            None => text.parse::<Timestamp>().ok().map(|time| Self::Unix(time.as_duration().as_secs_f64())),
        };
        parsed.ok_or_else(|| {
            de::Error::custom(format!(
                "`{text}` is not a moment; write `2026-03-01T08:00:00+01:00`, or `+2h` for two hours from now"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, expected) in [
            ("90", Some(90.0)),
            ("90s", Some(90.0)),
            ("1h30m", Some(5400.0)),
            ("1.5h", Some(5400.0)),
            ("7d", Some(604_800.0)),
            ("1w1d", Some(691_200.0)),
            ("", None),
            ("h", None),
            ("-5", None),
            ("inf", None),
            ("5 parsecs", None),
        ] {
            assert_eq!(parse_seconds(text.trim()), expected, "{text}");
        }
    }
}
