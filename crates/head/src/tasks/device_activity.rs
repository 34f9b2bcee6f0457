//! How much of their time jobs leave their devices idle, as far as workers report utilisation.

use std::collections::BTreeMap;

use wharf_core::{JobId, NodeId, Time};

use crate::dispatcher::Dispatcher;
use crate::journal::record::Record;
use crate::tasks::Tasks;

/// A device with a utilisation below this is idle. Workers do not report smaller changes.
pub(crate) const IDLE_BELOW: f64 = 0.05;

/// The devices of a run.
#[derive(Clone, Copy, Debug)]
struct Watch {
    since: Time,
    /// The utilisation of all of its devices is reported; and all of them are idle.
    is_watched: bool,
    is_idle: bool,
    watched_s: f64,
    idle_s: f64,
}

impl Watch {
    fn new(now: Time) -> Self {
        Self { since: now, is_watched: false, is_idle: false, watched_s: 0.0, idle_s: 0.0 }
    }

    fn advance(&mut self, now: Time) {
        let passed_s = now.since(self.since).max(0.0);
        self.since = now;
        self.watched_s += if self.is_watched { passed_s } else { 0.0 };
        self.idle_s += if self.is_idle { passed_s } else { 0.0 };
    }
}

/// The activity of the devices of runs.
#[derive(Debug, Default)]
pub(super) struct DeviceActivity(BTreeMap<JobId, Watch>);

impl DeviceActivity {
    /// A run has begun.
    fn begin(&mut self, job: JobId, now: Time) {
        self.0.insert(job, Watch::new(now));
    }

    /// The devices of a run are in another state from now on.
    fn set(&mut self, job: JobId, now: Time, is_watched: bool, is_idle: bool) {
        if let Some(watch) = self.0.get_mut(&job) {
            watch.advance(now);
            (watch.is_watched, watch.is_idle) = (is_watched, is_idle);
        }
    }

    /// A run has ended: for how long its devices were watched, and idle, in seconds.
    fn end(&mut self, job: JobId, now: Time) -> (f64, f64) {
        self.set(job, now, false, false);
        self.0.remove(&job).map_or((0.0, 0.0), |watch| (watch.watched_s, watch.idle_s))
    }

    pub(super) fn remove(&mut self, job: JobId) {
        self.0.remove(&job);
    }
}

impl Tasks {
    /// A run was requested to stop: what its devices do from now on is not its work.
    pub(crate) fn pause_activity(&mut self, job: JobId, now: Time) {
        self.activity.set(job, now, false, false);
    }
}

impl Dispatcher {
    /// Jobs began to run: from now on their devices work for them.
    pub(crate) fn watch_runs(&mut self, launched: &[JobId]) {
        for &job in launched {
            self.tasks.activity.begin(job, self.clock.now());
            self.update_activity(job);
        }
    }

    /// What a node's devices do has changed.
    pub(crate) fn watch_node(&mut self, node: NodeId) {
        let mut jobs = Vec::new();
        self.engine.state().schedule().jobs_on(self.engine.state().topology(), node, &mut jobs);
        for job in jobs {
            self.update_activity(job);
        }
    }

    fn update_activity(&mut self, job: JobId) {
        let now = self.now();
        let shares = self.engine.state().schedule().placement(job).unwrap_or_default();
        let uses: Option<Vec<f64>> = shares
            .iter()
            .flat_map(|share| share.devices.iter().map(|device| self.nodes.utilisation(share.node, device)))
            .collect();
        let is_idle = uses.as_ref().is_some_and(|uses| uses.iter().all(|used| *used < IDLE_BELOW));
        self.tasks.activity.set(job, now, uses.is_some(), is_idle);
    }

    /// A run has ended: journals the activity of its devices and its progress, where any was reported.
    pub(crate) fn note_run(&mut self, job: JobId) {
        let (watched_s, idle_s) = self.tasks.activity.end(job, self.clock.now());
        let iterations = self.tasks.progress(job).map_or(0.0, |progress| progress.iterations);
        if watched_s > 0.0 || iterations > 0.0 {
            let total = self.total_iterations(job);
            self.note(Record::JobWatched { job: job.0, watched_s, idle_s, iterations, total });
        }
    }
}
