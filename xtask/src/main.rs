//! Wharf's own chores: `cargo xtask ci`, `docs`, `static`, `tidy`.
//!
//! One entry point for people and for continuous integration; nothing beyond cargo and a C compiler is needed.

mod ci;
mod docs;
mod static_build;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Wharf's own chores.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", help_expected = true)]
struct Cli {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Everything that must hold for a change: format, lints, tests, documents
    Ci,
    /// Regenerate the generated documents
    Docs {
        /// Only check that they are up to date
        #[arg(long)]
        check: bool,
    },
    /// Build a statically linked program and print where it is
    Static,
    /// Check mechanical rules of the sources
    Tidy,
}

/// What is wrong, one line each.
type Complaints = Vec<String>;

fn main() -> ExitCode {
    let complaints = match Cli::parse().command {
        Command::Ci => ci::run(),
        Command::Docs { check: true } => docs::check(&root()),
        Command::Docs { check: false } => docs::write(&root()),
        Command::Static => static_build::run(),
        Command::Tidy => tidy::check(&root()),
    };
    for complaint in &complaints {
        tell(complaint);
    }
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The workspace.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// A line on standard error; where that is closed there is nobody to tell.
fn tell(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{line}");
}
