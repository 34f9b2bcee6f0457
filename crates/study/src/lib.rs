//! Simulated runs and their files: several policies on a trace ([`Batch`]), results of sweeps ([`sweep`]), what happened to a job
//! ([`story`]), pages about stored runs ([`page`]), and the number of nodes that a trace needs ([`sizing`]).
//!
//! Output appears whole or not at all ([`OutDir`], [`PageFile`]). Nothing here prints: callers get values and errors.

mod batch;
mod error;
mod out;
pub mod page;
pub mod sizing;
pub mod story;
pub mod sweep;

pub use batch::{Batch, Outputs, PreparedBatch, PreparedRun, Results, distinct};
pub use error::{NotRepeatable, StudyError};
pub use out::{OutDir, PageFile};
