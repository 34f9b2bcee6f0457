//! The numbers of a preset with `mechanism = "sia"`: its `[sia]` table.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The `[sia]` table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    /// Most nodes of each device type that a job was measured on; a job on more is taken to be on these.
    pub profiled_nodes: BTreeMap<String, u32>,
    /// What is known of each application beside its tables.
    pub applications: BTreeMap<String, ApplicationNumbers>,
}

/// One application.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplicationNumbers {
    /// Epochs until it is done.
    pub epochs: usize,
    /// Seconds between a (re)start and the first step.
    pub rescale_s: u64,
    /// How much slower it is on real machines than its tables say.
    pub slowdown: f64,
}
