//! Traces on real clusters: the jobs of a trace are submitted at their times as processes that run as long as the performance model
//! predicts, and the result is compared with a simulation of the same trace, policy and settings.
//!
//! A [`ReplayPlan`] is the scaled trace with its policy; [`replay`] runs it on a cluster; a [`Comparison`] is the result beside its
//! [`Prediction`]. Nothing here starts clusters or prints.

mod acts;
mod comparison;
mod error;
mod jobs;
mod live;
mod plan;

pub use acts::{Act, Difference, Moment, shortest_gap_s};
pub use comparison::Comparison;
pub use error::{NoLaunch, ReplayError};
pub use jobs::{arrivals, check_request, paced};
pub use live::{Replayed, node_names, replay, start_cost_s};
pub use plan::{
    PolicyNote, Prediction, ReplayPlan, ReplayRequest, SettingDifference, check_settings, find_policy,
};
