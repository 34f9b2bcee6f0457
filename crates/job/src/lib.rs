//! What users write to submit jobs: files in YAML, TOML or JSON, and flags that override them.
//!
//! A document becomes a tree with positions (crate `wharf-document`), the tree a [`Job`], and a job the contract's spec ([`plan`]),
//! which client and head check alike ([`check`]). Every error names file, line, column and field, and the fix.

mod array;
pub mod check;
mod choice;
mod container;
mod document;
mod environment;
mod error;
mod event_json;
mod executor;
pub mod job;
mod number;
mod parameters;
mod patterns;
mod plan;
mod resolve;
mod secrets;
pub mod shown;
mod sweep;
#[cfg(test)]
mod tests;
mod units;
mod words;

pub use array::{Array, ArrayError};
pub use choice::{
    Choice, Launcher, Moments, Named, Network, OnNan, OnStall, OnTimeLimit, Runtime, UnknownChoice,
};
pub use container::{Container, Mount, Shm};
pub use document::{EXAMPLE_JSON, EXAMPLE_TOML, EXAMPLE_YAML, Format};
pub use environment::{Export, USUAL, Variables, is_secret_name};
pub use error::{FieldError, JobError};
pub use event_json::event_json;
pub use executor::{Executor, SlurmExecutor};
pub use job::Job;
pub use number::{JobNumber, NoNumber, elements};
pub use parameters::Chosen;
pub use patterns::PatternValues;
pub use plan::{Planned, Source, plan};
pub use resolve::Context;
pub use secrets::{NoSource, SecretSource, SecretSources};
pub use sweep::{
    Placeholders, Submission, Sweep, SweepFolderError, SweepRecord, SweepResults, SweepResultsError, clashes,
    placeholders, sweep,
};
pub use units::{Deadline, Fraction, Limit, Past, Seconds, Size, StallTimeout, StopSignal, UnitError};
pub use words::{Words, WordsError};
