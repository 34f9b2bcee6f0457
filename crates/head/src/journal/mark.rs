//! How far the journal went, in a file of its own: what lets a missing end be noticed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::JournalError;

/// Ids are reserved in blocks of this size, so that the file is forced to disk once for each block.
pub(crate) const ID_BLOCK: u32 = 1000;

/// The number of the last durable event, and the end of the reserved job ids.
///
/// The number is written after the event and not forced to disk: it can be behind the journal, but is ahead of it only where the
/// journal lost something. The reservation is forced to disk before an id of it is made durable in the journal: no id beyond it was
/// ever acknowledged.
pub(super) struct Mark {
    file: File,
    path: PathBuf,
    sequence: u64,
    reserved: u32,
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
        // An incomplete part is no statement; older versions wrote the first only.
        let part = |at: usize| bytes.get(at..at + 8).and_then(|part| part.try_into().ok());
        let sequence = part(0).map_or(0, u64::from_le_bytes);
        let reserved = part(8).map_or(0, u64::from_le_bytes);
        let reserved = u32::try_from(reserved).unwrap_or(0);
        Ok(Self { file, path: path.to_owned(), sequence, reserved })
    }

    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Job ids from here on were never acknowledged.
    pub(super) fn reserved(&self) -> u32 {
        self.reserved
    }

    pub(super) fn set(&mut self, sequence: u64) -> Result<(), JournalError> {
        self.write(sequence, 0)?;
        self.sequence = sequence;
        Ok(())
    }

    /// Reserves ids up to and including the block of `next - 1`, durably.
    pub(super) fn reserve(&mut self, next: u32) -> Result<(), JournalError> {
        if next <= self.reserved {
            return Ok(());
        }
        let reserved = next.checked_next_multiple_of(ID_BLOCK).unwrap_or(u32::MAX);
        self.write(u64::from(reserved), 8)?;
        self.file.sync_data().map_err(|source| JournalError::File { path: self.path.clone(), source })?;
        self.reserved = reserved;
        Ok(())
    }

    fn write(&self, value: u64, at: u64) -> Result<(), JournalError> {
        self.file
            .write_all_at(&value.to_le_bytes(), at)
            .map_err(|source| JournalError::File { path: self.path.clone(), source })
    }
}
