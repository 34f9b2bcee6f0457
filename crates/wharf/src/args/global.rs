//! Options that every command has.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use super::env;

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Output format
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "FORM",
        default_value_t = OutputFormat::Table,
        env = env::OUTPUT.name,
        hide_env_values = true
    )]
    pub output: OutputFormat,

    /// Use of colour in messages
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value_t = ColorChoice::Auto,
        env = env::COLOR.name,
        hide_env_values = true
    )]
    pub color: ColorChoice,

    /// Configuration file [default: the first of ~/.config/wharf/config.toml and /etc/wharf/config.toml]
    #[arg(long, global = true, value_name = "FILE", env = env::CONFIG.name, hide_env_values = true)]
    pub config: Option<PathBuf>,

    /// Print only results and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Print more detail; may be given several times
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

/// Log format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Human-readable lines
    Text,
    /// One JSON object per line: time, level, message
    Json,
}

/// Format of data on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Human-readable table
    Table,
    /// JSON with a schema version and full-precision numbers
    Json,
    /// Tab-separated values with a header line
    Plain,
    /// Comma-separated values with a header line
    Csv,
}

/// Use of colour in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}
