//! Filters of jobs, and the commands that change the selected jobs: `wharf cancel`, `hold`, `release`, `requeue`, `priority`.

use clap::{Args, ValueEnum};
use wharf_job::{JobNumber, Past};
use wharf_proto::Cause;

use super::cluster::HomeArgs;
use super::value::{ArgError, no_cause};

/// Job filter: all conditions must hold.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Job filter")]
pub struct FilterArgs {
    /// User; `me` is the current user
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// Account
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,
    /// Pool
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,
    /// State
    #[arg(long, value_enum, value_name = "STATE", value_delimiter = ',')]
    pub state: Vec<JobStateArg>,
    /// Name: pattern such as `sweep-*`, or a part of the name
    #[arg(long, value_name = "PATTERN")]
    pub name: Option<String>,
    /// Cause of a failure or interruption: user, node, device, time-limit, preemption, lost-worker, out-of-memory, launch, request, stalled
    #[arg(long, value_name = "CAUSE", value_parser = cause)]
    pub cause: Option<Cause>,
    /// Start of the period in which the jobs existed: `7d` (ago), `2026-11-01` or `2026-11-01T12:00`
    #[arg(long, value_name = "MOMENT")]
    pub since: Option<Past>,
    /// End of the period in which the jobs existed
    #[arg(long, value_name = "MOMENT")]
    pub until: Option<Past>,
}

/// The fields of [`FilterArgs`].
const FILTERS: [&str; 8] = ["user", "account", "pool", "state", "name", "cause", "since", "until"];

/// Options that can replace job ids.
const UNNAMED: [&str; 9] = ["all", "user", "account", "pool", "state", "name", "cause", "since", "until"];

fn cause(text: &str) -> Result<Cause, ArgError> {
    Cause::of_word(text).ok_or_else(|| no_cause(text, &Cause::ALL.map(Cause::word)))
}

/// Values of `--state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum JobStateArg {
    /// Waiting for devices
    Waiting,
    /// Held, or waiting for dependencies
    Held,
    /// Devices allocated, processes starting
    Placed,
    /// Running
    Running,
    /// Stopping
    Stopping,
    /// Finished successfully
    Finished,
    /// Failed
    Failed,
    /// Cancelled
    Cancelled,
    /// Stopped at its time limit
    TimedOut,
}

/// Jobs to change, by ids or by a filter.
#[derive(Debug, Args)]
pub struct SelectArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Job ids; `12` is a whole array, `12_3` one element
    #[arg(required_unless_present_any = UNNAMED, conflicts_with_all = UNNAMED, value_name = "JOB")]
    pub jobs: Vec<JobNumber>,
    /// Select all jobs that can be changed
    #[arg(long, conflicts_with_all = FILTERS)]
    pub all: bool,
    /// Filter, if no ids are given.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Show the selected jobs and change nothing
    #[arg(long, conflicts_with = "jobs")]
    pub dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
}

/// `wharf cancel`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf cancel 3 4 5
  wharf cancel 12_3                     Cancel one element of array 12; `wharf cancel 12` cancels all
  wharf cancel --user me --name 'sweep-*' --state waiting
  wharf cancel --user ada --dry-run     Show the selected jobs of a user
  wharf cancel --all --yes              Cancel all jobs without confirmation")]
pub struct CancelArgs {
    /// Jobs to change.
    #[command(flatten)]
    pub select: SelectArgs,
}

/// `wharf hold`, `release`, `requeue`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf hold 7
  wharf release 7
  wharf requeue 8
  wharf hold --pool big --state waiting")]
pub struct ChangeArgs {
    /// Jobs to change.
    #[command(flatten)]
    pub select: SelectArgs,
}

/// `wharf priority`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf priority 10 7 8
  wharf priority -5 --user me --name 'sweep-*'")]
pub struct PriorityArgs {
    /// New priority; jobs with larger numbers go first
    #[arg(value_name = "N", allow_negative_numbers = true)]
    pub priority: i32,
    /// Jobs to change.
    #[command(flatten)]
    pub select: SelectArgs,
}
