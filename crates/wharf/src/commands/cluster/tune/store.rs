//! A sweep's folder: which jobs it is, and what each of them was told.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wharf_job::Sweep;

use crate::error::{CliError, ErrorKind};
use wharf_staging::StagedFile;

/// What is known of a sweep.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Record {
    schema: u32,
    pub(super) name: String,
    /// The parameters' names.
    pub(super) names: Vec<String>,
    /// The values by index.
    pub(super) rows: Vec<Vec<String>>,
    /// The arrays that it was submitted as: the whole, and then those elements that were tried again.
    pub(super) submissions: Vec<Submission>,
}

/// An array.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Submission {
    /// That of its first element; the others follow.
    pub(super) job_id: u32,
    pub(super) indexes: Vec<u32>,
}

impl Record {
    pub(super) fn new(sweep: &Sweep) -> Self {
        let (names, rows) = sweep.parameters();
        let rows = rows.iter().map(|row| row.values.clone()).collect();
        Self { schema: 1, name: sweep.name.clone(), names: names.to_vec(), rows, submissions: vec![] }
    }

    /// The latest job of each element, by index.
    pub(super) fn latest(&self) -> Vec<Option<u32>> {
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

    /// Writes down an array that was submitted.
    pub(super) fn note(&mut self, ids: &[u32], indexes: Vec<u32>) {
        let job_id = ids.iter().copied().min().unwrap_or_default();
        self.submissions.push(Submission { job_id, indexes });
    }

    /// The first one of all.
    pub(super) fn first_job(&self) -> Option<u32> {
        self.submissions.first().map(|submission| submission.job_id)
    }

    pub(super) fn read(folder: &Path) -> Result<Self, CliError> {
        let path = file(folder);
        let text = std::fs::read_to_string(&path).map_err(|error| {
            CliError::read(&path, error).hint("give the directory that `wharf tune start` has printed")
        })?;
        serde_json::from_str(&text)
            .map_err(|error| CliError::input(format!("`{}` is not a sweep", path.display())).caused_by(error))
    }

    /// Writes what jobs there are, and the manifest for people and programs.
    pub(super) fn write(&self, folder: &Path) -> Result<(), CliError> {
        std::fs::create_dir_all(folder).map_err(|error| CliError::write(folder, error))?;
        let failed = |error| CliError::new(ErrorKind::Internal, "cannot write JSON").caused_by(error);
        let text = serde_json::to_string_pretty(self).map_err(failed)?;
        put(&file(folder), &text)?;
        let header: Vec<&str> =
            std::iter::once("index").chain(self.names.iter().map(String::as_str)).collect();
        let rows = self.rows.iter().enumerate().map(|(index, row)| {
            std::iter::once(index.to_string()).chain(row.iter().cloned()).collect::<Vec<String>>()
        });
        put(&folder.join("manifest.csv"), &csv_text(&header, rows)?)
    }
}

/// Whether a folder already contains a sweep.
pub(super) fn is_taken(folder: &Path) -> bool {
    file(folder).exists()
}

fn file(folder: &Path) -> PathBuf {
    folder.join("sweep.json")
}

pub(super) fn put(path: &Path, text: &str) -> Result<(), CliError> {
    let mut staged = StagedFile::create(path)?;
    staged.write_all(text.as_bytes()).map_err(|error| CliError::write(path, error))?;
    Ok(staged.commit()?)
}

/// Rows as comma-separated values.
pub(super) fn csv_text(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Result<String, CliError> {
    let failed = |error: csv::Error| CliError::new(ErrorKind::Internal, "cannot write CSV").caused_by(error);
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(header).map_err(failed)?;
    for row in rows {
        writer.write_record(&row).map_err(failed)?;
    }
    let bytes = writer.into_inner().map_err(|error| failed(error.into_error().into()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_attempt_of_each_element_counts() {
        let submission = |job_id, indexes: &[u32]| Submission { job_id, indexes: indexes.to_vec() };
        let record = Record {
            schema: 1,
            name: "rates".into(),
            names: vec!["lr".into()],
            rows: (0..4).map(|value| vec![value.to_string()]).collect(),
            submissions: vec![submission(10, &[0, 1, 2, 3]), submission(20, &[1, 3]), submission(30, &[3])],
        };
        assert_eq!(record.latest(), [Some(10), Some(20), Some(12), Some(30)]);
        let folder = tempfile::tempdir().unwrap();
        record.write(folder.path()).unwrap();
        assert_eq!(Record::read(folder.path()).unwrap().latest(), record.latest());
        let manifest = std::fs::read_to_string(folder.path().join("manifest.csv")).unwrap();
        assert!(manifest.starts_with("index,lr\n0,0\n1,1\n"), "{manifest}");
    }
}
