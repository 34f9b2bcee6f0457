//! `wharf head`, `wharf worker` and what is asked of a running cluster.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::env;

/// Where a cluster keeps its state and its token.
#[derive(Debug, Args)]
pub struct HomeArgs {
    /// The folder with the head's journal, address and token [default: ~/.local/state/wharf]
    #[arg(long, value_name = "DIR", env = env::HOME.name, hide_env_values = true)]
    pub home: Option<PathBuf>,
}

/// `wharf head`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf head                                  Listen on loopback, serve first come first served with backfill
  wharf head --policy srtf                    Let another policy decide
  wharf head --home /tmp/lab --listen 127.0.0.1:0")]
pub struct HeadArgs {
    /// Where the head keeps its state.
    #[command(flatten)]
    pub home: HomeArgs,
    /// The address to listen on; port 0 lets the system choose
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7717")]
    pub listen: SocketAddr,
    /// The policy that decides; fifo serves with backfill unless set otherwise
    #[arg(long, value_name = "NAME", default_value = "fifo")]
    pub policy: String,
    /// A setting of the policy, as key=value; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Seconds that a node may be away before its jobs are run elsewhere
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    pub lost_after: f64,
}

/// `wharf worker`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf worker --devices v100:4               Offer four devices of this machine to the local head
  wharf worker --node left --devices cpu:2    Several workers on one machine need names")]
pub struct WorkerArgs {
    /// Where the head's address and token are found.
    #[command(flatten)]
    pub home: HomeArgs,
    /// The node's name [default: this machine's name]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// The devices that this machine offers, as TYPE:COUNT
    #[arg(long, value_name = "TYPE:COUNT", default_value = "cpu:1")]
    pub devices: String,
    /// Where other nodes of a gang reach this one
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub address: String,
}

/// `wharf keeper`: what the worker starts for itself.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  (started by wharf worker)")]
pub struct KeeperArgs {
    /// The worker's state directory
    #[arg(long, value_name = "DIR")]
    pub state_dir: PathBuf,
}

/// Commands about one job.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf job 3
  wharf explain 3")]
pub struct JobArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// The job's id
    pub job: u32,
}

/// `wharf logs`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf logs 3
  wharf logs --follow 3")]
pub struct LogsArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Go on until the job is over
    #[arg(long, short)]
    pub follow: bool,
    /// The node's rank in the gang
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub rank: u32,
    /// The job's id
    pub job: u32,
}
