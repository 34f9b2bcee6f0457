//! `wharf config`

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Subcommands of `wharf config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Show every effective value and its source: flag, environment, file or default
    Show(ConfigShowArgs),
    /// Check a configuration file and list all errors
    Check(ConfigCheckArgs),
    /// Print an example configuration file with every key
    #[command(after_help = "Examples:\n  wharf config example > ~/.config/wharf/config.toml")]
    Example,
}

/// `wharf config show`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf config show
  wharf config show --output json
  wharf config show -- head --policy srtf       Settings of this command
  wharf config show --config /etc/wharf/config.toml")]
pub struct ConfigShowArgs {
    /// Command with its options, without `wharf`: show only its settings
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `wharf config check`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf config check
  wharf config check new-config.toml")]
pub struct ConfigCheckArgs {
    /// Configuration file [default: the active one]
    pub file: Option<PathBuf>,
}
