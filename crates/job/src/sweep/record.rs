//! The folder of a submitted sweep: its configurations, and the arrays that it was submitted as.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wharf_staging::StagingError;

use super::Sweep;

/// The file of the record.
const RECORD: &str = "sweep.json";
/// The file of the configurations.
const MANIFEST: &str = "manifest.csv";

/// Why the folder of a sweep cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SweepFolderError {
    /// The record is missing or not readable.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The file is no record of a sweep.
    #[error("`{}` is not a sweep", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// The folder cannot be created.
    #[error("cannot write `{}`", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] StagingError),
    /// The record has no JSON.
    #[error("cannot write JSON")]
    Json(#[source] serde_json::Error),
    /// The configurations have no CSV.
    #[error("cannot write CSV")]
    Csv(#[from] csv::Error),
}

/// A submitted sweep.
#[derive(Debug, Deserialize, Serialize)]
pub struct SweepRecord {
    schema: u32,
    /// Its name.
    pub name: String,
    /// The parameters' names.
    pub names: Vec<String>,
    /// The values by index.
    pub rows: Vec<Vec<String>>,
    /// The arrays that it was submitted as: the whole, and then those elements that were tried again.
    pub submissions: Vec<Submission>,
}

/// An array of a sweep.
#[derive(Debug, Deserialize, Serialize)]
pub struct Submission {
    /// The job id of its first element; the others follow.
    pub job_id: u32,
    /// The indexes of the configurations.
    pub indexes: Vec<u32>,
}

impl SweepRecord {
    /// A sweep that is not submitted yet.
    #[must_use]
    pub fn new(sweep: &Sweep) -> Self {
        let (names, rows) = sweep.parameters();
        let rows = rows.iter().map(|row| row.values.clone()).collect();
        Self { schema: 1, name: sweep.name.clone(), names: names.to_vec(), rows, submissions: vec![] }
    }

    /// The latest job of each element, by index.
    #[must_use]
    pub fn latest(&self) -> Vec<Option<u32>> {
        let mut latest = vec![None; self.rows.len()];
        for Submission { job_id, indexes } in &self.submissions {
            for (place, index) in indexes.iter().enumerate() {
                if let Some(job) = latest.get_mut(*index as usize) {
                    *job = u32::try_from(place).ok().and_then(|place| job_id.checked_add(place));
                }
            }
        }
        latest
    }

    /// Adds a submitted array.
    pub fn add(&mut self, ids: &[u32], indexes: Vec<u32>) {
        let job_id = ids.iter().copied().min().unwrap_or_default();
        self.submissions.push(Submission { job_id, indexes });
    }

    /// The job id of the first element.
    #[must_use]
    pub fn first_job(&self) -> Option<u32> {
        self.submissions.first().map(|submission| submission.job_id)
    }

    /// Reads the record of a folder.
    ///
    /// # Errors
    /// [`SweepFolderError`]
    pub fn read(folder: &Path) -> Result<Self, SweepFolderError> {
        let path = folder.join(RECORD);
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                serde_json::from_str(&text).map_err(|source| SweepFolderError::Malformed { path, source })
            }
            Err(source) => Err(SweepFolderError::Read { path, source }),
        }
    }

    /// Writes the record, and the configurations as a table.
    ///
    /// # Errors
    /// [`SweepFolderError`]
    pub fn write(&self, folder: &Path) -> Result<(), SweepFolderError> {
        std::fs::create_dir_all(folder)
            .map_err(|source| SweepFolderError::Folder { path: folder.to_owned(), source })?;
        let text = serde_json::to_string_pretty(self).map_err(SweepFolderError::Json)?;
        wharf_staging::write(&folder.join(RECORD), text)?;
        let mut table = csv::Writer::from_writer(Vec::new());
        table.write_record(std::iter::once("index").chain(self.names.iter().map(String::as_str)))?;
        for (index, row) in self.rows.iter().enumerate() {
            let index = index.to_string();
            table.write_record(std::iter::once(&index).chain(row))?;
        }
        let bytes = table.into_inner().map_err(|error| csv::Error::from(error.into_error()))?;
        Ok(wharf_staging::write(&folder.join(MANIFEST), bytes)?)
    }

    /// Removes the record of a sweep of which nothing was submitted.
    ///
    /// # Errors
    /// The error of the system.
    pub fn discard(folder: &Path) -> io::Result<()> {
        std::fs::remove_file(folder.join(RECORD))
    }

    /// Whether a folder already contains a sweep.
    #[must_use]
    pub fn is_in(folder: &Path) -> bool {
        folder.join(RECORD).exists()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_attempt_of_each_element_counts() {
        let submission = |job_id, indexes: &[u32]| Submission { job_id, indexes: indexes.to_vec() };
        let record = SweepRecord {
            schema: 1,
            name: "rates".into(),
            names: vec!["lr".into()],
            rows: (0..4).map(|value| vec![value.to_string()]).collect(),
            submissions: vec![submission(10, &[0, 1, 2, 3]), submission(20, &[1, 3]), submission(30, &[3])],
        };
        assert_eq!(record.latest(), [Some(10), Some(20), Some(12), Some(30)]);
        let folder = tempfile::tempdir().unwrap();
        record.write(folder.path()).unwrap();
        assert_eq!(SweepRecord::read(folder.path()).unwrap().latest(), record.latest());
        let manifest = std::fs::read_to_string(folder.path().join("manifest.csv")).unwrap();
        assert!(manifest.starts_with("index,lr\n0,0\n1,1\n"), "{manifest}");
    }
}
