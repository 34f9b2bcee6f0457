//! `wharf install`, `wharf uninstall` and `wharf man`

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Subcommands of `wharf install`.
#[derive(Debug, Subcommand)]
pub enum InstallCommand {
    /// Install the head: service, user, state directory, initial configuration
    Head(InstallHeadArgs),
    /// Install a worker: service, state directory, initial configuration
    Worker(InstallWorkerArgs),
}

/// Locations.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// Root of the file system to install into, for images and tests
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Installation prefix of the program, its manual pages and completions
    #[arg(long, value_name = "DIR", default_value = "/usr/local")]
    pub prefix: PathBuf,
    /// Print all actions without performing them
    #[arg(long)]
    pub dry_run: bool,
}

/// `wharf install head`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf install head --dry-run                      Show all actions
  wharf install head --listen 0.0.0.0:7717          Accept connections from other machines
  wharf install head --root image/                  Install into the file system of an image")]
pub struct InstallHeadArgs {
    /// Locations.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Replace an existing configuration; the old one is saved as config.toml.old
    #[arg(long)]
    pub force: bool,
    /// Listen address of the head in the configuration
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7717")]
    pub listen: SocketAddr,
}

/// `wharf install worker`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf install worker                              Join the head on this machine
  wharf install worker --head node1:7717 --join-token-file /etc/wharf/join.token --address node7
  wharf install worker --root image/ --head node1:7717")]
pub struct InstallWorkerArgs {
    /// Locations.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Replace an existing configuration; the old one is saved as config.toml.old
    #[arg(long)]
    pub force: bool,
    /// Address of the head in the configuration [default: the head on this machine]
    #[arg(long, value_name = "HOST:PORT")]
    pub head: Option<String>,
    /// File with the join token [default: that of the head on this machine, else /etc/wharf/join.token]
    #[arg(long, value_name = "FILE")]
    pub join_token_file: Option<PathBuf>,
    /// Address of this node for the other nodes of a gang
    #[arg(long, value_name = "HOST")]
    pub address: Option<String>,
}

/// Role of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InstalledRole {
    /// Head
    Head,
    /// Worker
    Worker,
}

/// `wharf uninstall`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf uninstall worker --dry-run
  wharf uninstall worker                            Keep configuration and state
  wharf uninstall head --purge                      Also remove configuration, journal, tokens and logs")]
pub struct UninstallArgs {
    /// Role to remove
    pub role: InstalledRole,
    /// Locations.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Also remove the state and, with the last role, the configuration
    #[arg(long)]
    pub purge: bool,
}

/// `wharf man`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf man | man -l -
  wharf man token create | man -l -")]
pub struct ManArgs {
    /// Command (`head`, `token create`) [default: overview]
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}
