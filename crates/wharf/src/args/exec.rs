//! `wharf exec`, and the process that it becomes on the other machine.

use clap::Args;

use super::cluster::HomeArgs;
use crate::number::JobNumber;

/// `wharf exec`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf exec 3 -- nvidia-smi              Look at the devices that job 3 runs on
  wharf exec --pty 3                      A shell beside it, with its environment and devices
  wharf exec --rank 1 3 -- py-spy dump    On the second node of its gang")]
pub struct ExecArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// The node's rank in the gang
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub rank: u32,
    /// Give it a terminal; without a command it is a shell
    #[arg(long, short = 't')]
    pub pty: bool,
    /// The job's id; `12_3` is an element of an array
    pub job: JobNumber,
    /// The command and its arguments
    #[arg(last = true, required_unless_present = "pty", value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// `wharf batch`: what the worker starts for batch scripts.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  (started by wharf worker)")]
pub struct BatchArgs {
    /// What the script reads
    #[arg(long, value_name = "FILE")]
    pub input: Option<std::path::PathBuf>,
    /// The script and its arguments; without one, wait for a signal
    #[arg(last = true, value_name = "SCRIPT")]
    pub command: Vec<String>,
}

/// `wharf mpi-agent`: what Open MPI calls in the place of ssh.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  (started by mpirun within a job)")]
pub struct MpiAgentArgs {
    /// Address or name of a node of the job's gang
    pub host: String,
    /// Line for the shell there
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "LINE")]
    pub line: Vec<String>,
}

/// `wharf beside`: what the worker starts for `wharf exec`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  (started by wharf worker)")]
pub struct BesideArgs {
    /// The process of the task
    #[arg(long, value_name = "PID")]
    pub task: u32,
    /// The start time of that process, in the kernel's unit
    #[arg(long, value_name = "TICKS")]
    pub start_time: u64,
    /// The user that the task was started as
    #[arg(long)]
    pub uid: u32,
    /// The group of that user
    #[arg(long)]
    pub gid: u32,
    /// File to enter a cgroup of the task by
    #[arg(long, value_name = "FILE")]
    pub cgroup: Vec<std::path::PathBuf>,
    /// Device node that the task may not open
    #[arg(long, value_name = "FILE")]
    pub denied_device: Vec<std::path::PathBuf>,
    /// Standard input is a terminal, which becomes its own
    #[arg(long)]
    pub terminal: bool,
    /// Keep a command for whoever connects to standard input, which is bound here
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["terminal", "command"])]
    pub keep: Option<std::path::PathBuf>,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}
