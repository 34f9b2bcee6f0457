//! `wharf run`: a command on this machine, scheduled by the same engine that simulates.

use crate::args::RunArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;

/// Runs the command on its gang and passes its exit code on.
///
/// # Errors
/// Where the devices cannot hold the gang, or the command cannot be started.
pub(super) fn execute(args: &RunArgs, _terminal: &Terminal) -> Result<Exit, CliError> {
    let command = args.command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    Err(CliError::usage(format!("this version of wharf cannot run `{command}`: it only simulates")))
}
