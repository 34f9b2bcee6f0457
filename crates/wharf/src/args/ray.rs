//! `wharf ray`, and what a worker runs for a job with a Ray cluster.

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

/// Where a Ray cluster is.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  wharf ray list --ray-address http://node1:8265")]
pub struct RayArgs {
    /// The address of its dashboard, as in `http://host:8265`
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
    /// The address of its dashboard, as in `http://host:8265`
    #[arg(long, value_name = "ADDRESS")]
    pub ray_address: String,
    /// The job, as `wharf submit --ray-address` has said
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
    /// Which job.
    #[command(flatten)]
    pub job: RayJobArgs,
    /// Go on until it is over
    #[arg(long)]
    pub follow: bool,
}

/// `wharf ray-node`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  (started by wharf worker)")]
pub struct RayNodeArgs {
    /// What this node's part is, as JSON
    #[arg(long, value_name = "JSON")]
    pub plan: String,
    /// The driver and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}
