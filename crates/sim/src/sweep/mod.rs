//! Many runs at once: scenario files, what they come down to, and all cores at work on it.
//!
//! [`Scenario::load`] reads a file and what it includes, [`SweepPlan::new`] resolves and checks everything it names
//! before the first run, [`execute`] runs it. Results come in the plan's order whatever the thread count, and each
//! run has a [`RunKey`] made of all its inputs, so that finished ones need not be repeated.

mod document;
mod error;
mod execute;
mod generator;
mod key;
pub mod parallel;
mod plan;
mod scenario;
#[cfg(test)]
mod tests;

pub use document::Place;
pub use error::ScenarioError;
pub use execute::{RunSink, SweepError, execute};
pub use key::{ContentHash, RunKey};
pub use plan::{Named, PlannedRow, PlannedRun, SweepPlan};
pub use scenario::{ClusterEntry, Matrix, PolicyEntry, PresetEntry, Scenario, TraceEntry, TraceSource};
