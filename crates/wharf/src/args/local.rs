//! `wharf local` and `wharf run`

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use wharf_job::Mount;

use super::cluster::{DASHBOARD, HomeArgs};

/// `wharf local`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf local                                      Run a cluster on this machine until Ctrl-C
  wharf local --worker v100:4 --worker a40:4       Run two nodes with declared devices, n0 and n1
  wharf local --worker big=a100:8 --policy srtf    Name a node and use another policy
  wharf local --http                               Serve the dashboard at http://127.0.0.1:7718
  wharf local --detach                             Run in the background until `wharf local --stop`")]
pub struct LocalArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Node and its devices, as TYPE:COUNT or NAME=TYPE:COUNT; may be given several times [default: this machine's devices]
    #[arg(long, value_name = "DEVICES", conflicts_with = "stop")]
    pub worker: Vec<String>,
    /// Scheduling policy [default: the last one used in this state directory; at first fifo with backfill]
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// Setting of the policy, as key=value; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Throughput profile: a profile database, a table, a folder of them, `default` or `none`
    /// [default: the built-in profile where device types are mixed]
    #[arg(long, value_name = "PATH")]
    pub profile: Option<PathBuf>,
    /// Serve the dashboard at this address; login needs a token of this cluster
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = DASHBOARD)]
    pub http: Option<SocketAddr>,
    /// Start in the background and return when the cluster is ready
    #[arg(long, conflicts_with = "stop")]
    pub detach: bool,
    /// Stop the cluster of this state directory. Running jobs get their grace period and run again at the next start; a second
    /// `--stop` kills them
    #[arg(long)]
    pub stop: bool,
    /// Background process of `--detach`
    #[arg(long, hide = true, conflicts_with_all = ["stop", "detach"])]
    pub detached: bool,
}

/// `wharf run`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf run -- python train.py
  wharf run --gang 2 -- torchrun train.py                          Use the running cluster, if any
  wharf run --devices gpu:4 --gang 2 -- python train.py --epochs 3  On a cluster of its own
  wharf run --container python:3.12-slim -- python3 train.py       Run in a container with this directory mounted")]
pub struct RunArgs {
    /// State directory of the cluster; without a running one, a temporary cluster is started.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Start a temporary cluster with these devices, as TYPE:COUNT, even if a cluster is running
    #[arg(long, value_name = "TYPE:COUNT")]
    pub devices: Option<String>,
    /// Number of devices, allocated together
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub gang: u32,
    /// Container image: a name, or a directory, .tar.gz, .sqfs or .sif
    #[arg(long, value_name = "IMAGE")]
    pub container: Option<String>,
    /// Path to mount into the container, as SRC:DST or SRC:DST:ro; may be given several times
    #[arg(long = "mount", value_name = "SRC:DST[:ro]", requires = "container")]
    pub mounts: Vec<Mount>,
    /// Command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
