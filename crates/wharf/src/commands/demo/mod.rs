//! `wharf demo`: the first thing to try.

mod files;
mod load;
mod real;
mod show;
mod simulate;

use crate::args::DemoArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;

/// Runs real jobs on a cluster of four nodes, or simulates all policies.
///
/// # Errors
/// Whatever is wrong with the arguments, with the outputs, or with this machine.
pub(super) fn execute(args: &DemoArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    if args.simulate { simulate::execute(args, terminal) } else { real::execute(args, terminal) }
}
