//! `wharf presets`

use clap::{Args, Subcommand};

/// `wharf presets`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf presets
  wharf presets show wharf > my-preset.toml")]
pub struct PresetArgs {
    /// What to do; lists the presets where not given.
    #[command(subcommand)]
    pub command: Option<PresetCommand>,
}

/// What to do with presets.
#[derive(Debug, Subcommand)]
pub enum PresetCommand {
    /// List the built-in presets
    #[command(after_help = "Examples:\n  wharf presets list --output plain")]
    List,
    /// Print a preset's file
    Show(ShowArgs),
}

/// `wharf presets show`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf presets show muri
  wharf presets show wharf > my-preset.toml")]
pub struct ShowArgs {
    /// A built-in preset or a file
    #[arg(value_name = "NAME|FILE")]
    pub preset: String,
}
