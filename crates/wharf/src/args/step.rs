//! `wharf step`

use clap::Args;

/// `wharf step`
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 continue; 10 the lease has ended or the job is to stop: save a checkpoint and exit with 0.
Outside of Wharf it does nothing and exits with 0.

Examples:
  wharf step 120                                    Report 120 completed iterations
  wharf step 120 --checkpointed 100 --metric loss=0.3
  wharf step 120 --total 500 || { save; exit 0; }   Checkpoint and exit if the lease has expired
  wharf step                                        Check the lease only")]
pub struct StepArgs {
    /// Number of completed iterations
    #[arg(value_name = "ITERATIONS")]
    pub iterations: Option<f64>,
    /// Number of iterations in the last checkpoint
    #[arg(long, value_name = "ITERATIONS")]
    pub checkpointed: Option<f64>,
    /// Number of iterations of the whole job; the last one is never interrupted
    #[arg(long, value_name = "ITERATIONS")]
    pub total: Option<f64>,
    /// Metric to report; may be given several times
    #[arg(long = "metric", value_name = "NAME=NUMBER")]
    pub metrics: Vec<String>,
}
