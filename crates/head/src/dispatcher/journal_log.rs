//! What the dispatcher learns from the engine's events, as they go into the journal.

use wharf_core::{Event, JobId, Log, NodeId, State, StopReason, Time};
use wharf_proto::Cause;

use crate::dispatcher::head_metrics::Meter;
use crate::jobs::array_limits::Rooms;
use crate::jobs::failures::Origin;
use crate::journal::record::Record;
use crate::journal::{Journal, Kept};
use crate::policy::decisions::Decided;

/// What the engine did since it was last asked.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) ended: Vec<JobId>,
    pub(crate) launched: Vec<JobId>,
    pub(crate) preempted: Vec<JobId>,
    /// Nodes that jobs had to leave, and why.
    pub(crate) blamed: Vec<(NodeId, JobId, Cause)>,
    /// Running jobs that became faster or slower.
    pub(crate) rated: Vec<JobId>,
}

impl News {
    pub(crate) fn is_empty(&self) -> bool {
        self.ended.is_empty()
            && self.launched.is_empty()
            && self.preempted.is_empty()
            && self.blamed.is_empty()
            && self.rated.is_empty()
    }
}

/// Journals events, counts them, and keeps those that the dispatcher has to act on.
pub(crate) struct Tap<'a> {
    pub(crate) journal: &'a mut Journal,
    pub(crate) kept: &'a mut Kept,
    pub(crate) rooms: &'a mut Rooms,
    pub(crate) news: &'a mut News,
    pub(crate) meter: &'a Meter,
    pub(crate) origin: Origin,
    /// What the policy changes, where it is asked.
    pub(crate) decided: Option<&'a mut Decided>,
}

impl Tap<'_> {
    /// Keeps why a job was requested to stop.
    fn note_cause(&mut self, time: Time, job: JobId, why: StopReason) {
        let Some((cause, node)) = self.origin.cause(why) else { return };
        let record = Record::JobCaused {
            job: job.0,
            cause: cause.word().to_owned(),
            node: node.map(|node| node.0),
            code: None,
        };
        self.kept.apply(&record);
        self.journal.note(time, record);
        if let Some(node) = node.filter(|_| cause.is_infrastructure()) {
            self.news.blamed.push((node, job, cause));
        }
    }

    fn note_decided(&mut self, event: &Event) {
        let Some(decided) = &mut self.decided else { return };
        match *event {
            Event::JobPlaced { job, .. } => decided.note_start(job),
            Event::JobGaveWay { job, to, chosen } => decided.note_way(job, to, chosen),
            Event::JobStopping { job, why } => decided.note_stop(job, why),
            _ => {}
        }
    }
}

impl Log for Tap<'_> {
    fn event(&mut self, time: Time, event: &Event, state: &State) {
        self.journal.event(time, event, state);
        let policy = self.kept.policy.as_ref().map_or("", |choice| choice.name.as_str());
        self.meter.note_event(time, event, state, policy);
        self.note_decided(event);
        self.rooms.note(event, |job| self.kept.first_of(job));
        if let Event::JobStopping { job, why } = *event {
            self.note_cause(time, job, why);
        }
        match *event {
            Event::JobReleased { job } => drop(self.kept.delays.remove(&job.0)),
            Event::JobEnded { job, .. } => self.news.ended.push(job),
            Event::JobLaunched { job, .. } => self.news.launched.push(job),
            Event::JobRated { job, .. } => self.news.rated.push(job),
            Event::JobStopping { job, .. }
                if state.job(job).ending().is_none() && self.origin != Origin::Failure =>
            {
                self.news.preempted.push(job);
            }
            _ => {}
        }
    }
}
