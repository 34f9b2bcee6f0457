//! `wharf demo`

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

use super::env;

/// `wharf demo`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf demo                             A dozen real training jobs on four local nodes, in under a minute
  wharf demo --policy tiresias           Under another policy
  wharf demo --simulate                  All policies on a made-up trace, simulated in a second
  wharf demo --simulate --jobs 2000 --cluster 16x8 --seed 7 --out my-demo")]
pub struct DemoArgs {
    /// Compare all policies in the simulator instead
    #[arg(long)]
    pub simulate: bool,

    /// How many jobs [default: 12, simulated 500]
    #[arg(long, value_name = "N")]
    pub jobs: Option<u64>,

    /// The policy that decides on the real cluster
    #[arg(long, value_name = "NAME", default_value = "srtf", conflicts_with = "simulate")]
    pub policy: String,

    /// A setting of that policy, as key=value; may be given several times
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "simulate")]
    pub set: Vec<String>,

    /// About how long a dozen real jobs take in all; shorter jobs for less
    #[arg(long, value_name = "SECONDS", default_value_t = 40.0, conflicts_with = "simulate")]
    pub seconds: f64,

    /// The simulated cluster, as in `wharf sim`
    #[arg(long, value_name = "FILE|FORM", default_value = "8x8", requires = "simulate")]
    pub cluster: String,

    /// Seed of the simulated trace and of everything else that is drawn at random
    #[arg(long, value_name = "N", default_value_t = 1, requires = "simulate")]
    pub seed: u64,

    /// Where the report goes
    #[arg(long, value_name = "DIR", default_value = "wharf-demo")]
    pub out: PathBuf,

    /// Most policies that are simulated at the same time; all cores where not given
    #[arg(long, value_name = "N", env = env::THREADS.name, hide_env_values = true)]
    pub threads: Option<NonZeroUsize>,
}
