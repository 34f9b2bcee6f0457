//! `wharf exec`, and the process that it becomes on the other machine.

use clap::Args;
use wharf_job::JobNumber;

use super::cluster::HomeArgs;

/// `wharf exec`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf exec 3 -- nvidia-smi              Show the state of job 3's devices
  wharf exec --pty 3                      Open a shell with the job's environment and devices
  wharf exec --rank 1 3 -- py-spy dump    Run on the second node of the gang")]
pub struct ExecArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Node rank in the gang
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub rank: u32,
    /// Allocate a terminal; the default command is a shell
    #[arg(long, short = 't')]
    pub pty: bool,
    /// Job id; `12_3` is an array element
    pub job: JobNumber,
    /// Command and its arguments
    #[arg(last = true, required_unless_present = "pty", value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// `wharf batch`, started by the worker for batch scripts.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  (started by wharf worker)")]
pub struct BatchArgs {
    /// Standard input of the script
    #[arg(long, value_name = "FILE")]
    pub input: Option<std::path::PathBuf>,
    /// Script and its arguments; if empty, wait for a signal
    #[arg(last = true, value_name = "SCRIPT")]
    pub command: Vec<String>,
}

/// `wharf mpi-agent`, called by Open MPI in place of ssh.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  (started by mpirun within a job)")]
pub struct MpiAgentArgs {
    /// Address or name of a node of the job's gang
    pub host: String,
    /// Shell command line to run there
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "LINE")]
    pub line: Vec<String>,
}

/// `wharf exec-session`, started by the worker for `wharf exec`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  (started by wharf worker)")]
pub struct ExecSessionArgs {
    /// Process id of the task
    #[arg(long, value_name = "PID")]
    pub task: u32,
    /// Start time of that process, in clock ticks
    #[arg(long, value_name = "TICKS")]
    pub start_time: u64,
    /// User id of the task
    #[arg(long)]
    pub uid: u32,
    /// Group id of the task
    #[arg(long)]
    pub gid: u32,
    /// `cgroup.procs` file of the task
    #[arg(long, value_name = "FILE")]
    pub cgroup: Vec<std::path::PathBuf>,
    /// Device file that the task may not open
    #[arg(long, value_name = "FILE")]
    pub denied_device: Vec<std::path::PathBuf>,
    /// Use standard input as the controlling terminal
    #[arg(long)]
    pub terminal: bool,
    /// Run the command of the client that connects to the socket on standard input
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["terminal", "command"])]
    pub keep: Option<std::path::PathBuf>,
    /// Command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}
