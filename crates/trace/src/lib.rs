//! Trace and cluster-spec formats in and out, the generator and the linter.
//!
//! Everything here turns text into [`wharf_core`] values or back; nothing schedules. One path reads a trace
//! ([`read_trace`]) and checks it ([`lint`]): the reader stops at the first error that the linter would
//! list, so both say the same thing about the same line.
//!
//! A new format is one file under `format/` and one row in its table.

mod cluster;
mod csv;
mod edit;
mod error;
mod finding;
mod folder;
mod format;
mod generate;
mod json;
mod jsonl;
mod lint;
mod placed;
mod read;
mod row;
mod source;
mod stats;
mod text;
mod write;

use wharf_core::JobSpec;

pub use cluster::{
    ClusterError, DEVICES_MAX, ShortFormError, parse_cluster, parse_cluster_file, write_cluster,
};
pub use edit::{Edit, EditError, JobFilter, Range, RangeError};
pub use error::TraceError;
pub use finding::{FINDINGS_PER_RULE_MAX, Finding, Rule, Severity};
pub use format::{Format, UnknownFormat};
pub use generate::{
    Arrivals, Deadlines, Durations, GangMix, GeneratorModel, GeneratorSettings, MixError, Rate,
    SettingsError, generate, generator_models,
};
pub use lint::{LintOptions, Linted, Subject, lint, lint_reader};
pub use read::{
    NotedTrace, ReadOptions, parse_noted, parse_trace, parse_trace_reader, read_noted, read_trace,
};
pub use source::{LINE_BYTES_MAX, SourceError};
pub use stats::{DeviceUse, Distribution, ModelUse, TraceStats, stats};
pub use write::{Loss, write_trace};

/// A workload: jobs in submission order. A job's position is its id in a simulation.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Trace {
    /// What people call it: the file's name without its extension, or the generator's.
    pub name: String,
    /// The jobs, by submission time; ties keep the file's order.
    pub jobs: Vec<JobSpec>,
}
