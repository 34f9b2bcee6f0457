//! A panic while one input or decision is handled ends neither the head nor any other request.
//!
//! What the input has changed in memory is discarded with everything else there: the state is rebuilt from the journal, and workers
//! report again what they run. *Invariant: what was acknowledged before the panic is durable, and what caused it is not.*

use std::collections::BTreeMap;

use wharf_core::{ClusterSpec, Engine, Regime, State, Time};

use crate::dispatcher::incident::{self, Incident};
use crate::dispatcher::outbox::OutboxLength;
use crate::dispatcher::request_error::RequestError;
use crate::dispatcher::{Dispatcher, Input};
use crate::journal::{Journal, JournalError, Replayed};
use crate::policy::active_policy::{MakeRegime, PolicyChoice, UnusablePolicy};
use crate::policy::limits::{AppliedLimits, govern};

/// A policy that panics so often within so many seconds is replaced, also where the state changes between.
const POLICY_PANICS_MAX: usize = 3;
const POLICY_WINDOW_S: f64 = 60.0;

/// The policy that takes over from one that panics.
const FALLBACK: &str = "fifo";

/// How long nothing is decided after a panic that was no request's, in seconds; each further one doubles it.
const BACKOFF_FIRST_S: f64 = 1.0;
const BACKOFF_MAX_S: f64 = 60.0;

/// How long a node whose messages cause panics is refused, at most.
const SHUT_OUT_MAX_S: f64 = 600.0;

/// Panics lately, and what is left alone because of them.
#[derive(Default)]
pub(crate) struct Containment {
    /// Where in the journal the policy panicked lately, and when.
    policy_panics: Vec<(i64, Time)>,
    /// Panics in a row of what is due by itself; until when it is left alone.
    in_a_row: i32,
    quiet_until: Option<Time>,
    /// Nodes whose messages have caused panics: how often, and until when they are refused.
    shut_out: BTreeMap<String, (i32, Time)>,
    /// Why the state could not be rebuilt.
    failure: Option<JournalError>,
}

impl Containment {
    /// Whether what is due by itself is left alone for now.
    pub(crate) fn is_quiet(&self, now: Time) -> bool {
        self.quiet_until.is_some_and(|until| now < until)
    }

    /// When that has ended.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.quiet_until
    }

    /// What is due by itself was done without a panic.
    pub(crate) fn reset_backoff(&mut self) {
        (self.in_a_row, self.quiet_until) = (0, None);
    }

    /// After a panic of what is due by itself: it is left alone for a while, so that the head serves everything else.
    pub(crate) fn back_off(&mut self, incident: &Incident, now: Time) {
        // A policy that is called again, or was replaced, is given the chance at once.
        let is_first = incident.is_policy && self.in_a_row < POLICY_PANICS_MAX as i32;
        let delay_s = if is_first { 0.0 } else { backoff_s(self.in_a_row, BACKOFF_MAX_S) };
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.quiet_until = Some(now.plus(delay_s));
    }

    /// Notes a panic of the policy. Returns whether it panicked twice on the same state, or again and again.
    fn is_policy_broken(&mut self, sequence: i64, now: Time) -> bool {
        self.policy_panics.retain(|(_, at)| now.since(*at) <= POLICY_WINDOW_S);
        self.policy_panics.push((sequence, now));
        let same = self.policy_panics.iter().filter(|(at, _)| *at == sequence).count();
        same >= 2 || self.policy_panics.len() >= POLICY_PANICS_MAX
    }

    /// Refuses a node whose messages cause panics for a while. Returns for how long, in seconds.
    fn shut_out(&mut self, node: &str, now: Time) -> f64 {
        self.shut_out.retain(|_, (_, until)| now.since(*until) < SHUT_OUT_MAX_S);
        let (times, until) = self.shut_out.entry(node.to_owned()).or_insert((0, now));
        let delay_s = backoff_s(*times, SHUT_OUT_MAX_S);
        (*times, *until) = (times.saturating_add(1), now.plus(delay_s));
        delay_s
    }

    /// Whether a node is refused for now.
    pub(crate) fn is_shut_out(&self, node: &str, now: Time) -> bool {
        self.shut_out.get(node).is_some_and(|(_, until)| now < *until)
    }

    /// Takes out why the state could not be rebuilt.
    pub(crate) fn take_failure(&mut self) -> Option<JournalError> {
        self.failure.take()
    }
}

fn backoff_s(times: i32, most_s: f64) -> f64 {
    (BACKOFF_FIRST_S * f64::from(times.min(10)).exp2()).min(most_s)
}

/// What was there before an input was handled.
pub(crate) struct Savepoint {
    pending: usize,
    outbox: OutboxLength,
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
    let unusable = |reason: String| journal.unusable(reason);
    let limits = AppliedLimits::parse(again.head_state.limits.as_ref()).unwrap_or_default();
    let regime = make(&fallback()).map_err(|unmade| unusable(unmade.reason))?;
    let regime = govern(regime, &limits, again.head_state.limits.as_ref(), again.epoch_unix_s);
    let engine = incident::catch(|| Engine::resume(last, state, regime));
    engine.map(|engine| (engine, again, Some(incident))).map_err(|incident| unusable(incident.details))
}

/// The policy that takes over from one that panics.
pub(crate) fn fallback() -> PolicyChoice {
    PolicyChoice { name: FALLBACK.to_owned(), ..PolicyChoice::default() }
}

impl Dispatcher {
    pub(crate) fn savepoint(&self) -> Savepoint {
        Savepoint { pending: self.log.journal.pending_count(), outbox: self.outbox.length() }
    }

    /// Handles a request; where that panics its changes are discarded and the requester gets the incident.
    pub(crate) fn attempt<T, E: Into<RequestError>>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, RequestError> {
        let saved = self.savepoint();
        match incident::catch(|| work(self)) {
            Ok(result) => result.map_err(Into::into),
            Err(incident) => {
                self.contain(saved, &incident);
                Err(incident.into())
            }
        }
    }

    /// Discards what has been done since then, keeps what was done before, and begins again from there.
    pub(crate) fn contain(&mut self, saved: Savepoint, incident: &Incident) {
        self.log.journal.truncate_pending(saved.pending);
        self.outbox.truncate(saved.outbox);
        if let Err(error) = self.commit() {
            return self.storage_failed(&error);
        }
        self.outbox.deliver(None);
        if incident.is_policy {
            self.policy_panicked();
        }
        self.rebuild();
    }

    /// Replaces a policy that panics twice on the same state, or again and again.
    fn policy_panicked(&mut self) {
        let (sequence, now) = (self.log.journal.sequence(), self.now());
        let is_broken = self.containment.is_policy_broken(sequence, now);
        let name = self.log.state.policy_name().to_owned();
        if is_broken && name != FALLBACK {
            self.containment.policy_panics.clear();
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
                let node = self.nodes.connections.node_of(*session)?;
                Some(self.engine.state().topology().node(node).spec.name.to_string())
            }
            _ => None,
        }
    }

    /// Refuses a node whose messages cause panics for a while: each would disturb all others.
    pub(crate) fn shut_out(&mut self, node: &str, incident: &Incident) {
        let now = self.now();
        let delay_s = self.containment.shut_out(node, now);
        self.alert(&format!(
            "a message of node {node} caused incident {}: its connections are rejected for {delay_s:.0} s",
            incident.id
        ));
    }

    /// Whether a node is refused for now.
    pub(crate) fn is_shut_out(&self, node: &str) -> bool {
        self.containment.is_shut_out(node, self.now())
    }

    /// Puts incidents into the log and among the alerts.
    pub(crate) fn report_incidents(&mut self) {
        for Incident { id, details, is_policy } in incident::take_caught() {
            let what = if is_policy { "policy" } else { "head" };
            self.alert(&format!("incident {id}: the {what} panicked: {details}"));
        }
    }

    /// Builds everything in memory again from the journal. Connections of workers are closed: they connect again and report what they
    /// run. Clients that wait for jobs or read output stay connected.
    pub(crate) fn rebuild(&mut self) {
        self.log.journal.truncate_pending(0);
        match self.replayed() {
            Ok((engine, replayed, None)) => self.load(engine, replayed),
            Ok((engine, replayed, Some(_))) => {
                let name = self.log.state.policy_name().to_owned();
                self.load(engine, replayed);
                self.replace_policy(&name);
            }
            Err(error) => self.containment.failure = Some(error),
        }
        self.report_incidents();
    }

    fn replayed(&mut self) -> Result<(Engine, Replayed, Option<Incident>), JournalError> {
        let journal = &mut self.log.journal;
        let replayed = journal.replay()?;
        let applied = replayed.head_state.limits.as_ref();
        self.policy.load(applied);
        let choice = replayed.head_state.policy.clone().unwrap_or_else(fallback);
        let make = self.policy.make.clone();
        let made = incident::catch(|| make(&choice))
            .unwrap_or_else(|incident| Err(UnusablePolicy { reason: incident.details }));
        let regime = made.or_else(|_| make(&fallback())).map_err(|unmade| journal.unusable(unmade.reason))?;
        let regime = self.policy.govern(regime, applied, replayed.epoch_unix_s);
        resume(journal, replayed, regime, &make)
    }

    /// Takes a replayed state over in place of the present one.
    fn load(&mut self, engine: Engine, replayed: Replayed) {
        let Replayed { specs, head_state, quarantined, .. } = replayed;
        self.engine = engine;
        self.log.load(head_state);
        self.jobs.load(specs);
        self.tasks.reset();
        self.nodes.connections.reset();
        self.outbox.reset();
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
