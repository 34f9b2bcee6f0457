//! What a run of this mechanism can be asked for.

use wharf_perf::Order;
use wharf_perf::interleave::GROUP_SIZE_MAX;
use wharf_policy::{BadSetting, Settings as Overrides};

use super::error::MuriError;
use super::numbers::Numbers;

/// The policies of Muri's simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Shortest remaining time first.
    Srtf,
    /// Shortest remaining service (time × devices) first.
    Srsf,
    /// Discretised least attained service (NSDI'19).
    Tiresias,
    /// Guaranteed and opportunistic jobs (OSDI'20).
    AntMan,
    /// Finish-time fairness (NSDI'20).
    Themis,
    /// Muri with known durations.
    MuriS,
    /// Muri without known durations.
    MuriL,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Srtf, Self::Srsf, Self::Tiresias, Self::AntMan, Self::Themis, Self::MuriS, Self::MuriL];

    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Srtf => "srtf",
            Self::Srsf => "srsf",
            Self::Tiresias => "tiresias",
            Self::AntMan => "antman",
            Self::Themis => "themis",
            Self::MuriS => "muri-s",
            Self::MuriL => "muri-l",
        }
    }

    pub(super) fn needs_stages(self) -> bool {
        matches!(self, Self::AntMan | Self::MuriS | Self::MuriL)
    }
}

/// What orders Muri-L's candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Queues {
    /// Attained service, continuously.
    #[default]
    Service,
    /// Tiresias' queues; one published number came from this variant.
    Tiresias,
}

/// A policy and its variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The policy.
    pub policy: Policy,
    /// Most jobs in a group (Muri).
    pub packing_num: usize,
    /// Whether slow groups are split again (Muri).
    pub autopack: bool,
    /// Whether groups come from matching, or from neighbours in order (Muri).
    pub blossom: bool,
    /// The order in which a group takes turns (Muri).
    pub ordering: Order,
    /// What orders candidates (Muri-L).
    pub queues: Queues,
    /// Whether service counts devices (Tiresias).
    pub gputime: bool,
}

impl Settings {
    /// What can be set by name.
    pub const NAMES: [&str; 6] = ["packing_num", "autopack", "blossom", "ordering", "queues", "gputime"];

    /// A policy with the preset's numbers and overrides.
    ///
    /// # Errors
    /// [`BadSetting`] names the first override that is out of its range.
    pub fn new(policy: Policy, numbers: &Numbers, overrides: &Overrides) -> Result<Self, BadSetting> {
        let orders = [("best", Order::Best), ("worst", Order::Worst)];
        let queues = [("service", Queues::Service), ("tiresias", Queues::Tiresias)];
        Ok(Self {
            policy,
            autopack: overrides.switch("autopack", numbers.autopack)?,
            blossom: overrides.switch("blossom", true)?,
            gputime: overrides.switch("gputime", true)?,
            ordering: overrides.choice("ordering", &orders, Order::Best)?,
            packing_num: overrides.parsed("packing_num", numbers.packing_num, "1 to 4", |_| true)?,
            queues: overrides.choice("queues", &queues, Queues::Service)?,
        })
    }

    pub(super) fn validate(&self, numbers: &Numbers) -> Result<(), MuriError> {
        if !(1..=GROUP_SIZE_MAX).contains(&self.packing_num) {
            return Err(MuriError::GroupSize { value: self.packing_num });
        }
        if !(3..=4).contains(&numbers.multi_resource) {
            return Err(MuriError::Resources { value: numbers.multi_resource });
        }
        if self.queues == Queues::Tiresias && self.policy != Policy::MuriL {
            return Err(MuriError::NoVariant { policy: self.policy.name(), variant: "queues=tiresias" });
        }
        if !self.gputime && self.policy != Policy::Tiresias {
            return Err(MuriError::NoVariant { policy: self.policy.name(), variant: "gputime=off" });
        }
        Ok(())
    }
}
