//! What is looked at and changed in a running cluster: `wharf jobs`, `cancel`, `nodes`, `node`, `top`, `report`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::cluster::HomeArgs;
use crate::number::JobNumber;

/// `wharf jobs`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf jobs                           Jobs that are not over
  wharf jobs --state failed,cancelled  Jobs that ended so
  wharf jobs --user ada --name bert    Hers, with `bert` in the name
  wharf jobs --all --output json")]
pub struct JobsArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Also those that are over
    #[arg(long)]
    pub all: bool,
    /// Only this user's
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// Only those in such a state
    #[arg(long, value_enum, value_name = "STATE", value_delimiter = ',')]
    pub state: Vec<JobStateArg>,
    /// Only those whose name has this in it
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
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

/// `wharf cancel`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf cancel 3 4 5
  wharf cancel 12_3           One element of the array 12; `wharf cancel 12` ends all of it
  wharf cancel --user ada     All of hers
  wharf cancel --all          Everything")]
pub struct CancelArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// The jobs' ids; of an array `12` is all of it, `12_3` one element
    #[arg(required_unless_present_any = ["all", "user"], conflicts_with_all = ["all", "user"], value_name = "JOB")]
    pub jobs: Vec<JobNumber>,
    /// Every job that is not over
    #[arg(long)]
    pub all: bool,
    /// Every job of this user that is not over
    #[arg(long, value_name = "USER", conflicts_with = "all")]
    pub user: Option<String>,
}

/// `wharf hold`, `release`, `requeue`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf hold 7
  wharf release 7
  wharf requeue 8")]
pub struct ChangeArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// The jobs' ids; of an array `12` is all of it, `12_3` one element
    #[arg(required = true, value_name = "JOB")]
    pub jobs: Vec<JobNumber>,
}

/// `wharf nodes`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf nodes
  wharf nodes --output json")]
pub struct NodesArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
}

/// `wharf node`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  wharf node n0                                Its devices, its jobs, what is wrong with it
  wharf node drain n0 --reason 'new driver'    Its jobs checkpoint and leave, no new ones come
  wharf node resume n0"
)]
pub struct NodeArgs {
    /// What to do with it, other than to show it.
    #[command(subcommand)]
    pub command: Option<NodeCommand>,
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// The node's name
    #[arg(required = true, value_name = "NODE")]
    pub name: Option<String>,
}

/// `wharf node ...`
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Let no new jobs start on it; those that run go on
    Cordon(NodeChangeArgs),
    /// Let no new jobs start on it, and have those that run checkpoint and leave
    Drain(NodeChangeArgs),
    /// Let jobs start on it again
    Resume(NodeChangeArgs),
}

/// `wharf node cordon`, `drain`, `resume`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf node cordon n0 --reason 'fan is loud'
  wharf node drain n0 --reason 'new driver'
  wharf node resume n0")]
pub struct NodeChangeArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// The node's name
    #[arg(value_name = "NODE")]
    pub name: String,
    /// Why, for others to read
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
}

/// `wharf top`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf top                  Until `q`; `s` sorts, arrows scroll
  wharf top --once           One look, for scripts")]
pub struct TopArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Look once, as where standard output is no terminal
    #[arg(long)]
    pub once: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub interval: f64,
}

/// `wharf report`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf report                         What the cluster has done so far, as report.html
  wharf report --to week.html")]
pub struct ReportArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// The page
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub to: PathBuf,
}
