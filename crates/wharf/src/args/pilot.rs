//! `wharf pilot`: workers inside the allocations of an existing Slurm.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use wharf_job::{Seconds, Size};

use super::cluster::HomeArgs;

/// Subcommands of `wharf pilot`.
#[derive(Debug, Subcommand)]
pub enum PilotCommand {
    /// Run workers inside Slurm allocations, scaled to demand, until interrupted
    Slurm(Box<PilotSlurmArgs>),
    /// Show pilots and their errors
    Status(PilotStatusArgs),
    /// Pilot process on each node of a Slurm job
    #[command(hide = true)]
    Node(PilotNodeArgs),
    /// Start the pilot processes of a Slurm job with several nodes
    #[command(hide = true)]
    Lead(PilotNodeArgs),
}

/// State directory of the pilot manager.
#[derive(Debug, Args)]
pub struct PilotFolderArgs {
    /// Directory on a file system shared with the nodes, for the state and output of pilots [default: `pilots` in the
    /// state directory]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// Connection to Slurm.
#[derive(Debug, Args)]
#[command(next_help_heading = "The way to Slurm")]
pub struct QueueArgs {
    /// Socket of slurmrestd, used instead of sbatch and squeue
    #[arg(long, value_name = "SOCKET", conflicts_with = "rest")]
    pub rest_socket: Option<PathBuf>,
    /// Address of slurmrestd, used with a token
    #[arg(long, value_name = "HOST:PORT", requires = "rest_token_file")]
    pub rest: Option<String>,
    /// File with the token printed by `scontrol token`
    #[arg(long, value_name = "FILE", requires = "rest")]
    pub rest_token_file: Option<PathBuf>,
    /// User of the token [default: the current user]
    #[arg(long, value_name = "NAME", requires = "rest")]
    pub rest_user: Option<String>,
}

/// `wharf pilot slurm`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf pilot slurm --gpus 4 --time-limit 4h --max 8
  wharf pilot slurm --partition gpu --account lab --gres gpu:a100:8 --type a100 --nodes 2
  wharf pilot slurm --gpus 4 --head login1:7717      Set the head's address for the nodes
  wharf pilot slurm --gpus 4 --keep                  Keep the pilots after exit
  wharf pilot slurm --rest 127.0.0.1:6820 --rest-token-file slurm.jwt --gpus 4
  wharf pilot status")]
pub struct PilotSlurmArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// State directory.
    #[command(flatten)]
    pub folder: PilotFolderArgs,
    /// Connection to Slurm.
    #[command(flatten)]
    pub queue: QueueArgs,
    /// GPUs per node
    #[arg(long, value_name = "N", conflicts_with = "gres", help_heading = "A pilot")]
    pub gpus: Option<u32>,
    /// Generic resources (GRES) per node, as in `gpu:a100:4`; without GPUs each processor is a slot
    #[arg(long, value_name = "GRES", help_heading = "A pilot")]
    pub gres: Option<String>,
    /// Device type [default: as detected on the nodes]
    #[arg(long = "type", value_name = "TYPE", help_heading = "A pilot")]
    pub device_type: Option<String>,
    /// Nodes per allocation
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "A pilot")]
    pub nodes: u32,
    /// Processors per node [default: Slurm's; 1 without GPUs]
    #[arg(long, value_name = "N", help_heading = "A pilot")]
    pub cpus: Option<u32>,
    /// Memory per node, as in `64GiB` [default: Slurm's]
    #[arg(long, value_name = "SIZE", help_heading = "A pilot")]
    pub memory: Option<Size>,
    /// Time limit of an allocation, rounded to whole minutes by Slurm
    #[arg(long, value_name = "DURATION", default_value = "1h", help_heading = "A pilot")]
    pub time_limit: Seconds,
    /// Time before the limit at which jobs checkpoint and move [default: 2m, or a quarter of a short limit]
    #[arg(long, value_name = "DURATION", help_heading = "A pilot")]
    pub leave_before: Option<Seconds>,
    /// Idle time after which a pilot exits
    #[arg(long, value_name = "DURATION", default_value = "1m", help_heading = "A pilot")]
    pub idle_timeout: Seconds,
    /// Slurm partition [default: Slurm's]
    #[arg(long, value_name = "NAME", help_heading = "A pilot")]
    pub partition: Option<String>,
    /// Slurm account [default: Slurm's]
    #[arg(long, value_name = "NAME", help_heading = "A pilot")]
    pub account: Option<String>,
    /// Slurm quality of service [default: Slurm's]
    #[arg(long, value_name = "NAME", help_heading = "A pilot")]
    pub qos: Option<String>,
    /// Option of sbatch, as in `--constraint=ib`; may be given several times
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true, help_heading = "A pilot")]
    pub sbatch_option: Vec<String>,
    /// Pool of the nodes
    #[arg(long, value_name = "NAME", default_value = "", help_heading = "A pilot")]
    pub pool: String,
    /// Prefix of node names: NAME-0, NAME-1, ...
    #[arg(long, value_name = "NAME", default_value = "slurm", help_heading = "A pilot")]
    pub prefix: String,
    /// Name of the Slurm job
    #[arg(long, value_name = "NAME", default_value = "wharf-pilot", help_heading = "A pilot")]
    pub name: String,
    /// Address of the head for the nodes [default: the address used here]
    #[arg(long, value_name = "HOST:PORT", help_heading = "A pilot")]
    pub head: Option<String>,
    /// Path of `wharf` on the nodes [default: the path of this program]
    #[arg(long, value_name = "FILE", help_heading = "A pilot")]
    pub program: Option<PathBuf>,
    /// Directory on the local disk of each node
    #[arg(long, value_name = "DIR", default_value = "/tmp", help_heading = "A pilot")]
    pub scratch: PathBuf,
    /// Minimum number of pilots
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "How many")]
    pub min: u32,
    /// Maximum number of pilots
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "How many")]
    pub max: u32,
    /// Maximum number of pilots pending in Slurm's queue
    #[arg(long, value_name = "N", default_value_t = 2, help_heading = "How many")]
    pub max_pending: u32,
    /// Delay after a failure, doubled with each further one
    #[arg(long, value_name = "DURATION", default_value = "30s", help_heading = "How many")]
    pub backoff: Seconds,
    /// Maximum delay after failures
    #[arg(long, value_name = "DURATION", default_value = "30m", help_heading = "How many")]
    pub backoff_max: Seconds,
    /// Minimum lifetime of a pilot; an earlier unplanned exit counts as a failure
    #[arg(long, value_name = "DURATION", default_value = "1m", help_heading = "How many")]
    pub young: Seconds,
    /// Polling interval
    #[arg(long, value_name = "DURATION", default_value = "5s", help_heading = "How many")]
    pub interval: Seconds,
    /// Keep pilots after exit instead of cancelling them; they exit when idle
    #[arg(long, help_heading = "How many")]
    pub keep: bool,
}

/// `wharf pilot status`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf pilot status
  wharf pilot status --output json")]
pub struct PilotStatusArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// State directory.
    #[command(flatten)]
    pub folder: PilotFolderArgs,
}

/// `wharf pilot node`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  (run by a pilot's Slurm job)")]
pub struct PilotNodeArgs {
    /// Description of the pilot, as JSON
    #[arg(long, value_name = "FILE")]
    pub spec: PathBuf,
}
