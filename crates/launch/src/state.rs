//! What the launcher knows of a cluster: a folder for its owner only, with a record for each node.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::{NodeConfig, Provider};
use crate::phase::Phase;

/// How often a folder is made whose own folder is removed in between.
const MAKES: u32 = 100;

/// A cluster's folder.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    connections: PathBuf,
    homes: PathBuf,
}

/// What is known of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// What it is.
    pub provider: Provider,
    /// How it was reached: a node that is not in the file any more has to be stopped nevertheless.
    pub node: NodeConfig,
    /// A word that is on the node, too: a machine that was set up again does not have it.
    pub stamp: String,
    /// Whether what was started there left processes behind.
    #[serde(default)]
    pub has_processes: bool,
    /// What was begun and has not ended well: it may be half done.
    #[serde(default)]
    pub dirty: Option<Phase>,
    /// What is done, and with what.
    #[serde(default)]
    pub done: BTreeMap<Phase, String>,
    /// Why the last attempt failed.
    #[serde(default)]
    pub failure: Option<String>,
    /// Where the head was when what runs here was started.
    #[serde(default)]
    pub head_address: Option<String>,
    /// The word on the head's node then: a head that was set up again is another one, at the same address.
    #[serde(default)]
    pub head_stamp: Option<String>,
}

impl Record {
    /// Of a node that nothing is known of.
    #[must_use]
    pub fn new(provider: Provider, node: &NodeConfig, stamp: String) -> Self {
        Self {
            provider,
            node: node.clone(),
            stamp,
            has_processes: false,
            dirty: None,
            done: BTreeMap::new(),
            failure: None,
            head_address: None,
            head_stamp: None,
        }
    }
}

/// A part of a cluster's folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use `{}`", path.display())]
pub struct StateError {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

impl Folder {
    /// The folder of a cluster below the user's own.
    #[must_use]
    pub fn new(home: &Path, cluster: &str) -> Self {
        // Short, because names of sockets have to be.
        let short = &crate::hash::text(cluster)[..8];
        Self {
            path: home.join("clusters").join(cluster),
            connections: home.join("ssh").join(short),
            homes: home.join("nodes").join(short),
        }
    }

    /// Creates it. The caller holds its lock.
    ///
    /// # Errors
    /// Where that cannot be.
    pub fn create(&self) -> Result<(), StateError> {
        for path in [self.records(), self.logs(), self.connections(), self.homes()] {
            make(&path).map_err(|source| StateError { path, source })?;
        }
        Ok(())
    }

    /// Makes as much of it as a lock needs to lie in.
    pub(crate) fn create_for_lock(&self) -> io::Result<()> {
        make(&self.path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder that clients of the cluster's head use.
    #[must_use]
    pub fn client(&self) -> PathBuf {
        self.path.join("client")
    }

    /// Full logs, one for each node.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }

    /// The log of a node.
    #[must_use]
    pub fn log(&self, node: &str) -> PathBuf {
        self.logs().join(format!("{node}.log"))
    }

    /// What programs of the provider said.
    pub(crate) fn provider_log(&self) -> PathBuf {
        self.path.join("provider.log")
    }

    /// Homes of nodes that are folders of this machine.
    #[must_use]
    pub fn homes(&self) -> PathBuf {
        self.homes.clone()
    }

    pub(crate) fn known_hosts(&self) -> PathBuf {
        self.path.join("known_hosts")
    }

    pub(crate) fn connections(&self) -> PathBuf {
        self.connections.clone()
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.path.join("lock")
    }

    /// Files of the head on their way to the workers.
    pub(crate) fn synced(&self) -> PathBuf {
        self.path.join("synced")
    }

    fn records(&self) -> PathBuf {
        self.path.join("records")
    }

    fn record(&self, node: &str) -> PathBuf {
        self.records().join(format!("{node}.json"))
    }

    /// What is known of every node.
    ///
    /// # Errors
    /// A record that cannot be read.
    pub fn load(&self) -> Result<BTreeMap<String, Record>, StateError> {
        let mut records = BTreeMap::new();
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| StateError { path, source }
        };
        let entries = match fs::read_dir(self.records()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(records),
            entries => entries.map_err(failed(&self.records()))?,
        };
        for entry in entries {
            let path = entry.map_err(failed(&self.records()))?.path();
            if path.extension().is_none_or(|ending| ending != "json") {
                continue;
            }
            let text = fs::read_to_string(&path).map_err(failed(&path))?;
            let record: Record =
                serde_json::from_str(&text).map_err(|error| failed(&path)(io::Error::other(error)))?;
            records.insert(record.node.name.clone(), record);
        }
        Ok(records)
    }

    /// Writes what is known of a node, whole or not at all.
    ///
    /// # Errors
    /// Where that cannot be.
    pub fn save(&self, record: &Record) -> Result<(), StateError> {
        let path = self.record(&record.node.name);
        let text = serde_json::to_string(record).map_err(io::Error::other);
        let written = text.and_then(|text| Ok(wharf_staging::write(&path, text)?));
        written.map_err(|source| StateError { path, source })
    }

    /// Forgets a node and its log.
    ///
    /// # Errors
    /// Where that cannot be.
    pub fn forget(&self, node: &str) -> Result<(), StateError> {
        for path in [self.record(node), self.log(node)] {
            if_there(fs::remove_file(&path)).map_err(|source| StateError { path, source })?;
        }
        Ok(())
    }

    /// Removes everything. The caller holds its lock.
    ///
    /// # Errors
    /// Where that cannot be.
    pub fn remove(&self) -> Result<(), StateError> {
        // The lock is removed last: files of the next holder are not touched. No cluster name begins with a dot.
        let mut hidden = OsString::from(".");
        hidden.push(self.path.file_name().unwrap_or_default());
        hidden.push(format!(".{}", crate::hash::unique()));
        let hidden = self.path.with_file_name(hidden);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| StateError { path, source }
        };
        for path in [&self.connections, &self.homes] {
            if_there(fs::remove_dir_all(path)).map_err(failed(path))?;
        }
        if_there(fs::rename(&self.path, &hidden)).map_err(failed(&self.path))?;
        remove_all(&hidden).map_err(failed(&hidden))?;
        // Others may have clusters there.
        for path in [self.path.parent(), self.connections.parent(), self.homes.parent()].into_iter().flatten()
        {
            let _ = fs::remove_dir(path);
        }
        Ok(())
    }
}

/// Removes a folder that was just renamed: a launcher that had resolved its former path may still create a file in it.
fn remove_all(path: &Path) -> io::Result<()> {
    const TRIES_MAX: usize = 100;
    for _ in 0..TRIES_MAX {
        match if_there(fs::remove_dir_all(path)) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            done => return done,
        }
    }
    if_there(fs::remove_dir_all(path))
}

fn make(path: &Path) -> io::Result<()> {
    let make = || DirBuilder::new().recursive(true).mode(0o700).create(path);
    // A concurrent `wharf down` may have removed a folder on the path.
    let is_passing =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists);
    let mut tries = (1..MAKES).map(|_| make());
    tries.find(|made| !made.as_ref().is_err_and(is_passing)).unwrap_or_else(make)
}

/// What is not there need not be removed.
fn if_there(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{Lock, LockError};

    #[test]
    fn new_holder_of_a_removed_cluster_keeps_its_files() {
        let home = tempfile::TempDir::new().unwrap();
        let folder = Folder::new(home.path(), "lab");
        let take_and_remove = || {
            let _lock = loop {
                match Lock::take(&folder, "wharf up") {
                    Ok(lock) => break lock,
                    Err(LockError::Busy { .. }) => {}
                    Err(error) => panic!("{error}: {:?}", std::error::Error::source(&error)),
                }
            };
            for path in
                std::iter::repeat_n([folder.records(), folder.connections(), folder.homes()], 50).flatten()
            {
                assert!(path.exists(), "{} is gone", path.display());
            }
            folder.remove().unwrap();
        };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..100).for_each(|_| take_and_remove()));
            }
        });
        let left: Vec<_> = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
