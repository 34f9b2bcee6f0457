//! `wharf whatif`, `wharf history`, `wharf size`: questions to a simulation of what is, was, or might be.

use std::path::PathBuf;

use clap::Args;

use super::cluster::HomeArgs;
use crate::jobfile::Seconds;

/// `wharf whatif`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf whatif --policy srtf,tiresias              How the jobs that are there now would fare under other policies
  wharf whatif --add-nodes a100:2x8                With two more nodes of eight a100 each
  wharf whatif --drain n3 --drain n4               Without two nodes, whose jobs go elsewhere
  wharf whatif --since 7d --policy fifo,srtf       The last week over again, beside what really happened")]
pub struct WhatIfArgs {
    /// Where the head is found.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Policies to compare, separated by commas [default: the one that decides now]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub policy: Vec<String>,
    /// A setting of the policies, as key=value; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Nodes that are not there, as a cluster is written (`8x8`, `a100:2x8`) or as a cluster file
    #[arg(long, value_name = "CLUSTER")]
    pub add_nodes: Vec<String>,
    /// A node to do without; may be given several times
    #[arg(long, value_name = "NODE")]
    pub drain: Vec<String>,
    /// Do the jobs submitted in this time over again, instead of going on from now
    #[arg(long, value_name = "DURATION")]
    pub since: Option<Seconds>,
}

/// `wharf history`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf history --as-trace last-week.csv --since 7d
  wharf history --as-trace all.csv --cluster lab.toml
  wharf sim --trace all.csv --cluster lab.toml --policy fifo,srtf")]
pub struct HistoryArgs {
    /// Where the head is found.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Write the jobs as a trace: when they came, what they asked for, how long they really ran
    #[arg(long, value_name = "FILE", required = true)]
    pub as_trace: PathBuf,
    /// Write the nodes as a cluster file too
    #[arg(long, value_name = "FILE")]
    pub cluster: Option<PathBuf>,
    /// Only jobs submitted in this time
    #[arg(long, value_name = "DURATION")]
    pub since: Option<Seconds>,
}

/// `wharf size`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf size --trace jobs.csv --node a100:8 --target p95_wait=1h
  wharf size --trace jobs.csv --node a100:8 --node v100:4 --target avg_jct=6h --price a100=2.5 --price v100=0.8
  wharf size --trace jobs.csv --node a100:8 --node t4:8 --target p95_jct=1d --profile default
  wharf size --trace jobs.csv --node gpu:4 --target makespan=2d --policy srtf")]
pub struct SizeArgs {
    /// The trace that has to be served
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// A kind of node that could be had, as TYPE:COUNT; each is tried by itself
    #[arg(long, value_name = "TYPE:COUNT", required = true)]
    pub node: Vec<String>,
    /// What has to be reached, as METRIC=DURATION with avg_jct, p95_jct, p99_jct, avg_wait, p95_wait, max_wait or makespan;
    /// may be given several times
    #[arg(long, value_name = "METRIC=DURATION", required = true)]
    pub target: Vec<String>,
    /// What an hour of a device of a type costs, as TYPE=PRICE
    #[arg(long, value_name = "TYPE=PRICE")]
    pub price: Vec<String>,
    /// The policy that decides
    #[arg(long, value_name = "NAME", default_value = "fifo")]
    pub policy: String,
    /// A setting of the policy, as key=value; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// How fast models run on which devices, and what those cost: a profile database, a table, a folder of them, or `default`
    /// [default: the built-in profile where `--node` names several types; otherwise the jobs' own times]
    #[arg(long, value_name = "PATH")]
    pub profile: Option<PathBuf>,
    /// Give up above so many nodes
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    pub nodes_max: u32,
}
