//! What a run of this mechanism can be asked for.

use serde::Deserialize;
use wharf_core::JobId;
use wharf_policy::BadSetting;

use super::error::BloxError;

/// The `[blox]` table of a preset.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    /// Seconds of a round.
    pub round_s: f64,
    /// Seconds of waiting after which a job comes before all others, for good.
    pub starved_s: f64,
}

/// The orders of Blox's simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Least attained service first.
    Las,
    /// First come, first served.
    Fifo,
    /// Shortest remaining time first.
    Srtf,
    /// Goes by attained service too.
    Tiresias,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Las, Self::Fifo, Self::Srtf, Self::Tiresias];

    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Las => "las",
            Self::Fifo => "fifo",
            Self::Srtf => "srtf",
            Self::Tiresias => "tiresias",
        }
    }

    /// What it does, in a line.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Las => "least attained service first, in seconds whatever the gang",
            Self::Fifo => "first come, first served",
            Self::Srtf => "shortest remaining time first",
            Self::Tiresias => "the same as `las`: its queues have no effect",
        }
    }
}

/// A policy and the numbers in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The policy.
    pub policy: Policy,
    /// Seconds of a round.
    pub round_s: f64,
    /// Seconds of waiting after which a job comes first.
    pub starved_s: f64,
    /// The first and the last job that count, by place in the trace; all where `None`.
    pub track: Option<(JobId, JobId)>,
}

impl Settings {
    /// What can be set by name.
    pub const NAMES: [&str; 3] = ["round_s", "starved_s", "track"];

    /// A policy with the preset's numbers and overrides.
    ///
    /// # Errors
    /// [`BadSetting`] names the first override that is out of its range.
    pub fn new(
        policy: Policy,
        numbers: &Numbers,
        overrides: &wharf_policy::Settings,
    ) -> Result<Self, BadSetting> {
        let seconds = |key: &str, default: f64| {
            // The preset's own number goes through the same check.
            let mut settings = wharf_policy::Settings::default();
            settings.set(key, overrides.get(key).unwrap_or(&default.to_string()));
            settings.parsed(key, default, "seconds above 0", |value: &f64| value.is_finite() && *value > 0.0)
        };
        let track = overrides.get("track").map(|text| {
            parse_window(text).ok_or_else(|| BadSetting {
                key: "track".to_owned(),
                value: text.to_owned(),
                expected: "the first and the last job that count, from 0, such as 0..60".to_owned(),
            })
        });
        Ok(Self {
            policy,
            round_s: seconds("round_s", numbers.round_s)?,
            starved_s: seconds("starved_s", numbers.starved_s)?,
            track: track.transpose()?,
        })
    }

    pub(super) fn check_window(&self, jobs: usize) -> Result<(), BloxError> {
        match self.track {
            Some((_, last)) if last.index() >= jobs => Err(BloxError::Window { last: last.0, jobs }),
            _ => Ok(()),
        }
    }
}

fn parse_window(text: &str) -> Option<(JobId, JobId)> {
    let (first, last) = text.split_once("..")?;
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last).then_some((JobId(first), JobId(last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_and_numbers_are_checked() {
        let numbers = Numbers { round_s: 300.0, starved_s: 3.6e6 };
        for (text, expected) in [
            ("track=0..60", Ok((300.0, Some((JobId(0), JobId(60)))))),
            ("round_s=60", Ok((60.0, None))),
            ("round_s=0", Err("setting `round_s` cannot be `0`; it takes seconds above 0")),
            (
                "track=5..2",
                Err(
                    "setting `track` cannot be `5..2`; it takes the first and the last job that count, from 0, such as 0..60",
                ),
            ),
        ] {
            let overrides = wharf_policy::Settings::parse([text]).unwrap();
            let settings = Settings::new(Policy::Las, &numbers, &overrides);
            let found = settings.map(|settings| (settings.round_s, settings.track));
            assert_eq!(found.map_err(|error| error.to_string()), expected.map_err(str::to_owned), "{text}");
        }
    }
}
