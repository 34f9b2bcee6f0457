//! Nodes and devices that fail repeatedly are excluded until an administrator resumes them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use wharf_core::{Command, JobId, NodeId, Time};
use wharf_proto::Cause;

use crate::dispatcher::Dispatcher;
use crate::journal::record::Record;

/// So many failures within so many seconds are too many.
const FAILURES_MAX: usize = 3;
const WINDOW_S: f64 = 3600.0;
/// What happens to several jobs at once is one failure.
const AT_ONCE_S: f64 = 1.0;

/// A failure that a node is to blame for.
#[derive(Clone, Copy, Debug)]
struct Failure {
    at: Time,
    job: JobId,
    cause: Cause,
}

/// Failures of nodes and devices lately. They are not journaled: a head that was restarted counts again.
#[derive(Debug, Default)]
pub(crate) struct NodeFailures {
    nodes: BTreeMap<NodeId, VecDeque<Failure>>,
    devices: BTreeMap<(NodeId, u32), VecDeque<Time>>,
}

impl NodeFailures {
    /// Notes a failure. Returns how many there were, where that is too many.
    fn node_failed(&mut self, node: NodeId, failure: Failure) -> Option<usize> {
        let failures = self.nodes.entry(node).or_default();
        failures.push_back(failure);
        failures.retain(|one| failure.at.since(one.at) <= WINDOW_S);
        let mut times: Vec<Time> = Vec::new();
        for one in failures.iter() {
            if times.last().is_none_or(|last| one.at.since(*last) > AT_ONCE_S) {
                times.push(one.at);
            }
        }
        // One job alone may bring its worker down wherever it goes; that a machine goes away is never a job's word.
        let jobs: BTreeSet<JobId> = failures.iter().map(|one| one.job).collect();
        let is_certain = jobs.len() > 1 || failures.iter().all(|one| one.cause == Cause::NodeAway);
        (times.len() >= FAILURES_MAX && is_certain).then_some(times.len())
    }

    fn device_failed(&mut self, node: NodeId, device: u32, now: Time) {
        let failures = self.devices.entry((node, device)).or_default();
        failures.push_back(now);
        failures.retain(|at| now.since(*at) <= WINDOW_S);
    }

    /// Whether a device has failed so often that it is excluded although it reports no problem.
    pub(crate) fn excludes(&self, node: NodeId, device: u32) -> bool {
        self.devices.get(&(node, device)).is_some_and(|failures| failures.len() >= FAILURES_MAX)
    }

    /// An administrator has checked the node.
    fn reset_failures(&mut self, node: NodeId) {
        self.nodes.remove(&node);
        self.devices.retain(|(of, _), _| *of != node);
    }
}

impl Dispatcher {
    /// Counts a failure of a node, and cordons it where there were too many.
    pub(crate) fn count_failure(&mut self, node: NodeId, job: JobId, cause: Cause) {
        let failure = Failure { at: self.now(), job, cause };
        let Some(count) = self.nodes.failures.node_failed(node, failure) else { return };
        if self.engine.state().schedule().is_cordoned(node) {
            return;
        }
        let name = self.engine.state().topology().node(node).spec.name.to_string();
        let reason = format!(
            "taken out: {count} failures within {:.0} min, the last one of job {} ({}); `wharf node resume {name}` \
             lets jobs in again",
            WINDOW_S / 60.0,
            job.0,
            cause.word()
        );
        self.engine_command(Command::CordonNode(node));
        self.alerts.warn(&format!("node {name} is {reason}"));
        self.note(Record::NodeNoted { node: node.0, reason });
    }

    /// Notes that a device broke, and reports it where it is excluded from now on.
    pub(crate) fn device_broke(&mut self, node: NodeId, device: u32) {
        let now = self.now();
        self.nodes.failures.device_failed(node, device, now);
        if self.nodes.failures.excludes(node, device) {
            let name = self.engine.state().topology().node(node).spec.name.to_string();
            self.alerts.warn(&format!("device {device} of node {name}: {}", exclusion(&name)));
        }
    }

    /// A node and its healthy devices are resumed.
    pub(crate) fn reset_failures(&mut self, node: NodeId) {
        self.nodes.failures.reset_failures(node);
        if let Some(facts) = self.nodes.facts.get(&node) {
            let devices = facts.devices.clone();
            self.on_devices(node, devices);
        }
    }
}

/// Why a device is excluded.
pub(crate) fn exclusion(node: &str) -> String {
    format!("failed {FAILURES_MAX} times within an hour and is excluded until `wharf node resume {node}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_failures_are_those_of_different_jobs_at_different_times() {
        let fails = |rows: &[(f64, u32, Cause)]| {
            let mut failures = NodeFailures::default();
            let mut last = None;
            for &(at, job, cause) in rows {
                let failure = Failure { at: Time::from_seconds(at), job: JobId(job), cause };
                last = failures.node_failed(NodeId(0), failure);
            }
            last
        };
        let (away, lost) = (Cause::NodeAway, Cause::LostWorker);
        assert_eq!(fails(&[(0.0, 1, lost), (10.0, 2, lost), (20.0, 3, lost)]), Some(3));
        assert_eq!(fails(&[(0.0, 1, lost), (10.0, 2, lost)]), None);
        assert_eq!(fails(&[(0.0, 1, lost), (0.1, 2, lost), (0.2, 3, lost)]), None, "all at once");
        assert_eq!(fails(&[(0.0, 1, lost), (10.0, 1, lost), (20.0, 1, lost)]), None, "one job's");
        assert_eq!(fails(&[(0.0, 1, away), (10.0, 1, away), (20.0, 1, away)]), Some(3), "the machine's");
        assert_eq!(fails(&[(0.0, 1, lost), (10.0, 2, lost), (5000.0, 3, lost)]), None, "long ago");
    }
}
