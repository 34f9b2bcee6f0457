//! Slurm's commands on a Wharf cluster: their options, their messages, their exit codes.

mod alloc;
mod begin;
mod container;
mod files;
mod job;
mod mpi;
mod sacct;
mod sbatch;
mod scancel;
mod scontrol;
mod shims;
mod sinfo;
mod squeue;
mod srun;
mod step;
mod steps;
mod view;

pub(super) use mpi::mpi_agent;
pub(super) use shims::{batch, shims};

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;

use wharf_client::Client;
use wharf_slurm::Refusal;

use super::cluster::{connect, runtime};
use crate::args::{HomeArgs, SlurmArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::escaped;
use crate::output::style::Styles;

/// All of them.
const NAMES: [&str; 8] = ["sbatch", "squeue", "scancel", "sinfo", "scontrol", "sacct", "salloc", "srun"];

/// Why one of them ends before its work is done.
enum Fail {
    Refused(Refusal),
    Other(CliError),
    /// No answer; a retry may succeed.
    Away(CliError),
    /// Everything is said; this is the exit code.
    Told(u8),
}

impl From<Refusal> for Fail {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<CliError> for Fail {
    fn from(error: CliError) -> Self {
        Self::Other(error)
    }
}

impl From<wharf_client::ClientError> for Fail {
    fn from(error: wharf_client::ClientError) -> Self {
        if error.is_away() { Self::Away(error.into()) } else { Self::Other(error.into()) }
    }
}

impl Fail {
    fn failed(text: impl Into<String>) -> Self {
        Self::Refused(Refusal::failed(text))
    }
}

/// A command line with everything after the name of such a command kept from Wharf's own parser; the name may be the
/// program's.
pub(crate) fn arguments(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is_one = |word: &OsString| NAMES.iter().any(|name| word == name);
    let called = arguments.first().and_then(|first| Path::new(first).file_name()).map(OsString::from);
    let at = match called.filter(is_one) {
        Some(name) => {
            arguments.insert(1, name);
            2
        }
        None if arguments.get(1).is_some_and(is_one) => 2,
        None => return arguments,
    };
    // Help is Wharf's own.
    if arguments.get(at).is_none_or(|word| word != "--help") {
        arguments.insert(at, "--".into());
    }
    arguments
}

/// Runs one of them.
///
/// # Errors
/// None that is not told in the command's own way, except for output without a reader.
pub(super) fn execute(name: &'static str, args: &SlurmArgs) -> Result<Exit, CliError> {
    let words = args.words.as_slice();
    let done = match name {
        "sbatch" => sbatch::execute(&args.home, words),
        "squeue" => squeue::execute(&args.home, words),
        "scancel" => scancel::execute(&args.home, words),
        "sinfo" => sinfo::execute(&args.home, words),
        "scontrol" => scontrol::execute(&args.home, words),
        "sacct" => sacct::execute(&args.home, words),
        "salloc" => alloc::execute(&args.home, words),
        _ => srun::execute(&args.home, words),
    };
    match done {
        Ok(code) => Ok(Exit::Passed(code)),
        Err(Fail::Refused(refusal)) => {
            refusal.lines(name).iter().for_each(|line| say(line));
            if refusal.kind == wharf_slurm::Kind::Usage {
                say(&format!("Try \"{name} --help\" for more information"));
            }
            Ok(Exit::Passed(refusal.code()))
        }
        Err(Fail::Told(code)) => Ok(Exit::Passed(code)),
        Err(Fail::Other(error)) if error.kind().exit() == Exit::Ok => Err(error),
        Err(Fail::Other(error) | Fail::Away(error)) => {
            let text = error.render(&Styles::plain());
            text.lines().for_each(|line| say(&format!("{name}: {line}")));
            Ok(Exit::Passed(1))
        }
    }
}

/// Prints a line on standard error, unless that is closed.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", escaped(line));
}

/// Prints lines.
fn print(lines: &[String]) -> Result<(), Fail> {
    let mut out = std::io::stdout().lock();
    let written =
        lines.iter().try_for_each(|line| writeln!(out, "{}", escaped(line))).and_then(|()| out.flush());
    written.map_err(|error| Fail::Other(CliError::stdout(error)))
}

/// Connects and asks.
fn with<T>(home: &HomeArgs, ask: impl AsyncFnOnce(&Client) -> Result<T, Fail>) -> Result<T, Fail> {
    runtime()?.block_on(async { ask(&connect(home).await?).await })
}
