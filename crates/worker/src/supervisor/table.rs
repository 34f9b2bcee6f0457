//! The tasks of a supervisor and their states.
//!
//! A task is its process groups: it has ended when all processes in them are gone. What is left when a
//! leader ends of itself is killed; when the task was requested to stop, the rest has the grace period to end, because often the
//! leader is a shell that a signal ends at once while the trainer below it still writes its checkpoint. Who has left the groups is
//! killed last, by the task's cgroup or as the supervisor's adopted child.
//!
//! At most one generation of a job runs at a time: a newer one stops the older and waits for its end.

mod judging;
mod locating;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::unistd::{Pid, getsid};

use super::cgroup::{Cgroups, TaskCgroup};
use super::journal::{Entry, Journal, Place, Recorded};
use super::process::{self, Reaped, Spawned, Spawning};
use super::running::{Rest, Running};
use super::tracked::Task;
use super::trainers::Step;
use super::{files, note, stage, strays};
use crate::supervisor::protocol::{
    Event, Fence, Start, TaskReport, container_mark, has_node_mark, progress_socket, refusal_file,
};
use crate::task::{Exit, TaskKey};
use crate::trainer::{Lease, Pace, Word};

/// What is read of why a stage did not become its task.
const REFUSAL_BYTES_MAX: u64 = 4096;
/// Of how many forgotten jobs the newest generation is remembered.
const REMEMBERED: usize = 100_000;

pub(crate) struct Table {
    state_dir: PathBuf,
    progress_socket: PathBuf,
    session: i32,
    journal: Journal,
    cgroups: Cgroups,
    tasks: BTreeMap<TaskKey, Task>,
    leaders: HashMap<Pid, TaskKey>,
    /// Tasks that time matters to.
    watched: BTreeSet<TaskKey>,
    /// Starts that wait for the end of an older generation, by job.
    deferred: BTreeMap<u32, Start>,
    newest: HashMap<u32, u32>,
    forgotten: VecDeque<TaskKey>,
    events: Vec<Event>,
    /// Tasks whose trainers have to be told something new.
    changed: BTreeSet<TaskKey>,
    /// What has to be free on the disk of the state directory, as the worker said last.
    disk_reserve_bytes: u64,
}

impl Table {
    pub(crate) fn new(state_dir: &Path, journal: Journal, recorded: BTreeMap<TaskKey, Recorded>) -> Self {
        let mut table = Self {
            state_dir: state_dir.to_owned(),
            progress_socket: progress_socket(state_dir),
            session: getsid(None).map_or(0, Pid::as_raw),
            journal,
            cgroups: Cgroups::find(state_dir),
            tasks: BTreeMap::new(),
            leaders: HashMap::new(),
            watched: BTreeSet::new(),
            deferred: BTreeMap::new(),
            newest: HashMap::new(),
            forgotten: VecDeque::new(),
            events: Vec::new(),
            changed: BTreeSet::new(),
            disk_reserve_bytes: 0,
        };
        for (key, recorded) in recorded {
            table.adopt(key, recorded);
        }
        table
    }

    fn adopt(&mut self, key: TaskKey, recorded: Recorded) {
        self.newest.insert(key.job, key.generation);
        let cgroup = self.cgroups.existing(key);
        let running = match &recorded.exit {
            None => {
                self.watched.insert(key);
                let groups: Vec<Pid> =
                    recorded.places.iter().map(|place| Pid::from_raw(place.group)).collect();
                let mut running = Running::adopted(&groups, recorded.stop_settings(), cgroup);
                running.closing = stage::marked(&self.state_dir, key);
                running.is_staged = running.closing.is_some();
                Some(running)
            }
            Some(exit) => {
                self.record(&Entry::End { task: key, exit: exit.clone() });
                if let Some(cgroup) = cgroup {
                    cgroup.kill();
                    cgroup.remove();
                }
                None
            }
        };
        self.tasks.insert(key, Task::new(recorded, running));
    }

    /// What there is to tell the worker since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// What trainers have to be told since the last call.
    pub(crate) fn take_words(&mut self) -> Vec<(TaskKey, Word)> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().filter_map(|key| Some((key, self.tasks.get(&key)?.word()?))).collect()
    }

    pub(crate) fn report(&self) -> Vec<TaskReport> {
        let known = self.tasks.iter().map(|(&task, known)| TaskReport {
            task,
            exit: known.recorded.exit.clone(),
            progress: known.progress.clone(),
            points: known.curves.points(),
            refused: known.curves.refused().clone(),
        });
        let deferred = self.deferred.values().map(|start| TaskReport::new(start.task));
        known.chain(deferred).collect()
    }

    /// Whether there is a process to wait for, or a task to start.
    pub(crate) fn is_idle(&self) -> bool {
        self.deferred.is_empty() && self.tasks.values().all(|task| task.running.is_none())
    }

    pub(crate) fn start(&mut self, start: Start, now: Instant) {
        let key = start.task;
        if let Some(task) = self.tasks.get(&key) {
            // Said again by a head that did not hear it the first time.
            self.events.push(match &task.recorded.exit {
                Some(exit) => Event::Ended { task: key, exit: exit.clone() },
                None => Event::Started { task: key },
            });
            return;
        }
        if let Some(&newest) = self.newest.get(&key.job)
            && newest >= key.generation
        {
            self.events.push(Event::Stale { task: key, newest });
            return;
        }
        self.newest.insert(key.job, key.generation);
        let older = self.running_of(key.job);
        if older.is_empty() {
            self.spawn(start, now);
            return;
        }
        for older in older {
            self.stop(older, now);
        }
        if let Some(replaced) = self.deferred.insert(key.job, start) {
            self.end_unstarted(&replaced, Exit::lost("replaced by a newer generation before it started"));
        }
    }

    fn running_of(&self, job: u32) -> Vec<TaskKey> {
        let all = TaskKey { job, generation: 0 }..=TaskKey { job, generation: u32::MAX };
        self.tasks.range(all).filter(|(_, task)| task.running.is_some()).map(|(&key, _)| key).collect()
    }

    fn spawn(&mut self, start: Start, now: Instant) {
        let task = start.task;
        let (stop_signal, grace_ms) = (start.stop_signal, start.grace_ms);
        if let Some(exit) = &start.refused {
            return self.end_unstarted(&start, exit.clone());
        }
        self.disk_reserve_bytes = start.disk_reserve_bytes;
        if let Some(text) = self.full_disk() {
            return self.end_unstarted(&start, Exit::disk_full(text));
        }
        let login = match process::login(&start) {
            Ok(login) => login,
            Err(exit) => return self.end_unstarted(&start, exit),
        };
        let recorded = Recorded {
            account: Some(process::account(login.as_ref())),
            denied_devices: start.confinement.denied_devices.clone(),
            ..Recorded::new(stop_signal, grace_ms, start.trainer.clone())
        };
        if let Err(error) = self.journal.write(&recorded.to_start(task)) {
            // Not begun what could not be found again.
            return self.end_unstarted(&start, Exit::of_file(&error, "the worker cannot write its journal"));
        }
        let cgroup = self.make_cgroup(&start);
        let Some(step) = start.steps.first() else {
            return self.end_unstarted(&start, Exit::lost("it has no command"));
        };
        let spawning = Spawning {
            state_dir: &self.state_dir,
            start: &start,
            login: login.as_ref(),
            cgroup: cgroup.as_ref(),
        };
        let Spawned { groups, failed } = process::spawn(spawning, step);
        let (is_staged, closing) = (spawning.is_staged(), spawning.closing());
        if let (true, Some(exit)) = (groups.is_empty(), &failed) {
            if let Some(cgroup) = cgroup {
                cgroup.remove();
            }
            return self.end_unstarted(&start, exit.clone());
        }
        if recorded.trainer.lease.until_s.is_some() {
            self.watched.insert(task);
        }
        let rest = (start.steps.len() > 1).then_some(Rest { start, login, next: 1 });
        let mut running = Running::new(&groups, recorded.stop_settings(), cgroup, rest);
        running.is_staged = is_staged;
        running.closing = closing;
        self.tasks.insert(task, Task::new(recorded, Some(running)));
        self.on_spawned(task, groups, failed, now);
        self.events.push(Event::Started { task });
    }

    /// Keeps what a step's processes are.
    fn on_spawned(&mut self, key: TaskKey, groups: Vec<Pid>, failed: Option<Exit>, now: Instant) {
        let session = self.session;
        let numbers: Vec<i32> = groups.iter().map(|group| group.as_raw()).collect();
        self.leaders.extend(groups.into_iter().map(|group| (group, key)));
        if let Some(task) = self.tasks.get_mut(&key) {
            task.recorded.places = numbers.iter().map(|&group| Place { group, session }).collect();
            if let (Some(running), Some(exit)) = (&mut task.running, failed) {
                running.fail(exit, now);
                self.watched.insert(key);
            }
        }
        self.record(&Entry::Spawned { task: key, groups: numbers, session });
    }

    /// Keeps the end of a task that had no process, as of any other.
    fn end_unstarted(&mut self, start: &Start, exit: Exit) {
        let task = start.task;
        let mut recorded = Recorded::new(start.stop_signal, start.grace_ms, start.trainer.clone());
        self.record(&recorded.to_start(task));
        recorded.exit = Some(exit.clone());
        self.record(&Entry::End { task, exit: exit.clone() });
        self.tasks.insert(task, Task::new(recorded, None));
        self.events.push(Event::Ended { task, exit });
    }

    pub(crate) fn stop(&mut self, key: TaskKey, now: Instant) {
        if self.deferred.get(&key.job).is_some_and(|start| start.task == key) {
            if let Some(start) = self.deferred.remove(&key.job) {
                self.end_unstarted(&start, Exit::lost("stopped before it started"));
            }
            return;
        }
        let Some(task) = self.tasks.get_mut(&key) else {
            // The end of a missing task must not be awaited.
            let exit = Exit::lost("unknown to the worker");
            self.events.push(Event::Ended { task: key, exit });
            return;
        };
        if let Some(exit) = &task.recorded.exit {
            self.events.push(Event::Ended { task: key, exit: exit.clone() });
        }
        let Some(running) = &mut task.running else { return };
        running.stop(now);
        self.watched.insert(key);
        self.changed.insert(key);
    }

    pub(crate) fn fence(&self) -> Fence {
        self.journal.fence()
    }

    pub(crate) fn set_fence(&mut self, fence: Fence) {
        if fence != self.fence() {
            self.record(&Entry::Fence(fence));
        }
    }

    /// Stops all tasks, because soon the head runs them elsewhere.
    pub(crate) fn cut_off(&mut self, now: Instant) {
        for start in std::mem::take(&mut self.deferred).into_values() {
            self.end_unstarted(&start, Exit::cut_off());
        }
        let grace = Duration::from_millis(self.fence().grace_ms);
        for (&key, task) in &mut self.tasks {
            let Some(running) = &mut task.running else { continue };
            note(format_args!("{key}: stopped, because the node is cut off from the head"));
            running.stop_within(grace, now);
            task.is_fenced = true;
            self.watched.insert(key);
            self.changed.insert(key);
        }
    }

    /// Takes a new lease; its trainer is told, and the journal has it for the next supervisor.
    pub(crate) fn renew(&mut self, key: TaskKey, lease: Lease) {
        if let Some(start) = self.deferred.get_mut(&key.job).filter(|start| start.task == key) {
            start.trainer.lease = lease;
            return;
        }
        let Some(task) = self.tasks.get_mut(&key).filter(|task| task.running.is_some()) else { return };
        if task.recorded.trainer.lease == lease {
            return;
        }
        task.recorded.trainer.lease = lease;
        self.watched.insert(key);
        self.changed.insert(key);
        self.record(&Entry::Renew { task: key, lease });
    }

    /// Takes a new pace, as a new lease.
    pub(crate) fn set_pace(&mut self, key: TaskKey, pace: Pace) {
        if let Some(start) = self.deferred.get_mut(&key.job).filter(|start| start.task == key) {
            start.trainer.pace = Some(pace);
            return;
        }
        let Some(task) = self.tasks.get_mut(&key).filter(|task| task.running.is_some()) else { return };
        if task.recorded.trainer.pace != Some(pace) {
            task.recorded.trainer.pace = Some(pace);
            self.changed.insert(key);
            self.record(&Entry::Pace { task: key, pace });
        }
    }

    /// Stops a task without grace.
    pub(crate) fn kill(&mut self, key: TaskKey, now: Instant) {
        self.stop(key, now);
        if let Some(running) = self.tasks.get_mut(&key).and_then(|task| task.running.as_mut()) {
            running.hurry(now);
        }
    }

    /// Forgets a task that has ended; the others cannot be.
    pub(crate) fn forget(&mut self, key: TaskKey) {
        if self.tasks.get(&key).is_none_or(|task| task.running.is_some()) {
            return;
        }
        self.tasks.remove(&key);
        self.record(&Entry::Forget { task: key });
        self.forgotten.push_back(key);
        if self.forgotten.len() > REMEMBERED
            && let Some(oldest) = self.forgotten.pop_front()
            && self.newest.get(&oldest.job) == Some(&oldest.generation)
        {
            self.newest.remove(&oldest.job);
        }
        if self.journal.is_long(self.tasks.len()) {
            let tasks = self.tasks.iter().map(|(&key, task)| (key, task.recorded.clone())).collect();
            if let Err(error) = self.journal.compact(&tasks) {
                note(format_args!("cannot compact the journal: {error}"));
            }
        }
    }

    /// Takes what a trainer tells, and gives what it has to know; none if it is no trainer of ours.
    pub(crate) fn on_step(&mut self, step: &Step, now: Instant) -> Option<Word> {
        let key = step.task();
        let task = self.tasks.get_mut(&key)?;
        if task.recorded.trainer.token != step.token {
            return None;
        }
        let word = task.word()?;
        if task.on_step(step, now) {
            self.watched.insert(key);
        }
        Some(word)
    }

    pub(crate) fn on_reaped(&mut self, reaped: Reaped, now: Instant) {
        for (pid, exit) in reaped.ended {
            if let Some(key) = self.leaders.remove(&pid) {
                self.on_leader_gone(key, pid, exit, now);
            }
        }
        if reaped.nameless {
            let gone: Vec<Pid> =
                self.leaders.keys().copied().filter(|leader| !process::exists(*leader)).collect();
            for pid in gone {
                if let Some(key) = self.leaders.remove(&pid) {
                    self.on_leader_gone(key, pid, Exit::lost("a real-time signal ended it"), now);
                }
            }
        }
    }

    fn on_leader_gone(&mut self, key: TaskKey, leader: Pid, exit: Exit, now: Instant) {
        let Some(running) = self.tasks.get_mut(&key).and_then(|task| task.running.as_mut()) else { return };
        let refusal = if running.is_staged && exit.code != 0 { refusal(&self.state_dir, key) } else { None };
        let exit = refusal.map_or(exit.clone(), |error| Exit::unlaunched(exit.code, error));
        running.on_leader_gone(leader, exit, now);
        self.advance(key, now);
    }

    /// Continues to the next step, or to the end, when the present step has ended.
    fn advance(&mut self, key: TaskKey, now: Instant) {
        let Some(task) = self.tasks.get_mut(&key) else { return };
        let has_more = !task.said_stopped;
        let Some(running) = &mut task.running else { return };
        self.watched.insert(key);
        if !running.is_over(now) {
            return;
        }
        let state_dir = &self.state_dir;
        // The cgroup is lent to the step, which borrows the rest of the task.
        let cgroup = running.cgroup.take();
        let next = has_more.then(|| running.next_step()).flatten().map(|(rest, index)| {
            let Rest { start, login, .. } = rest;
            let (login, cgroup) = (login.as_ref(), cgroup.as_ref());
            process::spawn(Spawning { state_dir, start, login, cgroup }, &start.steps[index])
        });
        running.cgroup = cgroup;
        if let Some(Spawned { groups, failed }) = next {
            running.go_on(&groups);
            self.on_spawned(key, groups, failed, now);
            // No process was started: this is the end.
            return self.advance(key, now);
        }
        if let Some(closing) = running.next_closing() {
            match process::spawn_closing(state_dir, &closing) {
                Ok(group) => {
                    running.close(group, now);
                    self.leaders.insert(group, key);
                    return;
                }
                Err(exit) => note(format_args!("{key}: containers are left behind: {}", exit.error)),
            }
        }
        let exit = running.exit();
        if running.is_stuck(now) {
            note(format_args!("{key}: killed processes do not end"));
        } else if self.sweep(key, now) {
            return;
        }
        self.end(key, exit, now);
    }

    /// Kills what has left the task's groups; false if there was nothing.
    fn sweep(&mut self, key: TaskKey, now: Instant) -> bool {
        let Some(running) = self.tasks.get(&key).and_then(|task| task.running.as_ref()) else { return false };
        // Without cgroups the user has to tell, unless a container of the node may be that user's.
        let is_told_by_user = !self.cgroups.is_tracking() && !has_node_mark(&self.state_dir);
        let is_claimed = |uid: u32| {
            if !is_told_by_user {
                return true;
            }
            let is_of_user = |task: &Task| task.recorded.account.is_none_or(|account| account.uid == uid);
            let may_own = |task: &Task| task.running.is_some() && is_of_user(task);
            self.tasks.iter().any(|(&other, task)| other != key && may_own(task))
        };
        let in_cgroup = running.cgroup.as_ref().is_some_and(TaskCgroup::kill);
        let is_found = strays::kill_of(key, &self.leaders, &self.progress_socket, is_claimed) || in_cgroup;
        if let (true, Some(running)) =
            (is_found, self.tasks.get_mut(&key).and_then(|task| task.running.as_mut()))
        {
            running.on_swept(now);
        }
        is_found
    }

    /// Does what time has come for.
    pub(crate) fn tick(&mut self, now: Instant) {
        let watched: Vec<TaskKey> = self.watched.iter().copied().collect();
        for key in watched {
            self.tell_progress(key, now, false);
            self.tick_lease(key, now);
            self.tick_processes(key, now);
            if self.tasks.get(&key).is_none_or(|task| task.next_look(now).is_none()) {
                self.watched.remove(&key);
            }
        }
    }

    /// Stops a task that is still there when its lease's time and its grace are over: its trainer does not know of leases.
    fn tick_lease(&mut self, key: TaskKey, now: Instant) {
        if let Some(task) = self.tasks.get_mut(&key)
            && task.overstay_left() == Some(Duration::ZERO)
        {
            note(format_args!("{key}: stopped, because its lease has expired"));
            task.overstayed = true;
            self.stop(key, now);
        }
    }

    fn tick_processes(&mut self, key: TaskKey, now: Instant) {
        let Some(running) = self.tasks.get_mut(&key).and_then(|task| task.running.as_mut()) else { return };
        running.tick(now);
        self.advance(key, now);
    }

    fn tell_progress(&mut self, key: TaskKey, now: Instant, at_once: bool) {
        let Some(task) = self.tasks.get_mut(&key) else { return };
        if let Some(progress) = task.take_progress(now, at_once) {
            let (points, refused) = (task.curves.take_fresh(), task.curves.refused().clone());
            self.events.push(Event::Progress { task: key, progress, points, refused });
        }
    }

    fn end(&mut self, key: TaskKey, exit: Exit, now: Instant) {
        self.tell_progress(key, now, true);
        let exit = self.tasks.get(&key).map_or(exit.clone(), |task| task.judged(exit));
        let exit = self.disk_judged(self.memory_judged(key, exit));
        self.clear(key);
        self.record(&Entry::End { task: key, exit: exit.clone() });
        if let Some(task) = self.tasks.get_mut(&key) {
            task.running = None;
            task.recorded.exit = Some(exit.clone());
        }
        self.events.push(Event::Ended { task: key, exit });
        if self.deferred.contains_key(&key.job)
            && self.running_of(key.job).is_empty()
            && let Some(start) = self.deferred.remove(&key.job)
        {
            self.spawn(start, now);
        }
    }

    /// Takes away what a task had beside its processes.
    fn clear(&mut self, key: TaskKey) {
        let Some(running) = self.tasks.get_mut(&key).and_then(|task| task.running.as_mut()) else { return };
        if let Some(cgroup) = running.cgroup.take() {
            if cgroup.was_out_of_memory() {
                let line = "wharf: out of memory: processes were killed at the task's limit";
                if let Err(error) = files::add_line(&self.state_dir, key, line) {
                    note(format_args!(
                        "{key}: out of memory; cannot write that to the task's output: {error}"
                    ));
                }
            }
            cgroup.remove();
        }
        if running.is_staged {
            // It is there only where the task had containers that could outlive it.
            let _ = std::fs::remove_file(container_mark(&self.state_dir, key));
            // It is not there where the stage never ran.
            let _ = std::fs::remove_file(refusal_file(&self.state_dir, key));
        }
    }

    /// Takes away what the supervisor itself has made.
    pub(crate) fn close(&self) {
        self.cgroups.remove();
    }

    /// When something has to be checked, if ever.
    pub(crate) fn next_look(&self, now: Instant) -> Option<Instant> {
        self.watched.iter().filter_map(|key| self.tasks.get(key)?.next_look(now)).min()
    }

    /// Writes what has happened already, which cannot be undone if the journal fails.
    fn record(&mut self, entry: &Entry) {
        if let Err(error) = self.journal.write(entry) {
            note(format_args!("cannot write {entry:?} to the journal: {error}"));
        }
    }
}

/// Why a task's stage did not become the task, if it said so.
fn refusal(state_dir: &Path, task: TaskKey) -> Option<String> {
    // The process that reports may be the user's own: it cannot make the supervisor read without end.
    let mut text = Vec::new();
    File::open(refusal_file(state_dir, task)).ok()?.take(REFUSAL_BYTES_MAX).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().next().filter(|line| !line.is_empty()).map(String::from)
}
