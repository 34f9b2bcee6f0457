//! The tasks of a keeper and what becomes of them.
//!
//! A task is its process group: it has ended when its leader and everybody else in the group are gone. What is left when the
//! leader ends of itself is killed; when the task was told to stop, the rest has the grace period to end, because often the
//! leader is a shell that a signal ends at once while the trainer below it still writes its checkpoint.
//!
//! At most one generation of a job runs at a time: a newer one stops the older and waits for its end.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::Signal;
use nix::unistd::{Pid, getsid};

use super::journal::{Entry, Journal, Place, Recorded};
use super::note;
use super::process::{self, Reaped};
use super::trainers::Step;
use crate::protocol::{Event, Progress, Start, TaskReport};
use crate::task::{Exit, TaskKey};
use crate::trainer::{Lease, Trainer, Word};

/// Progress of one task is told at most this often.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// How often a group without a leader is looked at.
const DRAIN_INTERVAL: Duration = Duration::from_millis(20);
/// How often a task of an earlier keeper is looked at.
const ADOPTED_INTERVAL: Duration = Duration::from_millis(200);
/// After this long a process that was killed hangs in the kernel, and waiting for it helps nobody.
const KILL_PATIENCE: Duration = Duration::from_secs(10);
/// The machine's clock may be set while a lease runs, so its end is looked at again after this long.
const LEASE_LOOK_MAX: Duration = Duration::from_secs(60);
/// Of how many forgotten jobs the newest generation is remembered.
const REMEMBERED: usize = 100_000;

struct Task {
    recorded: Recorded,
    /// None when it has ended: then `recorded` has its exit.
    running: Option<Running>,
    progress: Option<Progress>,
    progress_due: Option<Instant>,
    progress_told: Option<Instant>,
    /// Its trainer said that it ends because it has to, and has more to do.
    said_stopped: bool,
    /// It was stopped because its lease was over.
    overstayed: bool,
}

struct Running {
    group: Pid,
    leader: Leader,
    /// It was told to stop, and is killed then.
    kill_at: Option<Instant>,
    killed_at: Option<Instant>,
}

enum Leader {
    Child,
    /// Child of an earlier keeper: its end is seen only by its absence.
    Adopted,
    Gone(Exit),
}

pub(crate) struct Table {
    state_dir: PathBuf,
    session: i32,
    journal: Journal,
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
}

impl Table {
    pub(crate) fn new(state_dir: &Path, journal: Journal, recorded: BTreeMap<TaskKey, Recorded>) -> Self {
        let mut table = Self {
            state_dir: state_dir.to_owned(),
            session: getsid(None).map_or(0, Pid::as_raw),
            journal,
            tasks: BTreeMap::new(),
            leaders: HashMap::new(),
            watched: BTreeSet::new(),
            deferred: BTreeMap::new(),
            newest: HashMap::new(),
            forgotten: VecDeque::new(),
            events: Vec::new(),
            changed: BTreeSet::new(),
        };
        for (key, recorded) in recorded {
            table.adopt(key, recorded);
        }
        table
    }

    fn adopt(&mut self, key: TaskKey, recorded: Recorded) {
        self.newest.insert(key.job, key.generation);
        let running = match (&recorded.exit, recorded.place) {
            (None, Some(place)) => {
                self.watched.insert(key);
                let group = Pid::from_raw(place.group);
                Some(Running { group, leader: Leader::Adopted, kill_at: None, killed_at: None })
            }
            (Some(exit), _) => {
                self.record(&Entry::End { task: key, exit: exit.clone() });
                None
            }
            (None, None) => None,
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
        });
        let deferred =
            self.deferred.values().map(|start| TaskReport { task: start.task, exit: None, progress: None });
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
            self.spawn(&start);
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

    fn spawn(&mut self, start: &Start) {
        let task = start.task;
        let (stop_signal, grace_ms) = (start.stop_signal, start.grace_ms);
        if let Some(reason) = &start.refused {
            return self.end_unstarted(start, Exit::refused(reason.clone()));
        }
        let trainer = start.trainer.clone();
        if let Err(error) = self.journal.write(&Entry::Start { task, stop_signal, grace_ms, trainer }) {
            // Not begun what could not be found again.
            return self
                .end_unstarted(start, Exit::lost(format!("the worker cannot keep its journal: {error}")));
        }
        match process::spawn(&self.state_dir, start) {
            Err(exit) => self.end_unstarted(start, exit),
            Ok(group) => {
                let place = Place { group: group.as_raw(), session: self.session };
                self.record(&Entry::Spawned { task, group: place.group, session: place.session });
                self.leaders.insert(group, task);
                let running = Running { group, leader: Leader::Child, kill_at: None, killed_at: None };
                let trainer = start.trainer.clone();
                let recorded = Recorded { stop_signal, grace_ms, trainer, place: Some(place), exit: None };
                self.tasks.insert(task, Task::new(recorded, Some(running)));
                if start.trainer.lease.until_s.is_some() {
                    self.watched.insert(task);
                }
                self.events.push(Event::Started { task });
            }
        }
    }

    /// Keeps the end of a task that had no process, as of any other.
    fn end_unstarted(&mut self, start: &Start, exit: Exit) {
        let task = start.task;
        let (stop_signal, grace_ms) = (start.stop_signal, start.grace_ms);
        let recorded = Recorded {
            stop_signal,
            grace_ms,
            trainer: start.trainer.clone(),
            place: None,
            exit: Some(exit.clone()),
        };
        self.record(&Entry::Start { task, stop_signal, grace_ms, trainer: start.trainer.clone() });
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
            // Nobody may wait for the end of what is not there.
            let exit = Exit::lost("the worker does not know it");
            self.events.push(Event::Ended { task: key, exit });
            return;
        };
        if let Some(exit) = &task.recorded.exit {
            self.events.push(Event::Ended { task: key, exit: exit.clone() });
        }
        let Some(running) = &mut task.running else { return };
        if running.kill_at.is_none() && running.killed_at.is_none() {
            process::signal_group(running.group, Some(process::stop_signal(task.recorded.stop_signal)));
            running.kill_at = Some(now + Duration::from_millis(task.recorded.grace_ms));
            self.watched.insert(key);
            self.changed.insert(key);
        }
    }

    /// Takes a new lease; its trainer is told, and the journal has it for the next keeper.
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
        task.said_stopped |= step.stopped;
        if let Some(progress) = step.progress(task.progress.as_ref()) {
            task.progress = Some(progress);
            if task.progress_due.is_none() {
                let told = task.progress_told.map_or(now, |told| told + PROGRESS_INTERVAL);
                task.progress_due = Some(told.max(now));
                self.watched.insert(key);
            }
        }
        Some(word)
    }

    pub(crate) fn on_reaped(&mut self, reaped: Reaped, now: Instant) {
        for (pid, exit) in reaped.ended {
            if let Some(key) = self.leaders.remove(&pid) {
                self.on_leader_gone(key, exit, now);
            }
        }
        if reaped.nameless {
            let gone: Vec<Pid> =
                self.leaders.keys().copied().filter(|leader| !process::exists(*leader)).collect();
            for pid in gone {
                if let Some(key) = self.leaders.remove(&pid) {
                    self.on_leader_gone(key, Exit::lost("a real-time signal ended it"), now);
                }
            }
        }
    }

    fn on_leader_gone(&mut self, key: TaskKey, exit: Exit, now: Instant) {
        let Some(running) = self.tasks.get_mut(&key).and_then(|task| task.running.as_mut()) else { return };
        let signal = if running.kill_at.is_some() { None } else { Some(Signal::SIGKILL) };
        if !process::signal_group(running.group, signal) {
            self.end(key, exit, now);
            return;
        }
        if signal.is_some() {
            running.killed_at.get_or_insert(now);
        }
        running.leader = Leader::Gone(exit);
        self.watched.insert(key);
    }

    /// Does what time has come for.
    pub(crate) fn tick(&mut self, now: Instant) {
        let watched: Vec<TaskKey> = self.watched.iter().copied().collect();
        for key in watched {
            self.tell_progress(key, now, false);
            self.tick_lease(key, now);
            self.tick_group(key, now);
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
            note(format_args!("{key}: stopped, because its lease is over"));
            task.overstayed = true;
            self.stop(key, now);
        }
    }

    fn tick_group(&mut self, key: TaskKey, now: Instant) {
        let Some(running) = self.tasks.get_mut(&key).and_then(|task| task.running.as_mut()) else { return };
        if running.kill_at.is_some_and(|at| at <= now) {
            process::signal_group(running.group, Some(Signal::SIGKILL));
            running.kill_at = None;
            running.killed_at = Some(now);
        }
        let stuck = running.killed_at.is_some_and(|at| now - at > KILL_PATIENCE);
        let exit = match &running.leader {
            Leader::Child => return,
            Leader::Adopted => Exit::lost("its keeper died before it ended: the exit code is not known"),
            Leader::Gone(exit) => exit.clone(),
        };
        if stuck {
            note(format_args!("{key}: killed processes of group {} do not end", running.group));
        }
        if stuck || !process::signal_group(running.group, None) {
            self.end(key, exit, now);
        }
    }

    fn tell_progress(&mut self, key: TaskKey, now: Instant, at_once: bool) {
        let Some(task) = self.tasks.get_mut(&key) else { return };
        if let Some(due) = task.progress_due
            && (at_once || due <= now)
            && let Some(progress) = task.progress.clone()
        {
            task.progress_due = None;
            task.progress_told = Some(now);
            self.events.push(Event::Progress { task: key, progress });
        }
    }

    fn end(&mut self, key: TaskKey, mut exit: Exit, now: Instant) {
        self.tell_progress(key, now, true);
        exit.interrupted = self
            .tasks
            .get(&key)
            .is_some_and(|task| task.overstayed || (task.said_stopped && exit == Exit::code(0)));
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
            self.spawn(&start);
        }
    }

    /// When something has to be looked at, if ever.
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

impl Task {
    fn new(recorded: Recorded, running: Option<Running>) -> Self {
        Self {
            recorded,
            running,
            progress: None,
            progress_due: None,
            progress_told: None,
            said_stopped: false,
            overstayed: false,
        }
    }

    /// What its trainer has to know; none when it has ended.
    fn word(&self) -> Option<Word> {
        let running = self.running.as_ref()?;
        let stop = running.kill_at.is_some() || running.killed_at.is_some();
        let Trainer { token, lease } = self.recorded.trainer.clone();
        Some(Word { token, lease, stop })
    }

    /// How long until it has overstayed its lease by its grace; none if that cannot be or it was told to stop anyway.
    fn overstay_left(&self) -> Option<Duration> {
        let word = self.word().filter(|word| !word.stop)?;
        let grace = Duration::from_millis(self.recorded.grace_ms);
        // The grace is taken from the clock, not added to the lease, so that zero means that it is over.
        word.lease.time_left(SystemTime::now().checked_sub(grace)?)
    }

    fn next_look(&self, now: Instant) -> Option<Instant> {
        let running = self.running.as_ref();
        let group = running.and_then(|running| match running.leader {
            Leader::Child => running.kill_at,
            Leader::Adopted => Some(now + ADOPTED_INTERVAL),
            Leader::Gone(_) => Some(now + DRAIN_INTERVAL),
        });
        let lease = self.overstay_left().map(|left| now + left.min(LEASE_LOOK_MAX));
        let kill = running.and_then(|running| running.kill_at);
        [group, kill, self.progress_due, lease].into_iter().flatten().min()
    }
}
