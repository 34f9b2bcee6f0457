//! A Ray node's own private folder: its path is short enough for the sockets that Ray makes in it.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::trainer::random_word;

/// How names begin, by which folders are known for ours.
const PREFIX: &str = "wr-";
/// Ray's own part of the folder: it makes its files world-accessible, so they are created inside ours.
const RAYS: &str = "r";
/// The longest that Ray can be given: sockets below it have 107 bytes.
const PATH_BYTES_MAX: usize = 40;
/// Random letters of a name.
const RANDOM: usize = 6;

/// Why there is no folder.
#[derive(Debug, thiserror::Error)]
pub(super) enum FolderError {
    #[error("cannot create a directory for Ray in {path}: {source}")]
    Make { path: PathBuf, source: io::Error },
    #[error(
        "{path} is {bytes} bytes long; Ray supports at most {PATH_BYTES_MAX}; set a shorter `ray.temp_dir`"
    )]
    Long { path: PathBuf, bytes: usize },
}

/// Where temporary files are whatever the environment says.
const USUAL: &str = "/tmp";

/// Makes a new folder for a Ray node: in `base`, or else where the environment has temporary files unless that path is too long.
pub(super) fn make(
    base: Option<&Path>,
    job: u32,
    generation: u32,
    rank: u32,
) -> Result<PathBuf, FolderError> {
    match base {
        Some(base) => make_in(base, job, generation, rank),
        None => match make_in(&std::env::temp_dir(), job, generation, rank) {
            Err(FolderError::Long { .. }) => make_in(Path::new(USUAL), job, generation, rank),
            made => made,
        },
    }
}

fn make_in(base: &Path, job: u32, generation: u32, rank: u32) -> Result<PathBuf, FolderError> {
    let failed = |source| FolderError::Make { path: base.to_owned(), source };
    let word = random_word().map_err(failed)?;
    let path = base.join(format!("{PREFIX}{job}-{generation}-{rank}-{}", word.get(..RANDOM).unwrap_or("0")));
    let bytes = rays(&path).as_os_str().len();
    if bytes > PATH_BYTES_MAX {
        return Err(FolderError::Long { path: rays(&path), bytes });
    }
    DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
    Ok(path)
}

/// What Ray is given as its folder.
pub(super) fn rays(folder: &Path) -> PathBuf {
    folder.join(RAYS)
}

/// Removes a folder that an earlier Ray node has left, if it is one of ours.
pub(super) fn remove_left(path: &Path) {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let facts = std::fs::symlink_metadata(path);
    let is_own = facts.is_ok_and(|facts| facts.is_dir() && facts.uid() == geteuid().as_raw());
    if path.is_absolute() && name.starts_with(PREFIX) && is_own {
        // A leftover only uses disk space.
        let _ = std::fs::remove_dir_all(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_private_short_and_never_the_same() {
        let base = tempfile::Builder::new().prefix("f").rand_bytes(4).tempdir_in("/tmp").unwrap();
        let (one, other) =
            (make(Some(base.path()), 3, 1, 0).unwrap(), make(Some(base.path()), 3, 1, 0).unwrap());
        assert_ne!(one, other);
        assert_eq!(std::fs::metadata(&one).unwrap().mode() & 0o777, 0o700);
        assert!(rays(&one).as_os_str().len() <= PATH_BYTES_MAX, "{}", one.display());
        let long = base.path().join("a-folder-with-a-long-name");
        let error = make(Some(&long), 3, 1, 0).unwrap_err().to_string();
        assert!(error.ends_with("set a shorter `ray.temp_dir`"), "{error}");
        remove_left(&one);
        remove_left(base.path());
        assert_eq!((one.exists(), other.exists()), (false, true));
    }
}
