//! Runs in folders, as `wharf sim --out` and `wharf sweep` leave them.

use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use super::{FileError, RUN_JSON, SUMMARY_JSON, read, read_digest};
use crate::html::PageRun;
use crate::metrics::{Report, Summary};

/// A run in a folder.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundRun {
    /// Its summary.
    pub summary: Summary,
    /// Where the rest of it is; `None` where its summary does not say.
    folder: Option<PathBuf>,
    /// The file that the summary is from, and of how many runs that is.
    source: (PathBuf, usize),
}

impl FoundRun {
    /// Where its files are, where its summary states this.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// All that a page shows of it.
    ///
    /// # Errors
    /// Where that is not there, or not as expected.
    pub fn open(&self) -> Result<PageRun, FileError> {
        let (path, count) = self.source.clone();
        let folder = self.folder.as_ref().ok_or(FileError::NoFolders { path, count })?;
        Ok(PageRun { summary: self.summary.clone(), digest: read_digest(&folder.join(RUN_JSON))? })
    }
}

/// The runs of a folder: itself, those that its summary lists, or those in its folders, by name.
///
/// # Errors
/// Where there is none, or a summary cannot be read.
pub fn find_runs(folder: &Path) -> Result<Vec<FoundRun>, FileError> {
    if folder.is_file() {
        return Err(FileError::NoFolder { path: folder.to_owned() });
    }
    if folder.join(SUMMARY_JSON).is_file() {
        return listed(folder);
    }
    let failed = |source| FileError::Read { path: folder.to_owned(), source };
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.join(SUMMARY_JSON).is_file() {
            folders.push(path);
        }
    }
    if folders.is_empty() {
        return Err(FileError::NoRun { path: folder.to_owned() });
    }
    folders.sort();
    let runs: Result<Vec<Vec<FoundRun>>, FileError> = folders.iter().map(|path| listed(path)).collect();
    Ok(runs?.concat())
}

/// Where the runs of a summary are, below its folder.
#[derive(Deserialize)]
struct Folders {
    #[serde(default)]
    folders: Vec<PathBuf>,
}

fn listed(folder: &Path) -> Result<Vec<FoundRun>, FileError> {
    let path = folder.join(SUMMARY_JSON);
    let text = read(&path)?;
    let failed = |source| FileError::Document { path: path.clone(), source };
    let report = Report::from_json(&text).map_err(failed)?;
    let Folders { folders } = serde_json::from_str(&text).map_err(|error| failed(error.into()))?;
    let count = report.runs.len();
    let place = |index: usize| match folders.get(index) {
        Some(below) if is_below(below) => Some(folder.join(below)),
        None if folders.is_empty() && count == 1 => Some(folder.to_owned()),
        _ => None,
    };
    let found = |(index, summary)| FoundRun { summary, folder: place(index), source: (path.clone(), count) };
    Ok(report.runs.into_iter().enumerate().map(found).collect())
}

/// A file does not make others be read that are elsewhere.
fn is_below(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use wharf_core::ClusterSpec;

    use super::*;
    use crate::digest::Digest;
    use crate::files::{write_digest, write_summary};
    use crate::fixture;

    fn write_run(folder: &Path, policy: &str) -> Digest {
        fs::create_dir_all(folder).unwrap();
        let summary = Summary::new(fixture::labels(policy), &fixture::outcome(), 1.0);
        write_summary(&folder.join(SUMMARY_JSON), &Report::new(vec![summary])).unwrap();
        let cluster = ClusterSpec::uniform("v100", 1, 4);
        let digest = Digest::new(&cluster, &fixture::specs(), &fixture::outcome());
        write_digest(&folder.join(RUN_JSON), &digest).unwrap();
        digest
    }

    #[test]
    fn runs_are_found_in_a_folder_and_below_it() {
        let temp = tempfile::tempdir().unwrap();
        let digest = write_run(&temp.path().join("b"), "srtf");
        write_run(&temp.path().join("a"), "fifo");
        fs::create_dir(temp.path().join("notes")).unwrap();
        let found = find_runs(temp.path()).unwrap();
        let policies: Vec<&str> = found.iter().map(|run| run.summary.policy.as_str()).collect();
        assert_eq!(policies, ["fifo", "srtf"], "by name");
        assert_eq!(found[1].open().unwrap().digest, digest);
        assert_eq!(find_runs(&temp.path().join("b")).unwrap()[0].open().unwrap().digest, digest);
    }

    #[test]
    fn summary_of_many_runs_names_their_directories() {
        let temp = tempfile::tempdir().unwrap();
        write_run(&temp.path().join("runs/1"), "fifo");
        let summary = Summary::new(fixture::labels("shown as"), &fixture::outcome(), 1.0);
        let write = |folders: &[&str]| {
            let report = serde_json::json!({ "schema": 1, "runs": [summary, summary], "folders": folders });
            fs::write(temp.path().join(SUMMARY_JSON), report.to_string()).unwrap();
            find_runs(temp.path()).unwrap()
        };
        let found = write(&["runs/1", "../elsewhere"]);
        assert_eq!(found[0].open().unwrap().summary.policy, "shown as");
        assert!(
            matches!(found[1].open(), Err(FileError::NoFolders { .. })),
            "it is not searched for outside"
        );
        assert!(matches!(write(&[])[0].open(), Err(FileError::NoFolders { count: 2, .. })));
    }

    #[test]
    fn errors_name_file_and_fix() {
        let temp = tempfile::tempdir().unwrap();
        let run = temp.path().join("run");
        write_run(&run, "fifo");
        let (summary, digest) = (run.join(SUMMARY_JSON), run.join(RUN_JSON));
        let open = || find_runs(&run).and_then(|found| found[0].open());
        let tell = |file: &Path, text: &str| {
            let before = fs::read_to_string(file).unwrap();
            fs::write(file, text).unwrap();
            let error = open().unwrap_err();
            fs::write(file, before).unwrap();
            (
                error.to_string().replace(&temp.path().display().to_string(), "T"),
                error.hint().unwrap_or("none"),
            )
        };
        let whole = fs::read_to_string(&digest).unwrap();
        let cut = tell(&digest, &whole[..whole.len() / 2]);
        assert_eq!(
            cut,
            (
                "T/run/run.json does not hold what a page shows of a run".to_owned(),
                "the file is cut off or was changed: run it again"
            )
        );
        let newer = tell(&digest, &whole.replacen("\"schema\":1", "\"schema\":9", 1));
        assert!(newer.1.contains("another version of Wharf"), "{newer:?}");
        let odd = tell(&digest, &whole.replacen("\"length_s\":80.0", "\"length_s\":0.0", 1));
        assert_eq!(odd.0, "T/run/run.json has numbers that make no sense");
        let half = tell(&summary, "{\"schema\": 1, \"runs\": [");
        assert!(half.0.ends_with("summary.json is not a summary") && half.1.contains("cut off"), "{half:?}");
        let other = tell(&summary, "{\"schema\": 2, \"runs\": []}");
        assert!(other.1.contains("another version"), "{other:?}");
        fs::remove_file(&digest).unwrap();
        assert!(open().unwrap_err().hint().unwrap().contains("older Wharf"));
        let empty = tempfile::tempdir().unwrap();
        assert!(find_runs(empty.path()).unwrap_err().to_string().contains("holds no run"));
        assert!(find_runs(&summary).unwrap_err().hint().unwrap().contains("folder that it is in"));
        assert!(find_runs(&empty.path().join("none")).is_err());
    }
}
