//! The virtual-clock driver: mechanisms, presets and parallel sweeps.

pub mod compat;
pub mod outcome;

pub use outcome::{JobRecord, MetricRules, NoRecorder, Outcome, Recorder, Sample, Span};
