//! `wharf pilot`: workers inside the allocations of a Slurm that somebody else runs.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::cluster::HomeArgs;
use crate::jobfile::{Seconds, Size};

/// What to do with pilots.
#[derive(Debug, Subcommand)]
pub enum PilotCommand {
    /// Keep as many workers in a Slurm as there is work for, until a signal ends it
    Slurm(Box<PilotSlurmArgs>),
    /// Show the pilots that are kept, and what went wrong
    Status(PilotStatusArgs),
    /// What a pilot's Slurm job runs on each of its nodes
    #[command(hide = true)]
    Node(PilotNodeArgs),
    /// What starts it on each of them, where there are several
    #[command(hide = true)]
    Lead(PilotNodeArgs),
}

/// Where those who keep pilots write down what they know.
#[derive(Debug, Args)]
pub struct PilotFolderArgs {
    /// A folder that the nodes can read, too: what pilots have to know and their output [default: `pilots` in the
    /// cluster's folder]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// How Slurm is reached.
#[derive(Debug, Args)]
#[command(next_help_heading = "The way to Slurm")]
pub struct QueueArgs {
    /// Ask slurmrestd at this socket, instead of sbatch and squeue
    #[arg(long, value_name = "SOCKET", conflicts_with = "rest")]
    pub rest_socket: Option<PathBuf>,
    /// Ask slurmrestd at this address, with a token
    #[arg(long, value_name = "HOST:PORT", requires = "rest_token_file")]
    pub rest: Option<String>,
    /// The file with the token, as `scontrol token` prints it
    #[arg(long, value_name = "FILE", requires = "rest")]
    pub rest_token_file: Option<PathBuf>,
    /// Whose token it is [default: yours]
    #[arg(long, value_name = "NAME", requires = "rest")]
    pub rest_user: Option<String>,
}

/// `wharf pilot slurm`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf pilot slurm --gpus 4 --time-limit 4h --max 8
  wharf pilot slurm --partition gpu --account lab --gres gpu:a100:8 --type a100 --nodes 2
  wharf pilot slurm --gpus 4 --head login1:7717      Where nodes reach the head, if it is on another machine
  wharf pilot slurm --gpus 4 --keep                  Leave the pilots alone when this ends
  wharf pilot slurm --rest 127.0.0.1:6820 --rest-token-file slurm.jwt --gpus 4
  wharf pilot status")]
pub struct PilotSlurmArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Where it writes down what it knows.
    #[command(flatten)]
    pub folder: PilotFolderArgs,
    /// How Slurm is reached.
    #[command(flatten)]
    pub queue: QueueArgs,
    /// GPUs of each node
    #[arg(long, value_name = "N", conflicts_with = "gres", help_heading = "A pilot")]
    pub gpus: Option<u32>,
    /// Generic resources of each node, as in `gpu:a100:4`; without GPUs each processor is a slot
    #[arg(long, value_name = "GRES", help_heading = "A pilot")]
    pub gres: Option<String>,
    /// What the devices are, for jobs that ask for a type [default: what the nodes' workers find]
    #[arg(long = "type", value_name = "TYPE", help_heading = "A pilot")]
    pub device_type: Option<String>,
    /// Nodes of each allocation
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "A pilot")]
    pub nodes: u32,
    /// Processors of each node [default: what Slurm gives; 1 without GPUs]
    #[arg(long, value_name = "N", help_heading = "A pilot")]
    pub cpus: Option<u32>,
    /// Memory of each node, as in `64GiB` [default: what Slurm gives]
    #[arg(long, value_name = "SIZE", help_heading = "A pilot")]
    pub memory: Option<Size>,
    /// How long an allocation lasts; Slurm counts whole minutes
    #[arg(long, value_name = "DURATION", default_value = "1h", help_heading = "A pilot")]
    pub time_limit: Seconds,
    /// Jobs are told to save and move so long before that [default: 2m, or a quarter of a short limit]
    #[arg(long, value_name = "DURATION", help_heading = "A pilot")]
    pub leave_before: Option<Seconds>,
    /// A pilot ends when it has had nothing to do for so long
    #[arg(long, value_name = "DURATION", default_value = "1m", help_heading = "A pilot")]
    pub idle_timeout: Seconds,
    /// Slurm's partition [default: Slurm's]
    #[arg(long, value_name = "NAME", help_heading = "A pilot")]
    pub partition: Option<String>,
    /// Slurm's account [default: Slurm's]
    #[arg(long, value_name = "NAME", help_heading = "A pilot")]
    pub account: Option<String>,
    /// Slurm's quality of service [default: Slurm's]
    #[arg(long, value_name = "NAME", help_heading = "A pilot")]
    pub qos: Option<String>,
    /// An option of sbatch, as in `--constraint=ib`; may be given several times
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true, help_heading = "A pilot")]
    pub sbatch_option: Vec<String>,
    /// The pool that its nodes belong to
    #[arg(long, value_name = "NAME", default_value = "", help_heading = "A pilot")]
    pub pool: String,
    /// What its nodes are called: NAME-0, NAME-1 and so on
    #[arg(long, value_name = "NAME", default_value = "slurm", help_heading = "A pilot")]
    pub prefix: String,
    /// What its Slurm job is called
    #[arg(long, value_name = "NAME", default_value = "wharf-pilot", help_heading = "A pilot")]
    pub name: String,
    /// Where nodes reach the head [default: where it is reached from here]
    #[arg(long, value_name = "HOST:PORT", help_heading = "A pilot")]
    pub head: Option<String>,
    /// This program, as nodes see it [default: the one that runs]
    #[arg(long, value_name = "FILE", help_heading = "A pilot")]
    pub program: Option<PathBuf>,
    /// A folder on each node's own disk
    #[arg(long, value_name = "DIR", default_value = "/tmp", help_heading = "A pilot")]
    pub scratch: PathBuf,
    /// So many pilots are there even if nothing waits
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "How many")]
    pub min: u32,
    /// So many at most
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "How many")]
    pub max: u32,
    /// So many of them may wait in Slurm's queue at most
    #[arg(long, value_name = "N", default_value_t = 2, help_heading = "How many")]
    pub max_pending: u32,
    /// How long nothing is submitted after a failure; doubled with each further one
    #[arg(long, value_name = "DURATION", default_value = "30s", help_heading = "How many")]
    pub backoff: Seconds,
    /// At most so long
    #[arg(long, value_name = "DURATION", default_value = "30m", help_heading = "How many")]
    pub backoff_max: Seconds,
    /// A pilot that ends sooner than this, and was not meant to, counts as a failure
    #[arg(long, value_name = "DURATION", default_value = "1m", help_heading = "How many")]
    pub young: Seconds,
    /// How often everything is looked at
    #[arg(long, value_name = "DURATION", default_value = "5s", help_heading = "How many")]
    pub interval: Seconds,
    /// Leave pilots alone when this ends, instead of cancelling them: they end when they are idle
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
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Where it was written down.
    #[command(flatten)]
    pub folder: PilotFolderArgs,
}

/// `wharf pilot node`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  (run by a pilot's Slurm job)")]
pub struct PilotNodeArgs {
    /// What the pilot is
    #[arg(long, value_name = "FILE")]
    pub spec: PathBuf,
}
