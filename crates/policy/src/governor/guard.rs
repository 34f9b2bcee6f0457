//! The bound on waiting: nodes are kept for the job that has waited longest, once that is too long.

use std::collections::BTreeSet;

use wharf_core::{JobId, NodeId, NodeShare, Time, View};

use super::bookings::Bookings;
use super::site;

/// Jobs tried in one decision before the rest has to wait for the next.
const TRIES_MAX: usize = 16;

/// Watches how long jobs wait.
///
/// Nodes that can hold the job together are closed to all other jobs until it has started: so it starts at the latest
/// when what ran there at that moment is over.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    bound_s: Option<f64>,
    /// Jobs that wait, the longest first.
    waiting: BTreeSet<(Time, JobId)>,
    since: Vec<Option<Time>>,
    /// Jobs that the current nodes cannot hold; checked again when nodes change.
    unsatisfiable: Vec<(Time, JobId)>,
    /// The job that nodes are kept for, and the nodes.
    held: Option<(JobId, Vec<NodeId>)>,
    /// Whether the kept nodes may not do any more.
    is_stale: bool,
}

impl Guard {
    pub(crate) fn new(bound_s: Option<f64>) -> Self {
        Self { bound_s, ..Self::default() }
    }

    /// A job waits from this moment on.
    pub(crate) fn wait(&mut self, job: JobId, since: Time) {
        if self.bound_s.is_none() {
            return;
        }
        self.leave(job);
        if self.since.len() <= job.index() {
            self.since.resize(job.index() + 1, None);
        }
        self.since[job.index()] = Some(since);
        self.waiting.insert((since, job));
    }

    pub(crate) fn is_waiting(&self, job: JobId) -> bool {
        self.since.get(job.index()).is_some_and(Option::is_some)
    }

    /// A job does not wait any more.
    pub(crate) fn leave(&mut self, job: JobId) {
        if let Some(since) = self.since.get_mut(job.index()).and_then(Option::take) {
            self.waiting.remove(&(since, job));
        }
        if self.holder() == Some(job) {
            self.held = None;
        }
    }

    pub(crate) fn holder(&self) -> Option<JobId> {
        self.held.as_ref().map(|(job, _)| *job)
    }

    /// Nodes that are kept.
    pub(crate) fn kept(&self) -> &[NodeId] {
        self.held.as_ref().map_or(&[], |(_, nodes)| nodes)
    }

    /// Nodes changed: unsatisfiable jobs may be satisfiable now, and reservations may be too small.
    pub(crate) fn look_again(&mut self) {
        for (since, job) in std::mem::take(&mut self.unsatisfiable) {
            if self.since.get(job.index()).copied().flatten() == Some(since) {
                self.waiting.insert((since, job));
            }
        }
        self.is_stale = true;
    }

    /// When the next job will have waited too long.
    pub(crate) fn next(&self) -> Option<Time> {
        let &(since, _) = self.waiting.first().filter(|_| self.held.is_none())?;
        Some(since.plus(self.bound_s?))
    }

    /// Picks the job that has waited too long, and the nodes to keep for it.
    pub(crate) fn update(&mut self, view: &View<'_>, bookings: &Bookings) {
        let Some(bound_s) = self.bound_s else { return };
        let may_keep = |node| !bookings.keeps(node);
        if let Some((job, nodes)) = &mut self.held {
            let gang = &view.spec(*job).gang;
            let is_stale = std::mem::take(&mut self.is_stale) || !nodes.iter().all(|&node| may_keep(node));
            if !is_stale || site::choose(view, gang, |node| nodes.contains(&node) && may_keep(node)).is_some()
            {
                return;
            }
            match site::choose(view, gang, may_keep) {
                Some(found) => {
                    *nodes = found;
                    return;
                }
                None => self.held = None,
            }
        }
        for _ in 0..TRIES_MAX {
            let first = self.waiting.first().copied();
            let Some((since, job)) = first.filter(|(since, _)| since.plus(bound_s) <= view.now) else {
                return;
            };
            if let Some(nodes) = site::choose(view, &view.spec(job).gang, may_keep) {
                self.held = Some((job, nodes));
                return;
            }
            self.waiting.remove(&(since, job));
            self.unsatisfiable.push((since, job));
        }
    }

    /// The job that has waited too long and where it fits by now.
    pub(crate) fn ready(&self, view: &View<'_>) -> Option<(JobId, Vec<NodeShare>)> {
        let (job, nodes) = self.held.as_ref()?;
        Some((*job, site::place(view, &view.spec(*job).gang, nodes)?))
    }
}
