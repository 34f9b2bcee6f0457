//! `wharf policies`, `wharf policy`

use clap::{Args, Subcommand};

pub(super) const LIST_EXAMPLES: &str = "\
Examples:
  wharf policies
  wharf policies --output json";

/// `wharf policy`
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  wharf policy explain tiresias")]
pub enum PolicyCommand {
    /// Tell how a policy decides, where it was published and what can be set
    Explain(ExplainArgs),
}

/// `wharf policy explain`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wharf policy explain tiresias
  wharf policy explain muri-l --output json")]
pub struct ExplainArgs {
    /// The policy's name
    pub policy: String,
}
