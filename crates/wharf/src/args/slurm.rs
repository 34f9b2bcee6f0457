//! `wharf sbatch` and its like: their options are Slurm's, and read by parsers of their own.

use std::path::PathBuf;

use clap::Args;

use super::cluster::HomeArgs;

/// `wharf sbatch`, `squeue`, `scancel`, `sinfo`, `scontrol`, `sacct`, `salloc` and `srun`
///
/// Options are those of Slurm's command of the same name; docs/slurm.md says which are honoured.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf sbatch --array=1-8%4 train.sh     Submit a batch script
  wharf squeue --me                       List your jobs
  wharf scancel 12_3                      Cancel an element of an array
  wharf sinfo -N                          List nodes
  wharf scontrol show job 12              Show a job
  wharf sacct -j 12 -o jobid,state        How a job ended
  wharf salloc -n 4 bash                  A shell with devices of its own
  wharf srun -n 4 hostname                Run a command four times")]
pub struct SlurmArgs {
    /// Where the cluster is.
    #[command(flatten)]
    pub home: HomeArgs,
    /// Options and arguments, as Slurm has them
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
    /// Folder for the links; created if it does not exist
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Write into a folder that contains other files without asking
    #[arg(short, long)]
    pub yes: bool,
}
