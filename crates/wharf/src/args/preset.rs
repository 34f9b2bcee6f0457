//! `wharf presets`

use clap::{Args, Subcommand};

/// `wharf presets`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf presets
  wharf presets show wharf > my-preset.toml")]
pub struct PresetArgs {
    /// Subcommand; without one, the presets are listed.
    #[command(subcommand)]
    pub command: Option<PresetCommand>,
}

/// Subcommands of `wharf presets`.
#[derive(Debug, Subcommand)]
pub enum PresetCommand {
    /// List the built-in presets
    #[command(after_help = "Examples:\n  wharf presets list --output plain")]
    List,
    /// Print a preset file
    Show(ShowArgs),
}

/// `wharf presets show`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf presets show muri
  wharf presets show wharf > my-preset.toml")]
pub struct ShowArgs {
    /// Built-in preset or file
    #[arg(value_name = "NAME|FILE")]
    pub preset: String,
}
