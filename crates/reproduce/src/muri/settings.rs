//! What a run of this mechanism can be asked for.

use std::str::FromStr;

use wharf_perf::Order;
use wharf_perf::interleave::GROUP_SIZE_MAX;

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

impl FromStr for Policy {
    type Err = SettingsError;

    fn from_str(name: &str) -> Result<Self, SettingsError> {
        Self::ALL
            .into_iter()
            .find(|policy| policy.name() == name)
            .ok_or_else(|| SettingsError::UnknownPolicy { name: name.to_owned() })
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

/// A setting that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// No such policy.
    #[error("unknown policy {name} (srtf, srsf, tiresias, antman, themis, muri-s, muri-l)")]
    UnknownPolicy {
        /// As given.
        name: String,
    },
    /// No such setting.
    #[error("unknown setting {name} (packing_num, autopack, blossom, ordering, queues, gputime)")]
    UnknownSetting {
        /// As given.
        name: String,
    },
    /// A value that the setting does not take.
    #[error("{name} cannot be {value} ({expected})")]
    BadValue {
        /// The setting.
        name: String,
        /// As given.
        value: String,
        /// What it takes.
        expected: &'static str,
    },
}

impl Settings {
    /// What can be set by name.
    pub const NAMES: [&str; 6] = ["packing_num", "autopack", "blossom", "ordering", "queues", "gputime"];

    /// A policy with the preset's defaults.
    pub fn new(policy: Policy, numbers: &Numbers) -> Self {
        Self {
            policy,
            packing_num: numbers.packing_num,
            autopack: numbers.autopack,
            blossom: true,
            ordering: Order::Best,
            queues: Queues::Service,
            gputime: true,
        }
    }

    /// Changes one setting by name, as from `name=value`.
    ///
    /// # Errors
    /// An unknown name, or a value that the setting does not take.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingsError> {
        let bad =
            |expected| SettingsError::BadValue { name: name.to_owned(), value: value.to_owned(), expected };
        let switch = || match value {
            "on" | "true" => Ok(true),
            "off" | "false" => Ok(false),
            _ => Err(bad("on or off")),
        };
        match name {
            "packing_num" => self.packing_num = value.parse().map_err(|_| bad("1 to 4"))?,
            "autopack" => self.autopack = switch()?,
            "blossom" => self.blossom = switch()?,
            "gputime" => self.gputime = switch()?,
            "ordering" => {
                self.ordering = match value {
                    "best" => Order::Best,
                    "worst" => Order::Worst,
                    _ => return Err(bad("best or worst")),
                }
            }
            "queues" => {
                self.queues = match value {
                    "service" => Queues::Service,
                    "tiresias" => Queues::Tiresias,
                    _ => return Err(bad("service or tiresias")),
                }
            }
            _ => return Err(SettingsError::UnknownSetting { name: name.to_owned() }),
        }
        Ok(())
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
