//! Runs a plan on several threads.

use std::num::NonZeroUsize;
use std::time::Instant;

use wharf_outcome::{NoRecorder, Outcome, TimelineOnly};

use super::parallel::map_in_order;
use super::plan::{PlannedRun, SweepPlan};
use crate::run::{RunError, run};

/// Stores results of runs.
pub trait RunSink: Sync {
    /// What is kept of a run.
    type Kept: Send;
    /// Why it could not be kept.
    type Error: Send;

    /// What was kept of the same run earlier.
    fn stored(&self, run: &PlannedRun) -> Option<Self::Kept>;

    /// Keeps a run's result.
    ///
    /// # Errors
    /// Where it cannot be stored; the sweep stops then.
    fn keep(&self, run: &PlannedRun, outcome: &Outcome, wall_ms: f64) -> Result<Self::Kept, Self::Error>;

    /// Whether `timeline` and `spans` of outcomes are wanted: they cost memory.
    fn wants_timeline(&self) -> bool {
        false
    }

    /// A run is done with: kept just now, or `stored` earlier.
    fn done(&self, run: &PlannedRun, stored: bool);
}

/// Why a sweep stopped.
#[derive(Debug, thiserror::Error)]
pub enum SweepError<E> {
    /// A run failed although it was checked.
    #[error("cannot run {run}")]
    Run {
        /// Policy and trace.
        run: String,
        /// Why.
        #[source]
        source: RunError,
    },
    /// A result could not be kept.
    #[error("cannot keep a result")]
    Keep(E),
}

/// Runs everything that is not stored, the longest first, and returns what is kept of each run in the plan's order.
///
/// # Errors
/// The first failure in the plan's order; what was kept before stays kept.
pub fn execute<S: RunSink>(
    plan: &SweepPlan,
    threads: NonZeroUsize,
    sink: &S,
) -> Result<Vec<S::Kept>, SweepError<S::Error>> {
    let results = map_in_order(&plan.runs, &plan.longest_first(), threads, |_, planned| {
        if let Some(kept) = sink.stored(planned) {
            sink.done(planned, true);
            return Ok(kept);
        }
        let started = Instant::now();
        let spec = planned.spec();
        let outcome = match sink.wants_timeline() {
            true => run(&spec, &mut TimelineOnly),
            false => run(&spec, &mut NoRecorder),
        };
        let outcome = outcome.map_err(|source| SweepError::Run {
            run: format!("`{}` on trace `{}`", planned.policy, planned.trace.name),
            source,
        })?;
        let wall_ms = started.elapsed().as_secs_f64() * 1000.0;
        let kept = sink.keep(planned, &outcome, wall_ms).map_err(SweepError::Keep)?;
        sink.done(planned, false);
        Ok(kept)
    })?;
    // The order names every run, so that every slot is filled.
    Ok(results.into_iter().flatten().collect())
}
