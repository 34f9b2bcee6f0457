//! What a run of this mechanism can be asked for.

use std::path::{Path, PathBuf};

use super::error::SiaError;

/// Whose allocations are replayed: that decides how jobs choose their batch sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Jobs tune their batch sizes, with a model for each device type.
    Sia,
    /// Jobs tune their batch sizes, with one model for all device types.
    Pollux,
    /// Jobs keep the batch sizes and devices of the trace.
    Gavel,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sia, Self::Pollux, Self::Gavel];

    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sia => "sia",
            Self::Pollux => "pollux",
            Self::Gavel => "gavel",
        }
    }
}

/// A policy, and where its allocations and the applications' tables are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The policy.
    pub policy: Policy,
    /// The log whose allocations are replayed.
    pub allocations: Option<PathBuf>,
    /// A folder for each application, with its tables.
    pub profiles: Option<PathBuf>,
    /// Rounds after which the replay ends.
    pub rounds: Option<u64>,
}

impl Settings {
    /// What can be set by name.
    pub const NAMES: [&str; 2] = ["allocations", "profiles"];

    pub(super) fn allocations(&self) -> Result<&Path, SiaError> {
        self.allocations.as_deref().ok_or(SiaError::NoAllocations)
    }

    pub(super) fn profiles(&self) -> Result<&Path, SiaError> {
        self.profiles.as_deref().ok_or(SiaError::NoProfiles)
    }
}
