//! Values with units: durations, sizes, moments, signals.

use std::str::FromStr;

use jiff::civil;
use jiff::tz::TimeZone;
use nix::sys::signal::Signal;
use wharf_core::parse_seconds;

/// A text that is no value of its kind, and how one is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not {expected}")]
pub struct UnitError {
    given: String,
    expected: &'static str,
}

impl UnitError {
    /// A text that is not what was expected.
    pub(crate) fn new(given: &str, expected: &'static str) -> Self {
        Self { given: given.to_owned(), expected }
    }
}

/// A duration in seconds: `90`, `90s`, `1h30m`, `2d`, `1-02:03:04`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seconds(pub f64);

/// How long a job may make no progress; 0: as long as it likes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StallTimeout(pub f64);

impl FromStr for StallTimeout {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text == "never" { Ok(Self(0.0)) } else { text.parse().map(|Seconds(seconds)| Self(seconds)) }
    }
}

impl FromStr for Seconds {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let seconds = if text.contains([':', '-']) { clock(text) } else { parse_seconds(text) };
        let fits = |seconds: &f64| seconds.is_finite() && *seconds >= 0.0;
        seconds.filter(fits).map(Self).ok_or_else(|| UnitError {
            given: text.to_owned(),
            expected: "a duration; write `90s`, `1h30m`, `2d` or `1-02:03:04`",
        })
    }
}

/// `D-HH:MM:SS`, `D-HH:MM`, `D-HH`, `HH:MM:SS` or `MM:SS`.
fn clock(text: &str) -> Option<f64> {
    let whole = |text: &str| {
        let is_number = !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { text.parse::<f64>().ok() } else { None }
    };
    let (days, time) = match text.split_once('-') {
        Some((days, time)) => (Some(whole(days)?), time),
        None => (None, text),
    };
    let parts: Vec<f64> = time.split(':').map(whole).collect::<Option<_>>()?;
    let seconds = match (days, parts.as_slice()) {
        (_, [hours, minutes, seconds]) => hours * 3600.0 + minutes * 60.0 + seconds,
        (Some(_), [hours, minutes]) => hours * 3600.0 + minutes * 60.0,
        (Some(_), [hours]) => hours * 3600.0,
        (None, [minutes, seconds]) => minutes * 60.0 + seconds,
        _ => return None,
    };
    Some(days.unwrap_or(0.0) * 86_400.0 + seconds)
}

/// An amount of memory in bytes: `4GiB`, `512M`; `K`, `M`, `G`, `T` count in 1024s, `KB`, `MB`, `GB`, `TB` in 1000s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl Size {
    /// In whole mebibytes, rounded up.
    #[must_use]
    pub fn mib(self) -> u64 {
        self.0.div_ceil(1 << 20)
    }
}

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let parsed = || {
            let digits = text.find(|c: char| c != '.' && !c.is_ascii_digit())?;
            let value: f64 = text[..digits].parse().ok()?;
            let power = |base: f64, exponent: i32| base.powi(exponent);
            let unit = match text[digits..].trim() {
                "K" | "KiB" | "Ki" => power(1024.0, 1),
                "M" | "MiB" | "Mi" => power(1024.0, 2),
                "G" | "GiB" | "Gi" => power(1024.0, 3),
                "T" | "TiB" | "Ti" => power(1024.0, 4),
                "kB" | "KB" => power(1000.0, 1),
                "MB" => power(1000.0, 2),
                "GB" => power(1000.0, 3),
                "TB" => power(1000.0, 4),
                _ => return None,
            };
            let bytes = value * unit;
            // Far below where a float stops counting every byte.
            (bytes.is_finite() && bytes < 1e18).then_some(bytes.ceil() as u64)
        };
        parsed().map(Self).ok_or_else(|| UnitError {
            given: text.to_owned(),
            expected: "an amount of memory; write it with its unit, as in `4GiB` or `512M`",
        })
    }
}

/// A moment: an ISO time, in this machine's zone where it names none, or `+6h` from now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deadline {
    /// Seconds since the Unix epoch.
    At(f64),
    /// Seconds from the submission on.
    In(Seconds),
}

impl FromStr for Deadline {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = |_| UnitError {
            given: text.to_owned(),
            expected: "a moment; write `2027-01-31T18:00`, with a zone as in `2027-01-31T18:00Z`, or `+6h`",
        };
        if let Some(wait) = text.strip_prefix('+') {
            return wait.parse().map(Self::In).map_err(wrong);
        }
        let timestamp = text.parse::<jiff::Timestamp>().or_else(|_| {
            let civil: civil::DateTime = text.parse()?;
            Ok::<_, jiff::Error>(civil.to_zoned(TimeZone::system())?.timestamp())
        });
        let seconds = |at: jiff::Timestamp| Self::At(at.as_millisecond() as f64 / 1000.0);
        timestamp
            .map(seconds)
            .map_err(|_: jiff::Error| wrong(UnitError { given: String::new(), expected: "" }))
    }
}

/// A moment that has been: `7d` (that long ago), `2026-11-01`, `2026-11-01T12:00`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Past {
    /// Seconds since the Unix epoch.
    At(f64),
    /// That long ago.
    Ago(Seconds),
}

impl Past {
    /// Seconds since the Unix epoch.
    #[must_use]
    pub fn unix_s(self, now_s: f64) -> f64 {
        match self {
            Self::At(at_s) => at_s,
            Self::Ago(ago) => now_s - ago.0,
        }
    }
}

impl FromStr for Past {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = |_| UnitError {
            given: text.to_owned(),
            expected: "a moment; write how long ago as in `7d`, or `2026-11-01`, or `2026-11-01T12:00`",
        };
        if let Ok(ago) = text.parse() {
            return Ok(Self::Ago(ago));
        }
        match format!("{text}{}", if text.contains(['T', ' ']) { "" } else { "T00:00" }).parse() {
            Ok(Deadline::At(at_s)) => Ok(Self::At(at_s)),
            Ok(Deadline::In(_)) => Err(wrong(())),
            Err(_) => Err(wrong(())),
        }
    }
}

/// A signal by name or number: `TERM`, `SIGUSR1`, `12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopSignal(pub i32);

impl FromStr for StopSignal {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let upper = text.to_uppercase();
        let name = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
        let known = |number: &i32| Signal::try_from(*number).is_ok();
        let number = text.parse().ok().filter(known).or_else(|| Some(name.parse::<Signal>().ok()? as i32));
        number.map(Self).ok_or_else(|| UnitError {
            given: text.to_owned(),
            expected: "a signal; write a name as in `TERM` or `SIGUSR1`, or its number",
        })
    }
}

/// A part of a whole, above 0 and up to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fraction(pub f64);

impl FromStr for Fraction {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let value = text.parse().ok().filter(|&value: &f64| value > 0.0 && value <= 1.0);
        value.map(Self).ok_or_else(|| UnitError {
            given: text.to_owned(),
            expected: "a fraction; write a number above 0 and up to 1, as in `0.8`",
        })
    }
}

/// A resource limit: a number as `setrlimit` counts, a size, or `unlimited`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub Option<u64>);

impl FromStr for Limit {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text == "unlimited" {
            return Ok(Self(None));
        }
        let number = text.parse().ok().or_else(|| Some(text.parse::<Size>().ok()?.0));
        number.map(|number| Self(Some(number))).ok_or_else(|| UnitError {
            given: text.to_owned(),
            expected: "a limit; write a number, a size as in `8GiB`, or `unlimited`",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_in_every_form() {
        for (text, seconds) in [
            ("90", 90.0),
            ("0.5", 0.5),
            ("90s", 90.0),
            ("1h30m", 5400.0),
            ("1.5h", 5400.0),
            ("2d", 172_800.0),
            ("500ms", 0.5),
            ("1w", 604_800.0),
            ("30:00", 1800.0),
            ("02:03:04", 7384.0),
            ("1-02:03:04", 93_784.0),
            ("1-12", 129_600.0),
            ("1-12:30", 131_400.0),
        ] {
            assert_eq!(text.parse(), Ok(Seconds(seconds)), "{text}");
        }
        for text in ["", "-5", "5x", "h", "1:", "1-", "1:2:3:4", "nan", "inf", "1e999", "1h-2", "a:b"] {
            assert!(text.parse::<Seconds>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_need_a_unit() {
        for (text, mib) in
            [("4GiB", 4096), ("512M", 512), ("1.5G", 1536), ("1T", 1 << 20), ("1GB", 954), ("1K", 1)]
        {
            assert_eq!(text.parse::<Size>().unwrap().mib(), mib, "{text}");
        }
        for text in ["4096", "", "G", "-1G", "1X", "1e30G", "9999999999999T"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn deadlines_signals_and_limits() {
        assert_eq!("2027-01-31T18:00:00Z".parse(), Ok(Deadline::At(1_801_418_400.0)));
        assert_eq!("2027-01-31T18:00:00+01:00".parse(), Ok(Deadline::At(1_801_414_800.0)));
        assert_eq!("+6h".parse(), Ok(Deadline::In(Seconds(21_600.0))));
        assert!(matches!("2027-01-31T18:00".parse(), Ok(Deadline::At(_))));
        assert_eq!("7d".parse(), Ok(Past::Ago(Seconds(604_800.0))));
        assert_eq!("2027-01-31T18:00:00Z".parse(), Ok(Past::At(1_801_418_400.0)));
        assert!(matches!("2027-01-31".parse(), Ok(Past::At(_))));
        assert!("yesterday".parse::<Past>().is_err() && "+6h".parse::<Past>().is_err());
        for text in ["tomorrow", "+", "+x", "2027-13-01"] {
            assert!(text.parse::<Deadline>().is_err(), "{text}");
        }
        for (text, signal) in [("TERM", 15), ("sigusr1", 10), ("2", 2)] {
            assert_eq!(text.parse(), Ok(StopSignal(signal)));
        }
        assert!("SIGNOPE".parse::<StopSignal>().is_err() && "0".parse::<StopSignal>().is_err());
        assert_eq!("unlimited".parse(), Ok(Limit(None)));
        assert_eq!("8GiB".parse(), Ok(Limit(Some(8 << 30))));
        assert_eq!("65536".parse(), Ok(Limit(Some(65_536))));
        assert!("many".parse::<Limit>().is_err());
    }
}
