//! Time limits, and spans of time as squeue shows them.

use std::fmt;
use std::str::FromStr;

/// How long a job may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimeLimit {
    /// So many minutes.
    Minutes(u32),
    /// Without a limit.
    Unlimited,
}

/// A text that is no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a time; write minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S or UNLIMITED")]
pub struct NoTime;

impl TimeLimit {
    /// In seconds; none where there is no limit.
    #[must_use]
    pub fn seconds(self) -> Option<u64> {
        match self {
            Self::Minutes(minutes) => Some(u64::from(minutes) * 60),
            Self::Unlimited => None,
        }
    }
}

impl FromStr for TimeLimit {
    type Err = NoTime;

    fn from_str(text: &str) -> Result<Self, NoTime> {
        let text = text.trim_end();
        let is_word = |word: &str| text.eq_ignore_ascii_case(word);
        if is_word("UNLIMITED") || is_word("INFINITE") || text == "-1" {
            return Ok(Self::Unlimited);
        }
        let seconds = seconds(text).ok_or(NoTime)?;
        match u32::try_from(seconds.div_ceil(60)).map_err(|_| NoTime)? {
            0 => Ok(Self::Unlimited),
            minutes => Ok(Self::Minutes(minutes)),
        }
    }
}

fn seconds(text: &str) -> Option<u64> {
    // More digits than any field needs would overflow.
    let number = |digits: &str| {
        let is_number =
            !digits.is_empty() && digits.len() < 12 && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse::<u64>().ok()).flatten()
    };
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(number(days)?), rest),
        None => (None, text),
    };
    let fields: Vec<u64> = match (days, rest) {
        (Some(_), "") => Vec::new(),
        _ => rest.split(':').map(number).collect::<Option<_>>()?,
    };
    let (hours, minutes, seconds) = match (days.is_some(), fields.as_slice()) {
        (true, []) => (0, 0, 0),
        (true, [hours]) => (*hours, 0, 0),
        (true, [hours, minutes]) => (*hours, *minutes, 0),
        (false, [minutes]) => (0, *minutes, 0),
        (false, [minutes, seconds]) => (0, *minutes, *seconds),
        (_, [hours, minutes, seconds]) => (*hours, *minutes, *seconds),
        _ => return None,
    };
    Some(days.unwrap_or(0) * 86_400 + hours * 3600 + minutes * 60 + seconds)
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seconds() {
            None => write!(f, "UNLIMITED"),
            Some(seconds) => write!(f, "{}", Full(seconds)),
        }
    }
}

/// Seconds as `HH:MM:SS` or `D-HH:MM:SS`.
#[derive(Clone, Copy, Debug)]
pub struct Full(pub u64);

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, hours, minutes, seconds) = parts(self.0);
        if days > 0 {
            write!(f, "{days}-")?;
        }
        write!(f, "{hours:02}:{minutes:02}:{seconds:02}")
    }
}

/// Seconds as squeue has them: `M:SS`, `H:MM:SS` or `D-HH:MM:SS`.
#[derive(Clone, Copy, Debug)]
pub struct Brief(pub u64);

impl fmt::Display for Brief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match parts(self.0) {
            (0, 0, minutes, seconds) => write!(f, "{minutes}:{seconds:02}"),
            (0, hours, minutes, seconds) => write!(f, "{hours}:{minutes:02}:{seconds:02}"),
            (days, hours, minutes, seconds) => write!(f, "{days}-{hours:02}:{minutes:02}:{seconds:02}"),
        }
    }
}

fn parts(seconds: u64) -> (u64, u64, u64, u64) {
    (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}
