//! Simulated runs and their files: several policies on a trace ([`Batch`]), results of sweeps ([`sweep`]), what happened to a job
//! ([`story`]), and pages about stored runs ([`page`]).
//!
//! Output appears whole or not at all ([`OutDir`], [`PageFile`]). Nothing here prints: callers get values and errors.

mod batch;
mod error;
mod out;
pub mod page;
pub mod story;
pub mod sweep;

pub use batch::{Batch, Outputs, PreparedBatch, PreparedRun, Results, distinct};
pub use error::{NotRepeatable, StudyError};
pub use out::{OutDir, PageFile};
