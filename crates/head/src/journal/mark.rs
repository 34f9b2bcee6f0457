//! How far the journal went, in a file of its own: what lets a missing end be noticed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::JournalError;

/// The number of the last event that was made durable. It is written after the event and not forced to disk: it can be
/// behind the journal, but is ahead of it only where the journal lost something.
pub(super) struct Mark {
    file: File,
    path: PathBuf,
    sequence: u64,
}

impl Mark {
    pub(super) fn open(path: &Path) -> Result<Self, JournalError> {
        let failed = |source| JournalError::File { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        let mut bytes = Vec::new();
        // Two heads with one journal would both be wrong. The lock goes with the process.
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(JournalError::InUse { path: path.with_extension("sqlite") });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        file.read_to_end(&mut bytes).map_err(failed)?;
        // An incomplete mark says nothing.
        let sequence = bytes.try_into().map_or(0, u64::from_le_bytes);
        Ok(Self { file, path: path.to_owned(), sequence })
    }

    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(super) fn set(&mut self, sequence: u64) -> Result<(), JournalError> {
        self.sequence = sequence;
        self.file
            .write_all_at(&sequence.to_le_bytes(), 0)
            .map_err(|source| JournalError::File { path: self.path.clone(), source })
    }
}
