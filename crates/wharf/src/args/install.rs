//! `wharf install`, `wharf uninstall` and `wharf man`

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// What to install.
#[derive(Debug, Subcommand)]
pub enum InstallCommand {
    /// The head: its service, its user, its folder, a configuration to begin with
    Head(InstallHeadArgs),
    /// A worker: its service, its folder, a configuration to begin with
    Worker(InstallWorkerArgs),
}

/// Where things go.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// The file system to install into, for images and tests
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Where the program, its manual pages and completions go
    #[arg(long, value_name = "DIR", default_value = "/usr/local")]
    pub prefix: PathBuf,
    /// Print everything that would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// `wharf install head`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf install head --dry-run                      What would be done
  wharf install head --listen 0.0.0.0:7717          A head that other machines reach
  wharf install head --root image/                  Into the file system of an image")]
pub struct InstallHeadArgs {
    /// Where things go.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Replace an existing configuration; the old one is kept beside it as config.toml.old
    #[arg(long)]
    pub force: bool,
    /// The address that the configuration lets the head listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7717")]
    pub listen: SocketAddr,
}

/// `wharf install worker`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf install worker                              Beside the head of this machine
  wharf install worker --head node1:7717 --join-token-file /etc/wharf/join.token --address node7
  wharf install worker --root image/ --head node1:7717")]
pub struct InstallWorkerArgs {
    /// Where things go.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Replace an existing configuration; the old one is kept beside it as config.toml.old
    #[arg(long)]
    pub force: bool,
    /// The head that the configuration names [default: the one of this machine]
    #[arg(long, value_name = "HOST:PORT")]
    pub head: Option<String>,
    /// The file with the token that lets this worker join [default: the head's own here, else /etc/wharf/join.token]
    #[arg(long, value_name = "FILE")]
    pub join_token_file: Option<PathBuf>,
    /// Where other nodes of a gang reach this one
    #[arg(long, value_name = "HOST")]
    pub address: Option<String>,
}

/// What a machine is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InstalledRole {
    /// It decides
    Head,
    /// It runs tasks
    Worker,
}

/// `wharf uninstall`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf uninstall worker --dry-run
  wharf uninstall worker                            Keeps configuration and state
  wharf uninstall head --purge                      Removes these, too: journal, tokens, logs")]
pub struct UninstallArgs {
    /// What to remove
    pub role: InstalledRole,
    /// Where things are.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Remove the state and, with the last role, the configuration
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
    /// The command (`head`, `token create`); the overview where none is given
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}
