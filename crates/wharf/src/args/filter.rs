//! Which jobs, where they are not named one by one; and what is done to them: `wharf cancel`, `hold`, `release`, `requeue`,
//! `priority`.

use clap::{Args, ValueEnum};
use wharf_proto::Cause;

use super::cluster::HomeArgs;
use crate::jobfile::Past;
use crate::number::JobNumber;

/// Which jobs: those to which all of it applies.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Which jobs")]
pub struct FilterArgs {
    /// Only this user's; `me` is whoever asks
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// Only those on this account
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,
    /// Only those of this pool
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,
    /// Only those in such a state
    #[arg(long, value_enum, value_name = "STATE", value_delimiter = ',')]
    pub state: Vec<JobStateArg>,
    /// Only those with such a name: `sweep-*`, or a part of it
    #[arg(long, value_name = "PATTERN")]
    pub name: Option<String>,
    /// Only those that it has struck: user, node, device, time-limit, preemption, lost-worker, out-of-memory, launch, request, stalled
    #[arg(long, value_name = "CAUSE", value_parser = cause)]
    pub cause: Option<Cause>,
    /// Only those that were there since then: `7d` (ago), `2026-11-01` or `2026-11-01T12:00`
    #[arg(long, value_name = "MOMENT")]
    pub since: Option<Past>,
    /// Only those that were there before then
    #[arg(long, value_name = "MOMENT")]
    pub until: Option<Past>,
}

/// The fields of [`FilterArgs`].
const FILTERS: [&str; 8] = ["user", "account", "pool", "state", "name", "cause", "since", "until"];

/// What can stand in the place of jobs' ids.
const UNNAMED: [&str; 9] = ["all", "user", "account", "pool", "state", "name", "cause", "since", "until"];

fn cause(text: &str) -> Result<Cause, String> {
    Cause::of_word(text).ok_or_else(|| {
        let known = Cause::ALL.map(Cause::word).join(", ");
        format!("`{text}` is no cause; it can be {known}")
    })
}

/// What can be asked for with `--state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum JobStateArg {
    /// It waits for devices
    Waiting,
    /// It is held, or waits for other jobs
    Held,
    /// It has its devices and is being started
    Placed,
    /// It runs
    Running,
    /// It was told to stop
    Stopping,
    /// It is done
    Finished,
    /// It failed
    Failed,
    /// It was cancelled
    Cancelled,
    /// It reached its time limit
    TimedOut,
}

/// Jobs to be changed, by their ids or by a filter.
#[derive(Debug, Args)]
pub struct SelectArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// The jobs' ids; of an array `12` is all of it, `12_3` one element
    #[arg(required_unless_present_any = UNNAMED, conflicts_with_all = UNNAMED, value_name = "JOB")]
    pub jobs: Vec<JobNumber>,
    /// All that can be changed so
    #[arg(long, conflicts_with_all = FILTERS)]
    pub all: bool,
    /// Which, where they are not named.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Show which jobs it would be and do nothing
    #[arg(long, conflicts_with = "jobs")]
    pub dry_run: bool,
    /// Do not ask, as where standard input is no terminal
    #[arg(long, short)]
    pub yes: bool,
}

/// `wharf cancel`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf cancel 3 4 5
  wharf cancel 12_3                     One element of the array 12; `wharf cancel 12` ends all of it
  wharf cancel --user me --name 'sweep-*' --state waiting
  wharf cancel --user ada --dry-run     Which of hers it would be
  wharf cancel --all --yes              Everything, without being asked")]
pub struct CancelArgs {
    /// Which.
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
    /// Which.
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
    /// How urgent they are from now on; larger goes first
    #[arg(value_name = "N", allow_negative_numbers = true)]
    pub priority: i32,
    /// Which.
    #[command(flatten)]
    pub select: SelectArgs,
}
