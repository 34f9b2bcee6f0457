//! How much of their time jobs leave their devices idle, as far as workers tell what devices do.

use wharf_core::{JobId, NodeId, Time};

use crate::dispatcher::Dispatcher;
use crate::journal::record::Record;

/// A device that does less than this does nothing. Workers do not tell of smaller changes.
pub(crate) const IDLE_BELOW: f64 = 0.05;

/// What is known of a run's devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    since: Time,
    /// All of its devices tell what they do; and all of them do nothing.
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

impl Dispatcher {
    /// Jobs began to run: from now on their devices work for them.
    pub(crate) fn watch_runs(&mut self, launched: &[JobId]) {
        for &job in launched {
            self.watches.insert(job, Watch::new(self.now()));
            self.look_at(job);
        }
    }

    /// What a node's devices do has changed.
    pub(crate) fn watch_node(&mut self, node: NodeId) {
        let mut jobs = Vec::new();
        self.engine.state().schedule().jobs_on(self.engine.state().topology(), node, &mut jobs);
        for job in jobs {
            self.look_at(job);
        }
    }

    fn look_at(&mut self, job: JobId) {
        let now = self.now();
        let use_of = |node: NodeId, index: u32| {
            let devices = &self.facts.get(&node)?.devices;
            devices.iter().find(|device| device.index == index)?.utilisation
        };
        let shares = self.engine.state().schedule().placement(job).unwrap_or_default();
        let uses: Option<Vec<f64>> = shares
            .iter()
            .flat_map(|share| share.devices.iter().map(|device| use_of(share.node, device)))
            .collect();
        let is_idle = uses.as_ref().is_some_and(|uses| uses.iter().all(|used| *used < IDLE_BELOW));
        if let Some(watch) = self.watches.get_mut(&job) {
            watch.advance(now);
            (watch.is_watched, watch.is_idle) = (uses.is_some(), is_idle);
        }
    }

    /// A run was requested to stop: what its devices do from now on is not its work.
    pub(crate) fn stop_watching(&mut self, job: JobId) {
        let now = self.now();
        if let Some(watch) = self.watches.get_mut(&job) {
            watch.advance(now);
            (watch.is_watched, watch.is_idle) = (false, false);
        }
    }

    /// A run is over: journals what is known of it, where anything is.
    pub(crate) fn note_run(&mut self, job: JobId) {
        self.stop_watching(job);
        let watch = self.watches.remove(&job);
        let (watched_s, idle_s) = watch.map_or((0.0, 0.0), |watch| (watch.watched_s, watch.idle_s));
        let iterations = self.progress.get(&job).map_or(0.0, |told| told.iterations);
        if watched_s > 0.0 || iterations > 0.0 {
            let total = self.total_iterations(job);
            self.note(Record::JobWatched { job: job.0, watched_s, idle_s, iterations, total });
        }
    }
}
