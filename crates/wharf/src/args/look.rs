//! What is looked at and changed in a running cluster: `wharf jobs`, `nodes`, `node`, `top`, `report`.

use clap::{Args, Subcommand};

use super::cluster::HomeArgs;
use super::filter::FilterArgs;

/// `wharf jobs`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf jobs                           Jobs that are not over
  wharf jobs --state failed,cancelled  Jobs that ended so
  wharf jobs --user ada --name bert    Hers, with `bert` in the name
  wharf jobs --since 7d --cause node   Those of the last week that lost a node
  wharf jobs --all --output json")]
pub struct JobsArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Also those that are over
    #[arg(long)]
    pub all: bool,
    /// Which.
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
  wharf nodes --all                  Also those that have left for good
  wharf nodes --output json")]
pub struct NodesArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Also those that are gone
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
    /// Say that its machine is off and does not come back: what ran there is run elsewhere at once
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
