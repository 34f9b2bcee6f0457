//! Samples per second of all running jobs together.

use wharf_core::{JobId, State, Time};

use wharf_outcome::Throughput;

/// What flows now, and the most that ever did.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    by_job: Vec<f64>,
    total: f64,
    peak: f64,
}

impl Flow {
    /// A job runs at another speed from now on, or does not run any more.
    pub(crate) fn note(&mut self, job: JobId, state: &State, is_running: bool) {
        if self.by_job.len() <= job.index() {
            self.by_job.resize(job.index() + 1, 0.0);
        }
        let samples = f64::from(state.spec(job).batch_size.unwrap_or(0));
        let rate = if is_running { samples / state.job(job).iteration_s() } else { 0.0 };
        let before =
            std::mem::replace(&mut self.by_job[job.index()], if rate.is_finite() { rate } else { 0.0 });
        self.total += self.by_job[job.index()] - before;
    }

    /// Nothing more happens at this moment.
    pub(crate) fn sample(&mut self) {
        self.peak = self.peak.max(self.total);
    }

    /// The mean from the first submission to the end, and the peak; `None` where a job does not tell its samples.
    pub(crate) fn throughput(&self, state: &State, last: Time) -> Option<Throughput> {
        let first = state.jobs().map(|(_, spec, _)| spec.submit).min()?;
        let mut samples = 0.0;
        for (_, spec, life) in state.jobs() {
            samples += life.done(last).min(spec.iterations) * f64::from(spec.batch_size?);
        }
        let elapsed_s = last.since(first);
        (elapsed_s > 0.0).then(|| Throughput { average: samples / elapsed_s, peak: self.peak })
    }
}
