//! The state directory and the lock that makes a worker its only user.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::WorkerError;

/// How long a worker that was killed may take to be gone.
const PREDECESSOR_PATIENCE: Duration = Duration::from_millis(500);

/// Makes the state directory, for this user only; tasks of other users, which only root can have, pass through it to the
/// progress socket and find nothing else that they may open.
pub(crate) fn prepare(state_dir: &Path) -> Result<(), WorkerError> {
    let failed = |source| WorkerError::StateDir { path: state_dir.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(state_dir.join("tasks")).map_err(failed)?;
    let mode = if nix::unistd::geteuid().is_root() { 0o711 } else { 0o700 };
    std::fs::set_permissions(state_dir, Permissions::from_mode(mode)).map_err(failed)
}

/// Holds the state directory until dropped, or until the process ends in whatever way.
pub(crate) struct Held(File);

impl Drop for Held {
    fn drop(&mut self) {
        // Closing the file would not do while a child of another thread is between fork and exec and has it, too.
        let _ = self.0.unlock();
    }
}

/// Takes the state directory; waits a little for a worker that was killed just now to be gone.
pub(crate) async fn take(state_dir: &Path) -> Result<Held, WorkerError> {
    let start = Instant::now();
    loop {
        match try_take(state_dir) {
            Err(WorkerError::InUse { .. }) if start.elapsed() < PREDECESSOR_PATIENCE => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            taken => return taken,
        }
    }
}

fn try_take(state_dir: &Path) -> Result<Held, WorkerError> {
    let path = state_dir.join("worker.lock");
    let failed = |source| WorkerError::StateDir { path: path.clone(), source };
    let mut file = open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0).map_err(failed)?;
            write!(file, "{}", std::process::id()).map_err(failed)?;
            Ok(Held(file))
        }
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // The name of the holder is a courtesy: without it the refusal stands.
            let _ = file.read_to_string(&mut holder);
            Err(WorkerError::InUse { path: state_dir.to_owned(), holder })
        }
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Opens a lock file for this user only.
pub(crate) fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take_held_names_holder() {
        let dir = tempfile::tempdir().unwrap();
        prepare(dir.path()).unwrap();
        let held = try_take(dir.path()).unwrap();
        let refused = try_take(dir.path()).err().map(|error| error.to_string()).unwrap();
        assert!(refused.contains(&format!("pid {}", std::process::id())), "{refused}");
        drop(held);
        try_take(dir.path()).unwrap();
    }
}
