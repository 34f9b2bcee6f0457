//! One launcher at a time: a lock for each cluster that names its holder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::state::Folder;

/// Time within which a new holder of a lock writes its name.
const NAMES_ITSELF_WITHIN: Duration = Duration::from_secs(2);
const LOOKS_AGAIN_AFTER: Duration = Duration::from_millis(5);

/// Who has a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// Its machine.
    pub host: String,
    /// What it does.
    pub command: String,
    /// Since when, in seconds since the Unix epoch.
    pub since_s: u64,
}

/// Why a cluster is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("{}", match holder {
        Some(holder) => format!(
            "`{}` is changing the cluster: process {} on {}", holder.command, holder.pid, holder.host
        ),
        None => "another launcher is changing the cluster".to_owned(),
    })]
    Busy {
        /// Who, if it has said so yet.
        holder: Option<Holder>,
    },
    /// The lock cannot be used.
    #[error("cannot use `{}`", path.display())]
    File {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A cluster that is this process' for as long as this value lives.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A caller that asks before the next holder has written its name does not see this one. If that fails, the process id shows it.
        let _ = self.file.set_len(0);
    }
}

impl Lock {
    /// Locks a cluster, or returns the holder. A lock is never revoked: the system releases it when its holder ends.
    ///
    /// # Errors
    /// [`LockError`]
    pub fn take(folder: &Folder, command: &str) -> Result<Self, LockError> {
        let path = folder.lock();
        let failed = |source| LockError::File { path: path.clone(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let host = host();
        let asked = Instant::now();
        let mut file = loop {
            // `wharf down` removes the cluster's folder and the lock with it, perhaps a moment ago.
            let opened = folder.create_for_lock().and_then(|()| options.open(&path));
            let mut file = match opened {
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound && asked.elapsed() < NAMES_ITSELF_WITHIN =>
                {
                    continue;
                }
                opened => opened.map_err(failed)?,
            };
            match file.try_lock() {
                Ok(()) if is_same(&file, &path) => break file,
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let mut text = String::new();
                    file.read_to_string(&mut text).map_err(failed)?;
                    let holder = serde_json::from_str(&text).ok().filter(|holder| is_there(holder, &host));
                    if holder.is_some() || asked.elapsed() > NAMES_ITSELF_WITHIN {
                        return Err(LockError::Busy { holder });
                    }
                    std::thread::park_timeout(LOOKS_AGAIN_AFTER);
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let holder =
            Holder { pid: std::process::id(), host, command: command.to_owned(), since_s: since.as_secs() };
        let text = serde_json::to_string(&holder).map_err(|error| failed(io::Error::other(error)))?;
        let written =
            file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(text.as_bytes()));
        written.map_err(failed)?;
        folder.create().map_err(|error| LockError::File { path: error.path, source: error.source })?;
        Ok(Self { file })
    }
}

fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// Whether a process that named itself may still be: a lock that was just taken has the name of who had it before. What
/// runs on other machines cannot be seen.
fn is_there(holder: &Holder, host: &str) -> bool {
    holder.host != host || Path::new("/proc").join(holder.pid.to_string()).exists()
}

/// Whether a file is still the one at its path.
fn is_same(file: &File, path: &Path) -> bool {
    let place = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), path.metadata()) {
        (Ok(one), Ok(other)) => place(one) == place(other),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_launcher_is_refused_with_the_holder() {
        let home = tempfile::TempDir::new().unwrap();
        let folder = Folder::new(home.path(), "lab");
        folder.create().unwrap();
        let lock = Lock::take(&folder, "wharf up").unwrap();
        let refused = Lock::take(&folder, "wharf down").unwrap_err().to_string();
        assert!(refused.starts_with("`wharf up` is changing the cluster: process "), "{refused}");
        drop(lock);
        let down = Lock::take(&folder, "wharf down").unwrap();
        // A removed cluster is a new one afterwards, even if its old lock is still held.
        folder.remove().unwrap();
        let up = Lock::take(&folder, "wharf up").unwrap();
        drop((down, up));
    }

    #[test]
    fn new_holder_is_awaited_and_not_mistaken_for_an_earlier_one() {
        let home = tempfile::TempDir::new().unwrap();
        let folder = Folder::new(home.path(), "lab");
        folder.create().unwrap();
        let holder = |pid, command: &str| {
            let command = command.to_owned();
            serde_json::to_string(&Holder { pid, host: host(), command, since_s: 0 }).unwrap()
        };
        // No process has this number: a launcher that has ended.
        std::fs::write(folder.lock(), holder(u32::MAX, "wharf down")).unwrap();
        let taken = OpenOptions::new().write(true).open(folder.lock()).unwrap();
        taken.lock().unwrap();
        let refused = std::thread::scope(|scope| {
            let asks = scope.spawn(|| Lock::take(&folder, "wharf up").unwrap_err().to_string());
            std::fs::write(folder.lock(), holder(std::process::id(), "wharf bake")).unwrap();
            asks.join().unwrap()
        });
        assert!(refused.starts_with("`wharf bake` is changing the cluster"), "{refused}");
        std::fs::write(folder.lock(), "").unwrap();
        let refused = Lock::take(&folder, "wharf up").unwrap_err().to_string();
        assert_eq!(refused, "another launcher is changing the cluster");
    }
}
