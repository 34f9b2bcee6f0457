//! `wharf step`

use clap::Args;

/// `wharf step`
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 go on; 10 the lease is over or the job was told to stop: save a checkpoint and exit with 0.
Outside of Wharf it does nothing and exits with 0.

Examples:
  wharf step 120                                    120 iterations are done
  wharf step 120 --checkpointed 100 --metric loss=0.3
  wharf step 120 || { save; exit 0; }               In a shell script that trains
  wharf step                                        Only ask whether to go on")]
pub struct StepArgs {
    /// How many iterations are done
    #[arg(value_name = "ITERATIONS")]
    pub iterations: Option<f64>,
    /// How many of them the last checkpoint holds
    #[arg(long, value_name = "ITERATIONS")]
    pub checkpointed: Option<f64>,
    /// A value to show beside them; may be given several times
    #[arg(long = "metric", value_name = "NAME=NUMBER")]
    pub metrics: Vec<String>,
}
