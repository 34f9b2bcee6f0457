//! The file with a gang's hosts, as MPI and others read it: `host slots=n`, by rank.
//!
//! Named after its content, so that the many tasks of equal gangs share one and it need not be removed. It lies where the
//! task's user can read it, which the state directory is not where the worker is root.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

static TURN: AtomicU64 = AtomicU64::new(0);

/// Where a worker that is root keeps what tasks of other users have to read.
const SHARED: &str = "/run/wharf";

pub(super) struct Hostfiles {
    folder: PathBuf,
    /// The last one, which most often is the next one, too.
    latest: Option<(String, PathBuf)>,
}

impl Hostfiles {
    pub(super) fn new(state_dir: &Path, is_root: bool) -> Self {
        let shared = Path::new(SHARED).join("hosts");
        // Not every root can write everywhere.
        let can_share = is_root && folder(&shared, 0o755).is_ok();
        let folder = if can_share { shared } else { state_dir.join("hosts") };
        Self { folder, latest: None }
    }

    /// The file for these hosts.
    pub(super) fn file(&mut self, addresses: &[String], devices_by_rank: &[u32]) -> io::Result<PathBuf> {
        let text = text(addresses, devices_by_rank);
        if let Some((known, path)) = &self.latest
            && *known == text
        {
            return Ok(path.clone());
        }
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let path = self.folder.join(format!("{:016x}", hasher.finish()));
        if std::fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            self.write(&path, &text)?;
        }
        self.latest = Some((text, path.clone()));
        Ok(path)
    }

    /// Whole or not at all: others may read it now.
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        folder(&self.folder, 0o755)?;
        // Several workers may live in one process, and write the same file.
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        let fresh = path.with_extension(format!("{}-{turn}", std::process::id()));
        let file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&fresh)?;
        io::Write::write_all(&mut &file, text.as_bytes())?;
        std::fs::rename(&fresh, path)
    }
}

fn folder(path: &Path, mode: u32) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(mode).create(path)
}

fn text(addresses: &[String], devices_by_rank: &[u32]) -> String {
    let slots = devices_by_rank.iter().copied().chain(std::iter::repeat(1));
    addresses.iter().zip(slots).map(|(address, slots)| format!("{address} slots={slots}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_has_a_line_for_each_rank_and_is_shared() {
        let dir = tempfile::tempdir().unwrap();
        let mut hosts = Hostfiles::new(dir.path(), false);
        let addresses = ["10.0.0.1".to_owned(), "10.0.0.2".to_owned()];
        let path = hosts.file(&addresses, &[4, 2]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "10.0.0.1 slots=4\n10.0.0.2 slots=2\n");
        assert_ne!(hosts.file(&addresses[..1], &[4]).unwrap(), path);
        assert_eq!(hosts.file(&addresses, &[4, 2]).unwrap(), path);
        std::fs::write(&path, "spoiled").unwrap();
        let again = Hostfiles::new(dir.path(), false).file(&addresses, &[4, 2]).unwrap();
        assert_eq!(std::fs::read_to_string(again).unwrap(), "10.0.0.1 slots=4\n10.0.0.2 slots=2\n");
    }
}
