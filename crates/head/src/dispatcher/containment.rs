//! A panic while one input or decision is handled ends neither the head nor anything that others have asked for.
//!
//! What the input has changed in memory is discarded with everything else there: the state is rebuilt from the journal, and workers
//! report again what they run. *Invariant: what was acknowledged before the panic is durable, and what caused it is not.*

use std::collections::{BTreeMap, BTreeSet};

use wharf_core::{ClusterSpec, Engine, Regime, State, Time};

use crate::dispatcher::incarnation::SentMark;
use crate::dispatcher::incident::{self, Incident};
use crate::dispatcher::journal_log::News;
use crate::dispatcher::{Dispatcher, Input};
use crate::jobs::array_limits::Rooms;
use crate::jobs::batch::Batches;
use crate::jobs::dependencies::Gates;
use crate::journal::{Journal, JournalError, Replayed};
use crate::policy::active_policy::{MakeRegime, PolicyChoice};
use crate::policy::limits::{AppliedLimits, govern};
use crate::tasks::ports::Ports;

/// A policy that panics so often within so many seconds is replaced, also where the state changes between.
const POLICY_PANICS_MAX: usize = 3;
const POLICY_WINDOW_S: f64 = 60.0;

/// The policy that takes over from one that panics.
const FALLBACK: &str = "fifo";

/// How long nothing is decided after a panic that was no request's, in seconds; each further one doubles it.
const BACKOFF_FIRST_S: f64 = 1.0;
const BACKOFF_MAX_S: f64 = 60.0;

/// How long a node is not let in whose messages cause panics, at most.
const SHUT_OUT_MAX_S: f64 = 600.0;

/// What is known of panics.
#[derive(Default)]
pub(crate) struct Containment {
    /// Where in the journal the policy panicked lately, and when.
    policy_panics: Vec<(i64, Time)>,
    /// Panics in a row of what is due by itself; until when it is left alone.
    in_a_row: i32,
    quiet_until: Option<Time>,
    /// Nodes whose messages have caused panics: how often, and until when they are not let in.
    shut_out: BTreeMap<String, (i32, Time)>,
    /// Why the state could not be rebuilt.
    pub(crate) failure: Option<JournalError>,
}

impl Containment {
    /// Whether what is due by itself is left alone for now.
    pub(crate) fn is_quiet(&self, now: Time) -> bool {
        self.quiet_until.is_some_and(|until| now < until)
    }

    /// When that is over.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.quiet_until
    }

    /// It went well.
    pub(crate) fn calm_down(&mut self) {
        (self.in_a_row, self.quiet_until) = (0, None);
    }
}

/// What was there before an input was handled.
pub(crate) struct Savepoint {
    pending: usize,
    replies: usize,
    notices: usize,
}

/// An engine over a replayed state; under [`FALLBACK`] where the policy cannot take it over.
///
/// # Errors
/// Where the journal cannot be read again, or there is no policy to fall back to.
pub(crate) fn resume(
    journal: &mut Journal,
    mut replayed: Replayed,
    regime: Regime,
    make: &MakeRegime,
) -> Result<(Engine, Replayed, Option<Incident>), JournalError> {
    let (last, mut state) = (replayed.last, State::new(&ClusterSpec::default(), 1));
    std::mem::swap(&mut state, &mut replayed.state);
    let incident = match incident::catch(|| Engine::resume(last, state, regime)) {
        Ok(engine) => return Ok((engine, replayed, None)),
        Err(incident) => incident,
    };
    let mut again = journal.replay()?;
    let mut state = State::new(&ClusterSpec::default(), 1);
    std::mem::swap(&mut state, &mut again.state);
    let unusable = |problem: String| journal.unusable(problem);
    let limits = AppliedLimits::parse(again.kept.limits.as_ref()).unwrap_or_default();
    let regime = make(&fallback()).map_err(unusable)?;
    let regime = govern(regime, &limits, again.kept.limits.as_ref(), again.epoch_unix_s);
    let engine = incident::catch(|| Engine::resume(last, state, regime));
    engine.map(|engine| (engine, again, Some(incident))).map_err(|incident| unusable(incident.details))
}

/// The policy that takes over from one that panics.
pub(crate) fn fallback() -> PolicyChoice {
    PolicyChoice { name: FALLBACK.to_owned(), ..PolicyChoice::default() }
}

impl Dispatcher {
    pub(crate) fn savepoint(&self) -> Savepoint {
        Savepoint {
            pending: self.journal.pending_count(),
            replies: self.replies.len(),
            notices: self.notices.len(),
        }
    }

    /// Handles a request; where that panics its changes are discarded and the requester gets the incident.
    pub(crate) fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        let saved = self.savepoint();
        incident::catch(|| work(self)).unwrap_or_else(|incident| {
            self.contain(saved, &incident);
            Err(incident.to_string())
        })
    }

    /// Discards what has been done since then, keeps what was done before, and begins again from there.
    pub(crate) fn contain(&mut self, saved: Savepoint, incident: &Incident) {
        self.journal.truncate_pending(saved.pending);
        self.replies.truncate(saved.replies);
        self.notices.truncate(saved.notices);
        if let Err(error) = self.commit() {
            return self.storage_failed(&error);
        }
        self.deliver(None);
        if incident.is_policy {
            self.policy_panicked();
        }
        self.rebuild();
    }

    /// After a panic of what is due by itself: it is left alone for a while, so that the head serves everything else.
    pub(crate) fn back_off(&mut self, incident: &Incident) {
        let containment = &mut self.containment;
        // A policy that is asked again, or was replaced, is given the chance at once.
        let is_first = incident.is_policy && containment.in_a_row < POLICY_PANICS_MAX as i32;
        let delay_s = if is_first {
            0.0
        } else {
            (BACKOFF_FIRST_S * f64::from(containment.in_a_row.min(10)).exp2()).min(BACKOFF_MAX_S)
        };
        containment.in_a_row = containment.in_a_row.saturating_add(1);
        self.containment.quiet_until = Some(self.now().plus(delay_s));
    }

    /// Replaces a policy that panics twice on the same state, or again and again.
    fn policy_panicked(&mut self) {
        let (sequence, now) = (self.journal.sequence(), self.now());
        let panics = &mut self.containment.policy_panics;
        panics.retain(|(_, at)| now.since(*at) <= POLICY_WINDOW_S);
        panics.push((sequence, now));
        let same = panics.iter().filter(|(at, _)| *at == sequence).count();
        let name = self.kept.policy.as_ref().map_or("", |choice| &choice.name).to_owned();
        if (same >= 2 || panics.len() >= POLICY_PANICS_MAX) && name != FALLBACK {
            panics.clear();
            self.replace_policy(&name);
        }
    }

    /// Journals that the fallback decides from now on; it does when the state has been rebuilt.
    pub(crate) fn replace_policy(&mut self, name: &str) {
        self.note_policy(fallback(), &format!("the head, because policy `{name}` panicked"));
        self.alert(&format!(
            "policy `{name}` panicked and is replaced by `{FALLBACK}`; hint: report the panic in the head's log, and choose a policy \
             with `wharf policy set`"
        ));
        if let Err(error) = self.commit() {
            self.storage_failed(&error);
        }
    }

    /// The node that an input is from, where it is from a worker.
    pub(crate) fn sender_of(&self, input: &Input) -> Option<String> {
        match input {
            Input::Attach { register, .. } => Some(register.node.clone()),
            Input::FromWorker { session, .. } => {
                let node = *self.node_of_session.get(session)?;
                Some(self.engine.state().topology().node(node).spec.name.to_string())
            }
            _ => None,
        }
    }

    /// Does not let a node in for a while whose messages cause panics: each would disturb all others.
    pub(crate) fn shut_out(&mut self, node: &str, incident: &Incident) {
        let now = self.now();
        let all = &mut self.containment.shut_out;
        all.retain(|_, (_, until)| now.since(*until) < SHUT_OUT_MAX_S);
        let (times, until) = all.entry(node.to_owned()).or_insert((0, now));
        let delay_s = (BACKOFF_FIRST_S * f64::from((*times).min(10)).exp2()).min(SHUT_OUT_MAX_S);
        (*times, *until) = (times.saturating_add(1), now.plus(delay_s));
        self.alert(&format!(
            "a message of node {node} caused incident {}: the node is not let in for {delay_s:.0} s",
            incident.id
        ));
    }

    /// Whether a node is not let in for now.
    pub(crate) fn is_shut_out(&self, node: &str) -> bool {
        self.containment.shut_out.get(node).is_some_and(|(_, until)| self.now() < *until)
    }

    /// Puts incidents into the log and among the alerts.
    pub(crate) fn report_incidents(&mut self) {
        for Incident { id, details, is_policy } in incident::take_caught() {
            let what = if is_policy { "policy" } else { "head" };
            self.alert(&format!("incident {id}: the {what} panicked: {details}"));
        }
    }

    /// Builds everything in memory anew from the journal. Connections of workers are closed: they connect again and report what they
    /// run. Those who wait for jobs and read output are kept.
    pub(crate) fn rebuild(&mut self) {
        self.journal.truncate_pending(0);
        match self.replayed() {
            Ok((engine, replayed, None)) => self.load(engine, replayed),
            Ok((engine, replayed, Some(_))) => {
                let name = self.kept.policy.as_ref().map_or("", |choice| &choice.name).to_owned();
                self.load(engine, replayed);
                self.replace_policy(&name);
            }
            Err(error) => self.containment.failure = Some(error),
        }
        self.report_incidents();
    }

    fn replayed(&mut self) -> Result<(Engine, Replayed, Option<Incident>), JournalError> {
        let replayed = self.journal.replay()?;
        self.sharing = AppliedLimits::parse(replayed.kept.limits.as_ref()).unwrap_or_default();
        let choice = replayed.kept.policy.clone().unwrap_or_else(fallback);
        let made = incident::catch(|| (self.make)(&choice)).unwrap_or_else(|incident| Err(incident.details));
        let unusable = |problem| self.journal.unusable(problem);
        let regime = made.or_else(|_| (self.make)(&fallback())).map_err(unusable)?;
        let regime = govern(regime, &self.sharing, replayed.kept.limits.as_ref(), replayed.epoch_unix_s);
        resume(&mut self.journal, replayed, regime, &self.make.clone())
    }

    /// Takes a replayed state over in place of the present one.
    fn load(&mut self, engine: Engine, replayed: Replayed) {
        let Replayed { specs, kept, quarantined, .. } = replayed;
        (self.engine, self.specs, self.kept) = (engine, specs, kept);
        (self.gates, self.batches) = (Gates::default(), Batches::default());
        (self.live, self.rooms) = (BTreeMap::new(), Rooms::default());
        self.array_live = BTreeMap::new();
        self.executions = BTreeMap::new();
        self.sessions = BTreeMap::new();
        self.node_of_session = BTreeMap::new();
        self.progress = BTreeMap::new();
        self.delays = BTreeSet::new();
        self.watches = BTreeMap::new();
        self.ports = Ports::default();
        self.limits = BTreeMap::new();
        self.outgoing = BTreeMap::new();
        self.parked = Vec::new();
        self.news = News::default();
        self.sent_mark = SentMark::default();
        self.report_quarantined(&quarantined);
        self.recover();
        self.release_waiters();
    }

    /// Names the records that could not be replayed.
    pub(crate) fn report_quarantined(&mut self, quarantined: &[String]) {
        for record in quarantined {
            self.alert(&format!(
                "the journal has a record that cannot be replayed, which is left out: {record}"
            ));
        }
    }

    /// Does a part of what has to be done after a start. Where it panics the rest is done nevertheless.
    pub(crate) fn recover_part(&mut self, what: &str, part: impl FnOnce(&mut Self)) {
        if incident::catch(|| part(self)).is_err() {
            self.alert(&format!("{what} could not be restored"));
        }
    }
}
