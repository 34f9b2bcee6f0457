//! The processes of a task that runs: those of its present step, and what is still to come.
//!
//! A step has a process group for each of its processes. The first that fails stops the others; the step has ended when all groups
//! are empty. An empty group is never signalled again: its number may be reused by then.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::cgroup::TaskCgroup;
use super::process;
use super::stage::{Login, Stage};
use crate::supervisor::protocol::Start;
use crate::task::Exit;

/// How often a group without a leader is checked.
const DRAIN_INTERVAL: Duration = Duration::from_millis(20);
/// How often a task of an earlier supervisor is checked.
const ADOPTED_INTERVAL: Duration = Duration::from_millis(200);
/// After this long a process that was killed hangs in the kernel, and waiting for it is useless.
const KILL_PATIENCE: Duration = Duration::from_secs(10);
/// How long the removal of a task's containers may take.
const CLOSE_PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Running {
    parts: Vec<Part>,
    /// Steps that are to come.
    rest: Option<Rest>,
    pub(super) cgroup: Option<TaskCgroup>,
    /// Its processes are prepared by a stage, which may have refused.
    pub(super) is_staged: bool,
    /// How it is requested to stop.
    stop_settings: StopSettings,
    is_stopping: bool,
    /// What is left in the groups is killed then.
    kill_at: Option<Instant>,
    killed_at: Option<Instant>,
    /// The first that went wrong.
    failure: Option<Exit>,
    /// The groups are empty, but other processes are left.
    is_swept: bool,
    /// What has to be removed when its processes are gone.
    pub(super) closing: Option<Box<Stage>>,
    /// That is being done.
    is_closing: bool,
}

/// How a task is requested to stop.
#[derive(Clone, Copy)]
pub(super) struct StopSettings {
    pub(super) stop_signal: i32,
    pub(super) grace_ms: u64,
}

struct Part {
    group: Pid,
    leader: Leader,
    /// The group is empty.
    is_empty: bool,
}

enum Leader {
    Child,
    /// Child of an earlier supervisor: its end is seen only by its absence.
    Adopted,
    Gone,
}

/// What has not been started yet.
pub(super) struct Rest {
    pub(super) start: Start,
    pub(super) login: Option<Login>,
    pub(super) next: usize,
}

impl Running {
    /// A task whose first step was started just now.
    pub(super) fn new(
        groups: &[Pid],
        stop_settings: StopSettings,
        cgroup: Option<TaskCgroup>,
        rest: Option<Rest>,
    ) -> Self {
        Self {
            parts: groups.iter().map(|group| Part::new(*group, Leader::Child)).collect(),
            rest,
            cgroup,
            is_staged: false,
            stop_settings,
            is_stopping: false,
            kill_at: None,
            killed_at: None,
            failure: None,
            is_swept: false,
            closing: None,
            is_closing: false,
        }
    }

    /// What is to be removed now that all processes are gone, once: an end that was neither asked for nor bad has done so itself.
    pub(super) fn next_closing(&mut self) -> Option<Box<Stage>> {
        let closing = self.closing.take()?;
        (self.is_stopping || self.failure.is_some()).then_some(closing)
    }

    /// The process that removes it is there; it cannot be stopped, only be late.
    pub(super) fn close(&mut self, group: Pid, now: Instant) {
        self.go_on(&[group]);
        self.is_closing = true;
        self.kill_at = Some(now + CLOSE_PATIENCE);
    }

    /// A task of an earlier supervisor: what it still had to do is not known any more.
    pub(super) fn adopted(groups: &[Pid], stop_settings: StopSettings, cgroup: Option<TaskCgroup>) -> Self {
        let parts = groups.iter().map(|group| Part::new(*group, Leader::Adopted)).collect();
        let failure = Some(Exit::lost("its supervisor died first: the exit code is unknown"));
        Self { parts, failure, ..Self::new(&[], stop_settings, cgroup, None) }
    }

    /// The next step's processes are there, instead of the last one's.
    pub(super) fn go_on(&mut self, groups: &[Pid]) {
        self.parts = groups.iter().map(|group| Part::new(*group, Leader::Child)).collect();
        self.killed_at = None;
    }

    /// The next step, if there is one and nothing is in its way.
    pub(super) fn next_step(&mut self) -> Option<(&Rest, usize)> {
        if self.is_stopping || self.failure.is_some() {
            return None;
        }
        let rest = self.rest.as_mut().filter(|rest| rest.next < rest.start.steps.len())?;
        rest.next += 1;
        Some((rest, rest.next - 1))
    }

    /// Asks all processes to end, and kills them when they have had their time.
    pub(super) fn stop(&mut self, now: Instant) {
        self.stop_within(Duration::from_millis(self.stop_settings.grace_ms), now);
    }

    /// As [`Self::stop`], with another grace; never more than it has already.
    pub(super) fn stop_within(&mut self, grace: Duration, now: Instant) {
        if self.is_closing {
            return;
        }
        if self.is_stopping {
            self.kill_at = self.kill_at.map(|at| at.min(now + grace));
            return;
        }
        self.is_stopping = true;
        self.signal(process::stop_signal(self.stop_settings.stop_signal));
        // One that is stopped could not even save its work.
        self.signal(Signal::SIGCONT);
        self.kill_at = Some(now + grace);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// Takes what is left of the grace away.
    pub(super) fn hurry(&mut self, now: Instant) {
        if let (Some(kill_at), false) = (&mut self.kill_at, self.is_closing) {
            *kill_at = now;
        }
    }

    /// A process could not be started beside those that were.
    pub(super) fn fail(&mut self, exit: Exit, now: Instant) {
        self.failure.get_or_insert(exit);
        self.stop(now);
    }

    fn signal(&mut self, signal: Signal) {
        for part in self.parts.iter_mut().filter(|part| !part.is_empty) {
            part.signal(Some(signal));
        }
    }

    /// A process of the task; none where all that it began with have ended.
    pub(super) fn process(&self) -> Option<Pid> {
        let there = self.parts.iter().find(|part| !matches!(part.leader, Leader::Gone));
        there.map(|part| part.group)
    }

    /// The leader of a group has ended.
    pub(super) fn on_leader_gone(&mut self, leader: Pid, exit: Exit, now: Instant) {
        let Some(index) = self.parts.iter().position(|part| part.group == leader) else { return };
        self.parts[index].leader = Leader::Gone;
        // How the removal went is said in the supervisor's log; the task's end was before.
        let has_failed = exit.code != 0 && !self.is_closing;
        if has_failed {
            self.failure.get_or_insert(exit);
        }
        if has_failed && self.has_leader() {
            self.stop(now);
        }
        // When the task was requested to stop, the rest has its time: often the leader is a shell that a signal ends at once.
        let signal = if self.kill_at.is_some() { None } else { Some(Signal::SIGKILL) };
        self.parts[index].signal(signal);
        if signal.is_some() && !self.parts[index].is_empty {
            self.killed_at = Some(now);
        }
    }

    fn has_leader(&self) -> bool {
        self.parts.iter().any(|part| matches!(part.leader, Leader::Child))
    }

    /// Does what time has come for.
    pub(super) fn tick(&mut self, now: Instant) {
        if self.kill_at.is_some_and(|at| at <= now) {
            self.signal(Signal::SIGKILL);
            self.kill_at = None;
            self.killed_at = Some(now);
        }
        for part in self.parts.iter_mut().filter(|part| !part.is_empty) {
            if !matches!(part.leader, Leader::Child) {
                part.signal(None);
            }
        }
    }

    /// Whether the present step's groups are empty.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        !self.has_leader() && (self.parts.iter().all(|part| part.is_empty) || self.is_stuck(now))
    }

    /// Whether those who were killed do not end.
    pub(super) fn is_stuck(&self, now: Instant) -> bool {
        self.killed_at.is_some_and(|at| now - at > KILL_PATIENCE)
    }

    /// A process was found outside the groups, and killed.
    pub(super) fn on_swept(&mut self, now: Instant) {
        if !self.is_swept {
            self.is_swept = true;
            self.killed_at = Some(now);
        }
    }

    pub(super) fn exit(&self) -> Exit {
        self.failure.clone().unwrap_or(Exit::code(0))
    }

    pub(super) fn next_look(&self, now: Instant) -> Option<Instant> {
        let drain = self.is_swept.then_some(now + DRAIN_INTERVAL);
        let parts = self.parts.iter().filter(|part| !part.is_empty).filter_map(|part| match part.leader {
            Leader::Child => None,
            Leader::Adopted => Some(now + ADOPTED_INTERVAL),
            Leader::Gone => Some(now + DRAIN_INTERVAL),
        });
        parts.chain(drain).chain(self.kill_at).min()
    }
}

impl Part {
    fn new(group: Pid, leader: Leader) -> Self {
        Self { group, leader, is_empty: false }
    }

    /// Signals the group, or only checks whether a process exists.
    fn signal(&mut self, signal: Option<Signal>) {
        let is_there = process::signal_group(self.group, signal);
        // A child that has not been waited for is there, whatever the system says of its group.
        self.is_empty = !is_there && !matches!(self.leader, Leader::Child);
    }
}
