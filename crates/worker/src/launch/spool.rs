//! Files of single tasks (batch scripts, tokens) in folders of their own, from when their tasks are started until they are forgotten.

use std::fs::{DirBuilder, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};

use nix::unistd::User;

use crate::task::TaskKey;

/// Where a worker that is root keeps the files of other users, who cannot enter its own folder.
const SHARED: &str = "/run/wharf/spool";

/// The variable that tells a script where its steps are counted, beside it.
pub(super) const STEP_FILE: &str = "WHARF_STEP_FILE";

/// What a batch script is called.
pub(super) const SCRIPT: &str = "slurm_script";
/// What a task's token is called.
pub(super) const TOKEN: &str = "token";

/// A file of a task.
pub(super) struct Spooled<'a> {
    pub(super) name: &'static str,
    pub(super) text: &'a str,
    pub(super) mode: u32,
}

/// Writes files of a task that only its user can read, and returns their folder.
pub(super) fn write(
    state_dir: &Path,
    task: TaskKey,
    files: &[Spooled<'_>],
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
    let ids = owner.map(|owner| (Some(owner.uid.as_raw()), Some(owner.gid.as_raw())));
    for file in files {
        let path = folder.join(file.name);
        let mut opened = OpenOptions::new().write(true).create_new(true).mode(file.mode).open(&path)?;
        opened.write_all(file.text.as_bytes())?;
        drop(opened);
        if let Some((uid, gid)) = ids {
            chown(&path, uid, gid)?;
        }
    }
    if let Some((uid, gid)) = ids {
        chown(&folder, uid, gid)?;
    }
    Ok(folder)
}

/// Drops the files of a task, if there are any.
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
    fn files_are_private_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let task = TaskKey { job: 127, generation: 1 };
        let script = |text| Spooled { name: SCRIPT, text, mode: 0o700 };
        let token = Spooled { name: TOKEN, text: "secret", mode: 0o600 };
        let folder = write(dir.path(), task, &[script("#!/bin/sh\n"), token], None).unwrap();
        assert!(folder.ends_with("spool/job00127"), "{}", folder.display());
        assert_eq!(std::fs::read_to_string(folder.join(SCRIPT)).unwrap(), "#!/bin/sh\n");
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        let modes = (mode(&folder), mode(&folder.join(SCRIPT)), mode(&folder.join(TOKEN)));
        assert_eq!(modes, (0o700, 0o700, 0o600));
        assert_eq!(write(dir.path(), task, &[script("#!/bin/true\n")], None).unwrap(), folder, "again");
        assert!(!folder.join(TOKEN).exists());
        remove(dir.path(), task);
        assert!(!folder.exists());
    }
}
