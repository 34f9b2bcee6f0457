//! `wharf sweep`

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

use super::env;

/// `wharf sweep`
///
/// Finished runs are stored as they end. The same command started again, after an interruption or a change of the
/// scenario, runs only what is missing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf sweep scenarios/quick.toml
  wharf sweep scenarios/muri-figures.toml --data ../muri --out figures
  wharf sweep scenarios/quick.toml --output plain | sort -t $'\\t' -k 8 -n
  wharf sweep scenarios/quick.toml --dry-run")]
pub struct SweepArgs {
    /// The scenario file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Where the scenario's traces and clusters are: `DIR`, `DIR/traces`, `DIR/cluster`; the scenario's own
    /// directory where not given
    #[arg(long, value_name = "DIR", env = env::DATA.name, hide_env_values = true)]
    pub data: Option<PathBuf>,

    /// How fast models run on which devices, in all runs: a profile database, a table, a folder of them, `default` or `none`
    /// [default: the built-in profile where device types are mixed]
    #[arg(long, value_name = "PATH")]
    pub profile: Option<PathBuf>,

    /// Where results go, and where finished runs are kept; `wharf-sweep/NAME` where not given
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Most runs at the same time; all cores where not given
    #[arg(long, short, value_name = "N", env = env::THREADS.name, hide_env_values = true)]
    pub jobs: Option<NonZeroUsize>,

    /// Run everything again, whatever is stored
    #[arg(long)]
    pub fresh: bool,

    /// Check everything and list the runs, but run none
    #[arg(long)]
    pub dry_run: bool,
}
