//! Hashes of what is done: equal ones need not be done again.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ring::digest::{Context, SHA256};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::config::Mount;
use crate::provider::Left;

/// What a hash is made of, part by part; parts cannot run into each other.
pub(crate) struct Hasher(Context);

impl Hasher {
    pub(crate) fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    pub(crate) fn add(&mut self, part: impl AsRef<[u8]>) -> &mut Self {
        let part = part.as_ref();
        self.0.update(&(part.len() as u64).to_le_bytes());
        self.0.update(part);
        self
    }

    pub(crate) fn finish(self) -> String {
        self.0.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Of a text.
pub(crate) fn text(text: &str) -> String {
    let mut hasher = Hasher::new();
    hasher.add(text);
    hasher.finish()
}

/// A unique word.
pub(crate) fn unique() -> String {
    let mut bytes = [0; 8];
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        // It has to be different from others, not secret.
        Err(_) => {
            text(&format!("{:?}-{}", std::time::SystemTime::now(), std::process::id()))[..16].to_owned()
        }
    }
}

/// Files cannot be copied.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// One cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no rsync.
    #[error("`rsync` cannot be run: install it on this machine and on the nodes")]
    Rsync(#[source] io::Error),
    /// It refuses, for example a pattern.
    #[error("`rsync` cannot list `{}`: {said}", path.display())]
    Refused {
        /// What was to be listed.
        path: PathBuf,
        /// What it said.
        said: String,
    },
}

/// Of all that is copied: names below the mounts, modes, targets of links, contents. What rsync leaves out is left out here,
/// because rsync itself is asked what it would copy.
pub(crate) fn mounts(mounts: &[Mount], left: &Left<'_>) -> Result<String, FilesError> {
    let mut hasher = Hasher::new();
    for mount in mounts {
        hasher.add(&mount.remote);
        let is_folder = mount.local.is_dir();
        for name in listed(&mount.local, is_folder, left)? {
            let path = if is_folder { mount.local.join(&name) } else { mount.local.clone() };
            add_file(&mut hasher, &path, &name).map_err(|source| FilesError::Read { path, source })?;
        }
    }
    for part in left.args() {
        hasher.add(part.as_bytes());
    }
    Ok(hasher.finish())
}

fn add_file(hasher: &mut Hasher, path: &Path, name: &str) -> io::Result<()> {
    let metadata = path.symlink_metadata()?;
    hasher.add(name).add((metadata.permissions().mode() & 0o7777).to_le_bytes());
    if metadata.is_symlink() {
        hasher.add(std::fs::read_link(path)?.as_os_str().as_bytes());
    } else if metadata.is_file() {
        hasher.add(std::fs::read(path)?);
    }
    Ok(())
}

/// What rsync would copy of a file or folder, in its order.
fn listed(path: &Path, is_folder: bool, left: &Left<'_>) -> Result<Vec<String>, FilesError> {
    let mut source = path.as_os_str().to_owned();
    if is_folder {
        source.push("/");
    }
    // Nothing is copied, so that it need not be there.
    let nowhere = PathBuf::from("/nothing-is-copied-here");
    let output = Command::new("rsync")
        .args(["-rlpn", "--8-bit-output", "--out-format=%n"])
        .args(left.args())
        .arg("--")
        .args([source, nowhere.into_os_string()])
        .output()
        .map_err(FilesError::Rsync)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(FilesError::Refused { path: path.to_owned(), said });
    }
    let mut names: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    names.sort_unstable();
    Ok(names)
}
