//! `wharf up` and `wharf down`: clusters that are launched from a file.

use std::path::PathBuf;

use clap::Args;

/// Which launched cluster, and where the launcher keeps what it knows of it.
#[derive(Debug, Args)]
pub struct LaunchedArgs {
    /// The cluster's file: Ray's YAML, or Crius' `cluster_spec.json` with addresses
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The folder in which the launcher keeps what it knows of clusters [default: ~/.local/state/wharf]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// `wharf up`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf up cluster.yaml --check        Say what is wrong with the file
  wharf up cluster.yaml --dry-run      Say what would be done on each node, and why
  wharf up cluster.yaml                Bring it up; again after a change, or after a failure
  wharf up cluster.yaml --no-restart   Copy files and set up, but leave alone what runs
  wharf up cluster.yaml --restart-only")]
pub struct UpArgs {
    /// Which cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
    /// Read and check the file, and do nothing
    #[arg(long, conflicts_with = "dry_run")]
    pub check: bool,
    /// Say what would be done on each node and why, from what is known of it, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Leave alone what runs, even where the way it is started has changed
    #[arg(long, conflicts_with = "restart_only")]
    pub no_restart: bool,
    /// Start again what runs, and set nothing up
    #[arg(long)]
    pub restart_only: bool,
    /// How many workers have to come up [default: what the file says, or all]
    #[arg(long, value_name = "N")]
    pub min_workers: Option<usize>,
    /// How many nodes are worked on at once
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = parallel)]
    pub parallel: usize,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}

/// `wharf down`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf down cluster.yaml
  wharf down cluster.yaml -y
  wharf down cluster.yaml --forget     Also where some nodes are gone for good")]
pub struct DownArgs {
    /// Which cluster.
    #[command(flatten)]
    pub launched: LaunchedArgs,
    /// Forget nodes that cannot be reached: what runs there goes on
    #[arg(long)]
    pub forget: bool,
    /// How many nodes are worked on at once
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = parallel)]
    pub parallel: usize,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}

fn parallel(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=1024) => Ok(number),
        _ => Err("a number from 1 to 1024".to_owned()),
    }
}
