//! Jobs that make no progress any more: noticed, explained, and restarted or failed where their owners want that.
//!
//! Only jobs whose trainers report can stall: as a whole, or in one rank while others make progress, which is known by the reports of that
//! rank's node, or by a process that is stopped. A rank that does not report is not judged by its reports. Without a timeout of their own they have one that follows from the longest interval between
//! their reports, so that compiling, evaluating and saving are no stalls.

use std::collections::BTreeMap;

use wharf_core::{Command, JobId, NodeId, Phase, Time};
use wharf_proto::notify::Moment;
use wharf_proto::{Cause, InspectTask, OnStall, StoppedProcess, TaskId, TaskInspected, to_worker};

use crate::dispatcher::Dispatcher;
use crate::jobs::failures::Origin;
use crate::journal::record::Record;
use crate::tasks::Tasks;

/// Seconds between two checks all jobs that report.
const LOOK_S: f64 = 1.0;
/// A job without a timeout of its own has stalled after the longest of its intervals so many times, but never earlier than that.
const INTERVALS: f64 = 10.0;
const DEFAULT_MIN_S: f64 = 600.0;
/// How long workers may take to inspect a job's processes.
const INSPECTION_S: f64 = 3.0;
/// How often a job that stalls is restarted, where its `retry` does not say.
const RESTARTS_MAX: u32 = 5;
/// The exit code of a job that failed because it stalled.
const STALLED_CODE: i32 = 1;
/// Seconds after which a report of stopped processes no longer holds: three intervals of the workers, which repeat it.
const STOPPED_VALID_S: f64 = 15.0;
/// Processes that are named.
const SHOWN_MAX: usize = 4;

/// The reports of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Liveness {
    /// When it last made progress.
    last: Option<Time>,
    longest_s: f64,
    nodes: BTreeMap<NodeId, NodeReports>,
    /// Stopped processes of each node, as its worker reported them last.
    stopped: BTreeMap<NodeId, StoppedReport>,
    stall: Option<Stall>,
}

/// The reports of one node's trainer.
#[derive(Clone, Debug)]
struct NodeReports {
    iterations: f64,
    /// When it last made progress.
    last: Time,
    longest_s: f64,
    /// It has made progress since its first report: a trainer that reports only once is not expected to continue.
    has_advanced: bool,
}

/// The latest report of a node's stopped processes.
#[derive(Clone, Debug)]
struct StoppedReport {
    at: Time,
    processes: Vec<Stopped>,
}

/// A process that is stopped, as by SIGSTOP.
#[derive(Clone, Debug)]
struct Stopped {
    pid: u32,
    rank: Option<u32>,
    since: Time,
}

/// A stall that was noticed.
#[derive(Clone, Debug)]
struct Stall {
    /// When it is acted on; none: it has been.
    act_at: Option<Time>,
}

/// The parts of a job that make no progress, and since when.
#[derive(Debug, PartialEq)]
struct Standstill {
    since: Time,
    /// Nodes whose trainers make no progress while others do; empty: none does.
    nodes: Vec<NodeId>,
}

/// The limits of a run's progress.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// The job's own timeout.
    own_s: Option<f64>,
    /// Iterations to make: a trainer that has made them waits for the others.
    total: Option<f64>,
    /// The first task starts and ends the trainers of all nodes, as a batch script does: a node without one is idle.
    is_led: bool,
}

impl Liveness {
    /// A node's trainer has reported. Any further iteration or checkpoint is progress.
    pub(crate) fn told(&mut self, now: Time, node: NodeId, iterations: f64, is_saved: bool) {
        let is_progress = match self.nodes.get_mut(&node) {
            None => {
                let reports = NodeReports { iterations, last: now, longest_s: 0.0, has_advanced: false };
                self.nodes.insert(node, reports);
                true
            }
            Some(reports) => reports.told(now, iterations, is_saved),
        };
        if is_progress {
            if let Some(last) = self.last {
                self.longest_s = self.longest_s.max(now.since(last));
            }
            self.last = Some(now);
        }
    }

    /// A node's worker has reported the stopped processes of its task.
    fn note_stopped(&mut self, now: Time, node: NodeId, processes: &[StoppedProcess]) {
        let before = self.stopped.remove(&node).filter(|report| report.is_valid(now));
        let before = before.map(|report| report.processes).unwrap_or_default();
        let since = |pid: u32| before.iter().find(|one| one.pid == pid).map_or(now, |one| one.since);
        let stopped = processes.iter().take(SHOWN_MAX);
        let processes: Vec<Stopped> =
            stopped.map(|one| Stopped { pid: one.pid, rank: one.rank, since: since(one.pid) }).collect();
        if !processes.is_empty() {
            self.stopped.insert(node, StoppedReport { at: now, processes });
        }
    }

    /// The stopped processes of each node by reports that still hold.
    fn stopped(&self, now: Time) -> impl Iterator<Item = (NodeId, &[Stopped])> {
        let valid = self.stopped.iter().filter(move |(_, report)| report.is_valid(now));
        valid.map(|(&node, report)| (node, report.processes.as_slice()))
    }

    /// Waiting begins again, as after a node was away.
    fn pardon(&mut self, now: Time) {
        self.last = self.last.map(|_| now);
        self.nodes.values_mut().for_each(|reports| reports.last = now);
        // Workers repeat what is stopped.
        self.stopped.clear();
    }

    /// What has made no progress for its timeout, on nodes whose tasks are not over.
    fn standstill(&self, now: Time, open: &[NodeId], limits: Limits) -> Option<Standstill> {
        let is_over = |since: Time, timeout_s: Option<f64>| timeout_s.is_some_and(|s| now.since(since) >= s);
        let timeout_s = timeout_s(limits.own_s, self.longest_s);
        if let Some(since) = self.last.filter(|since| is_over(*since, timeout_s)) {
            return Some(Standstill { since, nodes: Vec::new() });
        }
        let is_done = |iterations: f64| limits.total.is_some_and(|total| iterations >= total);
        // A node's trainer may report less often than the others.
        let is_stuck = |reports: &NodeReports| {
            reports.has_advanced
                && !limits.is_led
                && !is_done(reports.iterations)
                && is_over(reports.last, timeout_s.map(|s| s.max(reports.longest_s * INTERVALS)))
        };
        // Most nodes are not stuck: the search among the open ones comes last.
        let stuck = self.nodes.iter().filter(|(node, reports)| is_stuck(reports) && open.contains(node));
        let stuck: Vec<(NodeId, Time)> = stuck.map(|(&node, reports)| (node, reports.last)).collect();
        let stopped = self.stopped(now).filter_map(|(node, processes)| {
            let since = processes.iter().map(|process| process.since).min()?;
            (is_over(since, timeout_s) && open.contains(&node)).then_some(since)
        });
        let since = stuck.iter().map(|(_, since)| *since).chain(stopped).min()?;
        Some(Standstill { since, nodes: stuck.into_iter().map(|(node, _)| node).collect() })
    }

    /// Nodes that are behind the others, where some are.
    fn behind(&self) -> Vec<NodeId> {
        let done = |reports: &NodeReports| reports.iterations;
        let least = self.nodes.values().map(done).fold(f64::INFINITY, f64::min);
        let behind: Vec<NodeId> =
            self.nodes.iter().filter(|(_, reports)| done(reports) <= least).map(|(&node, _)| node).collect();
        if behind.len() < self.nodes.len() { behind } else { Vec::new() }
    }
}

impl StoppedReport {
    /// Workers repeat a report while it holds. One that is not repeated comes from a worker that was replaced.
    fn is_valid(&self, now: Time) -> bool {
        now.since(self.at) <= STOPPED_VALID_S
    }
}

impl NodeReports {
    /// Returns whether a further report is progress.
    fn told(&mut self, now: Time, iterations: f64, is_saved: bool) -> bool {
        let is_progress = iterations != self.iterations || is_saved;
        if is_progress {
            self.longest_s = self.longest_s.max(now.since(self.last));
            *self = Self { iterations, last: now, has_advanced: true, ..*self };
        }
        is_progress
    }
}

/// Seconds without progress after which a job has stalled; none: never.
fn timeout_s(own: Option<f64>, longest_s: f64) -> Option<f64> {
    match own {
        Some(own_s) => (own_s > 0.0).then_some(own_s),
        None => Some((longest_s * INTERVALS).max(DEFAULT_MIN_S)),
    }
}

impl Tasks {
    /// When jobs that report are checked next.
    pub(crate) fn next_stall_look(&self) -> Option<Time> {
        (!self.progress.is_empty()).then_some(self.stalls_due)
    }

    fn liveness_mut(&mut self, job: JobId) -> Option<&mut Liveness> {
        self.progress.get_mut(&job).map(|progress| &mut progress.liveness)
    }
}

impl Dispatcher {
    /// Notices jobs that make no progress any more.
    pub(crate) fn expire_stalls(&mut self) {
        let now = self.now();
        if now < self.tasks.stalls_due {
            return;
        }
        self.tasks.stalls_due = now.plus(LOOK_S);
        let reporting: Vec<JobId> = self.tasks.progress.keys().copied().collect();
        for job in reporting {
            if self.engine.state().job(job).phase == Phase::Running {
                self.look_for_stall(job, now);
            }
        }
    }

    fn look_for_stall(&mut self, job: JobId, now: Time) {
        let is_away = self.away_node(job).is_some();
        let stands_still = self.standstill(job).is_some();
        let Some(liveness) = self.tasks.liveness_mut(job) else { return };
        if is_away {
            // It may make progress without reporting it.
            return liveness.pardon(now);
        }
        match &mut liveness.stall {
            _ if !stands_still => liveness.stall = None,
            Some(stall) => {
                if stall.act_at.is_some_and(|at| at <= now) {
                    stall.act_at = None;
                    self.act_on_stall(job);
                }
            }
            None => {
                liveness.stall = Some(Stall { act_at: Some(now.plus(INSPECTION_S)) });
                self.inspect(job);
            }
        }
    }

    /// What of a job makes no progress.
    fn standstill(&self, job: JobId) -> Option<Standstill> {
        let own_s = self.spec(job).and_then(|spec| spec.stall_timeout_s);
        let execution = self.tasks.execution(job)?;
        let limits = Limits { own_s, total: self.total_iterations(job), is_led: execution.is_led };
        self.tasks.progress(job)?.liveness.standstill(self.now(), &execution.open_nodes(), limits)
    }

    /// Asks the workers of a job to inspect its processes.
    fn inspect(&mut self, job: JobId) {
        let Some(execution) = self.tasks.execution(job) else { return };
        let task = Some(TaskId { job_id: job.0, generation: execution.generation });
        for node in execution.open_nodes() {
            self.send(node, to_worker::Message::Inspect(InspectTask { task }));
        }
    }

    /// A worker reports the stopped processes of a task.
    pub(crate) fn on_inspected(&mut self, node: NodeId, inspected: &TaskInspected) {
        let Some(task) = inspected.task.filter(|task| self.tasks.is_task_of(*task, node)) else { return };
        let now = self.now();
        if let Some(liveness) = self.tasks.liveness_mut(JobId(task.job_id)) {
            liveness.note_stopped(now, node, &inspected.stopped);
        }
    }

    /// The remark on a job that has stalled, or one of whose ranks has.
    pub(crate) fn stalled(&self, job: JobId) -> Option<String> {
        let liveness = &self.tasks.progress(job)?.liveness;
        liveness.stall.as_ref()?;
        let standstill = self.standstill(job)?;
        let tasks = &self.tasks.execution(job)?.tasks;
        let stopped: BTreeMap<NodeId, &[Stopped]> = liveness.stopped(self.now()).collect();
        let named = |(&node, processes): (&NodeId, &&[Stopped])| {
            let name = self.node_name(node);
            let text = |process: &Stopped| match process.rank {
                Some(rank) => format!("rank {rank} on {name} is stopped (process {})", process.pid),
                None => format!("process {} on {name} is stopped", process.pid),
            };
            processes.iter().map(text).collect::<Vec<_>>()
        };
        let ranked = |node: NodeId, what: &str| {
            let rank = tasks.iter().position(|task| task.share.node == node)?;
            Some(format!("rank {rank} on {}{what}", self.node_name(node)))
        };
        let mut details: Vec<String> = stopped.iter().flat_map(named).collect();
        if standstill.nodes.is_empty() && details.is_empty() {
            details.extend(liveness.behind().into_iter().filter_map(|node| ranked(node, " is behind")));
        }
        // A node whose process is stopped is named already.
        let others = standstill.nodes.into_iter().filter(|node| !stopped.contains_key(node));
        details.extend(others.filter_map(|node| ranked(node, "")));
        details.truncate(SHOWN_MAX);
        let details = if details.is_empty() { String::new() } else { format!(": {}", details.join(", ")) };
        Some(format!("no progress for {:.0} s{details}", self.now().since(standstill.since)))
    }

    /// Reports a stall, and restarts or fails the job as its owner wishes.
    fn act_on_stall(&mut self, job: JobId) {
        let Some(reason) = self.stalled(job) else { return };
        let Some(spec) = self.spec(job).cloned() else { return };
        self.note(Record::JobStalled { job: job.0, reason: reason.clone() });
        self.notify_owner(job, Moment::Stall);
        let rule = spec.retry.iter().find(|rule| rule.cause() == Cause::Stalled);
        let restarts_max = rule.map_or(RESTARTS_MAX, |rule| rule.count);
        let restarts = self.log.state.failure_count(job, Cause::Stalled);
        let fails = match spec.on_stall() {
            OnStall::StallReport => return,
            OnStall::StallRestart => restarts >= restarts_max,
            OnStall::StallFail => true,
        };
        if let Some(execution) = self.tasks.executions.get_mut(&job).filter(|_| fails) {
            execution.failing = Some(STALLED_CODE);
            self.note(Record::JobNoted { job: job.0, reason });
        }
        // It may be over by now.
        let _ = self.command_as(Origin::Stall, Command::RequeueJob(job));
    }

    /// A node of a job whose worker is not connected, and how long until it counts as lost, in seconds.
    fn away_node(&self, job: JobId) -> Option<(NodeId, f64)> {
        let nodes = self.tasks.execution(job)?.open_nodes();
        nodes.into_iter().find_map(|node| {
            let until = self.nodes.connections.missing_until(node)?;
            Some((node, until.since(self.now()).max(0.0)))
        })
    }

    /// The remark on a job one of whose nodes does not answer.
    pub(crate) fn away(&self, job: JobId) -> Option<String> {
        let (node, left_s) = self.away_node(job)?;
        let name = self.node_name(node);
        Some(format!(
            "node {name} does not answer; in {left_s:.0} s it counts as lost and the job runs elsewhere"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_timeout_follows_from_the_intervals_between_reports() {
        assert_eq!(timeout_s(None, 0.5), Some(DEFAULT_MIN_S));
        assert_eq!(timeout_s(None, 300.0), Some(3000.0));
        assert_eq!(timeout_s(Some(45.0), 300.0), Some(45.0));
        assert_eq!(timeout_s(Some(0.0), 300.0), None);
    }

    #[test]
    fn rank_that_is_behind_is_known_by_its_iterations() {
        let mut liveness = Liveness::default();
        let at = Time::from_seconds;
        liveness.told(at(0.0), NodeId(3), 5.0, false);
        liveness.told(at(1.0), NodeId(4), 5.0, false);
        assert_eq!(liveness.behind(), []);
        liveness.told(at(2.0), NodeId(4), 6.0, false);
        assert_eq!(liveness.behind(), [NodeId(3)]);
        // The same again is no progress, a checkpoint is.
        liveness.told(at(7.0), NodeId(4), 6.0, false);
        assert_eq!(liveness.last, Some(at(2.0)));
        liveness.told(at(9.0), NodeId(4), 6.0, true);
        assert_eq!((liveness.last, liveness.longest_s), (Some(at(9.0)), 7.0));
    }
}
