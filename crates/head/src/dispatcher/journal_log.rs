//! The journal, what the head stores beside the engine, and the transitions that the dispatcher has to act on.

use wharf_core::{Event, JobId, Log, NodeId, State, StopReason, Time};
use wharf_proto::Cause;

use crate::dispatcher::head_metrics::Meter;
use crate::dispatcher::journal_stall::Stall;
use crate::jobs::array_limits::ArrayLimits;
use crate::jobs::failures::Origin;
use crate::journal::record::Record;
use crate::journal::{HeadState, Journal};
use crate::policy::decisions::Decided;

/// What the engine did since the last call.
#[derive(Default)]
pub(crate) struct Transitions {
    pub(crate) ended: Vec<JobId>,
    pub(crate) launched: Vec<JobId>,
    pub(crate) preempted: Vec<JobId>,
    /// Nodes that jobs had to leave, and why.
    pub(crate) blamed: Vec<(NodeId, JobId, Cause)>,
    /// Running jobs that became faster or slower.
    pub(crate) rated: Vec<JobId>,
}

impl Transitions {
    pub(crate) fn is_empty(&self) -> bool {
        self.ended.is_empty()
            && self.launched.is_empty()
            && self.preempted.is_empty()
            && self.blamed.is_empty()
            && self.rated.is_empty()
    }
}

/// The journal, and what is derived from its records.
pub(crate) struct EventLog {
    pub(crate) journal: Journal,
    pub(crate) state: HeadState,
    transitions: Transitions,
    /// The journal cannot be written.
    pub(super) stall: Option<Stall>,
}

impl EventLog {
    pub(crate) fn new(journal: Journal, state: HeadState) -> Self {
        Self { journal, state, transitions: Transitions::default(), stall: None }
    }

    /// Takes over the state of a replayed journal.
    pub(crate) fn load(&mut self, state: HeadState) {
        self.state = state;
        self.transitions = Transitions::default();
    }

    /// Journals a record that is not an event of the engine, and applies it.
    pub(crate) fn note(&mut self, now: Time, record: Record) {
        self.state.apply(&record);
        self.journal.note(now, record);
    }

    /// Takes out what the engine did since the last call.
    pub(crate) fn take_transitions(&mut self) -> Transitions {
        std::mem::take(&mut self.transitions)
    }
}

/// The engine's log: journals events, counts them, and collects those that the dispatcher has to act on.
pub(crate) struct Recorder<'a> {
    pub(crate) log: &'a mut EventLog,
    pub(crate) array_limits: &'a mut ArrayLimits,
    pub(crate) meter: &'a Meter,
    pub(crate) origin: Origin,
    /// What the policy changes, where it is called.
    pub(crate) decided: Option<&'a mut Decided>,
}

impl Recorder<'_> {
    /// Stores why a job was requested to stop.
    fn note_cause(&mut self, time: Time, job: JobId, why: StopReason) {
        let Some((cause, node)) = self.origin.cause(why) else { return };
        let record = Record::JobCaused {
            job: job.0,
            cause: cause.word().to_owned(),
            node: node.map(|node| node.0),
            code: None,
        };
        self.log.note(time, record);
        if let Some(node) = node.filter(|_| cause.is_infrastructure()) {
            self.log.transitions.blamed.push((node, job, cause));
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

impl Log for Recorder<'_> {
    fn event(&mut self, time: Time, event: &Event, state: &State) {
        self.log.journal.event(time, event, state);
        self.meter.note_event(time, event, state, self.log.state.policy_name());
        self.note_decided(event);
        self.array_limits.note(event, |job| self.log.state.first_of(job));
        if let Event::JobStopping { job, why } = *event {
            self.note_cause(time, job, why);
        }
        let transitions = &mut self.log.transitions;
        match *event {
            Event::JobReleased { job } => self.log.state.end_delay(job),
            Event::JobEnded { job, .. } => transitions.ended.push(job),
            Event::JobLaunched { job, .. } => transitions.launched.push(job),
            Event::JobRated { job, .. } => transitions.rated.push(job),
            Event::JobStopping { job, .. }
                if state.job(job).ending().is_none() && self.origin != Origin::Failure =>
            {
                transitions.preempted.push(job);
            }
            _ => {}
        }
    }
}
