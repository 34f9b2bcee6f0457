//! `wharf demo`

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

use super::env;

/// `wharf demo`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf demo                             Run 12 training jobs on four local nodes, in less than a minute
  wharf demo --policy tiresias           Use another policy
  wharf demo --simulate                  Simulate all policies on a generated trace
  wharf demo --simulate --jobs 2000 --cluster 16x8 --seed 7 --out my-demo")]
pub struct DemoArgs {
    /// Compare all policies in the simulator instead
    #[arg(long)]
    pub simulate: bool,

    /// Number of jobs [default: 12; with `--simulate` 500]
    #[arg(long, value_name = "N")]
    pub jobs: Option<u64>,

    /// Scheduling policy of the demo cluster
    #[arg(long, value_name = "NAME", default_value = "srtf", conflicts_with = "simulate")]
    pub policy: String,

    /// Setting of the policy, as key=value; may be given several times
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "simulate")]
    pub set: Vec<String>,

    /// Approximate total duration of a demo of 12 jobs; scales the lengths of jobs
    #[arg(long, value_name = "SECONDS", default_value_t = 40.0, conflicts_with = "simulate")]
    pub seconds: f64,

    /// Simulated cluster, as in `wharf sim`
    #[arg(long, value_name = "FILE|FORM", default_value = "8x8", requires = "simulate")]
    pub cluster: String,

    /// Random seed of the trace and the simulation
    #[arg(long, value_name = "N", default_value_t = 1, requires = "simulate")]
    pub seed: u64,

    /// Output directory
    #[arg(long, value_name = "DIR", default_value = "wharf-demo")]
    pub out: PathBuf,

    /// Maximum number of parallel simulations [default: number of cores]
    #[arg(long, value_name = "N", env = env::THREADS.name, hide_env_values = true)]
    pub threads: Option<NonZeroUsize>,
}
