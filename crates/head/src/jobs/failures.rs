//! Why runs end before their jobs are done, and what follows: retries, delays, ends.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wharf_core::{Command, JobId, NodeId, Phase, StopReason, Time};
use wharf_proto::{Cause, CauseCount, JobSpec as WireSpec};

use crate::dispatcher::Dispatcher;
use crate::journal::record::Record;

/// How long a job waits after its first failure, and at most, in seconds. Each failure of its own, and each run in a row that asked to be
/// resumed without a new checkpoint, doubles it; nothing else does.
const DELAY_S: f64 = 1.0;
const DELAY_MAX_S: f64 = 300.0;

/// How often machines may fail a job that names no number: something about it may kill its nodes.
const STRIKES_MAX: u32 = 20;

/// The failures of a job so far; also of jobs that have ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FailureHistory {
    /// The word of the last cause; empty where the job has finished since.
    pub(crate) last: String,
    /// Where, as far as that matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<u32>,
    /// What it exited with, where that was its own doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<i32>,
    /// The signal that ended it, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<i32>,
    /// How often, by word.
    pub(crate) counts: BTreeMap<String, u32>,
}

impl FailureHistory {
    pub(crate) fn count(&self, cause: Cause) -> u32 {
        self.counts.get(cause.word()).copied().unwrap_or(0)
    }

    pub(crate) fn cause(&self) -> Cause {
        Cause::of_word(&self.last).unwrap_or(Cause::NoCause)
    }

    pub(crate) fn to_wire(&self) -> Vec<CauseCount> {
        let counts = Cause::ALL.into_iter().map(|cause| (cause, self.count(cause)));
        counts
            .filter(|(_, count)| *count > 0)
            .map(|(cause, count)| CauseCount { cause: cause.into(), count })
            .collect()
    }

    /// Failures of the job itself.
    fn own(&self) -> u32 {
        Cause::ALL.into_iter().filter(|cause| cause.is_own()).map(|cause| self.count(cause)).sum()
    }

    /// Failures after which it waits: its own, and those of machines but for the first.
    fn delaying(&self) -> u32 {
        let machines = self.count(Cause::LostWorker).saturating_add(self.count(Cause::NodeAway));
        self.own().saturating_add(machines.saturating_sub(1))
    }
}

/// The origin of a command: the engine makes the same event of different causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The policy decided.
    Policy,
    /// A request.
    Person,
    /// A node is away.
    Node(NodeId),
    /// A device is broken.
    Device(NodeId),
    /// A run failed, and its cause is journaled already.
    Failure,
    /// It has reached its time limit.
    TimeLimit,
    /// It makes no progress any more.
    Stall,
}

impl Origin {
    /// Where a command comes from.
    pub(crate) fn of(command: &Command) -> Self {
        match *command {
            Command::LoseNode(node) => Self::Node(node),
            Command::LoseDevice(node, _) => Self::Device(node),
            Command::JobFailed { .. } => Self::Failure,
            _ => Self::Person,
        }
    }

    /// Why a job is requested to stop, and on which node's account.
    pub(crate) fn cause(self, why: StopReason) -> Option<(Cause, Option<NodeId>)> {
        match (self, why) {
            (Self::Failure, _) => None,
            (_, StopReason::TimeLimit) | (Self::TimeLimit, _) => Some((Cause::TimeLimit, None)),
            (Self::Stall, _) => Some((Cause::Stalled, None)),
            (Self::Node(node), _) => Some((Cause::NodeAway, Some(node))),
            (Self::Device(node), _) => Some((Cause::BrokenDevice, Some(node))),
            (_, StopReason::NodeLost) => Some((Cause::NodeAway, None)),
            (Self::Policy, StopReason::Preempted | StopReason::Moved) => Some((Cause::Preemption, None)),
            (Self::Person, _) | (_, StopReason::Cancelled | StopReason::Requeued) => {
                Some((Cause::Request, None))
            }
        }
    }
}

impl Dispatcher {
    /// Notes why a run came to its end, and holds it against the node where that is to blame.
    pub(crate) fn note_cause(&mut self, job: JobId, cause: Cause, node: Option<NodeId>, code: Option<i32>) {
        let (node_id, code) =
            (node.map(|node| node.0), code.filter(|_| cause.is_own() || cause == Cause::Request));
        self.note(Record::JobCaused { job: job.0, cause: cause.word().to_owned(), node: node_id, code });
        if let Some(node) = node.filter(|_| cause.is_infrastructure()) {
            self.count_failure(node, job, cause);
        }
    }

    /// Whether a job is run again after this cause, which has been noted; counts the attempt.
    pub(crate) fn may_retry(&mut self, job: JobId, code: i32, cause: Cause) -> bool {
        let Some(spec) = self.spec(job).cloned() else { return false };
        if let Some(limit) = rule(&spec, cause) {
            return self.log.state.failure_count(job, cause) <= limit;
        }
        if cause.is_infrastructure() {
            // A node that is away is no fault of the job; what fails on a present node may be.
            return cause != Cause::LostWorker || self.log.state.failure_count(job, cause) <= STRIKES_MAX;
        }
        let is_wanted = code != 0 && (spec.retry_codes.is_empty() || spec.retry_codes.contains(&code));
        let used = self.log.state.retries.get(&job.0).copied().unwrap_or(0);
        let may = is_wanted && used < spec.retries;
        if may {
            self.note(Record::JobRetried { job: job.0 });
        }
        may
    }

    /// A job has reached its time limit: it ends, or is requeued and continues from its checkpoint where it asks for that. One whose
    /// trainer reports, but began two such runs in a row from the same checkpoint, would never come to an end.
    pub(crate) fn limit_reached(&mut self, job: JobId) {
        let continues = self.spec(job).is_some_and(|spec| spec.requeue_at_limit);
        let began_at = self.tasks.execution(job).map_or(0.0, |execution| execution.began_at);
        let is_repeated = self.jobs.time_limits.note_end(job, began_at);
        let is_stuck = is_repeated && self.tasks.progress(job).is_some();
        let command = if continues && !is_stuck { Command::RequeueJob(job) } else { Command::ExpireJob(job) };
        // It may be over by now.
        let _ = self.command_as(Origin::TimeLimit, command);
    }

    /// Whether a job that machines have stopped may continue elsewhere.
    pub(crate) fn may_move_on(&self, job: JobId) -> bool {
        let cause = self.log.state.last_cause(job);
        let limit = self.spec(job).and_then(|spec| rule(spec, cause));
        !cause.is_infrastructure()
            || limit.is_none_or(|limit| self.log.state.failure_count(job, cause) <= limit)
    }

    /// Delays the next run of a job that failed. It keeps its place in the queue.
    pub(crate) fn delay(&mut self, job: JobId) {
        let base_s = self.spec(job).and_then(|spec| spec.retry_delay_s).unwrap_or(DELAY_S);
        let failures = self.log.state.failures.get(&job.0).map_or(1, FailureHistory::delaying);
        let failures = failures.max(self.jobs.fruitless_runs.count(job)).max(1);
        let delay_s = delay_s(base_s, failures);
        // One that was given other devices meanwhile has waited enough.
        if delay_s <= 0.0 || self.command(Command::HoldJob(job)).is_err() {
            return;
        }
        let until = self.now().plus(delay_s);
        self.note(Record::JobDelayed { job: job.0, until: until.seconds() });
        self.jobs.delays.add(until, job);
    }

    /// After a restart: jobs that wait after a failure still do.
    pub(crate) fn restore_delays(&mut self) {
        let is_held = |job: &JobId| self.engine.state().job(*job).phase == Phase::Held;
        let delays = self
            .log
            .state
            .delays
            .iter()
            .filter_map(|(&job, &until)| Some((Time::try_new(until)?, JobId(job))));
        self.jobs.delays = delays.filter(|(_, job)| is_held(job)).collect();
    }

    /// Releases jobs whose delay is over.
    pub(crate) fn expire_delays(&mut self) {
        let now = self.now();
        while let Some((until, job)) = self.jobs.delays.pop_due(now) {
            // Released meanwhile, or ended.
            if self.log.state.delays.get(&job.0) != Some(&until.seconds()) {
                continue;
            }
            self.log.state.end_delay(job);
            self.release_if_ready(job);
        }
    }

    /// What a job that waits after a failure waits for.
    pub(crate) fn delayed(&self, job: JobId) -> Option<String> {
        let until = Time::try_new(*self.log.state.delays.get(&job.0)?)?;
        let left_s = until.since(self.now()).max(0.0).ceil();
        if self.engine.state().job(job).first_start.is_none() {
            return Some(format!("begins in {left_s:.0} s"));
        }
        // A job that requested to be resumed has not failed.
        let verb = if self.log.state.last_cause(job) == Cause::Request { "continues" } else { "retries" };
        Some(format!("{verb} in {left_s:.0} s after {}", self.last_cause(job)))
    }

    /// Why a job's last run came to its end, in words.
    pub(crate) fn last_cause(&self, job: JobId) -> String {
        let Some(failures) = self.log.state.failures.get(&job.0) else { return "a failure".to_owned() };
        let node = failures.node.and_then(|node| {
            self.engine.state().topology().nodes().get(node as usize).map(|node| node.spec.name.to_string())
        });
        let at = node.map_or_else(String::new, |node| format!(" on {node}"));
        match failures.cause() {
            Cause::NoCause => "a failure".to_owned(),
            Cause::UserError => format!("exit code {}{at}", failures.code.unwrap_or(1)),
            Cause::NodeAway => format!("the loss of a node{at}"),
            Cause::BrokenDevice => format!("a broken device{at}"),
            Cause::TimeLimit => "its time limit".to_owned(),
            Cause::Preemption => "a preemption".to_owned(),
            Cause::LostWorker => format!("the loss of its processes{at}"),
            Cause::OutOfMemory => format!("lack of memory{at}"),
            Cause::LaunchError => format!("a launch that failed{at}"),
            Cause::Request => match failures.code {
                Some(code) => format!("exit code {code}{at}"),
                None => "a request".to_owned(),
            },
            Cause::Stalled => "a stall".to_owned(),
        }
    }
}

/// The retry rule of a job for a cause: how often it is run again.
fn rule(spec: &WireSpec, cause: Cause) -> Option<u32> {
    spec.retry.iter().find(|rule| rule.cause() == cause).map(|rule| rule.count)
}

fn delay_s(base_s: f64, failures: u32) -> f64 {
    (base_s * f64::from(failures.saturating_sub(1).min(30)).exp2()).min(DELAY_MAX_S.max(base_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_and_are_bounded() {
        let delays: Vec<f64> = (1..=12).map(|failures| delay_s(1.0, failures)).collect();
        assert_eq!(delays[..5], [1.0, 2.0, 4.0, 8.0, 16.0]);
        assert_eq!(delays[9..], [300.0; 3]);
        assert_eq!(delay_s(600.0, 3), 600.0, "longer delays are kept");
        assert_eq!(delay_s(0.0, 3), 0.0);
    }

    #[test]
    fn the_same_order_to_stop_has_different_causes() {
        let node = NodeId(3);
        let rows = [
            (Origin::Policy, StopReason::Preempted, Some((Cause::Preemption, None))),
            (Origin::Policy, StopReason::Moved, Some((Cause::Preemption, None))),
            (Origin::Person, StopReason::Moved, Some((Cause::Request, None))),
            (Origin::Person, StopReason::Requeued, Some((Cause::Request, None))),
            (Origin::Person, StopReason::Cancelled, Some((Cause::Request, None))),
            (Origin::Person, StopReason::TimeLimit, Some((Cause::TimeLimit, None))),
            (Origin::Node(node), StopReason::NodeLost, Some((Cause::NodeAway, Some(node)))),
            (Origin::Device(node), StopReason::NodeLost, Some((Cause::BrokenDevice, Some(node)))),
            (Origin::Failure, StopReason::Requeued, None),
            (Origin::TimeLimit, StopReason::Requeued, Some((Cause::TimeLimit, None))),
            (Origin::Stall, StopReason::Requeued, Some((Cause::Stalled, None))),
        ];
        for (origin, why, expected) in rows {
            assert_eq!(origin.cause(why), expected, "{origin:?} {why:?}");
        }
    }
}
