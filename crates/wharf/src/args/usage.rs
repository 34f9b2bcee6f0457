//! `wharf usage`

use clap::{Args, ValueEnum};
use wharf_job::Past;

use super::cluster::HomeArgs;

/// `wharf usage`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf usage                             Usage by user over the whole journal
  wharf usage --since 30d --by account
  wharf usage --since 2026-11-01 --until 2026-12-01 --by type --csv > november.csv
  wharf usage --by cause --output json    Usage by cause of failures")]
pub struct UsageArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Start of the period: `7d` (ago), `2026-11-01` or `2026-11-01T12:00` [default: start of the journal]
    #[arg(long, value_name = "MOMENT")]
    pub since: Option<Past>,
    /// End of the period [default: now]
    #[arg(long, value_name = "MOMENT")]
    pub until: Option<Past>,
    /// Grouping of the rows
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = UsageBy::User)]
    pub by: UsageBy,
    /// Same as `--output csv`
    #[arg(long)]
    pub csv: bool,
}

/// Grouping of `wharf usage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UsageBy {
    /// User
    User,
    /// Account: a group or a project
    #[value(alias = "group")]
    Account,
    /// Pool of the jobs
    Pool,
    /// Device type
    Type,
    /// Job
    Job,
    /// Cause of failures and interruptions
    Cause,
}
