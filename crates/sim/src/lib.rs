//! The virtual-clock driver: mechanisms, presets and parallel sweeps.

pub mod nearest;
pub mod outcome;
pub mod preset;
pub mod run;
pub mod settings;
pub mod sweep;

pub use outcome::{JobRecord, MetricRules, NoRecorder, Outcome, Recorder, Sample, Span};
pub use preset::{Preset, PresetError};
pub use run::{RunError, RunSpec, check, run};
pub use settings::{SettingError, Settings};
