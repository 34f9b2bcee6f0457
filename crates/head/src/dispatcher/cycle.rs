//! The dispatcher's loop: a batch of inputs and due timers, made durable, then published.

use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use wharf_core::Time;
use wharf_proto::{HeadMark, Refusal, ToWorkerBatch};

use crate::dispatcher::incident;
use crate::dispatcher::queue::Receiver;
use crate::dispatcher::{Dispatcher, Input};
use crate::journal::JournalError;
use crate::nodes::worker_outbox::NotSent;

/// Inputs handled before they are made durable together.
const BATCH_MAX: usize = 512;

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
                    Err(_) => return Err(self.log.journal.unusable(incident.details)),
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
        let deferred = self.nodes.reports.take_deferred(self.clock.now());
        for input in deferred.into_iter().chain(inputs) {
            meter.note_input();
            is_last |= matches!(input, Input::Stop);
            self.take(input);
        }
        self.advance();
        if self.log.journal.is_snapshot_due() && !self.log.is_stalled() {
            self.snapshot();
        }
        self.report_incidents();
        match self.containment.take_failure() {
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

    /// Does what is due, decides, makes everything durable and publishes it.
    fn advance(&mut self) {
        if self.log.is_stalled() {
            // Workers are asked for output only. What they were sent before may be more than this state contains.
            self.send_messages(None);
            return self.outbox.deliver(None);
        }
        let now = self.now();
        if !self.containment.is_quiet(now) {
            let saved = self.savepoint();
            let done = incident::catch(|| {
                self.expire();
                self.settle();
            });
            match done {
                Ok(()) => self.containment.reset_backoff(),
                Err(incident) => {
                    self.contain(saved, &incident);
                    self.containment.back_off(&incident, self.clock.now());
                }
            }
        }
        if let Err(error) = self.commit() {
            return self.storage_failed(&error);
        }
        // Everything is durable: workers that have not been sent theirs connect again.
        if incident::catch(|| self.publish()).is_err() {
            let _ = incident::catch(|| self.outbox.deliver(None));
            self.rebuild();
        }
    }

    /// Stores an image of everything. Without it the next start replays more.
    fn snapshot(&mut self) {
        let now = self.now();
        let (log, engine) = (&mut self.log, &self.engine);
        let problem = match incident::catch(|| log.journal.snapshot(engine.state(), &log.state, now)) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(incident) => format!("incident {}", incident.id),
        };
        self.log.journal.defer_snapshot();
        self.alert(&format!("the journal's snapshot failed and is tried again later: {problem}"));
    }

    /// When something is due even if nothing comes in.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        if let Some(probe) = self.log.next_probe() {
            return Some(probe);
        }
        let (nodes, tasks) = (self.nodes.connections.next_due(), self.tasks.next_stall_look());
        let due = [nodes, self.jobs.next_due(), tasks, self.engine.next_decision()];
        let due = due.into_iter().flatten().min();
        // What is left alone after a panic is not due before that has ended.
        let due = match self.containment.next_due() {
            Some(until) => Some(due.map_or(until, |due| due.max(until))),
            None => due,
        };
        let stored = self.tasks.curves.next_due(self.now());
        [due, self.nodes.reports.next_due(), stored].into_iter().flatten().min()
    }

    /// Makes what has happened so far durable.
    pub(crate) fn commit(&mut self) -> Result<(), JournalError> {
        let journal = &mut self.log.journal;
        let (events, began) = (journal.pending_count(), Instant::now());
        journal.commit()?;
        if events > 0 {
            let took = began.elapsed();
            tracing::trace!(events, sequence = journal.sequence(), ?took, "events are durable");
            self.meter.note_commit(events, journal.sequence(), took);
        }
        Ok(())
    }

    /// Everything is durable: sends it to workers, clients and owners of jobs.
    fn publish(&mut self) {
        crate::dispatcher::fault_points::point("publish");
        self.release_stored();
        let (mark, now) = (self.mark(), self.now());
        self.outbox.address_if_due(&mark, now, self.nodes.connections.connected());
        self.send_messages(Some(&mark));
        self.outbox.deliver(None);
    }

    fn send_messages(&mut self, mark: Option<&HeadMark>) {
        for (node, messages) in self.outbox.take_messages() {
            let Some(session) = self.nodes.connections.session(node) else { continue };
            // A session that just broke is noticed by its own task.
            let sent = session.sender.send(ToWorkerBatch { messages, mark: mark.cloned() });
            if sent == Err(NotSent::Behind) {
                let id = session.id;
                self.detach(id);
                let name = self.node_name(node);
                self.alerts.warn(&format!("node {name} is not reading its messages: disconnected"));
            }
        }
    }
}

/// The same refusal of every job.
pub(crate) fn refuse_all(jobs: &[u32], reason: &str) -> Vec<Refusal> {
    jobs.iter().map(|&job_id| Refusal { job_id, reason: reason.to_owned() }).collect()
}
