//! Clusters that are launched from a file: `wharf up`, `wharf down`, and what is done on their nodes in between.

mod bake;
mod down;
mod remote;
mod up;

use std::path::Path;
use std::sync::Arc;

use tokio::sync::Notify;
use wharf_launch::config::told;
use wharf_launch::lock::{Lock, LockError};
use wharf_launch::provider::ProviderError;
use wharf_launch::state::{Folder, StateError};
use wharf_launch::{Cluster, ConfigError, KnownError, Launcher, NodeError, Told};

pub(super) use down::down;
pub(super) use remote::{attach, cluster, get_head_ip, get_worker_ips, rsync_down, rsync_up};
pub(super) use up::up;

use super::cluster::state_home;
use crate::args::LaunchedArgs;
use crate::error::{CliError, ErrorKind};
use crate::interrupt;
use crate::output::Terminal;

/// Reads a cluster's file, and warns of what is odd in it.
fn read(path: &Path, terminal: &Terminal) -> Result<Cluster, CliError> {
    let cluster = wharf_launch::read(path).map_err(|error| wrong(&error))?;
    for warning in &cluster.warnings {
        terminal.warn(&told(path, warning));
    }
    Ok(cluster)
}

/// Refuses a file that does not say enough for new machines.
fn refuse_blockers(path: &Path, cluster: &Cluster) -> Result<(), CliError> {
    if cluster.blockers.is_empty() {
        return Ok(());
    }
    Err(wrong(&ConfigError::Invalid { path: path.to_owned(), problems: cluster.blockers.clone() }))
}

/// A file that cannot be used.
fn wrong(error: &ConfigError) -> CliError {
    match error {
        ConfigError::Read { path, source } => {
            CliError::input(format!("cannot read `{}`", path.display())).caused_by(source)
        }
        ConfigError::Invalid { path, problems } => {
            let mut lines = problems.iter().map(|problem| told(path, problem));
            let failed = CliError::input(lines.next().unwrap_or_default());
            // All problems are reported together.
            lines.fold(failed, |failed, line| failed.and(line))
        }
    }
}

/// Where the launcher keeps what it knows of a cluster.
fn folder(args: &LaunchedArgs, cluster: &Cluster) -> Result<Folder, CliError> {
    let home = match &args.state_dir {
        Some(folder) => folder.clone(),
        None => state_home("name a folder with `--state-dir DIR`")?,
    };
    let home = std::path::absolute(&home).map_err(|error| CliError::read(&home, error))?;
    Ok(Folder::new(&home, &cluster.name))
}

/// Everything it takes to change a cluster, with its lock.
fn launcher(
    cluster: Cluster,
    folder: Folder,
    command: &str,
    terminal: &Terminal,
) -> Result<(Arc<Launcher>, Lock), CliError> {
    let lock = take(&folder, command)?;
    Ok((Arc::new(prepared(cluster, folder, terminal)?), lock))
}

fn take(folder: &Folder, command: &str) -> Result<Lock, CliError> {
    Lock::take(folder, command).map_err(|error| match &error {
        LockError::Busy { .. } => CliError::from_error(ErrorKind::Busy, &error)
            .hint("wait for it or stop it; the next `wharf up` repairs the cluster"),
        LockError::File { .. } => CliError::from_error(ErrorKind::Output, &error),
    })
}

/// The same without the lock, for what changes nothing.
fn prepared(cluster: Cluster, folder: Folder, terminal: &Terminal) -> Result<Launcher, CliError> {
    let failed =
        |error| CliError::new(ErrorKind::Internal, "cannot find the path of this program").caused_by(error);
    let program = std::env::current_exe().map_err(failed)?;
    let said = terminal.clone();
    let tell = Arc::new(move |node: &str, what: Told| match what {
        Told::Makes => said.note(&format!("{node}: creating its machine")),
        Told::Begins(phase, "") => said.detail(&format!("{node}: {phase}")),
        Told::Begins(phase, reason) => said.note(&format!("{node}: {phase} ({reason})")),
        Told::Waits(why) => said.note(&format!("{node}: does not answer yet: {why}")),
        Told::Stops => said.note(&format!("{node}: stops")),
    });
    Launcher::new(cluster, folder, program, tell).map_err(|error| unusable(&error))
}

fn unusable(error: &StateError) -> CliError {
    CliError::from_error(ErrorKind::Output, error)
}

fn unknown(error: &KnownError) -> CliError {
    match error {
        KnownError::State(error) => unusable(error),
        KnownError::Provider { .. } => CliError::from_error(ErrorKind::Input, error)
            .hint("stop it with the file that it was created from, or rename the cluster"),
        KnownError::Machines(error) => failed_provider(error),
    }
}

/// A provider that fails as a whole: nothing was begun.
fn failed_provider(error: &ProviderError) -> CliError {
    CliError::input("machines are not available").caused_by(error)
}

/// Does something with nodes; a signal ends it, and what was begun is known to be unfinished.
fn interruptible<T>(work: impl Future<Output = T>) -> Result<Option<T>, CliError> {
    let stop = Arc::new(Notify::new());
    let stopper = stop.clone();
    interrupt::handle_with(move || stopper.notify_one());
    super::cluster::runtime()?.block_on(async {
        tokio::select! {
            done = work => Ok(Some(done)),
            () = stop.notified() => Ok(None),
        }
    })
}

/// A node that is not as it should be, where its log is, and what may help.
fn tell_failure(launcher: &Launcher, node: &str, error: &NodeError, terminal: &Terminal) {
    let log = launcher.folder.log(node);
    let mut failed = CliError::input(format!("{node}: {}", error.told()));
    if log.exists() {
        failed = failed.hint(format!("see the log {}", log.display()));
    }
    if error.told().contains("host key") {
        let known = launcher.folder.path().join("known_hosts");
        failed = failed.hint(format!(
            "if the machine was reinstalled, remove its old key: `ssh-keygen -f {} -R HOST`",
            known.display()
        ));
    }
    terminal.error(&failed);
}
