//! Finished runs on disk, by the hash of everything that determines them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use wharf_report::html::PageRun;
use wharf_report::{Digest, Report, RunLabels, Summary, files};
use wharf_sim::Outcome;
use wharf_sim::sweep::{ContentHash, PlannedRun, RunSink};

use super::runs_dir;
use crate::{OutDir, StudyError};

/// The version of the code, to the bit: a result is reused only by the program that made it.
///
/// # Errors
/// Where the program cannot read its own file.
pub fn build_version() -> Result<String, StudyError> {
    let program = std::env::current_exe().and_then(fs::read).map_err(StudyError::Executable)?;
    Ok(format!("{} {}", env!("CARGO_PKG_VERSION"), ContentHash::of(&program)))
}

/// Bytes that a kept run may take for who held which device when: a sweep has many runs.
const STAYS_BYTES: usize = 400_000;

/// A folder for each finished run, as `wharf sim --out` has them: whole or not there.
pub struct RunStore<'a> {
    dir: PathBuf,
    fresh: bool,
    stored: AtomicUsize,
    /// Called after each run.
    on_done: &'a (dyn Fn() + Sync),
    command: String,
}

impl<'a> RunStore<'a> {
    /// Opens the store below `out`; a `fresh` one takes nothing from earlier.
    ///
    /// # Errors
    /// Where its directory cannot be created.
    pub fn open(
        out: &Path,
        fresh: bool,
        command: String,
        on_done: &'a (dyn Fn() + Sync),
    ) -> Result<Self, StudyError> {
        let dir = runs_dir(out);
        fs::create_dir_all(&dir).map_err(|error| StudyError::write(&dir, error))?;
        Ok(Self { dir, fresh, stored: AtomicUsize::new(0), on_done, command })
    }

    /// How many results came from earlier.
    pub fn stored_count(&self) -> usize {
        self.stored.load(Ordering::Relaxed)
    }

    fn folder(&self, run: &PlannedRun) -> PathBuf {
        self.dir.join(run.key.to_string())
    }
}

impl RunSink for RunStore<'_> {
    type Kept = Summary;
    type Error = StudyError;

    /// A run that cannot be read is as good as none: it is repeated, and its files are replaced.
    fn stored(&self, run: &PlannedRun) -> Option<Summary> {
        if self.fresh {
            return None;
        }
        let [found] = files::find_runs(&self.folder(run)).ok()?.try_into().ok()?;
        let PageRun { summary, .. } = found.open().ok()?;
        Some(summary)
    }

    fn keep(&self, run: &PlannedRun, outcome: &Outcome, wall_ms: f64) -> Result<Summary, StudyError> {
        let labels = RunLabels {
            policy: run.policy.clone(),
            trace: run.trace.name.clone(),
            preset: run.preset.name.clone(),
            cluster: run.cluster.name.clone(),
            seed: run.seed,
        };
        let summary = Summary::new(labels, outcome, wall_ms);
        let mut digest = Digest::new(&run.cluster.value, &run.trace.value.jobs, outcome);
        digest.stays = digest.stays.and_then(|stays| stays.within(STAYS_BYTES));
        digest.command = Some(self.command.clone());
        let out = OutDir::new(&self.folder(run))?;
        let report = Report::new(vec![summary.clone()]);
        files::write_digest(&out.path().join(files::RUN_JSON), &digest)
            .and_then(|()| files::write_summary(&out.path().join(files::SUMMARY_JSON), &report))
            .map_err(|error| out.failed(error))?;
        out.commit()?;
        Ok(summary)
    }

    fn wants_timeline(&self) -> bool {
        true
    }

    fn done(&self, _run: &PlannedRun, stored: bool) {
        if stored {
            self.stored.fetch_add(1, Ordering::Relaxed);
        }
        (self.on_done)();
    }
}
