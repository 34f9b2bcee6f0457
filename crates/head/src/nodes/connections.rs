//! The connections of workers, and how long nodes without one may be away.

use std::collections::BTreeMap;

use wharf_core::{NodeId, Time};
use wharf_proto::Welcome;

use crate::nodes::worker_outbox::Outlet;

/// How often a worker has to be heard, in seconds.
const HEARTBEAT_S: f64 = 5.0;

/// A worker that cannot reach the head stops its tasks; they are run elsewhere only this much later, as a part of the
/// time that it may be away. Of that, its tasks have most to save their work.
const FENCE_MARGIN: f64 = 0.5;
const FENCE_GRACE: f64 = 0.4;

/// A worker that is connected.
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) sender: Outlet,
}

/// Sessions by node, and nodes that are away.
pub(crate) struct Connections {
    sessions: BTreeMap<NodeId, Session>,
    nodes: BTreeMap<u64, NodeId>,
    /// Nodes without a connection, and until when they may come back.
    missing: BTreeMap<NodeId, Time>,
    /// Workers of unknown nodes that connected while the journal could not be written.
    parked: Vec<Session>,
    lost_after_s: f64,
}

impl Connections {
    pub(super) fn new(lost_after_s: f64) -> Self {
        Self {
            sessions: BTreeMap::new(),
            nodes: BTreeMap::new(),
            missing: BTreeMap::new(),
            parked: Vec::new(),
            lost_after_s,
        }
    }

    /// Closes all connections: workers connect again.
    pub(crate) fn reset(&mut self) {
        self.sessions.clear();
        self.nodes.clear();
        self.parked.clear();
    }

    /// Connects a node's worker in place of the session before.
    pub(crate) fn connect(&mut self, node: NodeId, session: Session) {
        let id = session.id;
        if let Some(replaced) = self.sessions.insert(node, session) {
            self.nodes.remove(&replaced.id);
        }
        self.nodes.insert(id, node);
    }

    /// Stores the connection of a worker whose node is unknown.
    pub(crate) fn park(&mut self, session: Session) {
        self.parked.push(session);
    }

    /// A connection is gone; its node may come back.
    pub(crate) fn disconnect(&mut self, session: u64, now: Time) {
        if let Some(node) = self.nodes.remove(&session) {
            self.sessions.remove(&node);
            self.missing.insert(node, self.lost_at(now));
        }
    }

    /// Takes a node's connection out.
    pub(crate) fn close(&mut self, node: NodeId) -> Option<Session> {
        let session = self.sessions.remove(&node)?;
        self.nodes.remove(&session.id);
        Some(session)
    }

    pub(crate) fn is_connected(&self, node: NodeId) -> bool {
        self.sessions.contains_key(&node)
    }

    pub(crate) fn session(&self, node: NodeId) -> Option<&Session> {
        self.sessions.get(&node)
    }

    /// The node of a session; none where it was replaced by a newer one.
    pub(crate) fn node_of(&self, session: u64) -> Option<NodeId> {
        self.nodes.get(&session).copied()
    }

    /// Nodes with a connection.
    pub(crate) fn connected(&self) -> impl Iterator<Item = NodeId> {
        self.sessions.keys().copied()
    }

    /// After a start: these nodes may come back.
    pub(crate) fn await_nodes(&mut self, nodes: impl Iterator<Item = NodeId>, now: Time) {
        let until = self.lost_at(now);
        self.missing = nodes.map(|node| (node, until)).collect();
    }

    /// A node is not awaited any more: it has come back, or left for good.
    pub(crate) fn end_wait(&mut self, node: NodeId) {
        self.missing.remove(&node);
    }

    /// Nodes without a connection that may come back.
    pub(crate) fn missing(&self) -> impl Iterator<Item = NodeId> {
        self.missing.keys().copied()
    }

    /// Until when a node without a connection may come back.
    pub(crate) fn missing_until(&self, node: NodeId) -> Option<Time> {
        self.missing.get(&node).copied()
    }

    /// Takes out the nodes that did not come back in time.
    pub(crate) fn take_lost(&mut self, now: Time) -> Vec<NodeId> {
        self.missing.extract_if(.., |_, until| *until <= now).map(|(node, _)| node).collect()
    }

    /// When the next node counts as lost.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.missing.values().min().copied()
    }

    /// The first message to a worker.
    pub(crate) fn welcome(&self) -> Welcome {
        Welcome {
            heartbeat_s: HEARTBEAT_S,
            fence_after_s: self.lost_after_s,
            fence_grace_s: self.lost_after_s * FENCE_GRACE,
        }
    }

    /// When a node that is away from now on counts as lost. Where the network is silent, head and worker detect it by probes, each
    /// some time after it last heard of the other; the worker may have heard of the head a heartbeat later than the other way.
    fn lost_at(&self, now: Time) -> Time {
        let slack_s = if self.lost_after_s > 0.0 { HEARTBEAT_S } else { 0.0 };
        now.plus(self.lost_after_s * (1.0 + FENCE_MARGIN) + slack_s)
    }
}
