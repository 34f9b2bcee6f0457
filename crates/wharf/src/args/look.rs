//! What is checked and changed in a running cluster: `wharf jobs`, `nodes`, `node`, `top`, `report`.

use clap::{Args, Subcommand};

use super::cluster::HomeArgs;
use super::filter::FilterArgs;

/// `wharf jobs`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf jobs                           Unfinished jobs
  wharf jobs --state failed,cancelled  Jobs that ended so
  wharf jobs --user ada --name bert    Jobs of a user with `bert` in the name
  wharf jobs --since 7d --cause node   Jobs of the last week that lost a node
  wharf jobs --all --output json")]
pub struct JobsArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Include finished jobs
    #[arg(long)]
    pub all: bool,
    /// Filter.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Same as `--output csv`
    #[arg(long)]
    pub csv: bool,
}

/// `wharf nodes`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf nodes
  wharf nodes --all                  Include removed nodes
  wharf nodes --output json")]
pub struct NodesArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Include removed nodes
    #[arg(long)]
    pub all: bool,
}

/// `wharf node`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  wharf node n0                                Show devices, jobs and problems of a node
  wharf node drain n0 --reason 'new driver'    Checkpoint and move jobs; start no new ones
  wharf node resume n0"
)]
pub struct NodeArgs {
    /// Subcommand; without one, the node is shown.
    #[command(subcommand)]
    pub command: Option<NodeCommand>,
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Node name
    #[arg(required = true, value_name = "NODE")]
    pub name: Option<String>,
}

/// `wharf node ...`
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Cordon a node: start no new jobs; running jobs continue
    Cordon(NodeChangeArgs),
    /// Drain a node: start no new jobs; running jobs checkpoint and move to other nodes
    Drain(NodeChangeArgs),
    /// Resume a cordoned or drained node
    Resume(NodeChangeArgs),
    /// Remove a node that does not come back; its jobs are requeued immediately
    Remove(NodeChangeArgs),
}

/// `wharf node cordon`, `drain`, `resume`, `remove`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf node cordon n0 --reason 'fan is loud'
  wharf node drain n0 --reason 'new driver'
  wharf node resume n0
  wharf node remove n0 --reason 'sold'")]
pub struct NodeChangeArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Node name
    #[arg(value_name = "NODE")]
    pub name: String,
    /// Reason, shown with the node
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
}

/// `wharf top`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf top                  Update until `q`; `s` sorts, arrow keys scroll
  wharf top --once           Print once, for scripts")]
pub struct TopArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Print once; the default if standard output is not a terminal
    #[arg(long)]
    pub once: bool,
    /// Update interval in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub interval: f64,
}
