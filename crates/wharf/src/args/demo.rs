//! `wharf demo`

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

use super::env;

/// `wharf demo`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf demo
  wharf demo --jobs 2000 --cluster 16x8 --seed 7 --out my-demo")]
pub struct DemoArgs {
    /// Jobs in the generated trace
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub jobs: u64,

    /// The cluster, as in `wharf sim`
    #[arg(long, value_name = "FILE|FORM", default_value = "8x8")]
    pub cluster: String,

    /// Seed of the trace and of everything else that is drawn at random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Where the report goes
    #[arg(long, value_name = "DIR", default_value = "wharf-demo")]
    pub out: PathBuf,

    /// Most policies that are simulated at the same time; all cores where not given
    #[arg(long, value_name = "N", env = env::THREADS.name, hide_env_values = true)]
    pub threads: Option<NonZeroUsize>,
}
