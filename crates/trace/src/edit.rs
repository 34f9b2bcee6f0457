//! Changes of whole traces: a part of the jobs, other times, other sizes, a new sample of them.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use wharf_core::{JobSpec, Time};

use crate::Trace;
use crate::generate::GeneratorSettings;
use crate::generate::draw::{Draw, Purpose};

/// Latest submission: beyond it, seconds are not distinguished well enough.
const SUBMIT_MAX_S: f64 = 1e12;

/// A change of a trace. Jobs keep their order, and what is not named stays as it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// Keep the first jobs.
    Head(usize),
    /// Keep the jobs at these positions, counted from 0; the end of the range is excluded.
    Positions(Range),
    /// Keep the jobs that are submitted within these seconds; the end of the range is excluded.
    Window(Range),
    /// Keep the jobs that pass a filter.
    Filter(JobFilter),
    /// Multiply the rate of arrivals, the lengths and the devices of jobs by factors.
    Scale {
        /// Of the rate: 2 halves all times of submission.
        arrivals: f64,
        /// Of the lengths; the time from submission to deadline changes alike.
        durations: f64,
        /// Of the devices, rounded up.
        devices: f64,
    },
    /// Draw so many jobs, with replacement, in blocks of consecutive jobs: see [`Edit::apply`].
    Resample {
        /// How many jobs.
        jobs: usize,
        /// The same seed draws the same jobs.
        seed: u64,
    },
    /// Move all times so that the first job is submitted at this second.
    Shift(f64),
}

/// Which jobs are kept. An empty list lets everything pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobFilter {
    /// Users.
    pub users: Vec<String>,
    /// Models.
    pub models: Vec<String>,
    /// Device types; a job passes that may run on one of them.
    pub device_types: Vec<String>,
    /// Pools.
    pub pools: Vec<String>,
    /// Devices, both ends included.
    pub devices: Range,
    /// Seconds of undisturbed running, both ends included.
    pub duration_s: Range,
}

impl JobFilter {
    fn passes(&self, job: &JobSpec) -> bool {
        let among = |names: &[String], name: Option<&str>| {
            names.is_empty() || name.is_some_and(|name| names.iter().any(|known| known == name))
        };
        let types = &self.device_types;
        among(&self.users, job.user.as_deref())
            && among(&self.models, job.model.as_deref())
            && among(&self.pools, job.gang.pool().map(|pool| &**pool))
            && (types.is_empty() || types.iter().any(|name| job.gang.allows(name)))
            && self.devices.includes(job.gang.devices.into())
            && self.duration_s.includes(job.solo_s())
    }
}

/// Numbers from `from` up to `to`; without an end there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Range {
    /// The first.
    pub from: Option<f64>,
    /// The last, or the first that is excluded: that depends on the use.
    pub to: Option<f64>,
}

impl Range {
    /// Whether a number is within, both ends included.
    fn includes(&self, value: f64) -> bool {
        self.from.is_none_or(|from| value >= from) && self.to.is_none_or(|to| value <= to)
    }

    /// Whether no number is within, the end excluded.
    fn is_empty(&self) -> bool {
        self.from.zip(self.to).is_some_and(|(from, to)| from >= to)
    }

    /// Whether a number is within, the end excluded.
    fn holds(&self, value: f64) -> bool {
        self.from.is_none_or(|from| value >= from) && self.to.is_none_or(|to| value < to)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |side: Option<f64>| side.map_or_else(String::new, |side| side.to_string());
        write!(f, "{}..{}", side(self.from), side(self.to))
    }
}

/// A text that is no range.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("expected FROM..TO, FROM.., ..TO or one number from 0, found `{text}`")]
pub struct RangeError {
    /// The text.
    text: String,
}

impl FromStr for Range {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let wrong = || RangeError { text: text.to_owned() };
        let side = |side: &str| -> Result<Option<f64>, RangeError> {
            if side.is_empty() {
                return Ok(None);
            }
            let value: f64 = side.parse().map_err(|_| wrong())?;
            if value.is_finite() && value >= 0.0 { Ok(Some(value)) } else { Err(wrong()) }
        };
        let range = match text.split_once("..") {
            Some((from, to)) => Self { from: side(from)?, to: side(to)? },
            None => {
                let only = side(text)?;
                Self { from: only, to: only }
            }
        };
        let is_ascending = range.from.zip(range.to).is_none_or(|(from, to)| from <= to);
        if range == Self::default() || !is_ascending { Err(wrong()) } else { Ok(range) }
    }
}

/// A change that a trace does not allow.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum EditError {
    /// No job is left.
    #[error("no job passes the filter, of {jobs}")]
    NoMatch {
        /// Jobs before the change.
        jobs: usize,
    },
    /// No job was asked for.
    #[error("no job is left of {jobs}: the requested number is 0")]
    NoJobs {
        /// Jobs before the change.
        jobs: usize,
    },
    /// A range of positions or a window that ends where it begins.
    #[error("the range {range} is empty: its end is excluded")]
    EmptyRange {
        /// The range.
        range: Range,
    },
    /// A range of positions without any job.
    #[error("positions {range} are outside the trace, which has jobs 0 to {last}")]
    PositionsOutside {
        /// The range.
        range: Range,
        /// The last position.
        last: usize,
    },
    /// A window without any job.
    #[error(
        "no job is submitted in the window {range} s; the trace has submissions from {first_s} s to {last_s} s"
    )]
    WindowOutside {
        /// The window.
        range: Range,
        /// The first submission.
        first_s: f64,
        /// The last.
        last_s: f64,
    },
    /// A factor that is not a number above 0.
    #[error("the factor of {what} is {value}, expected a number above 0")]
    BadFactor {
        /// What is scaled.
        what: &'static str,
        /// The factor.
        value: f64,
    },
    /// A start that no trace can have.
    #[error("the first submission cannot be at {start_s} s, expected a number from 0")]
    BadStart {
        /// The start.
        start_s: f64,
    },
    /// A sample of more jobs than a trace can have.
    #[error("a sample of {wanted} jobs, expected at most {most}")]
    TooManyJobs {
        /// The size that was asked for.
        wanted: usize,
        /// The largest trace.
        most: u32,
    },
    /// A number that becomes too large.
    #[error("{what} of job `{job}` become too large to compute with")]
    TooLarge {
        /// What was changed.
        what: &'static str,
        /// The first such job.
        job: String,
    },
}

impl Edit {
    /// Applies the change to a trace in the order of submission, as readers return it.
    ///
    /// A sample is drawn in blocks (moving-block bootstrap): runs of √n consecutive jobs, of n, from random positions, each job
    /// with the gap to the one before it. So bursts, and jobs that come together, stay together; the order of the blocks is
    /// random. The first job is submitted at 0. A job's name gets `~` and its position in the sample; it leaves its array.
    ///
    /// # Errors
    /// A change that leaves no job, or that no trace allows.
    pub fn apply(&self, trace: &mut Trace) -> Result<(), EditError> {
        let jobs = &mut trace.jobs;
        let count = jobs.len();
        match self {
            Self::Head(wanted) => jobs.truncate(*wanted),
            Self::Positions(range) | Self::Window(range) if range.is_empty() => {
                return Err(EditError::EmptyRange { range: *range });
            }
            Self::Positions(range) => {
                let mut places = 0u32..;
                jobs.retain(|_| places.next().is_some_and(|place| range.holds(place.into())));
                if jobs.is_empty() {
                    return Err(EditError::PositionsOutside { range: *range, last: count.saturating_sub(1) });
                }
            }
            Self::Window(range) => {
                let submit_s = |job: Option<&JobSpec>| job.map_or(0.0, |job| job.submit.seconds());
                let (first_s, last_s) = (submit_s(jobs.first()), submit_s(jobs.last()));
                jobs.retain(|job| range.holds(job.submit.seconds()));
                if jobs.is_empty() {
                    return Err(EditError::WindowOutside { range: *range, first_s, last_s });
                }
            }
            Self::Filter(filter) => {
                jobs.retain(|job| filter.passes(job));
                if jobs.is_empty() {
                    return Err(EditError::NoMatch { jobs: count });
                }
            }
            Self::Scale { arrivals, durations, devices } => scale(jobs, *arrivals, *durations, *devices)?,
            Self::Resample { jobs: wanted, seed } => *jobs = resample(jobs, *wanted, *seed)?,
            Self::Shift(to_s) if !(to_s.is_finite() && *to_s >= 0.0) => {
                return Err(EditError::BadStart { start_s: *to_s });
            }
            Self::Shift(to_s) => {
                let first = jobs.first().map_or(Time::ZERO, |job| job.submit);
                move_jobs(jobs, |submit| to_s + submit.since(first), 1.0)?;
            }
        }
        if jobs.is_empty() { Err(EditError::NoJobs { jobs: count }) } else { Ok(()) }
    }
}

/// Gives jobs other times of submission; the time that a deadline allows is multiplied by `allowance`.
fn move_jobs(jobs: &mut [JobSpec], to_s: impl Fn(Time) -> f64, allowance: f64) -> Result<(), EditError> {
    for job in jobs {
        let late = |what| EditError::TooLarge { what, job: job.name.to_string() };
        let submit_s = to_s(job.submit);
        let deadline_s = job.deadline.map(|deadline| submit_s + deadline.since(job.submit) * allowance);
        job.submit = Time::try_new(submit_s)
            .filter(|submit| submit.seconds() <= SUBMIT_MAX_S)
            .ok_or_else(|| late("submissions"))?;
        job.deadline = deadline_s
            .map(|deadline_s| Time::try_new(deadline_s).ok_or_else(|| late("deadlines")))
            .transpose()?;
    }
    Ok(())
}

fn scale(jobs: &mut [JobSpec], arrivals: f64, durations: f64, devices: f64) -> Result<(), EditError> {
    for (what, value) in [("arrivals", arrivals), ("durations", durations), ("devices", devices)] {
        if !(value.is_finite() && value > 0.0) {
            return Err(EditError::BadFactor { what, value });
        }
    }
    move_jobs(jobs, |submit| submit.seconds() / arrivals, durations)?;
    for job in jobs {
        let large = |what| EditError::TooLarge { what, job: job.name.to_string() };
        job.iterations *= durations;
        job.duration_s = job.duration_s.map(|duration_s| duration_s * durations);
        if !job.iterations.is_normal() || !job.solo_s().is_finite() || !job.declared_s().is_finite() {
            return Err(large("durations"));
        }
        let scaled = |count: u32| {
            let scaled = (f64::from(count) * devices).ceil().max(1.0);
            if scaled <= f64::from(u32::MAX) { Ok(scaled as u32) } else { Err(large("devices")) }
        };
        let gang = &job.gang;
        let (asked, least, most) =
            (scaled(gang.devices)?, scaled(gang.devices_min)?, scaled(gang.devices_max)?);
        (job.gang.devices, job.gang.devices_min, job.gang.devices_max) = (asked, least, most);
    }
    Ok(())
}

fn resample(jobs: &[JobSpec], wanted: usize, seed: u64) -> Result<Vec<JobSpec>, EditError> {
    let count = jobs.len();
    if count == 0 || wanted == 0 {
        return Err(EditError::NoJobs { jobs: count });
    }
    let most = GeneratorSettings::JOBS_MAX;
    if wanted > most as usize {
        return Err(EditError::TooManyJobs { wanted, most });
    }
    let submit_s = |place: usize| jobs[place].submit.seconds();
    let mean_gap_s = (submit_s(count - 1) - submit_s(0)) / (count - 1).max(1) as f64;
    // The first job follows the last where a block goes round.
    let gap_s = |place: usize| if place == 0 { mean_gap_s } else { submit_s(place) - submit_s(place - 1) };
    let block = ((count as f64).sqrt().ceil() as usize).max(1);
    let mut draw = Draw::new(seed, Purpose::Blocks);
    let mut drawn = Vec::new();
    let mut now_s = 0.0;
    while drawn.len() < wanted {
        let start = ((draw.unit() * count as f64) as usize).min(count - 1);
        for place in (start..start + block).map(|place| place % count).take(wanted - drawn.len()) {
            if !drawn.is_empty() {
                now_s += gap_s(place);
            }
            let mut job = JobSpec { array: None, ..jobs[place].clone() };
            job.name = format!("{}~{}", job.name, drawn.len() + 1).into();
            move_jobs(std::slice::from_mut(&mut job), |_| now_s, 1.0)?;
            drawn.push(job);
        }
    }
    Ok(drawn)
}
