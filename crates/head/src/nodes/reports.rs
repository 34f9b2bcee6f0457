//! Submissions that wait for the reports of workers.
//!
//! A head that was just started may be an older copy, which only workers know. Submissions wait until the nodes of the journal have
//! reported, for a few seconds at most.

use wharf_core::{NodeId, Time};

use crate::dispatcher::Input;
use crate::dispatcher::request_error::RequestError;

/// Submissions that wait for workers' reports, at most.
const DEFERRED_MAX: usize = 256;

/// Nodes whose reports are awaited, and the submissions that wait for them.
#[derive(Default)]
pub(crate) struct AwaitedReports {
    nodes: Vec<NodeId>,
    until: Option<Time>,
    deferred: Vec<Input>,
}

impl AwaitedReports {
    /// After a start: the nodes that are expected to report, and for how long.
    pub(super) fn expect(&mut self, nodes: Vec<NodeId>, until: Time) {
        self.nodes = nodes;
        self.until = Some(until);
    }

    /// Whether nodes have not reported yet that may still be waited for.
    pub(crate) fn is_awaited(&self, now: Time) -> bool {
        !self.nodes.is_empty() && self.until.is_some_and(|until| now < until)
    }

    /// A node has reported.
    pub(crate) fn note(&mut self, node: NodeId) {
        self.nodes.retain(|awaited| *awaited != node);
    }

    /// Defers a submission; where too many wait it is refused.
    pub(crate) fn defer(&mut self, submission: Input) {
        match submission {
            Input::Submit { reply, .. } if self.deferred.len() >= DEFERRED_MAX => {
                // The client may have gone.
                let _ = reply.send(Err(RequestError::Starting));
            }
            submission => self.deferred.push(submission),
        }
    }

    /// The submissions that have waited long enough.
    pub(crate) fn take_deferred(&mut self, now: Time) -> Vec<Input> {
        if self.is_awaited(now) { Vec::new() } else { std::mem::take(&mut self.deferred) }
    }

    pub(crate) fn next_due(&self) -> Option<Time> {
        let due = if self.nodes.is_empty() { Some(Time::ZERO) } else { self.until };
        due.filter(|_| !self.deferred.is_empty())
    }
}
