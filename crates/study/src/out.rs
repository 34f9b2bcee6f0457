//! Files of a study, complete or not there.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use wharf_report::FileError;
use wharf_staging::{StagedDir, StagedFile};

use crate::StudyError;

/// A page that appears when it is complete.
#[derive(Debug)]
pub struct PageFile {
    file: StagedFile,
    target: PathBuf,
}

impl PageFile {
    /// Begins a page; what is in the way is told before the work.
    ///
    /// # Errors
    /// Where nothing can be created there.
    pub fn new(target: &Path) -> Result<Self, StudyError> {
        Ok(Self { file: StagedFile::create(target)?, target: target.to_owned() })
    }

    /// Writes it; it appears when the file is committed.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write(mut self, text: &str) -> Result<StagedFile, StudyError> {
        let failed = |error| StudyError::write(&self.target, error);
        self.file.write_all(text.as_bytes()).and_then(|()| self.file.flush()).map_err(failed)?;
        Ok(self.file)
    }
}

/// A directory of results that appears when it is complete.
#[derive(Debug)]
pub struct OutDir {
    staged: StagedDir,
    target: PathBuf,
}

impl OutDir {
    /// Begins a directory that appears when everything in it is complete.
    ///
    /// # Errors
    /// Where nothing can be created there.
    pub fn new(target: &Path) -> Result<Self, StudyError> {
        Ok(Self { staged: StagedDir::new(target)?, target: target.to_owned() })
    }

    /// Where to write meanwhile.
    pub fn path(&self) -> &Path {
        self.staged.path()
    }

    /// The directory's final place.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// An error about a staged file, as one about the file at its final place.
    pub fn failed(&self, error: FileError) -> StudyError {
        let (FileError::Write { path, source } | FileError::Read { path, source }) = error else {
            return StudyError::Output(error);
        };
        let place = path
            .strip_prefix(self.staged.path())
            .map_or_else(|_| path.clone(), |rest| self.target.join(rest));
        StudyError::Write { path: place, source }
    }

    /// Writes one file.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write(&self, name: &Path, contents: impl AsRef<[u8]>) -> Result<(), StudyError> {
        let place = self.target.join(name);
        let path = self.staged.path().join(name);
        let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
        folder.and_then(|()| fs::write(&path, contents)).map_err(|error| StudyError::write(&place, error))
    }

    /// Lets it appear.
    ///
    /// # Errors
    /// Where something is in the way.
    pub fn commit(self) -> Result<(), StudyError> {
        Ok(self.staged.commit()?)
    }
}
