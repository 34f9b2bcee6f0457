//! Every policy of Wharf's own by name: what it is, whose it is, which knobs it has, and how it is made.

mod crius;
mod elastic;
mod fairness;
mod fractional;
mod priority;
mod sharing;

use wharf_core::Policy;
use wharf_core::nearest::nearest;
use wharf_perf::Sharing;

use crate::aside::Aside;
use crate::placement::{Placer, Strategy};
use crate::settings::{BadSetting, Settings};

/// What people are informed about a policy, and how it is made.
pub struct PolicyInfo {
    /// The name in files, on the command line and in reports: as its paper names it.
    pub name: &'static str,
    /// One line: what it does.
    pub summary: &'static str,
    /// Where it was published.
    pub paper: &'static str,
    /// How it decides, in a paragraph or two.
    pub explanation: &'static str,
    /// What it must be told, or have measured.
    pub must_know: &'static str,
    /// Where it is the one to take, and where not.
    pub advice: &'static str,
    /// What can be set with `--set`.
    pub knobs: &'static [KnobInfo],
    /// Most jobs that it puts on one device.
    pub slots: usize,
    /// Whether it gives jobs other numbers of devices than they ask for, within their bounds.
    pub is_elastic: bool,
    /// What sharing a device means under it.
    pub sharing: Sharing,
    /// Makes it.
    pub build: fn(&BuildArgs<'_>) -> Result<Box<dyn Policy>, BadSetting>,
}

impl PolicyInfo {
    /// Makes it; jobs without devices go beside it unless it orders them itself.
    ///
    /// # Errors
    /// A knob with a value that it cannot take.
    pub fn make(&self, args: &BuildArgs<'_>) -> Result<Box<dyn Policy>, BadSetting> {
        let policy = (self.build)(args)?;
        Ok(if self.orders_tasks() { policy } else { Box::new(Aside::new(policy, args.placer())) })
    }

    /// Whether jobs without devices are in its order. Under all other policies, which think in devices, such jobs start beside
    /// theirs in the order of priority and submission.
    pub fn orders_tasks(&self) -> bool {
        matches!(self.name, "fifo" | "sjf" | "srtf" | "srsf" | "las" | "tiresias" | "gittins")
    }
}

/// One setting of a policy.
#[derive(Clone, Copy, Debug)]
pub struct KnobInfo {
    /// The key in `--set key=value`.
    pub name: &'static str,
    /// What it takes, for people: `on|off`, `1..4`, `seconds`.
    pub values: &'static str,
    /// What holds where it is not set.
    pub default: &'static str,
    /// One line: what it changes.
    pub help: &'static str,
}

/// What a policy is made from.
pub struct BuildArgs<'a> {
    /// Overrides of its knobs.
    pub settings: &'a Settings,
    /// Where gangs go.
    pub placement: Strategy,
    /// For everything drawn at random.
    pub seed: u64,
}

impl BuildArgs<'_> {
    /// A placer of the chosen strategy.
    pub fn placer(&self) -> Box<dyn Placer> {
        self.placement.placer(self.seed)
    }
}

/// There is no policy of that name.
#[derive(Debug, thiserror::Error)]
#[error("no policy is named `{name}`")]
pub struct UnknownPolicy {
    /// The name that was asked for.
    pub name: String,
    /// The closest name that exists, where one is close.
    pub nearest: Option<&'static str>,
}

/// All of Wharf's own policies, in the order in which they are listed.
pub fn policies() -> &'static [PolicyInfo] {
    POLICIES
}

/// The policy of that name. Gavel's can be called `gavel/NAME` too, as they must be where a name is used twice.
///
/// # Errors
/// [`UnknownPolicy`] with the nearest name where there is none.
pub fn find(name: &str) -> Result<&'static PolicyInfo, UnknownPolicy> {
    let of_family = name.strip_prefix("gavel/").filter(|plain| fractional::is_member(plain));
    let known = |name: &str| POLICIES.iter().find(|policy| policy.name == name);
    known(name).or_else(|| known(of_family?)).ok_or_else(|| UnknownPolicy {
        name: name.to_owned(),
        nearest: nearest(name, POLICIES.iter().map(|policy| policy.name)),
    })
}

const POLICIES: &[PolicyInfo] = &[
    priority::FIFO,
    priority::SJF,
    priority::SRTF,
    priority::SRSF,
    priority::LAS,
    priority::TIRESIAS,
    priority::GITTINS,
    fairness::FAIR,
    fairness::THEMIS,
    fractional::GAVEL_FIFO,
    fractional::FIFO_PERF,
    fractional::FIFO_PACKED,
    fractional::ISOLATED,
    fractional::MAX_MIN,
    fractional::MAX_MIN_PERF,
    fractional::MAX_MIN_PACKED,
    fractional::WATER_FILLING,
    fractional::WATER_FILLING_PERF,
    fractional::WATER_FILLING_PACKED,
    fractional::FINISH_TIME,
    fractional::FINISH_TIME_PERF,
    fractional::FINISH_TIME_PACKED,
    fractional::MAKESPAN,
    fractional::MAKESPAN_PERF,
    fractional::MAKESPAN_PACKED,
    fractional::SUM_PERF,
    fractional::SUM_BY_COST,
    fractional::SUM_BY_COST_SLOS,
    fractional::ALLOX,
    fractional::GANDIVA,
    elastic::SIA,
    elastic::POLLUX,
    elastic::ELASTICFLOW,
    elastic::ELASTICFLOW_L,
    crius::CRIUS,
    crius::CRIUS_DP,
    crius::CRIUS_NS,
    crius::CRIUS_NH,
    crius::CRIUS_NO,
    crius::CRIUS_NM,
    crius::CRIUS_DDL,
    sharing::ANTMAN,
    sharing::MURI_S,
    sharing::MURI_L,
    sharing::SJF_FFS,
    sharing::SJF_FFSS,
    sharing::SJF_BSBF,
    sharing::SJF_BSBFS,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_name_suggests_the_nearest() {
        for (name, nearest) in [("srtff", Some("srtf")), ("tiresia", Some("tiresias")), ("xyz", None)] {
            assert_eq!(find(name).err().and_then(|error| error.nearest), nearest, "{name}");
        }
    }

    #[test]
    fn families_qualify_names() {
        for (name, found) in [
            ("fifo", Some("fifo")),
            ("gavel/fifo", Some("gavel/fifo")),
            ("gavel/allox", Some("allox")),
            ("gavel/max-min-fairness-perf", Some("max-min-fairness-perf")),
            ("gavel/muri-s", None),
            ("muri/muri-s", None),
        ] {
            assert_eq!(find(name).ok().map(|policy| policy.name), found, "{name}");
        }
    }

    #[test]
    fn every_policy_builds_with_its_defaults() {
        let settings = Settings::default();
        for policy in policies() {
            let args = BuildArgs { settings: &settings, placement: Strategy::default(), seed: 0 };
            assert!((policy.build)(&args).is_ok(), "{}", policy.name);
        }
    }
}
