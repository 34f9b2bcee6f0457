//! `wharf config`

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Show every value in force, and whether it is from a flag, the environment, the file or a default
    Show(ConfigShowArgs),
    /// Say everything that is wrong with a configuration file
    Check(ConfigCheckArgs),
    /// Print a file to begin with: every key with its meaning
    #[command(after_help = "Examples:\n  wharf config example > ~/.config/wharf/config.toml")]
    Example,
}

/// `wharf config show`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf config show
  wharf config show --output json
  wharf config show -- head --policy srtf       What this command would go by
  wharf config show --config /etc/wharf/config.toml")]
pub struct ConfigShowArgs {
    /// A command with its options, without `wharf`: only what it goes by
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
    /// The file [default: the one in force]
    pub file: Option<PathBuf>,
}
