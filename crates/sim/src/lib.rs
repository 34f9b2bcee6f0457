//! The virtual-clock driver: mechanisms, presets and parallel sweeps.

mod assign;
mod driver;
mod failures;
mod fit;
mod flow;
pub mod forecast;
mod history;
mod occupancy;
mod present;
pub mod preset;
mod regime;
mod rounds;
pub mod run;
pub mod scale;
pub mod sweep;

pub use assign::{Assigned, PartialSetting, assign_settings};
pub use failures::{FailureError, FailureList};
pub use fit::refusals;
pub use history::{HistoryEvent, JobHistory, Reshaped};
pub use present::{Present, go_on};
pub use preset::{Preset, PresetError};
pub use regime::{profiled_regime, regime};
pub use run::{Prepared, RunError, RunSpec, check, prepare, resolved, run};
pub use scale::{scale_settings, scale_trace};
pub use wharf_core::nearest;
pub use wharf_outcome::{
    Allocation, Deadlines, JobRecord, Measure, MeasureError, MetricRules, NoRecorder, Outcome, Recorder,
    Round, RoundJob, Sample, Span, Tally, Throughput, TimelineOnly,
};
pub use wharf_policy::settings::{self, BadSetting, SettingError, Settings};
