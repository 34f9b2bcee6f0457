//! `wharf ray`, and the command that a worker runs for a job with a Ray cluster.

use clap::{Args, Subcommand};

/// `wharf ray`
#[derive(Debug, Subcommand)]
pub enum RayCommand {
    /// List the jobs of a Ray cluster
    List(RayArgs),
    /// Show one job of a Ray cluster
    Status(RayJobArgs),
    /// Print the output of a job of a Ray cluster
    Logs(RayLogsArgs),
    /// Stop a job of a Ray cluster
    Stop(RayJobArgs),
}

/// Address of a Ray cluster.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  wharf ray list --ray-address http://node1:8265")]
pub struct RayArgs {
    /// Address of the Ray dashboard, as in `http://host:8265`
    #[arg(long, value_name = "ADDRESS")]
    pub ray_address: String,
}

/// `wharf ray status`, `wharf ray stop`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf ray status --ray-address http://node1:8265 raysubmit_x7Yz
  wharf ray stop --ray-address http://node1:8265 raysubmit_x7Yz")]
pub struct RayJobArgs {
    /// Address of the Ray dashboard, as in `http://host:8265`
    #[arg(long, value_name = "ADDRESS")]
    pub ray_address: String,
    /// Ray job id, as printed by `wharf submit --ray-address`
    #[arg(value_name = "JOB")]
    pub job: String,
}

/// `wharf ray logs`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf ray logs --ray-address http://node1:8265 raysubmit_x7Yz
  wharf ray logs --ray-address http://node1:8265 --follow raysubmit_x7Yz")]
pub struct RayLogsArgs {
    /// Job.
    #[command(flatten)]
    pub job: RayJobArgs,
    /// Follow until the job ends
    #[arg(long)]
    pub follow: bool,
}

/// `wharf ray-node`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  (started by wharf worker)")]
pub struct RayNodeArgs {
    /// Role of this node, as JSON
    #[arg(long, value_name = "JSON")]
    pub plan: String,
    /// Driver and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}
