//! The measurement window: the part of a run that metrics are about. Jobs outside of it run as ever, but are not counted.

use std::fmt;
use std::str::FromStr;

use wharf_core::{JobSpec, Time, parse_seconds};

use crate::JobRecord;

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// Jobs by their position in the trace, from 0; both ends count.
    Jobs {
        /// The first.
        first: u32,
        /// The last.
        last: u32,
    },
    /// Jobs that are submitted in this time, and devices during it.
    Time {
        /// The first moment.
        from: Time,
        /// The moment after the last.
        to: Time,
    },
}

/// A window that cannot be measured.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MeasureError {
    /// Not of either form.
    #[error("`{text}` is not a measurement window: expected `jobs=A..B` or `time=T1..T2`")]
    Form {
        /// The text.
        text: String,
    },
    /// An end that is no number or length of time.
    #[error("measurement window `{text}`: expected {expected}, found `{found}`")]
    Value {
        /// The window.
        text: String,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// It ends before it begins.
    #[error("measurement window `{text}` ends before it begins")]
    Backwards {
        /// The window.
        text: String,
    },
    /// Jobs that the trace does not have.
    #[error("measurement window `{measure}` is outside the trace, which has jobs 0..{last}")]
    NoSuchJobs {
        /// The window.
        measure: Measure,
        /// The last job of the trace.
        last: usize,
    },
    /// A time in which no job is submitted.
    #[error(
        "no job is submitted within measurement window `{measure}`; the trace has submissions from {first} s to {last} s"
    )]
    NoSubmission {
        /// The window.
        measure: Measure,
        /// The first submission of the trace.
        first: Time,
        /// The last one.
        last: Time,
    },
    /// A trace without jobs.
    #[error("measurement window `{measure}`: the trace has no jobs")]
    Empty {
        /// The window.
        measure: Measure,
    },
}

impl Measure {
    /// Whether a job counts.
    pub(crate) fn counts(self, job: &JobRecord) -> bool {
        match self {
            Self::Jobs { first, last } => (first..=last).contains(&job.job.0),
            Self::Time { from, to } => from <= job.submit && job.submit < to,
        }
    }

    /// Checks that the window has jobs of a trace in it.
    ///
    /// # Errors
    /// Where it is outside the trace.
    pub fn check(self, jobs: &[JobSpec]) -> Result<(), MeasureError> {
        let submits = || jobs.iter().map(|job| job.submit);
        let (Some(earliest), Some(latest)) = (submits().min(), submits().max()) else {
            return Err(MeasureError::Empty { measure: self });
        };
        match self {
            Self::Jobs { last, .. } if last as usize >= jobs.len() => {
                Err(MeasureError::NoSuchJobs { measure: self, last: jobs.len() - 1 })
            }
            Self::Time { from, to } if !submits().any(|submit| from <= submit && submit < to) => {
                Err(MeasureError::NoSubmission { measure: self, first: earliest, last: latest })
            }
            _ => Ok(()),
        }
    }
}

impl FromStr for Measure {
    type Err = MeasureError;

    fn from_str(text: &str) -> Result<Self, MeasureError> {
        let form = || MeasureError::Form { text: text.to_owned() };
        let (kind, range) = text.split_once('=').ok_or_else(form)?;
        let (first, last) = range.split_once("..").ok_or_else(form)?;
        let value = |expected, found: &str| MeasureError::Value {
            text: text.to_owned(),
            expected,
            found: found.to_owned(),
        };
        let is_forwards;
        let measure = match kind {
            "jobs" => {
                let job = |word: &str| word.parse().map_err(|_| value("the number of a job", word));
                let (first, last) = (job(first)?, job(last)?);
                is_forwards = first <= last;
                Self::Jobs { first, last }
            }
            "time" => {
                let time = |word: &str| {
                    let seconds = parse_seconds(word).and_then(Time::try_new);
                    seconds.ok_or_else(|| value("seconds, or a duration such as `12h`", word))
                };
                let (from, to) = (time(first)?, time(last)?);
                is_forwards = from < to;
                Self::Time { from, to }
            }
            _ => return Err(form()),
        };
        if is_forwards { Ok(measure) } else { Err(MeasureError::Backwards { text: text.to_owned() }) }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jobs { first, last } => write!(f, "jobs={first}..{last}"),
            Self::Time { from, to } => write!(f, "time={}..{}", from.seconds(), to.seconds()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_in_words_reads_back_or_is_refused() {
        let cases = [
            ("jobs=3..9", Ok("jobs=3..9")),
            ("jobs=3..3", Ok("jobs=3..3")),
            ("time=1h..2d", Ok("time=3600..172800")),
            ("time=0..0.5", Ok("time=0..0.5")),
            ("jobs=9..3", Err("measurement window `jobs=9..3` ends before it begins")),
            ("time=5..5", Err("measurement window `time=5..5` ends before it begins")),
            ("jobs=a..3", Err("measurement window `jobs=a..3`: expected the number of a job, found `a`")),
            ("jobs=-1..3", Err("measurement window `jobs=-1..3`: expected the number of a job, found `-1`")),
            (
                "time=1..soon",
                Err(
                    "measurement window `time=1..soon`: expected seconds, or a duration such as `12h`, found `soon`",
                ),
            ),
            ("jobs=3", Err("`jobs=3` is not a measurement window: expected `jobs=A..B` or `time=T1..T2`")),
            (
                "users=1..2",
                Err("`users=1..2` is not a measurement window: expected `jobs=A..B` or `time=T1..T2`"),
            ),
        ];
        for (text, expected) in cases {
            let found = text.parse::<Measure>().map(|measure| measure.to_string());
            assert_eq!(
                found.map_err(|error| error.to_string()),
                expected.map(str::to_owned).map_err(str::to_owned)
            );
        }
    }

    #[test]
    fn window_outside_the_trace_is_refused() {
        let job = |submit: f64| JobSpec::new("a", Time::from_seconds(submit), 1, 1.0, 1000.0);
        let jobs = [job(10.0), job(20.0), job(30.0)];
        let cases = [
            ("jobs=0..2", None),
            ("jobs=0..3", Some("measurement window `jobs=0..3` is outside the trace, which has jobs 0..2")),
            ("time=20..21", None),
            (
                "time=11..20",
                Some(
                    "no job is submitted within measurement window `time=11..20`; the trace has submissions from 10 s to 30 s",
                ),
            ),
        ];
        for (text, expected) in cases {
            let found = text.parse::<Measure>().unwrap().check(&jobs);
            assert_eq!(found.err().map(|error| error.to_string()).as_deref(), expected, "{text}");
        }
        assert!("jobs=0..0".parse::<Measure>().unwrap().check(&[]).is_err());
    }
}
