//! What the trainer of a running job has reported.

use std::collections::BTreeMap;

use wharf_curve::{Number, Refused};

use crate::tasks::iteration_timing::Timing;
use crate::tasks::stalls::Liveness;

/// How far a job has come, and its latest metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) iterations: f64,
    pub(crate) checkpointed: f64,
    /// Iterations that it intends to make; 0: not reported.
    pub(crate) total: f64,
    pub(crate) metrics: BTreeMap<String, Number>,
    /// A metric that is NaN or infinite, and the iteration at which that was first reported.
    pub(crate) not_finite: Option<(String, f64)>,
    /// Metrics whose names could not be stored.
    pub(crate) refused: Option<Refused>,
    pub(crate) timing: Timing,
    pub(crate) liveness: Liveness,
}
