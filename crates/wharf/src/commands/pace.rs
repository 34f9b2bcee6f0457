//! `wharf pace`: takes as long as the performance model says.

use crate::args::PaceArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;

/// Trains at the pace that the worker tells.
///
/// # Errors
/// Where it is not run by a worker, or cannot keep its checkpoint.
pub(super) fn execute(args: &PaceArgs) -> Result<Exit, CliError> {
    if !args.iterations.is_finite() || args.iterations < 0.0 {
        return Err(CliError::usage("the iterations must be a number, and not negative"));
    }
    wharf_worker::pace_main(args.iterations)
        .map_err(|error| CliError::from_error(ErrorKind::Input, &error))?;
    Ok(Exit::Ok)
}
