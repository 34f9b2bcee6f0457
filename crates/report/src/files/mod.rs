//! A run's files: written whole or not at all, and read back.
//!
//! `jobs.csv`, `timeline.csv`, `breakdown.csv`, `summary.json`, and `run.json`, from which pages are made. Numbers are written with the fewest digits
//! that read back to the same bits.

mod events;
mod found;
mod rounds;
mod rows;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use wharf_core::JobSpec;
use wharf_outcome::Outcome;
use wharf_staging::StagingError;

pub use events::{EVENTS_JSONL, EventWriter, FinishedCounter, OnFinished};
pub use found::{FoundRun, find_runs};
pub use rounds::RoundWriter;
pub use rows::{JobRow, TimelineRow};

use crate::breakdown::{Breakdown, BreakdownRow};
use crate::digest::Digest;
use crate::metrics::{Report, ReportError};

/// Name of the file with one row per job.
pub const JOBS_CSV: &str = "jobs.csv";
/// Name of the file with occupancy over time.
pub const TIMELINE_CSV: &str = "timeline.csv";
/// Name of the file with rows by size, user and model.
pub const BREAKDOWN_CSV: &str = "breakdown.csv";
/// Name of the file with the run's [`Report`].
pub const SUMMARY_JSON: &str = "summary.json";
/// Name of the file with the run's [`Digest`].
pub const RUN_JSON: &str = "run.json";
/// Name of the page that compares the runs of a directory.
pub const REPORT_HTML: &str = "report.html";

/// Why a file could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refused to write.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The system refused to read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The table is not as expected.
    #[error("{} is not the table expected", path.display())]
    Csv {
        /// The file.
        path: PathBuf,
        /// Which line and field.
        #[source]
        source: csv::Error,
    },
    /// The columns are not those expected.
    #[error("{} has columns `{found}`, expected `{expected}`", path.display())]
    Columns {
        /// The file.
        path: PathBuf,
        /// Its first line.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// A number is infinite or not a number.
    #[error("{} has a number that is not finite in line {line}", path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// The JSON document is not as expected.
    #[error("{} is not a summary", path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: ReportError,
    },
    /// What a page needs of a run is not as expected.
    #[error("{} does not hold what a page shows of a run", path.display())]
    Digest {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: ReportError,
    },
    /// Numbers that cannot be drawn.
    #[error("{} has numbers that make no sense", path.display())]
    Unsound {
        /// The file.
        path: PathBuf,
    },
    /// A folder without runs.
    #[error("{} holds no run: neither it nor a folder in it has a {SUMMARY_JSON}", path.display())]
    NoRun {
        /// The folder.
        path: PathBuf,
    },
    /// A file where a folder is wanted.
    #[error("{} is no folder", path.display())]
    NoFolder {
        /// The file.
        path: PathBuf,
    },
    /// A summary of several runs that does not state where the rest of them is.
    #[error("{} is of {count} runs, but does not say where the rest of each is", path.display())]
    NoFolders {
        /// The file.
        path: PathBuf,
        /// How many runs.
        count: usize,
    },
}

impl FileError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        let is_missing = |source: &io::Error| source.kind() == io::ErrorKind::NotFound;
        match self {
            Self::Read { path, source } if is_missing(source) && path.ends_with(RUN_JSON) => Some(
                "the run was made by an older Wharf, or is not complete: run it again with `wharf sim --out` or `wharf sweep`",
            ),
            Self::NoRun { .. } | Self::NoFolders { .. } => {
                Some("`wharf sim --out DIR` and `wharf sweep --out DIR` make folders of runs")
            }
            Self::NoFolder { .. } => Some("give the folder that it is in"),
            Self::Document { source: ReportError::Schema { .. }, .. }
            | Self::Digest {
                source: ReportError::Schema { .. } | ReportError::DigestSchema { .. }, ..
            } => Some("it is of another version of Wharf: run it again with this one, or use that one"),
            Self::Document { .. } | Self::Digest { .. } | Self::Unsound { .. } => {
                Some("the file is cut off or was changed: run it again")
            }
            _ => None,
        }
    }
}

/// Writes one row per job, in trace order.
///
/// # Errors
/// Where the file cannot be written.
pub fn write_jobs(path: &Path, specs: &[JobSpec], outcome: &Outcome) -> Result<(), FileError> {
    write_csv(path, &JobRow::COLUMNS, outcome.jobs.iter().map(|record| JobRow::new(specs, record)))
}

/// Writes the occupancy after each change.
///
/// # Errors
/// Where the file cannot be written.
pub fn write_timeline(path: &Path, outcome: &Outcome) -> Result<(), FileError> {
    write_csv(path, &TimelineRow::COLUMNS, outcome.timeline.iter().map(TimelineRow::new))
}

/// Writes rows by size, user and model; the first column states which.
///
/// # Errors
/// Where the file cannot be written.
pub fn write_breakdown(path: &Path, breakdown: &Breakdown) -> Result<(), FileError> {
    let columns = ["by", "key", "jobs", "finished", "avg_jct_s", "p95_jct_s", "avg_queue_s", "gpu_hours"];
    let groups = breakdown.groups();
    let rows = groups.iter().flat_map(|(by, rows)| rows.iter().map(move |row| (*by, row)));
    write_csv(path, &columns, rows.map(|(by, row)| breakdown_fields(by, row)))
}

/// A tuple: the csv crate cannot flatten a struct.
type BreakdownFields<'a> = (&'a str, &'a str, u64, u64, Option<f64>, Option<f64>, Option<f64>, f64);

fn breakdown_fields<'a>(by: &'a str, row: &'a BreakdownRow) -> BreakdownFields<'a> {
    (by, &row.key, row.jobs, row.finished, row.avg_jct_s, row.p95_jct_s, row.avg_queue_s, row.gpu_hours)
}

/// Writes the document of one or more runs.
///
/// # Errors
/// Where the file cannot be written.
pub fn write_summary(path: &Path, report: &Report) -> Result<(), FileError> {
    let text = report.to_json().map_err(|source| FileError::Document { path: path.to_owned(), source })?;
    write_atomically(path, |file| file.write_all(text.as_bytes()))
}

/// Writes what a page shows of a run.
///
/// # Errors
/// Where the file cannot be written.
pub fn write_digest(path: &Path, digest: &Digest) -> Result<(), FileError> {
    let failed =
        |source: serde_json::Error| FileError::Digest { path: path.to_owned(), source: source.into() };
    let text = serde_json::to_string(digest).map_err(failed)? + "\n";
    write_atomically(path, |file| file.write_all(text.as_bytes()))
}

/// Reads what [`write_digest`] wrote.
///
/// # Errors
/// Where the file cannot be read, is no such document, is of another version, or has numbers that cannot be drawn.
pub fn read_digest(path: &Path) -> Result<Digest, FileError> {
    let text = read(path)?;
    let digest =
        Digest::from_json(&text).map_err(|source| FileError::Digest { path: path.to_owned(), source })?;
    if digest.is_sound() { Ok(digest) } else { Err(FileError::Unsound { path: path.to_owned() }) }
}

fn write_atomically(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), FileError> {
    let failed = |error: StagingError| FileError::Write { path: path.to_owned(), source: error.into() };
    wharf_staging::write_with(path, fill).map_err(failed)
}

fn read(path: &Path) -> Result<String, FileError> {
    fs::read_to_string(path).map_err(|source| FileError::Read { path: path.to_owned(), source })
}

/// Reads what [`write_jobs`] wrote.
///
/// # Errors
/// Where the file cannot be read or is no such table.
pub fn read_jobs(path: &Path) -> Result<Vec<JobRow>, FileError> {
    read_csv(path, &JobRow::COLUMNS, JobRow::is_finite)
}

/// Reads what [`write_timeline`] wrote.
///
/// # Errors
/// Where the file cannot be read or is no such table.
pub fn read_timeline(path: &Path) -> Result<Vec<TimelineRow>, FileError> {
    read_csv(path, &TimelineRow::COLUMNS, TimelineRow::is_finite)
}

/// Reads what [`write_summary`] wrote.
///
/// # Errors
/// Where the file cannot be read, is no such document, or is of another version.
pub fn read_summary(path: &Path) -> Result<Report, FileError> {
    let text = read(path)?;
    Report::from_json(&text).map_err(|source| FileError::Document { path: path.to_owned(), source })
}

/// The header is written even where there is no row.
fn write_csv<R: Serialize>(
    path: &Path,
    columns: &[&str],
    rows: impl Iterator<Item = R>,
) -> Result<(), FileError> {
    write_atomically(path, |file| {
        let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(file);
        writer.write_record(columns)?;
        for row in rows {
            writer.serialize(row)?;
        }
        writer.flush()
    })
}

fn read_csv<R: DeserializeOwned>(
    path: &Path,
    columns: &[&str],
    is_finite: fn(&R) -> bool,
) -> Result<Vec<R>, FileError> {
    let csv_error = |source| FileError::Csv { path: path.to_owned(), source };
    let file = fs::File::open(path).map_err(|source| FileError::Read { path: path.to_owned(), source })?;
    let mut reader = csv::Reader::from_reader(io::BufReader::new(file));
    let found = reader.headers().map_err(csv_error)?;
    if found != columns {
        let found = found.iter().collect::<Vec<_>>().join(",");
        return Err(FileError::Columns { path: path.to_owned(), found, expected: columns.join(",") });
    }
    let mut rows = Vec::new();
    for row in reader.deserialize() {
        let row: R = row.map_err(csv_error)?;
        if !is_finite(&row) {
            return Err(FileError::NotFinite { path: path.to_owned(), line: rows.len() + 2 });
        }
        rows.push(row);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;
    use crate::fixture;
    use crate::metrics::Summary;

    #[test]
    fn jobs_csv_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(JOBS_CSV);
        let mut specs = fixture::specs();
        specs[1].gang.device_types = ["a100".into(), "v100".into()].into();
        write_jobs(&path, &specs, &fixture::outcome()).unwrap();
        insta::assert_snapshot!(fs::read_to_string(&path).unwrap(), @"
        job_id,gpus,submit_s,first_start_s,end_s,jct_s,queue_s,run_s,preemptions,name,user,model,device_type,devices
        alpha,1,10.0,10.0,20.0,10.0,0.0,10.0,0,alpha,ann,bert,,1
        beta <b>,2,10.0,30.0,50.0,40.0,20.0,20.0,0,beta <b>,bob,,a100;v100,2
        gamma,2,20.0,30.0,90.0,70.0,40.0,30.0,3,gamma,ann,,,2
        delta,4,30.0,,,,60.0,0.0,0,delta,bob,,,4
        ");
        let rows = read_jobs(&path).unwrap();
        assert_eq!(rows[1].job_id, "beta <b>");
        let outcome = fixture::outcome();
        for (index, (row, record)) in rows.iter().zip(&outcome.jobs).enumerate() {
            assert_eq!(row.to_record(wharf_core::JobId::from_index(index)).as_ref(), Some(record));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "a temporary file was left behind");
    }

    #[test]
    fn timeline_breakdown_and_summary_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let (specs, outcome) = (fixture::specs(), fixture::outcome());
        let path = folder.path().join(TIMELINE_CSV);
        write_timeline(&path, &outcome).unwrap();
        assert!(
            fs::read_to_string(&path)
                .unwrap()
                .starts_with("time_s,busy_devices,running,waiting\n10.0,1,1,1\n")
        );
        let samples: Vec<_> =
            read_timeline(&path).unwrap().iter().filter_map(TimelineRow::to_sample).collect();
        assert_eq!(samples, outcome.timeline);

        let path = folder.path().join(BREAKDOWN_CSV);
        let breakdown = Breakdown::new(&specs, &outcome);
        write_breakdown(&path, &breakdown).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), breakdown.table().to_plain().replace('\t', ","));

        let path = folder.path().join(SUMMARY_JSON);
        let report = Report::new(vec![Summary::new(fixture::labels("fifo"), &outcome, 0.1)]);
        write_summary(&path, &report).unwrap();
        assert_eq!(read_summary(&path).unwrap(), report);
    }

    #[test]
    fn empty_outcome_gives_headers_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(JOBS_CSV);
        write_jobs(&path, &[], &fixture::empty_outcome()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
        assert_eq!(read_jobs(&path).unwrap(), []);
    }

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bad.csv");
        let header = JobRow::COLUMNS.join(",");
        let cases = [
            ("a,b\n1,2\n".to_owned(), "bad.csv has columns `a,b`, expected `job_id,gpus,"),
            (
                format!("{header}\nx,1,NaN,,,,0,0,0,x,,,,1\n"),
                "bad.csv has a number that is not finite in line 2",
            ),
            (format!("{header}\nx,one,0,,,,0,0,0,x,,,,1\n"), "bad.csv is not the table expected"),
        ];
        for (text, expected) in cases {
            fs::write(&path, text).unwrap();
            let error = read_jobs(&path).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let missing = folder.path().join("none").join("jobs.csv");
        let error = write_jobs(&missing, &[], &fixture::empty_outcome()).unwrap_err();
        assert!(error.to_string().ends_with("jobs.csv") && error.source().is_some());
        assert!(read_summary(&missing).unwrap_err().to_string().starts_with("cannot read "));
    }
}
