//! Slurm's commands on a Wharf cluster: their options, their messages, their exit codes.

mod accounting_json;
mod console;
mod container;
mod diagnosis;
mod error;
mod job;
mod mpi;
mod option_files;
mod priorities;
mod sacct;
mod sacctmgr;
mod salloc;
mod sbatch;
mod scancel;
mod scontrol;
mod shares;
pub mod shims;
mod sinfo;
mod squeue;
mod srun;
mod step_rows;
mod step_task;
mod view;

pub use console::{Console, Terminal};
pub use error::{CommandError, MpiError};
pub use job::own_group;
pub use mpi::{MPI_AGENT, mpi_agent};

use std::path::PathBuf;
use std::sync::Arc;

use wharf_client::{Client, ClientError, Locator};

use crate::grammar::export::Variables;

/// Names of the commands.
pub const NAMES: [&str; 12] = [
    "sbatch", "squeue", "scancel", "sinfo", "scontrol", "sacct", "salloc", "srun", "sacctmgr", "sshare",
    "sprio", "sdiag",
];

/// What commands share.
#[derive(Clone)]
pub struct Context {
    /// Where the head is.
    pub locator: Locator,
    /// Where messages and tables go.
    pub console: Arc<dyn Console>,
    /// Variables of jobs by which commands within them find the head.
    pub variables: Variables,
    /// Directory for links with the names of these commands; none if the user has no state directory.
    pub links: Option<PathBuf>,
}

impl Context {
    async fn connect(&self) -> Result<Client, ClientError> {
        self.locator.connect().await
    }

    /// Prints a line on standard error.
    fn note(&self, line: &str) {
        self.console.note(line);
    }

    /// Prints lines on standard output.
    fn print(&self, lines: &[String]) -> Result<(), CommandError> {
        self.console.print(lines).map_err(CommandError::Output)
    }
}

/// Runs one of [`NAMES`] and returns its exit code.
///
/// # Errors
/// [`CommandError`], none of which has been printed.
pub async fn execute(
    name: &str,
    context: &Context,
    terminal: &impl Terminal,
    words: &[String],
) -> Result<u8, CommandError> {
    match name {
        "sbatch" => sbatch::execute(context, words).await,
        "squeue" => squeue::execute(context, words).await,
        "scancel" => scancel::execute(context, words).await,
        "sinfo" => sinfo::execute(context, words).await,
        "scontrol" => scontrol::execute(context, words).await,
        "sacctmgr" => sacctmgr::execute(context, words).await,
        "sshare" => shares::execute(context, words).await,
        "sprio" => priorities::execute(context, words).await,
        "sdiag" => diagnosis::execute(context, words).await,
        "sacct" => sacct::execute(context, words).await,
        "salloc" => salloc::execute(context, words).await,
        _ => srun::execute(context, terminal, words).await,
    }
}

/// Default name of the job or step that runs a command.
fn name_of(command: &[String]) -> String {
    let first = command.first().map_or("", String::as_str);
    first.rsplit('/').next().unwrap_or(first).to_owned()
}
