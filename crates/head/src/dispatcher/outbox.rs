//! What goes out once everything is durable: messages to workers, replies to requests, and notices of jobs.

use std::collections::BTreeMap;

use tokio::sync::oneshot;
use wharf_core::{NodeId, Time};
use wharf_proto::{HeadMark, ToWorker, to_worker};

use crate::dispatcher::journal_stall::Unwritable;
use crate::dispatcher::request_error::RequestError;
use crate::notify::Notice;
use crate::notify::notifications::LazyNotifier;

/// Seconds between two marks for workers that are sent nothing else.
const MARKS_APART_S: f64 = 1.0;

/// Called when everything is durable, or with the reason why it is not.
pub(crate) type Reply = Box<dyn FnOnce(Option<&Unwritable>) + Send>;

/// What workers were sent last without being sent anything else.
#[derive(Default)]
struct SentMark {
    at: Option<Time>,
    mark: HeadMark,
}

/// The length of the outbox before an input was handled.
#[derive(Clone, Copy)]
pub(crate) struct OutboxLength {
    replies: usize,
    notices: usize,
}

/// Messages, replies and notices that wait until everything is durable.
pub(crate) struct Outbox {
    messages: BTreeMap<NodeId, Vec<ToWorker>>,
    replies: Vec<Reply>,
    notices: Vec<Notice>,
    notifier: LazyNotifier,
    sent_mark: SentMark,
}

impl Outbox {
    pub(crate) fn new(notifier: LazyNotifier) -> Self {
        Self {
            messages: BTreeMap::new(),
            replies: Vec::new(),
            notices: Vec::new(),
            notifier,
            sent_mark: SentMark::default(),
        }
    }

    /// Adds a message to a node's worker.
    pub(crate) fn send(&mut self, node: NodeId, message: to_worker::Message) {
        self.messages.entry(node).or_default().push(ToWorker { message: Some(message) });
    }

    /// Drops the messages to a node's worker.
    pub(crate) fn drop_messages(&mut self, node: NodeId) {
        self.messages.remove(&node);
    }

    /// Takes out the messages, by node.
    pub(crate) fn take_messages(&mut self) -> BTreeMap<NodeId, Vec<ToWorker>> {
        std::mem::take(&mut self.messages)
    }

    /// Addresses all connected workers where they have to be sent the mark even if there is nothing else for them.
    pub(crate) fn address_if_due(&mut self, mark: &HeadMark, now: Time, nodes: impl Iterator<Item = NodeId>) {
        let sent = &self.sent_mark;
        let is_old = sent.at.is_none_or(|at| now.since(at) >= MARKS_APART_S);
        let is_due = mark.ids_below != sent.mark.ids_below
            || mark.incarnation != sent.mark.incarnation
            || is_old && mark.sequence != sent.mark.sequence;
        if is_due {
            self.sent_mark = SentMark { at: Some(now), mark: mark.clone() };
            for node in nodes {
                self.messages.entry(node).or_default();
            }
        }
    }

    /// Adds a reply that is made whether everything becomes durable or not.
    pub(crate) fn reply_always(&mut self, reply: impl FnOnce(Option<&Unwritable>) + Send + 'static) {
        self.replies.push(Box::new(reply));
    }

    /// Does something once everything is durable.
    pub(crate) fn reply(&mut self, reply: impl FnOnce() + Send + 'static) {
        self.reply_always(move |failed| {
            if failed.is_none() {
                reply();
            }
        });
    }

    /// Answers a request once everything is durable, or with the reason why it is not.
    pub(crate) fn answer<T: Send + 'static>(
        &mut self,
        to: oneshot::Sender<Result<T, RequestError>>,
        answer: Result<T, RequestError>,
    ) {
        self.reply_always(move |failed| {
            // The client may have gone.
            let _ = to.send(failed.map_or(answer, |reason| Err(reason.clone().into())));
        });
    }

    /// Adds a notice for a job's owner.
    pub(crate) fn notify(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// Drops all notices.
    pub(crate) fn drop_notices(&mut self) {
        self.notices.clear();
    }

    /// Everything is durable, or failed for this reason: makes the replies and sends the notices.
    pub(crate) fn deliver(&mut self, failed: Option<&Unwritable>) {
        for reply in std::mem::take(&mut self.replies) {
            reply(failed);
        }
        for notice in std::mem::take(&mut self.notices) {
            self.notifier.send(notice);
        }
    }

    pub(crate) fn length(&self) -> OutboxLength {
        OutboxLength { replies: self.replies.len(), notices: self.notices.len() }
    }

    /// Drops the replies and notices that were added since then.
    pub(crate) fn truncate(&mut self, length: OutboxLength) {
        self.replies.truncate(length.replies);
        self.notices.truncate(length.notices);
    }

    /// Drops what the discarded state had for workers; replies and notices stay.
    pub(crate) fn reset(&mut self) {
        self.messages.clear();
        self.sent_mark = SentMark::default();
    }
}
