//! `wharf down`: stops everything that `wharf up` has started, on every node, and removes what it has put there.

use super::{folder, interruptible, launcher, read, tell_failure, unknown, unusable};
use crate::args::DownArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::interrupt;
use crate::output::{Terminal, confirm, counted};

/// Does what the arguments say.
///
/// # Errors
/// The file is wrong, or another process changes the cluster.
pub(in crate::commands) fn down(args: &DownArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let cluster = read(&args.launched.file, terminal)?;
    let folder = folder(&args.launched, &cluster)?;
    let name = cluster.name.clone();
    // Machines that were made may be there although nothing is known of them here.
    let is_made = cluster.machines != wharf_launch::config::Machines::Given;
    if !is_made && folder.load().map_err(|error| unusable(&error))?.is_empty() {
        terminal.note(&format!("{name}: nothing is running"));
        return Ok(Exit::Ok);
    }
    let question = format!("stop all nodes of {name}, with its jobs and their history?");
    if !confirm(&question, args.yes, terminal)? {
        return Ok(Exit::Ok);
    }
    let (launcher, _lock) = launcher(cluster, folder, "wharf down", terminal)?;
    let work = wharf_launch::down::down(launcher.clone(), args.parallel, args.forget);
    let Some(outcomes) = interruptible(work)? else {
        terminal.note("interrupted; repeat `wharf down` to continue");
        return Ok(interrupt::handled().unwrap_or(Exit::Ok));
    };
    let outcomes = outcomes.map_err(|error| unknown(&error))?;
    let failed = outcomes.iter().filter(|outcome| outcome.result.is_err()).count();
    for outcome in &outcomes {
        if let Err(error) = &outcome.result {
            tell_failure(&launcher, &outcome.node, error, terminal);
        }
    }
    if failed > 0 && !args.forget {
        terminal.note(&format!(
            "{failed} nodes are not stopped; repeat `wharf down`, with `--forget` for nodes that no longer exist"
        ));
        return Ok(Exit::NodesFailed);
    }
    terminal.note(&format!("{name} is down: {}", counted(outcomes.len(), "node")));
    Ok(Exit::Ok)
}
