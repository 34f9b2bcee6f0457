//! `wharf usage`

use clap::{Args, ValueEnum};

use super::cluster::HomeArgs;
use crate::jobfile::Past;

/// `wharf usage`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf usage                             By user, as far back as the journal goes
  wharf usage --since 30d --by account
  wharf usage --since 2026-11-01 --until 2026-12-01 --by type --csv > november.csv
  wharf usage --by cause --output json    What machines and people cost")]
pub struct UsageArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// From when on: `7d` (ago), `2026-11-01` or `2026-11-01T12:00` [default: as far back as is known]
    #[arg(long, value_name = "MOMENT")]
    pub since: Option<Past>,
    /// Until when [default: now]
    #[arg(long, value_name = "MOMENT")]
    pub until: Option<Past>,
    /// What a row is for
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = UsageBy::User)]
    pub by: UsageBy,
    /// Same as `--output csv`
    #[arg(long)]
    pub csv: bool,
}

/// What a row of `wharf usage` is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UsageBy {
    /// A user
    User,
    /// An account: a group or a project
    #[value(alias = "group")]
    Account,
    /// A pool that jobs asked for
    Pool,
    /// A device type
    Type,
    /// A job
    Job,
    /// What brought runs to their end too early
    Cause,
}
