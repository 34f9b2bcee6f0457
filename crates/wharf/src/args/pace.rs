//! `wharf pace`: the command that a worker runs for a paced job.

use clap::Args;

/// `wharf pace`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  (started by wharf worker)")]
pub struct PaceArgs {
    /// Number of iterations
    #[arg(value_name = "ITERATIONS")]
    pub iterations: f64,
}
