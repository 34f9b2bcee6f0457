//! What a run of this mechanism can be asked for.

use serde::Deserialize;
use wharf_policy::BadSetting;

/// The `[fgd]` table of a preset.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    /// GPUs that all pods request together, relative to those of the cluster.
    pub load: f64,
    /// Percentage of all pods that the most frequent specifications must cover to be the typical ones.
    pub typical_percent: f64,
}

/// The rules of FGD's simulator whose results are reproducible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Fragmentation gradient descent.
    Fgd,
    /// The least CPUs and GPUs left.
    BestFit,
    /// The smallest product of request and free resources.
    DotProd,
    /// Nodes with pods of the same class.
    GpuClustering,
    /// GPUs in use first, then nodes in use.
    GpuPacking,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Fgd, Self::BestFit, Self::DotProd, Self::GpuClustering, Self::GpuPacking];

    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fgd => "fgd",
            Self::BestFit => "fgd-best-fit",
            Self::DotProd => "fgd-dot-prod",
            Self::GpuClustering => "fgd-gpu-clustering",
            Self::GpuPacking => "fgd-gpu-packing",
        }
    }

    /// What it does, in a line.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Fgd => "where idle GPUs stay most useful to typical pods",
            Self::BestFit => "where the least CPUs and GPUs are left",
            Self::DotProd => "where the product of request and free resources is smallest",
            Self::GpuClustering => "where pods of the same class are: parts of a GPU, or as many whole ones",
            Self::GpuPacking => "on GPUs in use, then on free GPUs of nodes in use, then on free nodes",
        }
    }
}

/// A policy and the numbers in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Settings {
    pub(super) policy: Policy,
    pub(super) load: f64,
    pub(super) typical_percent: f64,
}

impl Settings {
    /// What can be set by name.
    pub(super) const NAMES: [&'static str; 2] = ["load", "typical_percent"];

    /// A policy with the preset's numbers and overrides.
    pub(super) fn new(
        policy: Policy,
        numbers: &Numbers,
        overrides: &wharf_policy::Settings,
    ) -> Result<Self, BadSetting> {
        /// More would only fill memory: nothing fits beyond a load of 1.
        const LOAD_MAX: f64 = 100.0;
        let number = |key: &str, default: f64, max: f64, expected: &str| {
            // The preset's own number goes through the same check.
            let mut settings = wharf_policy::Settings::default();
            settings.set(key, overrides.get(key).unwrap_or(&default.to_string()));
            settings.parsed(key, default, expected, |value: &f64| *value > 0.0 && *value <= max)
        };
        Ok(Self {
            policy,
            load: number("load", numbers.load, LOAD_MAX, "a number above 0, at most 100")?,
            typical_percent: number(
                "typical_percent",
                numbers.typical_percent,
                100.0,
                "a percentage above 0, at most 100",
            )?,
        })
    }
}
