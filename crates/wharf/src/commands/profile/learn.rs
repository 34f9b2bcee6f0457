//! `wharf profile learn`: what jobs of a head took for their iterations.

use super::exchange::{foreseen, put, show};
use crate::args::ProfileLearnArgs;
use crate::commands::cluster;
use crate::error::CliError;
use crate::output::Terminal;

/// Requests the history of the head's jobs, and adds their speeds to a database.
pub(super) fn learn(args: &ProfileLearnArgs, terminal: &Terminal) -> Result<(), CliError> {
    let records = cluster::runtime()?.block_on(async {
        let client = cluster::connect(&args.home).await?;
        Ok::<_, CliError>(wharf_profiler::learn(&client).await?)
    })?;
    if records.is_empty() {
        let message = "no job of this head has reported iteration times";
        return Err(CliError::input(message)
            .hint("jobs need a `model`, and trainers that report progress: `wharf step`, or the SDK"));
    }
    let changes = if args.dry_run { foreseen(&args.into, &records)? } else { put(&args.into, &records)? };
    show(&args.into, args.dry_run, &changes, terminal)
}
