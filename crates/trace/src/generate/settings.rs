//! What a generated trace shall be like.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::text::shown;
use wharf_core::nearest::nearest;

/// What to generate. [`Default`] is a day-and-night, heavy-tailed mix of 1000 jobs that keeps 64 devices busy.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratorSettings {
    /// The trace's name.
    pub name: String,
    /// Same settings and same seed give the same trace.
    pub seed: u64,
    /// How many jobs.
    pub job_count: u32,
    /// How fast jobs come on average.
    pub rate: Rate,
    /// How evenly they come.
    pub arrivals: Arrivals,
    /// How much more than the average comes at the busiest hour of a day, and less at the calmest: 0 to 0.95.
    ///
    /// At 1 nothing at all would come at midnight, and a fast trace that begins there would take an unlimited time to draw.
    pub daily_swing: f64,
    /// How long jobs run.
    pub durations: Durations,
    /// How many devices they ask for.
    pub gangs: GangMix,
    /// How many users there are; 0 leaves users out.
    pub user_count: u32,
    /// How unequal users are: the n-th most active submits in proportion to n^-`user_skew`.
    pub user_skew: f64,
    /// Share of jobs with priority 1 instead of 0.
    pub urgent_share: f64,
    /// Deadlines, if any.
    pub deadlines: Option<Deadlines>,
}

impl Default for GeneratorSettings {
    fn default() -> Self {
        Self {
            name: "generated".into(),
            seed: 1,
            job_count: 1000,
            rate: Rate::Load { devices: 64, load: 0.9 },
            arrivals: Arrivals::Poisson,
            daily_swing: 0.5,
            durations: Durations::default(),
            gangs: GangMix::philly(),
            user_count: 50,
            user_skew: 1.1,
            urgent_share: 0.1,
            deadlines: None,
        }
    }
}

/// How fast jobs come on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// So many an hour.
    PerHour(f64),
    /// As many as keep this share of the devices busy, by the work of the jobs really drawn.
    Load {
        /// Devices in the cluster.
        devices: u32,
        /// Share of them: 0.9 is busy, above 1 the queue grows.
        load: f64,
    },
    /// All at time 0.
    AtOnce,
}

/// How evenly jobs come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Independently of one another.
    Poisson,
    /// Calm times and bursts take turns, each of exponential length (a two-state modulated Poisson process).
    Bursty {
        /// How many times faster jobs come in a burst than in calm times.
        factor: f64,
        /// Mean length of a burst.
        burst_s: f64,
        /// Mean length of a calm time.
        calm_s: f64,
    },
}

impl Arrivals {
    /// Bursts of about half an hour, ten times as busy, every four hours.
    pub const BURSTY: Self = Self::Bursty { factor: 10.0, burst_s: 1800.0, calm_s: 14_400.0 };
}

/// How long jobs run alone: a log-normal body with a Pareto tail, drawn again until within bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Durations {
    /// Half of the body is shorter.
    pub median_s: f64,
    /// Standard deviation of the logarithm in the body.
    pub sigma: f64,
    /// Share of jobs in the tail.
    pub tail_share: f64,
    /// The tail starts here.
    pub tail_from_s: f64,
    /// Exponent of the tail; the smaller, the heavier.
    pub tail_shape: f64,
    /// Shortest run.
    pub min_s: f64,
    /// Longest run.
    pub max_s: f64,
}

impl Default for Durations {
    /// A median of 20 minutes, one job in twenty beyond 8 hours, none beyond 14 days.
    fn default() -> Self {
        Self {
            median_s: 1200.0,
            sigma: 1.6,
            tail_share: 0.05,
            tail_from_s: 28_800.0,
            tail_shape: 1.3,
            min_s: 10.0,
            max_s: 1_209_600.0,
        }
    }
}

/// When jobs should be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deadlines {
    /// Share of jobs that have one.
    pub share: f64,
    /// Least time allowed, as a multiple of the undisturbed run.
    pub slack_min: f64,
    /// Most time allowed, likewise.
    pub slack_max: f64,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { share: 0.5, slack_min: 1.5, slack_max: 5.0 }
    }
}

/// Gang sizes and how often each occurs. Parses from a name or from `1:0.6,2:0.1,8:0.3`; weights need not sum to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct GangMix {
    sizes: Vec<(u32, f64)>,
}

/// Mixes by name. The weights are round numbers of our own in the spirit of each published workload.
const NAMED: &[(&str, &[(u32, f64)])] = &[
    ("philly", &[(1, 0.78), (2, 0.05), (4, 0.07), (8, 0.075), (16, 0.02), (32, 0.005)]),
    ("muri", &[(1, 0.42), (2, 0.05), (4, 0.18), (8, 0.28), (16, 0.05), (32, 0.02)]),
    ("helios", &[(1, 0.55), (2, 0.10), (4, 0.10), (8, 0.19), (16, 0.035), (32, 0.02), (64, 0.005)]),
    ("pai", &[(1, 0.68), (2, 0.13), (3, 0.02), (4, 0.08), (8, 0.06), (16, 0.02), (64, 0.01)]),
];

impl GangMix {
    /// Mostly single devices, a few large gangs.
    pub fn philly() -> Self {
        Self { sizes: NAMED[0].1.to_vec() }
    }

    /// The names that parse.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|(name, _)| *name)
    }

    /// A mix of sizes and weights.
    pub fn try_new(sizes: Vec<(u32, f64)>) -> Result<Self, MixError> {
        if sizes.iter().any(|(devices, _)| *devices == 0) {
            return Err(MixError::ZeroDevices);
        }
        if let Some((_, weight)) = sizes.iter().find(|(_, weight)| !(weight.is_finite() && *weight >= 0.0)) {
            return Err(MixError::Weight { found: weight.to_string() });
        }
        let sum: f64 = sizes.iter().map(|(_, weight)| weight).sum();
        if !(sum > 0.0 && sum.is_finite()) {
            return Err(MixError::NoWeight);
        }
        Ok(Self { sizes })
    }

    /// The sizes that fit a cluster of so many devices; `None` where none does.
    pub fn at_most(&self, devices: u32) -> Option<Self> {
        Self::try_new(self.sizes.iter().copied().filter(|(size, _)| *size <= devices).collect()).ok()
    }

    /// Gang sizes with their weights.
    pub fn sizes(&self) -> &[(u32, f64)] {
        &self.sizes
    }
}

/// Why there is no such mix of gang sizes.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum MixError {
    /// Neither a name nor `size:weight` pairs.
    #[error("{found} is neither a named mix ({}) nor pairs like `1:0.6,2:0.4`{}", names(), suggestion(near))]
    Syntax {
        /// What was given.
        found: String,
        /// A name that looks like it.
        near: Option<&'static str>,
    },
    /// A gang of no device.
    #[error("a gang has at least one device")]
    ZeroDevices,
    /// A weight that is none.
    #[error("found weight {found}, expected a finite number from 0")]
    Weight {
        /// What was given.
        found: String,
    },
    /// Weights that sum to nothing.
    #[error("the weights must sum to a finite number above 0")]
    NoWeight,
}

fn names() -> String {
    GangMix::names().collect::<Vec<_>>().join(", ")
}

fn suggestion(near: &Option<&'static str>) -> String {
    near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

impl FromStr for GangMix {
    type Err = MixError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = text.trim().to_ascii_lowercase();
        let name = name.strip_suffix("-like").unwrap_or(&name);
        if let Some((_, sizes)) = NAMED.iter().find(|(known, _)| *known == name) {
            return Ok(Self { sizes: sizes.to_vec() });
        }
        let known: Vec<&'static str> = Self::names().collect();
        let pair = |pair: &str| {
            let (devices, weight) = pair.split_once(':')?;
            Some((devices.trim().parse().ok()?, weight.trim().parse().ok()?))
        };
        let sizes: Option<Vec<(u32, f64)>> = text.split(',').map(pair).collect();
        match sizes {
            Some(sizes) => Self::try_new(sizes),
            None => Err(MixError::Syntax { found: shown(text), near: nearest(name, known) }),
        }
    }
}

impl fmt::Display for GangMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (devices, weight)) in self.sizes.iter().enumerate() {
            write!(f, "{}{devices}:{weight}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// Why settings make no trace.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("{field} is {found}, expected {expected}")]
pub struct SettingsError {
    /// The field, with a dot where it is part of another.
    pub field: &'static str,
    /// Its value.
    pub found: f64,
    /// What it may be.
    pub expected: &'static str,
}

impl GeneratorSettings {
    /// Most jobs in one trace: ids are 32-bit, and memory has an end.
    pub const JOBS_MAX: u32 = 100_000_000;
    /// Most users.
    pub const USERS_MAX: u32 = 10_000_000;

    /// Checks every field.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let durations = &self.durations;
        within("job_count", self.job_count.into(), 1.0, Self::JOBS_MAX.into(), "1 to 100 000 000")?;
        within("user_count", self.user_count.into(), 0.0, Self::USERS_MAX.into(), "0 to 10 000 000")?;
        within("user_skew", self.user_skew, 0.0, 10.0, "0 (all alike) to 10")?;
        within("daily_swing", self.daily_swing, 0.0, 0.95, "0 to 0.95")?;
        within("urgent_share", self.urgent_share, 0.0, 1.0, "0 to 1")?;
        within("durations.min_s", durations.min_s, 1e-3, 1e9, "0.001 to 1e9")?;
        within("durations.max_s", durations.max_s, durations.min_s, 1e9, "min_s to 1e9")?;
        within("durations.median_s", durations.median_s, durations.min_s, durations.max_s, "min_s to max_s")?;
        within("durations.sigma", durations.sigma, 0.0, 10.0, "0 to 10")?;
        within("durations.tail_share", durations.tail_share, 0.0, 1.0, "0 to 1")?;
        within("durations.tail_shape", durations.tail_shape, 0.05, 100.0, "0.05 to 100")?;
        let tail = "min_s to max_s";
        within("durations.tail_from_s", durations.tail_from_s, durations.min_s, durations.max_s, tail)?;
        match self.rate {
            Rate::AtOnce => {}
            Rate::PerHour(rate) => within("rate", rate, 1e-6, 1e9, "0.000001 to 1e9 an hour")?,
            Rate::Load { devices, load } => {
                within("rate.devices", devices.into(), 1.0, u32::MAX.into(), "1 or more")?;
                within("rate.load", load, 1e-3, 1e3, "0.001 to 1000 (0.9 is busy)")?;
                let largest = self.gangs.sizes().iter().map(|(size, _)| *size).max().unwrap_or(1);
                within("gangs", largest.into(), 1.0, devices.into(), "no gang larger than the cluster")?;
            }
        }
        if let Arrivals::Bursty { factor, burst_s, calm_s } = self.arrivals {
            within("arrivals.factor", factor, 1.0, 1e4, "1 to 10 000")?;
            within("arrivals.burst_s", burst_s, 1.0, 1e9, "1 to 1e9")?;
            within("arrivals.calm_s", calm_s, 1.0, 1e9, "1 to 1e9")?;
        }
        if let Some(Deadlines { share, slack_min, slack_max }) = self.deadlines {
            within("deadlines.share", share, 0.0, 1.0, "0 to 1")?;
            within("deadlines.slack_min", slack_min, 0.0, 1e6, "0 to 1e6")?;
            within("deadlines.slack_max", slack_max, slack_min, 1e6, "slack_min to 1e6")?;
        }
        Ok(())
    }
}

fn within(
    field: &'static str,
    found: f64,
    min: f64,
    max: f64,
    expected: &'static str,
) -> Result<(), SettingsError> {
    if (min..=max).contains(&found) { Ok(()) } else { Err(SettingsError { field, found, expected }) }
}
