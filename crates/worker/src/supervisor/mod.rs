//! The supervisor: parent of all tasks of a worker, synchronous and single-threaded, so that there is nothing to race.
//!
//! It spawns, signals and reaps; it keeps a [`journal`] so that even its own death loses no end that it saw; it takes progress
//! from trainers. It knows nothing of heads, devices or networks.

mod cgroup;
pub(crate) mod device_nodes;
pub(crate) mod files;
mod journal;
pub(crate) mod limits;
mod memory;
mod process;
pub(crate) mod protocol;
mod recovery;
mod running;
mod serve;
mod stage;
mod strays;
mod table;
mod tracked;
mod trainers;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use crate::descriptors::close_inherited;
use crate::error::SupervisorError;
use crate::state_dir;
use journal::Journal;
use serve::Supervisor;
pub use stage::stage_main;
pub(crate) use stage::{Act, Stage};
pub(crate) use strays::is_of_task;
use table::Table;

/// How long a predecessor may take to be gone.
const PREDECESSOR_PATIENCE: Duration = Duration::from_secs(3);

/// What the supervisor writes to its standard output when it can be connected to.
pub(crate) const READY: &str = "ready";

/// Keeps the tasks of the worker whose state is in `state_dir`, until it is requested to end or nothing is left to keep.
///
/// To be called first thing in a process of its own: no other thread may spawn or wait for children.
pub fn supervisor_main(state_dir: &Path) -> Result<(), SupervisorError> {
    close_inherited(None);
    // Refused only to the leader of a group, as when started by hand from a shell: then there is no session to leave.
    let _ = nix::unistd::setsid();
    let _held = hold(state_dir)?;
    nix::sys::prctl::set_child_subreaper(true).map_err(|errno| SupervisorError::System {
        what: "become the parent of orphans",
        source: errno.into(),
    })?;
    let (journal, recorded) = Journal::open(state_dir)?;
    let table = Table::new(state_dir, journal, recovery::reconcile(state_dir, recorded));
    let mut supervisor = Supervisor::bind(state_dir, table)?;
    let mut stdout = std::io::stdout();
    // The worker that waits for this line may be dead by now.
    let _ = writeln!(stdout, "{READY}").and_then(|()| stdout.flush());
    supervisor.serve()
}

/// From now on this process ignores termination signals: shutting down a machine, or a part of it, signals its
/// processes all at once, and tasks need a supervisor for as long as they take.
///
/// # Errors
/// [`SupervisorError::System`] where signals cannot be handled.
pub fn ignore_termination() -> Result<(), SupervisorError> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        // The flag is not read. Child processes have the default handling again.
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
            .map_err(|source| SupervisorError::System { what: "handle signals", source })?;
    }
    Ok(())
}

/// Makes this the only supervisor of the state directory.
fn hold(state_dir: &Path) -> Result<File, SupervisorError> {
    let path = state_dir.join("keeper.lock");
    let failed = |source| SupervisorError::File { what: "open", path: path.clone(), source };
    let file = state_dir::open(&path).map_err(failed)?;
    // A predecessor that is on its way out lets go in a moment; the wait has to end if it does not.
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let locked = file.lock().map(|()| file);
        // The receiver is gone only after the timeout.
        let _ = sender.send(locked);
    });
    match receiver.recv_timeout(PREDECESSOR_PATIENCE) {
        Ok(locked) => locked.map_err(failed),
        Err(_) => Err(SupervisorError::InUse { path: state_dir.to_owned() }),
    }
}

/// States what happened in the supervisor's log, which is its standard error.
fn note(what: std::fmt::Arguments<'_>) {
    // The log may not be writable.
    let _ = writeln!(std::io::stderr(), "{what}");
}
