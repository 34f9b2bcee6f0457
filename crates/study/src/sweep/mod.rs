//! Results of sweeps: stored runs, tables and plots.

mod results;
mod store;

use std::path::{Path, PathBuf};

pub use results::SweepReport;
pub use store::{RunStore, build_version};

/// Where finished runs are kept.
fn runs_dir(out: &Path) -> PathBuf {
    out.join("runs")
}
