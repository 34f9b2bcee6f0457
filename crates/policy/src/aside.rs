//! Jobs without devices beside a policy that thinks in devices.

use wharf_core::{Change, Decision, JobId, Knowledge, Policy, Reason, RoundNotes, Time, View};

use crate::fifo::Fifo;
use crate::placement::Placer;
use crate::priority::{Backfill, Priority};

/// A policy for jobs with devices, which does not see the others. They start in the order of priority and submission on what
/// jobs with devices leave of CPUs and memory, and are not preempted.
pub struct Aside {
    inner: Box<dyn Policy>,
    tasks: Priority<Fifo>,
}

impl Aside {
    /// Puts jobs without devices beside a policy.
    pub fn new(inner: Box<dyn Policy>, placer: Box<dyn Placer>) -> Self {
        Self { inner, tasks: Priority::new(Fifo::default(), placer, Backfill::Greedy) }
    }

    fn of(&mut self, view: &View<'_>, job: JobId) -> &mut dyn Policy {
        if view.spec(job).gang.has_any_device() { &mut *self.inner } else { &mut self.tasks }
    }
}

impl Policy for Aside {
    fn knowledge(&self) -> Knowledge {
        self.inner.knowledge()
    }

    fn observe(&mut self, view: &View<'_>, change: Change) {
        match change {
            Change::Arrived(job)
            | Change::Placed(job)
            | Change::Running(job)
            | Change::Stopping(job)
            | Change::Waiting(job)
            | Change::Ended(job) => self.of(view, job).observe(view, change),
            Change::Node(_) => {
                self.inner.observe(view, change);
                self.tasks.observe(view, change);
            }
        }
    }

    fn schedule(&mut self, decision: &mut Decision<'_>) {
        self.inner.schedule(decision);
        self.tasks.schedule(decision);
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> Reason {
        let has_devices = view.spec(job).gang.has_any_device();
        if has_devices { self.inner.explain(view, job) } else { self.tasks.explain(view, job) }
    }

    fn rounds(&mut self) -> Option<RoundNotes> {
        self.inner.rounds()
    }

    fn wake(&self) -> Option<Time> {
        [self.inner.wake(), self.tasks.wake()].into_iter().flatten().min()
    }
}
