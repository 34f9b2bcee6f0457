//! The numbers of a preset with `mechanism = "gavel"`: its `[gavel]` table.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The `[gavel]` table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    /// Seconds that a micro-task lasts at most.
    pub round_s: f64,
    /// Seconds between two computations of shares, at least.
    pub reset_s: f64,
    /// Failed micro-tasks in a row after which a job is dropped.
    pub failures_max: u32,
    /// The order in which types choose their jobs; others follow by name.
    pub type_order: Vec<String>,
    /// The type whose speeds policies without `-perf` take for those of all.
    pub reference_type: String,
    /// What two jobs on the same devices must reach together, relative to each alone, under `fifo-packed`.
    pub packing_threshold: f64,
    /// Dollars per device and hour.
    pub prices: BTreeMap<String, f64>,
}
