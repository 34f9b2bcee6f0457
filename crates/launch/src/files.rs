//! What is copied to nodes: the same to all, and to workers also what the head has.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use crate::config::{Mount, Runtime};
use crate::hash::{self, FilesError, Hasher};
use crate::launcher::Launcher;
use crate::provider::Left;
use crate::shell::quote_path;
use crate::state::StateError;
use crate::up::UpError;
use crate::visit::{NodeError, Visit};

/// What nodes of one role get.
pub(crate) struct Files {
    /// The hash of all of it; `None` where it is nothing.
    pub(crate) hash: Option<String>,
    /// Files and folders.
    pub(crate) mounts: Vec<Mount>,
}

impl Files {
    /// Of the head.
    pub(crate) fn of_head(launcher: &Launcher) -> Result<Self, FilesError> {
        Self::new(launcher, launcher.cluster.mounts.clone())
    }

    /// Of a worker, with what the head had when it was last asked.
    pub(crate) fn of_worker(launcher: &Launcher) -> Result<Self, FilesError> {
        let synced = launcher.cluster.synced.iter().enumerate().filter_map(|(index, remote)| {
            let local = fetched(launcher, index).join(base(remote));
            local.exists().then(|| Mount { remote: remote.clone(), local })
        });
        let mounts = launcher.cluster.mounts.iter().cloned().chain(synced);
        Self::new(launcher, mounts.collect())
    }

    /// Of a worker, with what the head has now; what it does not have is left out.
    pub(crate) async fn fetch(launcher: &Launcher) -> Result<Self, UpError> {
        if !launcher.cluster.synced.is_empty() {
            fetch(launcher).await.map_err(UpError::Synced)?;
        }
        Ok(Self::of_worker(launcher)?)
    }

    fn new(launcher: &Launcher, mounts: Vec<Mount>) -> Result<Self, FilesError> {
        let cluster = &launcher.cluster;
        let program = match &cluster.runtime {
            Runtime::Wharf(wharf) if launcher.copies_program(wharf, launcher.head()) => {
                Some(&launcher.program)
            }
            _ => None,
        };
        if mounts.is_empty() && program.is_none() {
            return Ok(Self { hash: None, mounts });
        }
        let mut hasher = Hasher::new();
        if let Some(path) = program {
            // Too large to be read each time: a program that was built again has another time.
            let failed = |source| FilesError::Read { path: path.clone(), source };
            let metadata = path.metadata().map_err(failed)?;
            let modified = metadata.modified().map_err(failed)?;
            hasher.add(format!("{} {modified:?}", metadata.len()));
        }
        if launcher.head().container.is_some() {
            // They are copied to other places.
            hasher.add("container");
        }
        hasher.add(hash::mounts(&mounts, &left(launcher))?);
        Ok(Self { hash: Some(hasher.finish()), mounts })
    }

    /// Copies all of it.
    pub(crate) async fn copy(&self, visit: &Visit<'_>) -> Result<(), NodeError> {
        let launcher = visit.launcher;
        if let Runtime::Wharf(wharf) = &launcher.cluster.runtime
            && launcher.copies_program(wharf, visit.node)
        {
            visit.copy(&launcher.program, &launcher.copied_program(visit.node), &Left::default()).await?;
        }
        for mount in &self.mounts {
            visit.deliver(mount, &left(launcher)).await?;
        }
        Ok(())
    }
}

fn left(launcher: &Launcher) -> Left<'_> {
    Left { exclude: &launcher.cluster.exclude, filter: &launcher.cluster.filter }
}

/// Brings here what workers get from the head.
async fn fetch(launcher: &Launcher) -> Result<(), NodeError> {
    let head = Visit::new(launcher, launcher.head()).inside();
    let synced = &launcher.cluster.synced;
    let looks = synced
        .iter()
        .enumerate()
        .map(|(index, path)| format!("if [ -e {} ]; then echo has {index}; fi\n", quote_path(path)));
    let said = head.ask("looking for files", &looks.collect::<String>(), &[], None).await?;
    for (index, path) in synced.iter().enumerate() {
        let folder = fetched(launcher, index);
        let failed = |source| StateError { path: folder.clone(), source };
        if said.lines().any(|line| line == format!("has {index}")) {
            DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
            head.fetch(path, &folder.join(""), &left(launcher)).await?;
        } else if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(failed)?;
        }
    }
    Ok(())
}

/// Where a path of the head is kept on its way to the workers.
fn fetched(launcher: &Launcher, index: usize) -> PathBuf {
    launcher.folder.synced().join(index.to_string())
}

fn base(remote: &str) -> &str {
    remote.trim_end_matches('/').rsplit('/').next().unwrap_or(remote)
}
