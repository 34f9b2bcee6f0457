//! `wharf whatif`, `wharf history`, `wharf size`: simulations of a cluster's present, past and future.

use std::path::PathBuf;

use clap::Args;
use wharf_job::Seconds;

use super::cluster::HomeArgs;

/// `wharf whatif`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf whatif --policy srtf,tiresias              Simulate the current jobs under other policies
  wharf whatif --add-nodes a100:2x8                Add two nodes with eight a100 each
  wharf whatif --drain n3 --drain n4               Remove two nodes
  wharf whatif --since 7d --policy fifo,srtf       Simulate the last week and compare with the actual run")]
pub struct WhatIfArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Policies to compare, separated by commas [default: the active one]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub policy: Vec<String>,
    /// Setting of the policies, as key=value; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Additional nodes, in short form (`8x8`, `a100:2x8`) or as a cluster file
    #[arg(long, value_name = "CLUSTER")]
    pub add_nodes: Vec<String>,
    /// Node to remove; may be given several times
    #[arg(long, value_name = "NODE")]
    pub drain: Vec<String>,
    /// Simulate the jobs submitted in this period again, instead of starting from the current state
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
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Trace file to write: submission times, requests and measured durations
    #[arg(long, value_name = "FILE", required = true)]
    pub as_trace: PathBuf,
    /// Cluster file to write
    #[arg(long, value_name = "FILE")]
    pub cluster: Option<PathBuf>,
    /// Period of submission
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
    /// Trace file
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// Candidate node type, as TYPE:COUNT; each is evaluated separately
    #[arg(long, value_name = "TYPE:COUNT", required = true)]
    pub node: Vec<String>,
    /// Target, as METRIC=DURATION with avg_jct, p95_jct, p99_jct, avg_wait, p95_wait, max_wait or makespan;
    /// may be given several times
    #[arg(long, value_name = "METRIC=DURATION", required = true)]
    pub target: Vec<String>,
    /// Price per device hour, as TYPE=PRICE
    #[arg(long, value_name = "TYPE=PRICE")]
    pub price: Vec<String>,
    /// Scheduling policy
    #[arg(long, value_name = "NAME", default_value = "fifo")]
    pub policy: String,
    /// Setting of the policy, as key=value; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Throughput and price profile: a profile database, a table, a folder of them, or `default`
    /// [default: the built-in profile where `--node` names several types; otherwise the jobs' own times]
    #[arg(long, value_name = "PATH")]
    pub profile: Option<PathBuf>,
    /// Maximum number of nodes to try
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    pub nodes_max: u32,
}
