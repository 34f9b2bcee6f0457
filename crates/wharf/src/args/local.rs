//! `wharf local` and `wharf run`

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::cluster::{DASHBOARD, HomeArgs};
use crate::jobfile::Mount;

/// `wharf local`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf local                                      This machine as a cluster, until Ctrl-C
  wharf local --worker v100:4 --worker a40:4       Two nodes with declared devices, n0 and n1
  wharf local --worker big=a100:8 --policy srtf    A node with a name, another policy
  wharf local --http                               With the dashboard at http://127.0.0.1:7718
  wharf local --detach                             Leave it running; `wharf local --stop` ends it")]
pub struct LocalArgs {
    /// Where the cluster keeps its state.
    #[command(flatten)]
    pub home: HomeArgs,
    /// A node and its devices, as TYPE:COUNT or NAME=TYPE:COUNT; may be given several times [default: this machine's]
    #[arg(long, value_name = "DEVICES", conflicts_with = "stop")]
    pub worker: Vec<String>,
    /// The policy that decides [default: the one that decided here before; at first fifo with backfill]
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// A setting of the policy, as key=value; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// How fast models run on which devices: a profile database, a table, a folder of them, `default` or `none`
    /// [default: the built-in profile where device types are mixed]
    #[arg(long, value_name = "PATH")]
    pub profile: Option<PathBuf>,
    /// Serve the dashboard at this address, to whoever has a token of this home
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = DASHBOARD)]
    pub http: Option<SocketAddr>,
    /// Start it in the background and return when it serves
    #[arg(long, conflicts_with = "stop")]
    pub detach: bool,
    /// Stop the cluster of this home: running jobs have their grace and run again when it is next started; said twice,
    /// they are killed
    #[arg(long)]
    pub stop: bool,
    /// The background's own part of `--detach`
    #[arg(long, hide = true, conflicts_with_all = ["stop", "detach"])]
    pub detached: bool,
}

/// `wharf run`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf run -- python train.py
  wharf run --gang 2 -- torchrun train.py                          On the cluster that serves here, if one does
  wharf run --devices gpu:4 --gang 2 -- python train.py --epochs 3  On a cluster of its own
  wharf run --container python:3.12-slim -- python3 train.py       In a container, which sees this folder")]
pub struct RunArgs {
    /// Where the cluster is; without one, the command has a cluster of its own for as long as it runs.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Declare the devices of this machine, as TYPE:COUNT, and use a cluster of its own in any case
    #[arg(long, value_name = "TYPE:COUNT")]
    pub devices: Option<String>,
    /// How many devices the command needs, all or nothing
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub gang: u32,
    /// Image of a container to run the command in: a name, or a folder, .tar.gz, .sqfs or .sif
    #[arg(long, value_name = "IMAGE")]
    pub container: Option<String>,
    /// Path of the node that the container sees, as SRC:DST or SRC:DST:ro; may be given several times
    #[arg(long = "mount", value_name = "SRC:DST[:ro]", requires = "container")]
    pub mounts: Vec<Mount>,
    /// Command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
