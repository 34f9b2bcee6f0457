//! The dispatcher's loop: a batch of inputs, what is due, durable, told.

use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use wharf_core::Time;
use wharf_proto::{HeadMark, Refusal, ToWorkerBatch};

use crate::dispatcher::incident;
use crate::dispatcher::queue::Receiver;
use crate::dispatcher::{Dispatcher, Input};
use crate::journal::JournalError;
use crate::nodes::worker_outbox::NotSent;

/// Inputs handled before they are made durable together.
const BATCH_MAX: usize = 512;

/// Called when everything is durable, or with the reason why it is not.
pub(crate) type Reply = Box<dyn FnOnce(Option<&str>) + Send>;

impl Dispatcher {
    /// Serves until requested to stop.
    pub(crate) fn run(mut self, inputs: &Receiver) -> Result<(), JournalError> {
        loop {
            let first = match self.next_deadline() {
                Some(deadline) => {
                    let wait_s = deadline.since(self.now()).clamp(0.0, 86_400.0);
                    match inputs.recv_timeout(Duration::from_secs_f64(wait_s)) {
                        Ok(input) => Some(input),
                        Err(RecvTimeoutError::Timeout) => None,
                        Err(RecvTimeoutError::Disconnected) => Some(Input::Stop),
                    }
                }
                None => Some(inputs.recv().unwrap_or(Input::Stop)),
            };
            let batch = first.into_iter().chain(inputs.try_iter().take(BATCH_MAX));
            match incident::catch(|| self.step(batch)) {
                Ok(Ok(false)) => {}
                Ok(Ok(true)) => {
                    self.snapshot();
                    return Ok(());
                }
                Ok(Err(error)) => return Err(error),
                // A panic of the containment itself: what is durable is all that is left.
                Err(incident) => match incident::catch(|| self.rebuild()) {
                    Ok(()) => {}
                    Err(_) => return Err(self.journal.unusable(incident.details)),
                },
            }
        }
    }

    /// Handles a batch of inputs and due timers, makes it durable, and publishes its events. Returns whether it was the last.
    ///
    /// # Errors
    /// Where the journal cannot be read any more.
    pub(crate) fn step(&mut self, inputs: impl Iterator<Item = Input>) -> Result<bool, JournalError> {
        let meter = self.meter.clone();
        let _step = meter.step();
        self.probe_storage();
        let mut is_last = false;
        for input in self.take_deferred().into_iter().chain(inputs) {
            meter.note_input();
            is_last |= matches!(input, Input::Stop);
            self.take(input);
        }
        self.advance();
        if self.journal.is_snapshot_due() && self.stalled.is_none() {
            self.snapshot();
        }
        self.report_incidents();
        match self.containment.failure.take() {
            Some(error) => Err(error),
            None => Ok(is_last),
        }
    }

    fn take(&mut self, input: Input) {
        let Some(input) = self.refuse_stalled(input) else { return };
        if matches!(input, Input::Ask(_)) {
            // Events of this batch must be durable before they are published or visible to queries.
            self.advance();
            // A question changes nothing: there is nothing to discard where it panics.
            let _ = incident::catch(|| self.handle(input));
            return;
        }
        let sender = self.sender_of(&input);
        let saved = self.savepoint();
        if let Err(incident) = incident::catch(|| self.handle(input)) {
            self.contain(saved, &incident);
            if let Some(node) = sender.filter(|_| !incident.is_policy) {
                self.shut_out(&node, &incident);
            }
        }
    }

    /// Does what is due, decides, makes everything durable and tells it.
    fn advance(&mut self) {
        if self.stalled.is_some() {
            // Workers are asked for output only. What they were sent before may be more than this state contains.
            self.send_outgoing(None);
            return self.deliver(None);
        }
        if !self.containment.is_quiet(self.now()) {
            let saved = self.savepoint();
            let done = incident::catch(|| {
                self.expire();
                self.settle();
            });
            match done {
                Ok(()) => self.containment.calm_down(),
                Err(incident) => {
                    self.contain(saved, &incident);
                    self.back_off(&incident);
                }
            }
        }
        if let Err(error) = self.commit() {
            return self.storage_failed(&error);
        }
        // Everything is durable: workers that have not been told connect again.
        if incident::catch(|| self.tell_everyone()).is_err() {
            let _ = incident::catch(|| self.deliver(None));
            self.rebuild();
        }
    }

    /// Keeps an image of everything. Without it the next start replays more.
    fn snapshot(&mut self) {
        let now = self.now();
        let Self { journal, engine, kept, .. } = self;
        let problem = match incident::catch(|| journal.snapshot(engine.state(), kept, now)) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(incident) => format!("incident {}", incident.id),
        };
        self.journal.defer_snapshot();
        self.alert(&format!("the journal's snapshot failed and is tried again later: {problem}"));
    }

    /// When something is due even if nothing comes in.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        if let Some(stall) = &self.stalled {
            return Some(stall.next_due());
        }
        let missing = self.missing.values().min().copied();
        let limit = self.limits.keys().next().map(|&(at, _)| at);
        let delay = self.delays.first().map(|&(until, _)| until);
        let batch = self.batches.next_due();
        let due = [missing, limit, delay, batch, self.next_stall_look(), self.engine.next_decision()];
        let due = due.into_iter().flatten().min();
        // What is left alone after a panic is not due before that is over.
        let due = match self.containment.next_due() {
            Some(until) => Some(due.map_or(until, |due| due.max(until))),
            None => due,
        };
        [due, self.reports.next_due(), self.forgets.next_due(self.now())].into_iter().flatten().min()
    }

    /// Makes what has happened so far durable.
    pub(crate) fn commit(&mut self) -> Result<(), JournalError> {
        let (events, began) = (self.journal.pending_count(), Instant::now());
        self.journal.commit()?;
        if events > 0 {
            self.meter.note_commit(events, self.journal.sequence(), began.elapsed());
        }
        Ok(())
    }

    /// Does something once everything is durable.
    pub(crate) fn reply(&mut self, reply: impl FnOnce() + Send + 'static) {
        self.replies.push(Box::new(move |failed| {
            if failed.is_none() {
                reply();
            }
        }));
    }

    /// Answers a request once everything is durable, or tells why it is not.
    pub(crate) fn answer<T: Send + 'static>(
        &mut self,
        to: oneshot::Sender<Result<T, String>>,
        answer: Result<T, String>,
    ) {
        self.replies.push(Box::new(move |failed| {
            // The client may have gone.
            let _ = to.send(failed.map_or(answer, |reason| Err(reason.to_owned())));
        }));
    }

    /// Everything is durable, or failed for this reason: tells those who asked.
    pub(crate) fn deliver(&mut self, failed: Option<&str>) {
        for reply in std::mem::take(&mut self.replies) {
            reply(failed);
        }
        for notice in std::mem::take(&mut self.notices) {
            self.teller.tell(notice);
        }
    }

    /// Everything is durable: tell workers and people.
    fn tell_everyone(&mut self) {
        crate::dispatcher::fault_points::point("tell");
        self.release_forgets();
        if self.is_mark_due() {
            for &node in self.sessions.keys() {
                self.outgoing.entry(node).or_default();
            }
        }
        let mark = self.mark();
        self.send_outgoing(Some(&mark));
        self.deliver(None);
    }

    fn send_outgoing(&mut self, mark: Option<&HeadMark>) {
        for (node, messages) in std::mem::take(&mut self.outgoing) {
            if let Some(session) = self.sessions.get(&node) {
                // A session that just broke is noticed by its own task.
                let sent = session.sender.send(ToWorkerBatch { messages, mark: mark.cloned() });
                if sent == Err(NotSent::Behind) {
                    let id = session.id;
                    self.detach(id);
                    self.warn(&format!(
                        "node {} is not reading its messages: disconnected",
                        self.node_name(node)
                    ));
                }
            }
        }
    }
}

/// The same refusal of every job.
pub(crate) fn refuse_all(jobs: &[u32], reason: &str) -> Vec<Refusal> {
    jobs.iter().map(|&job_id| Refusal { job_id, reason: reason.to_owned() }).collect()
}
