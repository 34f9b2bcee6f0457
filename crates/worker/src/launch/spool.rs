//! Batch scripts in folders of their own, from when their tasks are started until they are forgotten.

use std::fs::{DirBuilder, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};

use nix::unistd::User;

use crate::task::TaskKey;

/// Where a worker that is root keeps the scripts of other users, who cannot enter its own folder.
const SHARED: &str = "/run/wharf/spool";

/// The variable that tells a script where its steps are counted, beside it.
pub(super) const STEP_FILE: &str = "WHARF_STEP_FILE";

/// Keeps a script for a task, for nobody but its user, and returns its path.
pub(super) fn write(
    state_dir: &Path,
    task: TaskKey,
    script: &str,
    user: Option<&str>,
) -> io::Result<PathBuf> {
    let owner = match user {
        None => None,
        Some(name) => {
            Some(User::from_name(name)?.ok_or_else(|| io::Error::other(format!("there is no user {name}")))?)
        }
    };
    let place = if owner.is_some() { shared(state_dir) } else { state_dir.join("spool") };
    DirBuilder::new().recursive(true).mode(0o755).create(&place)?;
    let folder = place.join(name(task));
    // What an earlier attempt has left.
    let _ = std::fs::remove_dir_all(&folder);
    DirBuilder::new().mode(0o700).create(&folder)?;
    let path = folder.join("slurm_script");
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o700).open(&path)?;
    file.write_all(script.as_bytes())?;
    drop(file);
    if let Some(owner) = owner {
        let (uid, gid) = (Some(owner.uid.as_raw()), Some(owner.gid.as_raw()));
        chown(&path, uid, gid)?;
        chown(&folder, uid, gid)?;
    }
    Ok(path)
}

/// Drops the script of a task, if there is one.
pub(super) fn remove(state_dir: &Path, task: TaskKey) {
    for place in [state_dir.join("spool"), shared(state_dir)] {
        // Most tasks have none.
        let _ = std::fs::remove_dir_all(place.join(name(task)));
    }
}

/// Several workers of one machine may have tasks of the same number.
fn shared(state_dir: &Path) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    state_dir.hash(&mut hasher);
    Path::new(SHARED).join(format!("{:016x}", hasher.finish()))
}

fn name(task: TaskKey) -> String {
    match task.generation {
        0 | 1 => format!("job{:05}", task.job),
        generation => format!("job{:05}.{generation}", task.job),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn scripts_are_private_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let task = TaskKey { job: 127, generation: 1 };
        let path = write(dir.path(), task, "#!/bin/sh\n", None).unwrap();
        assert!(path.ends_with("spool/job00127/slurm_script"), "{}", path.display());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "#!/bin/sh\n");
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o700, 0o700));
        assert_eq!(write(dir.path(), task, "#!/bin/true\n", None).unwrap(), path, "again");
        remove(dir.path(), task);
        assert!(!path.exists());
    }
}
