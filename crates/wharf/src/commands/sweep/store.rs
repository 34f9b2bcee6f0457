//! Finished runs on disk, by the hash of everything that determines them.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use wharf_report::{Report, RunLabels, Summary};
use wharf_sim::Outcome;
use wharf_sim::sweep::{ContentHash, PlannedRun, RunSink};

use super::runs_dir;
use crate::error::{CliError, ErrorKind};
use crate::output::Progress;
use crate::staging::StagedFile;

/// The version of the code, to the bit: a result is reused only by the program that made it.
///
/// # Errors
/// Where the program cannot read its own file.
pub(super) fn build_version() -> Result<String, CliError> {
    let failed =
        |error| CliError::new(ErrorKind::Internal, "cannot read the program's own file").caused_by(error);
    let program = std::env::current_exe().and_then(fs::read).map_err(failed)?;
    Ok(format!("{} {}", env!("CARGO_PKG_VERSION"), ContentHash::of(&program)))
}

/// One file per finished run, each complete or not there.
#[derive(Debug)]
pub(super) struct RunStore<'a> {
    dir: PathBuf,
    fresh: bool,
    stored: AtomicUsize,
    progress: &'a Progress,
}

impl<'a> RunStore<'a> {
    /// Opens the store below `out`; a `fresh` one takes nothing from earlier.
    ///
    /// # Errors
    /// Where its directory cannot be created.
    pub(super) fn open(out: &Path, fresh: bool, progress: &'a Progress) -> Result<Self, CliError> {
        let dir = runs_dir(out);
        fs::create_dir_all(&dir).map_err(|error| CliError::write(&dir, error))?;
        Ok(Self { dir, fresh, stored: AtomicUsize::new(0), progress })
    }

    /// How many results came from earlier.
    pub(super) fn stored_count(&self) -> usize {
        self.stored.load(Ordering::Relaxed)
    }

    fn file(&self, run: &PlannedRun) -> PathBuf {
        self.dir.join(format!("{}.json", run.key))
    }
}

impl RunSink for RunStore<'_> {
    type Kept = Summary;
    type Error = CliError;

    /// A file that does not parse is as good as none: the run is repeated and the file replaced.
    fn stored(&self, run: &PlannedRun) -> Option<Summary> {
        if self.fresh {
            return None;
        }
        let report = wharf_report::files::read_summary(&self.file(run)).ok()?;
        report.runs.into_iter().next()
    }

    fn keep(&self, run: &PlannedRun, outcome: &Outcome, wall_ms: f64) -> Result<Summary, CliError> {
        let labels = RunLabels {
            policy: run.policy.clone(),
            trace: run.trace.name.clone(),
            preset: run.preset.name.clone(),
            cluster: run.cluster.name.clone(),
            seed: run.seed,
        };
        let summary = Summary::new(labels, outcome, wall_ms);
        let path = self.file(run);
        let text = Report::new(vec![summary.clone()])
            .to_json()
            .map_err(|error| CliError::from_error(ErrorKind::Internal, &error))?;
        let mut file = StagedFile::create(&path)?;
        file.write_all(text.as_bytes()).map_err(|error| CliError::write(&path, error))?;
        file.commit()?;
        Ok(summary)
    }

    fn done(&self, _run: &PlannedRun, stored: bool) {
        if stored {
            self.stored.fetch_add(1, Ordering::Relaxed);
        }
        self.progress.add(1);
    }
}
