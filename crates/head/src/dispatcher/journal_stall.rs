//! A journal that cannot be written, such as on a full disk: the head serves what changes nothing, and goes on by itself when it can.
//!
//! What could not be made durable is discarded, and the requesters get the reason. Workers stay connected, so that their tasks
//! run on; what they have to report they report again afterwards.

use std::error::Error as _;

use wharf_core::Time;
use wharf_proto::{ChangeJobsReply, FromWorker, Refusal, ToWorker, ToWorkerBatch, from_worker, to_worker};

use crate::dispatcher::{Dispatcher, Input};
use crate::journal::JournalError;
use crate::nodes::Session;

/// Seconds between attempts to write.
const PROBES_APART_S: f64 = 1.0;

/// A journal that cannot be written.
pub(crate) struct Stall {
    reason: String,
    next_probe: Time,
}

impl Stall {
    pub(crate) fn next_due(&self) -> Time {
        self.next_probe
    }
}

impl Dispatcher {
    /// Discards what could not be made durable, and changes nothing until the journal can be written again.
    pub(crate) fn storage_failed(&mut self, error: &JournalError) {
        self.stall(error);
        let reason = self.stalled.as_ref().map(|stall| stall.reason.clone()).unwrap_or_default();
        self.notices.clear();
        self.deliver(Some(&reason));
        self.rebuild();
    }

    /// Changes nothing until the journal can be written again.
    pub(crate) fn stall(&mut self, error: &JournalError) {
        let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        let folder = self.journal.path().parent().unwrap_or(self.journal.path()).display().to_string();
        let reason = format!(
            "the head cannot write its journal: {cause}; it changes nothing until it can, and jobs run on; hint: free space on the \
             file system of {folder}"
        );
        self.alert(&reason);
        self.stalled = Some(Stall { reason, next_probe: self.now().plus(PROBES_APART_S) });
    }

    /// Goes on where the journal can be written again.
    pub(crate) fn probe_storage(&mut self) {
        let now = self.now();
        let Some(stall) = self.stalled.as_mut().filter(|stall| stall.next_probe <= now) else { return };
        stall.next_probe = now.plus(PROBES_APART_S);
        if self.journal.probe().is_err() {
            return;
        }
        self.stalled = None;
        self.alert("the head can write its journal again");
        self.rebuild();
        self.identify();
    }

    /// Handles an input while nothing can be changed; gives it back where it changes nothing.
    pub(crate) fn refuse_stalled(&mut self, input: Input) -> Option<Input> {
        let Some(reason) = self.stalled.as_ref().map(|stall| stall.reason.clone()) else {
            return Some(input);
        };
        let refusal = |job_id| Refusal { job_id, reason: reason.clone() };
        // The client may have gone.
        match input {
            Input::Submit { reply, .. } => drop(reply.send(Err(reason))),
            Input::ChangeNode { reply, .. }
            | Input::SetLimits { reply, .. }
            | Input::SetPolicy { reply, .. } => {
                drop(reply.send(Err(reason)));
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

    /// Lets a worker in without any consequence: it keeps its tasks, and output can be read. It connects again afterwards.
    fn park(&mut self, name: &str, session: Session) {
        let welcome = ToWorker { message: Some(to_worker::Message::Welcome(self.welcome())) };
        // One that is gone already is noticed by its own connection.
        let _ = session.sender.send(ToWorkerBatch { messages: vec![welcome], mark: None });
        match crate::query::views::node_named(self, name) {
            Some(node) => {
                self.node_of_session.insert(session.id, node);
                if let Some(replaced) = self.sessions.insert(node, session) {
                    self.node_of_session.remove(&replaced.id);
                }
                self.read_on(node);
            }
            None => self.parked.push(session),
        }
    }

    fn pass_output(&mut self, session: u64, messages: Vec<FromWorker>) {
        let Some(&node) = self.node_of_session.get(&session) else { return };
        for message in messages {
            if let Some(from_worker::Message::Output(output)) = message.message {
                self.on_output(node, output);
            }
        }
    }
}
