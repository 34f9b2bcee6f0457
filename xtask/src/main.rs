//! Wharf's own chores. `cargo xtask` lists them.
//!
//! One entry point for people and for continuous integration; nothing beyond cargo and a C compiler is needed.

mod check;
mod ci;
mod components;
mod deviations;
mod docs;
mod flows;
mod full;
mod map;
mod phases;
mod phrases;
mod static_build;
mod suite;
mod tidy;
mod variables;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

const HELP: &str = "\
Usage: cargo xtask COMMAND

Commands:
  check                  Format, lints and tests of the changed crates
  ci [--install]         Everything that must hold for a change; --install installs missing components first
  components [--install] Print the components that tests use and what is missing; --install installs it
  docs [--check]         Regenerate the generated documents; --check only compares
  full [--long] [STEP]   Reference results, faults, scale and benches, with a table of figures; --long runs more
                         seeds and longer replays; STEP selects steps whose name contains it
  static                 Build a statically linked program and print its path
  tidy                   Check mechanical rules of the sources

Examples:
  cargo xtask check
  cargo xtask components --install
  cargo xtask full chaos";

/// What is wrong, one line each.
type Complaints = Vec<String>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let complaints = match words[..] {
        ["check"] => check::run(),
        ["ci"] => ci::run(false),
        ["ci", "--install"] => ci::run(true),
        ["components"] => components::print(),
        ["components", "--install"] => components::install(),
        ["docs"] => docs::write(&root()),
        ["docs", "--check"] => docs::check(&root()),
        ["full", ref options @ ..] => full::run_steps(options),
        ["static"] => static_build::run(),
        ["tidy"] => tidy::check(&root()),
        ["help" | "--help" | "-h"] => {
            tell(HELP);
            return ExitCode::SUCCESS;
        }
        [] => vec![HELP.to_owned()],
        _ => vec![format!("unknown command `{}`\n\n{HELP}", words.join(" "))],
    };
    for complaint in &complaints {
        tell(complaint);
    }
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The workspace.
fn root() -> PathBuf {
    wharf_testing::workspace()
}

/// Where cargo puts what it builds.
fn target() -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    root().join(named.unwrap_or_else(|| "target".into()))
}

/// Cargo, without the variables that describe this package: build scripts read them, so that everything after such a script would be
/// compiled again whenever cargo is called from here after it was called by a user, and the other way round.
fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    forget_package(&mut cargo);
    cargo
}

/// Takes what cargo has set for this package out of the environment of a command.
fn forget_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let is_of = |prefix: &str| name.as_encoded_bytes().starts_with(prefix.as_bytes());
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"].iter().any(|prefix| is_of(prefix)) {
            command.env_remove(name);
        }
    }
}

/// A line on standard error. Where that is closed, no reader is left.
fn tell(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{line}");
}
