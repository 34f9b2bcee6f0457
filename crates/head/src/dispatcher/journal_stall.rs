//! A journal that cannot be written, such as on a full disk: the head serves what changes nothing, and continues by itself when it can.
//!
//! What could not be made durable is discarded, and the requesters get the reason. Workers stay connected, so that their tasks
//! run on; what they have to report they report again afterwards.

use std::error::Error as _;

use wharf_core::Time;
use wharf_proto::{ChangeJobsReply, FromWorker, Refusal, ToWorker, ToWorkerBatch, from_worker, to_worker};

use crate::dispatcher::journal_log::EventLog;
use crate::dispatcher::{Dispatcher, Input};
use crate::journal::JournalError;
use crate::nodes::connections::Session;

/// Seconds between attempts to write.
const PROBES_APART_S: f64 = 1.0;

/// The journal cannot be written, so nothing is changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the head cannot write its journal: {cause}; it changes nothing until it can, and jobs run on; hint: free space on the file system \
     of {folder}"
)]
pub(crate) struct Unwritable {
    cause: String,
    folder: String,
}

/// A journal that cannot be written, until the next attempt.
pub(crate) struct Stall {
    reason: Unwritable,
    next_probe: Time,
}

impl EventLog {
    /// Whether the journal cannot be written.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stall.is_some()
    }

    /// Why the journal cannot be written; none where it can.
    fn stall_reason(&self) -> Option<&Unwritable> {
        self.stall.as_ref().map(|stall| &stall.reason)
    }

    /// When the next attempt to write is due; none where the journal can be written.
    pub(crate) fn next_probe(&self) -> Option<Time> {
        self.stall.as_ref().map(|stall| stall.next_probe)
    }

    /// Changes nothing until the journal can be written again. Returns the reason.
    fn stall(&mut self, error: &JournalError, now: Time) -> &Unwritable {
        let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        let folder = self.journal.path().parent().unwrap_or(self.journal.path()).display().to_string();
        let reason = Unwritable { cause, folder };
        &self.stall.insert(Stall { reason, next_probe: now.plus(PROBES_APART_S) }).reason
    }

    /// Tries to write where that is due. Returns whether a journal that could not be written now can.
    fn probe(&mut self, now: Time) -> bool {
        let Some(stall) = self.stall.as_mut().filter(|stall| stall.next_probe <= now) else { return false };
        stall.next_probe = now.plus(PROBES_APART_S);
        let is_written = self.journal.probe().is_ok();
        self.stall.take_if(|_| is_written);
        is_written
    }
}

impl Dispatcher {
    /// Discards what could not be made durable, and changes nothing until the journal can be written again.
    pub(crate) fn storage_failed(&mut self, error: &JournalError) {
        self.stall(error);
        self.outbox.drop_notices();
        self.outbox.deliver(self.log.stall_reason());
        self.rebuild();
    }

    /// Changes nothing until the journal can be written again.
    pub(crate) fn stall(&mut self, error: &JournalError) {
        let now = self.now();
        let reason = self.log.stall(error, now).to_string();
        self.alert(&reason);
    }

    /// Continues where the journal can be written again.
    pub(crate) fn probe_storage(&mut self) {
        let now = self.now();
        if self.log.probe(now) {
            self.alert("the head can write its journal again");
            self.rebuild();
            self.identify();
        }
    }

    /// Handles an input while nothing can be changed; gives it back where it changes nothing.
    pub(crate) fn refuse_stalled(&mut self, input: Input) -> Option<Input> {
        let Some(reason) = self.log.stall_reason().cloned() else { return Some(input) };
        let refusal = |job_id| Refusal { job_id, reason: reason.to_string() };
        // The client may have gone.
        match input {
            Input::Submit { reply, .. } => drop(reply.send(Err(reason.into()))),
            Input::ChangeNode { reply, .. }
            | Input::SetLimits { reply, .. }
            | Input::SetPolicy { reply, .. } => {
                drop(reply.send(Err(reason.into())));
            }
            Input::Change { request, reply, .. } => {
                drop(reply.send(request.job_ids.iter().map(|&job| refusal(job)).collect()));
            }
            Input::ChangeMatching { reply, .. } => {
                drop(reply.send(ChangeJobsReply { refused: vec![refusal(0)], ..ChangeJobsReply::default() }));
            }
            Input::Attach { register, session, sender } => {
                self.park(&register.node, Session { id: session, sender });
            }
            Input::FromWorker { session, messages } => self.pass_output(session, messages),
            input @ (Input::Ask(_)
            | Input::Wait { .. }
            | Input::Detach { .. }
            | Input::ReadOutput { .. }
            | Input::ReadOn { .. }
            | Input::Stop) => return Some(input),
        }
        None
    }

    /// Accepts a worker without any consequence: its tasks continue, and output can be read. It connects again afterwards.
    fn park(&mut self, name: &str, session: Session) {
        let welcome = self.nodes.connections.welcome();
        let welcome = ToWorker { message: Some(to_worker::Message::Welcome(welcome)) };
        // One that is gone already is noticed by its own connection.
        let _ = session.sender.send(ToWorkerBatch { messages: vec![welcome], mark: None });
        match crate::query::views::node_named(self, name) {
            Some(node) => {
                self.nodes.connections.connect(node, session);
                self.resume_reading(node);
            }
            None => self.nodes.connections.park(session),
        }
    }

    fn pass_output(&mut self, session: u64, messages: Vec<FromWorker>) {
        let Some(node) = self.nodes.connections.node_of(session) else { return };
        for message in messages {
            if let Some(from_worker::Message::Output(output)) = message.message {
                self.on_output(node, output);
            }
        }
    }
}
