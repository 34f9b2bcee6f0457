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
    /// Replace the limits of a running head: users, groups, pools, reservations; what runs goes on running
    Apply(LimitsApplyArgs),
    /// Show the limits of a running head and their use
    Show(LimitsShowArgs),
    /// Check a file of limits, and name the live jobs and nodes of a running head that it would block
    Check(LimitsCheckArgs),
}

/// `wharf limits apply`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf limits apply limits.toml")]
pub struct LimitsApplyArgs {
    /// Where the head is found.
    #[command(flatten)]
    pub home: HomeArgs,
    /// The limits, as TOML; docs/sharing.md says what can be in it
    pub file: PathBuf,
}

/// `wharf limits show`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf limits show
  wharf limits show --user ann --output json")]
pub struct LimitsShowArgs {
    /// Where the head is found.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Only the limits that this user's jobs count in
    #[arg(long, value_name = "NAME", default_value = "")]
    pub user: String,
}

/// `wharf limits check`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf limits check limits.toml")]
pub struct LimitsCheckArgs {
    /// The head to compare with, where one is running.
    #[command(flatten)]
    pub home: HomeArgs,
    /// The limits, as TOML
    pub file: PathBuf,
}
