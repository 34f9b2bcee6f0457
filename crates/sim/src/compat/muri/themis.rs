//! Themis.
use super::cluster::Shape;
use super::tracker::Tracker;
use super::workload::Workload;
use crate::outcome::Outcome;

pub(super) fn run(_workload: &Workload, _shape: &Shape, tracker: Tracker<'_>) -> Outcome {
    tracker.into_outcome()
}
