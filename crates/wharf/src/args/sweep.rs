//! `wharf sweep`

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

use super::env;

/// `wharf sweep`
///
/// Finished runs are stored. After an interruption or a change of the scenario, the same command runs only the missing
/// runs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf sweep scenarios/quick.toml
  wharf sweep scenarios/muri-figures.toml --data ../muri --out figures
  wharf sweep scenarios/quick.toml --output plain | sort -t $'\\t' -k 8 -n
  wharf sweep scenarios/quick.toml --dry-run")]
pub struct SweepArgs {
    /// Scenario file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Directory of the scenario's traces and clusters: `DIR`, `DIR/traces`, `DIR/cluster` [default: the scenario's
    /// directory]
    #[arg(long, value_name = "DIR", env = env::DATA.name, hide_env_values = true)]
    pub data: Option<PathBuf>,

    /// Throughput profile of all runs: a profile database, a table, a folder of them, `default` or `none`
    /// [default: the built-in profile where device types are mixed]
    #[arg(long, value_name = "PATH")]
    pub profile: Option<PathBuf>,

    /// Output directory, also for finished runs [default: wharf-sweep/NAME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Maximum number of parallel runs [default: number of cores]
    #[arg(long, short, value_name = "N", env = env::THREADS.name, hide_env_values = true)]
    pub jobs: Option<NonZeroUsize>,

    /// Ignore stored runs and run everything again
    #[arg(long)]
    pub fresh: bool,

    /// Check the scenario and list the runs without running them
    #[arg(long)]
    pub dry_run: bool,
}
