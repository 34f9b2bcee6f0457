//! The folder of those who keep pilots: a lock, what is known of pilots, and for each pilot what its nodes have to know.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wharf_tls::{create_private, is_missing, write_private};

use crate::error::PilotError;
use crate::health::Health;
use crate::node::NodeSpec;

/// Time for which a status request may hold the lock.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// A directory that all pilots can read, on a file system shared by the nodes.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// What is known of a pilot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PilotRow {
    /// Its place among the pilots, which its nodes are named after.
    pub slot: u32,
    /// Its folder.
    pub folder: String,
    /// When it was submitted, in seconds since the Unix epoch; 0: by an earlier process, at an unknown time.
    pub submitted_s: f64,
    /// When it got its nodes.
    pub start_s: Option<f64>,
    /// A worker of it has joined the head.
    pub has_joined: bool,
    /// It was taken back from here.
    pub is_recalled: bool,
    /// `pending`, `starting`, `up` or `ending`.
    pub stage: String,
    /// Why it waits, in Slurm's word.
    pub reason: String,
    /// Slurm's names of its nodes.
    pub nodes: String,
    /// Its workers' tokens, by their ids.
    pub tokens: Vec<String>,
}

/// Public state of the pilot manager.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The process that wrote it.
    pub pid: u32,
    /// When, in seconds since the Unix epoch.
    pub updated_s: f64,
    /// Pilots that are not over, by Slurm's ids.
    pub pilots: BTreeMap<String, PilotRow>,
    /// Jobs that wait and could run in pilots.
    pub waiting: u32,
    /// Pilots that there is work for, beside those that are up.
    pub needed: u32,
    /// How often pilots were submitted since this folder was made.
    pub submitted: u64,
    /// Failures since the last success.
    pub failures: u32,
    /// Nothing is submitted before, in seconds since the Unix epoch.
    pub retry_at_s: f64,
    /// What went wrong last; empty: nothing.
    pub trouble: String,
    /// Why the head could not be asked; empty: it was.
    pub head_away: String,
}

impl Status {
    pub(crate) fn health(&self) -> Health {
        Health { failures: self.failures, retry_at_s: self.retry_at_s, trouble: self.trouble.clone() }
    }

    pub(crate) fn set_health(&mut self, health: &Health) {
        (self.failures, self.retry_at_s) = (health.failures, health.retry_at_s);
        self.trouble.clone_from(&health.trouble);
    }
}

/// A lock that ends with this value.
#[derive(Debug)]
pub struct Held {
    _file: File,
}

impl Store {
    /// The folder, made if it is not there.
    ///
    /// # Errors
    /// [`PilotError::File`]
    pub fn open(folder: &Path) -> Result<Self, PilotError> {
        let folder = std::path::absolute(folder).map_err(PilotError::file("find", folder))?;
        make_folder(&folder.join("pilots"))?;
        Ok(Self { folder })
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Locks this folder against other pilot managers.
    ///
    /// # Errors
    /// [`PilotError::InUse`] if another process holds it.
    pub fn lock(&self) -> Result<Held, PilotError> {
        let path = self.folder.join("lock");
        let file = open_lock(&path)?;
        // A status request releases it in a moment; the wait has to end for another manager.
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let locked = file.lock().map(|()| Held { _file: file });
            // The receiver is gone only after the timeout.
            let _ = sender.send(locked);
        });
        match receiver.recv_timeout(LOCK_PATIENCE) {
            Ok(locked) => locked.map_err(PilotError::file("lock", path)),
            Err(_) => Err(PilotError::InUse { path }),
        }
    }

    /// Whether a pilot manager is running, as far as known.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        let locked = open_lock(&self.folder.join("lock")).map(|file| file.try_lock());
        matches!(locked, Ok(Err(TryLockError::WouldBlock)))
    }

    /// The last written state, if any.
    ///
    /// # Errors
    /// [`PilotError`] where it cannot be read.
    pub fn status(&self) -> Result<Option<Status>, PilotError> {
        let path = self.folder.join("status.json");
        match fs::read_to_string(&path) {
            Ok(text) => {
                serde_json::from_str(&text).map(Some).map_err(|source| PilotError::Malformed { path, source })
            }
            Err(error) if is_missing(&error) => Ok(None),
            Err(source) => Err(PilotError::File { what: "read", path, source }),
        }
    }

    pub(crate) fn write_status(&self, status: &Status) -> Result<(), PilotError> {
        self.write_json(&self.folder.join("status.json"), status)
    }

    fn write_json(&self, path: &Path, value: &impl Serialize) -> Result<(), PilotError> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|source| PilotError::Malformed { path: path.to_owned(), source })?;
        write_private(path, &(text + "\n")).map_err(PilotError::file("write", path))
    }

    /// A pilot's own folder.
    pub(crate) fn pilot(&self, name: &str) -> PathBuf {
        self.folder.join("pilots").join(name)
    }

    /// Writes down what a pilot's nodes have to know. The tokens are in files of their own, for their owner only.
    pub(crate) fn write_pilot(
        &self,
        name: &str,
        spec: &NodeSpec,
        tokens: &[String],
    ) -> Result<PathBuf, PilotError> {
        let folder = self.pilot(name);
        make_folder(&folder)?;
        for (node, token) in spec.nodes.iter().zip(tokens) {
            create_private(&node.token_file, &format!("{token}\n"))
                .map_err(PilotError::file("write", &node.token_file))?;
        }
        let path = folder.join("spec.json");
        self.write_json(&path, spec)?;
        Ok(path)
    }

    /// Forgets a pilot; its output stays where something was wrong with it.
    pub(crate) fn forget_pilot(&self, name: &str, keeps_output: bool) -> Result<(), PilotError> {
        let folder = self.pilot(name);
        let removed = if keeps_output {
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            let secret = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "token");
            entries.map(|entry| entry.path()).filter(secret).try_for_each(fs::remove_file)
        } else {
            fs::remove_dir_all(&folder)
        };
        match removed {
            Err(error) if !is_missing(&error) => {
                Err(PilotError::File { what: "remove", path: folder, source: error })
            }
            _ => Ok(()),
        }
    }
}

fn make_folder(path: &Path) -> Result<(), PilotError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(PilotError::file("make", path))
}

fn open_lock(path: &Path) -> Result<File, PilotError> {
    let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    opened.map_err(PilotError::file("open", path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::node::NodeEntry;

    #[test]
    fn one_process_keeps_pilots_and_others_read_what_it_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("p")).unwrap();
        assert_eq!(store.status().unwrap(), None);
        assert!(!store.is_kept());
        let held = store.lock().unwrap();
        assert!(store.is_kept());
        let mut status = Status { submitted: 3, ..Status::default() };
        status.pilots.insert("7".into(), PilotRow { slot: 1, ..PilotRow::default() });
        store.write_status(&status).unwrap();
        drop(held);
        assert_eq!(store.status().unwrap(), Some(status));
    }

    #[test]
    fn tokens_are_for_their_owner_only_and_do_not_outlast_a_pilot() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let token_file = store.pilot("0-ab").join("0.token");
        let node = NodeEntry { name: "s-0".into(), token_file: token_file.clone() };
        let spec = NodeSpec { nodes: vec![node], ..NodeSpec::default() };
        let path = store.write_pilot("0-ab", &spec, &["hush".into()]).unwrap();
        assert_eq!(fs::metadata(&token_file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!fs::read_to_string(&path).unwrap().contains("hush"));
        fs::write(store.pilot("0-ab").join("output.txt"), "why").unwrap();
        store.forget_pilot("0-ab", true).unwrap();
        assert!(!token_file.exists() && store.pilot("0-ab").join("output.txt").exists());
        store.forget_pilot("0-ab", false).unwrap();
        store.forget_pilot("0-ab", false).unwrap();
        assert!(!store.pilot("0-ab").exists());
    }
}
