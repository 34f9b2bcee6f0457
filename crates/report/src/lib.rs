//! Metrics, comparison tables, files, plots and pages of simulated and real runs.
//!
//! Everything here is made from a run's [`Outcome`](wharf_outcome::Outcome) and its trace, and equal inputs give
//! equal bytes. Nothing prints; only [`files`] touches the disk.

pub mod breakdown;
pub mod cluster;
pub mod compare;
pub mod digest;
pub mod fairness;
pub mod files;
pub mod html;
pub mod human;
pub mod metric;
pub mod metrics;
mod pdf;
pub mod plot;
pub mod spark;
pub mod stats;
pub mod stays;
mod svg;
pub mod table;
pub mod winners;

#[cfg(test)]
mod fixture;

pub use breakdown::{Breakdown, BreakdownRow};
pub use compare::{Comparison, ComparisonRow};
pub use digest::Digest;
pub use fairness::Fairness;
pub use files::{FileError, JobRow};
pub use metric::Metric;
pub use metrics::{Report, ReportError, RunLabels, Summary, run_names};
pub use plot::Plot;
pub use spark::{SparkRun, sparklines};
pub use stats::Estimate;
pub use stays::Stays;
pub use table::Table;
pub use winners::{Verdict, verdicts};
