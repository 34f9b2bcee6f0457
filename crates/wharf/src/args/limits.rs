//! `wharf limits`

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::cluster::HomeArgs;

/// `wharf limits`
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  wharf limits check limits.toml
  wharf limits apply limits.toml
  wharf limits show --user ann")]
pub enum LimitsCommand {
    /// Replace the limits of a running head; running jobs are not affected
    Apply(LimitsApplyArgs),
    /// Show the limits of a running head and their usage
    Show(LimitsShowArgs),
    /// Check a limits file and list the jobs and nodes of a running head that it would block
    Check(LimitsCheckArgs),
}

/// `wharf limits apply`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf limits apply limits.toml")]
pub struct LimitsApplyArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Limits file in TOML, described in docs/sharing.md
    pub file: PathBuf,
}

/// `wharf limits show`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf limits show
  wharf limits show --user ann --output json")]
pub struct LimitsShowArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Show only limits that apply to this user's jobs
    #[arg(long, value_name = "NAME", default_value = "")]
    pub user: String,
}

/// `wharf limits check`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf limits check limits.toml")]
pub struct LimitsCheckArgs {
    /// State directory of the cluster to compare with.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Limits file in TOML
    pub file: PathBuf,
}
