//! Slurm commands: `wharf sbatch` and others. Their options are Slurm's, with their own parsers.

use std::path::PathBuf;

use clap::Args;

use super::cluster::HomeArgs;

/// `wharf sbatch`, `squeue`, `scancel`, `sinfo`, `scontrol`, `sacct`, `salloc`, `srun`, `sacctmgr`, `sshare`, `sprio` and `sdiag`
///
/// Options are those of Slurm's command of the same name; docs/slurm.md lists the supported ones.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf sbatch --array=1-8%4 train.sh     Submit a batch script
  wharf squeue --me                       List your jobs
  wharf scancel 12_3                      Cancel an element of an array
  wharf sinfo -N                          List nodes
  wharf scontrol show job 12              Show a job
  wharf sacct -j 12 -o jobid,state        Show the final state of a job
  wharf salloc -n 4 bash                  Open a shell with allocated devices
  wharf srun -n 4 hostname                Run a command four times")]
pub struct SlurmArgs {
    /// State directory of the cluster.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Options and arguments of Slurm's command
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub words: Vec<String>,
}

/// `wharf slurm-shims`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf slurm-shims ~/.local/lib/wharf-slurm
  PATH=~/.local/lib/wharf-slurm:$PATH sbatch train.sh")]
pub struct ShimsArgs {
    /// Directory for the links; created if it does not exist
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Do not ask for confirmation if the directory contains other files
    #[arg(short, long)]
    pub yes: bool,
}
