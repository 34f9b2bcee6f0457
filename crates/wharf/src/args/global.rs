//! Options that every command has.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use super::env;

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Format of results: a table, JSON, tab-separated or comma-separated values
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

    /// When to use colour in messages
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

    /// The configuration file [default: the first of ~/.config/wharf/config.toml and /etc/wharf/config.toml]
    #[arg(long, global = true, value_name = "FILE", env = env::CONFIG.name, hide_env_values = true)]
    pub config: Option<PathBuf>,

    /// Say nothing but results and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Say more about what is being done
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

/// The form of what is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object a line: time, level, message
    Json,
}

/// The form of data on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// A table for people
    Table,
    /// JSON with a schema version, numbers with full precision
    Json,
    /// Tab-separated values with a header line
    Plain,
    /// Comma-separated values with a header line
    Csv,
}

/// When messages are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}
