//! Checkpoint directories that the head chose, after their jobs have ended: an empty one is removed at once, any other when nothing in it has
//! changed for as long as the head keeps it. All of it is done with the rights of the job's user.
//!
//! What is still to be removed is noted in the state directory, so that a restart of the worker loses nothing.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use nix::unistd::{User, geteuid};
use serde::{Deserialize, Serialize};
use wharf_proto::ReleaseCheckpoint;

use crate::supervisor::Stage;

/// The file that the first node of a gang writes into the directory, for the others to find.
pub(crate) const MARKER: &str = ".wharf-gang";

/// How a task's checkpoint directory is created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckpointSetup {
    /// The task runs even if it cannot be created.
    pub(crate) is_optional: bool,
    /// Content of the marker; empty: none is written.
    pub(crate) marker: String,
}

impl CheckpointSetup {
    /// Creates the directory, with the rights of this process, unless the working directory does not exist.
    pub(crate) fn create(&self, dir: &Path, workdir: &Path) -> io::Result<()> {
        if !workdir.is_dir() {
            // The task fails with the better reason.
            return Ok(());
        }
        let create = || {
            std::fs::create_dir_all(dir)?;
            if self.marker.is_empty() { Ok(()) } else { replace(&dir.join(MARKER), &self.marker) }
        };
        match create() {
            // A trainer that uses it gets the same error with its path.
            Err(_) if self.is_optional => Ok(()),
            created => created,
        }
    }
}

/// Writes a file that others may be reading.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, text)?;
    std::fs::rename(&fresh, path)
}

/// A directory whose job has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Released {
    dir: PathBuf,
    user: String,
    keep_s: f64,
    #[serde(skip)]
    note: PathBuf,
}

fn notes(state_dir: &Path) -> PathBuf {
    state_dir.join("checkpoints")
}

impl Released {
    /// Notes it; none where the message names no directory.
    pub(crate) fn note(state_dir: &Path, message: ReleaseCheckpoint) -> io::Result<Option<Self>> {
        let ReleaseCheckpoint { dir, user, keep_s } = message;
        let dir = PathBuf::from(dir);
        let Some(name) = dir.file_name().filter(|_| dir.is_absolute()) else { return Ok(None) };
        let note = notes(state_dir).join(name);
        let released = Self { dir, user, keep_s, note };
        std::fs::create_dir_all(notes(state_dir))?;
        std::fs::write(&released.note, serde_json::to_vec(&released)?)?;
        Ok(Some(released))
    }

    /// All that are still to be removed.
    pub(crate) fn all(state_dir: &Path) -> Vec<Self> {
        let entries = std::fs::read_dir(notes(state_dir)).into_iter().flatten().flatten();
        let read = |note: PathBuf| {
            let released = serde_json::from_slice::<Self>(&std::fs::read(&note).ok()?).ok()?;
            Some(Self { note, ..released })
        };
        entries.filter_map(|entry| read(entry.path())).collect()
    }

    fn keep(&self) -> Duration {
        Duration::try_from_secs_f64(self.keep_s.max(0.0)).unwrap_or(Duration::MAX)
    }
}

/// Removes what can be removed: empty directories, and with `is_thorough` those that are due.
pub(crate) async fn remove(
    program: Option<PathBuf>,
    state_dir: PathBuf,
    released: Vec<Released>,
    is_thorough: bool,
) {
    let own = User::from_uid(geteuid()).ok().flatten().map(|user| user.name).unwrap_or_default();
    let is_own =
        |released: &Released| !geteuid().is_root() || released.user.is_empty() || released.user == own;
    let (mine, others): (Vec<_>, Vec<_>) = released.into_iter().partition(is_own);
    let remove_mine = move || {
        for one in &mine {
            if is_removed(&one.dir, is_thorough.then(|| one.keep())) {
                forget(&one.note);
            }
        }
    };
    // It only fails where the worker is about to end; the notes are still there then.
    let _ = tokio::task::spawn_blocking(remove_mine).await;
    let mut by_user: BTreeMap<String, Vec<Released>> = BTreeMap::new();
    others.into_iter().for_each(|one| by_user.entry(one.user.clone()).or_default().push(one));
    for (user, released) in by_user {
        // What cannot be removed now is tried again.
        let _ = remove_as(&user, &released, is_thorough, program.as_deref(), &state_dir).await;
    }
}

/// Has a process of a user's remove directories: only that user's rights may reach them.
async fn remove_as(
    user: &str,
    released: &[Released],
    is_thorough: bool,
    program: Option<&Path>,
    state_dir: &Path,
) -> io::Result<()> {
    let keep = |one: &Released| is_thorough.then(|| one.keep());
    let wanted = released.iter().map(|one| (one.dir.clone(), keep(one))).collect();
    let Some(stage) = Stage::removing(user, wanted) else { return Ok(()) };
    let program = program.map_or_else(std::env::current_exe, |program| Ok(program.to_owned()))?;
    let mut command = tokio::process::Command::from(stage.to_command(&program, state_dir)?);
    let output = command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).output().await?;
    let removed: Vec<bool> = serde_json::from_slice(&output.stdout)?;
    for (one, _) in released.iter().zip(removed).filter(|(_, is_removed)| *is_removed) {
        forget(&one.note);
    }
    Ok(())
}

/// A note that stays leads to another attempt, which finds the directory gone.
fn forget(note: &Path) {
    let _ = std::fs::remove_file(note);
}

/// Removes a directory that is empty, or in which nothing has changed for so long. Returns whether it is gone.
pub(crate) fn is_removed(dir: &Path, keep: Option<Duration>) -> bool {
    // Its job has ended: no other node searches for the marker.
    let _ = std::fs::remove_file(dir.join(MARKER));
    match std::fs::remove_dir(dir) {
        Ok(()) => {
            // The last one takes the default root with it; a root that has anything else in it stays.
            for parent in dir.ancestors().skip(1).take(2).filter(|parent| is_default_root(parent)) {
                let _ = std::fs::remove_dir(parent);
            }
            return true;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
        Err(_) => {}
    }
    let Some(keep) = keep else { return false };
    let is_due = newest(dir).is_ok_and(|newest| {
        SystemTime::now().duration_since(newest).is_ok_and(|unchanged| unchanged >= keep)
    });
    is_due && std::fs::remove_dir_all(dir).is_ok()
}

/// Whether a directory is part of the default root, `.wharf/checkpoints` in a working directory.
fn is_default_root(dir: &Path) -> bool {
    dir.ends_with(".wharf/checkpoints") || dir.ends_with(".wharf")
}

/// When anything in a directory last changed.
fn newest(path: &Path) -> io::Result<SystemTime> {
    let found = path.symlink_metadata()?;
    let mut latest = found.modified()?;
    if found.is_dir() {
        for entry in std::fs::read_dir(path)? {
            latest = latest.max(newest(&entry?.path())?);
        }
    }
    Ok(latest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_removed_spares_what_changed_lately() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("7-1");
        let setup = CheckpointSetup { is_optional: false, marker: "7-1".into() };
        setup.create(&dir, root.path()).unwrap();
        assert_eq!(std::fs::read_to_string(dir.join(MARKER)).unwrap(), "7-1");
        assert!(is_removed(&dir, None), "a marker alone is nothing to keep");
        assert!(!dir.exists() && is_removed(&dir, None));

        setup.create(&dir.join("step"), root.path()).unwrap();
        std::fs::write(dir.join("step/model"), "x").unwrap();
        assert!(!is_removed(&dir, None));
        assert!(!is_removed(&dir, Some(Duration::from_secs(3600))));
        assert!(dir.join("step/model").exists());
        assert!(is_removed(&dir, Some(Duration::ZERO)) && !dir.exists());
    }

    #[test]
    fn create_fails_only_where_it_is_required() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("file"), "").unwrap();
        let dir = root.path().join("file/7-1");
        assert!(CheckpointSetup::default().create(&dir, root.path()).is_err());
        CheckpointSetup { is_optional: true, ..Default::default() }.create(&dir, root.path()).unwrap();
    }

    #[tokio::test]
    async fn notes_outlast_the_worker_until_the_directory_is_gone() {
        let root = tempfile::tempdir().unwrap();
        let (state, dir) = (root.path().join("state"), root.path().join("work/3_1-5"));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("model"), "x").unwrap();
        let message = |dir: &str| ReleaseCheckpoint { dir: dir.into(), user: String::new(), keep_s: 0.0 };
        let released = Released::note(&state, message(dir.to_str().unwrap())).unwrap().unwrap();
        assert!(Released::note(&state, message("relative")).unwrap().is_none());
        remove(None, state.clone(), vec![released.clone()], false).await;
        assert!(dir.exists());
        assert_eq!(Released::all(&state), [released]);
        remove(None, state.clone(), Released::all(&state), true).await;
        assert!(!dir.exists());
        assert_eq!(Released::all(&state), []);
    }
}
