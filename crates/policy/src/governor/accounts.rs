//! All accounts, and the queues of those who wait for them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wharf_core::{Gang, JobId, JobSpec, Reason, Time, View};

use super::ledger::{Full, Ledger, Turn};
use super::limits::{Limits, user_of};

/// Jobs of one user in one pool with the same device types: they count in the same accounts, so they go in order.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) ledgers: Vec<usize>,
    pub(crate) jobs: BTreeSet<Turn>,
}

/// Whose jobs they are, where they go and which types they may use.
type QueueKey = (Arc<str>, Option<Arc<str>>, Arc<[Arc<str>]>);

/// Who has what, and who waits for more.
///
/// An account that gives something back opens the queues that wait for it, and only these are checked: the cost follows
/// what changed, not how many wait.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    pub(crate) ledgers: Vec<Ledger>,
    by_owner: BTreeMap<Arc<str>, usize>,
    pub(crate) queues: Vec<Queue>,
    by_key: BTreeMap<QueueKey, usize>,
    /// Queues whose first job has to be checked.
    open: BTreeSet<usize>,
    /// When to check GPU-hours again.
    alarms: BTreeSet<(Time, usize)>,
}

impl Accounts {
    /// The queue that a job belongs to.
    pub(crate) fn queue(&mut self, limits: &Limits, now: Time, spec: &JobSpec) -> usize {
        let key = (user_of(spec), spec.gang.pool().cloned(), spec.gang.device_types.clone());
        if let Some(&queue) = self.by_key.get(&key) {
            return queue;
        }
        let mut ledgers = Vec::new();
        for (whose, caps) in limits.owners(&key.0, key.1.as_deref()) {
            let next = self.ledgers.len();
            let ledger = *self.by_owner.entry(whose.clone()).or_insert(next);
            if ledger == next {
                self.ledgers.push(Ledger::new(whose, caps.clone(), now));
            }
            ledgers.push(ledger);
        }
        self.queues.push(Queue { ledgers, jobs: BTreeSet::new() });
        let queue = self.queues.len() - 1;
        self.by_key.insert(key, queue);
        queue
    }

    /// Puts a job behind those that go first.
    pub(crate) fn wait(&mut self, queue: usize, turn: Turn) {
        self.queues[queue].jobs.insert(turn);
        if self.queues[queue].jobs.first() == Some(&turn) {
            self.open.insert(queue);
        }
    }

    /// Takes a job out of its queue.
    pub(crate) fn leave(&mut self, queue: usize, turn: Turn) {
        self.queues[queue].jobs.remove(&turn);
        self.open.insert(queue);
        for ledger in self.queues[queue].ledgers.clone() {
            if self.ledgers[ledger].claims.values().any(|&first| first == turn) {
                self.open_all(ledger);
            }
        }
    }

    /// Something of an account was given back.
    fn open_all(&mut self, ledger: usize) {
        let ledger = &mut self.ledgers[ledger];
        ledger.claims.clear();
        self.open.append(&mut ledger.blocked);
    }

    /// Counts a job as admitted.
    pub(crate) fn take(&mut self, queue: usize, job: JobId, gang: &Gang) {
        for &ledger in &self.queues[queue].ledgers {
            self.ledgers[ledger].take(job, gang);
        }
    }

    /// Counts a job no more.
    pub(crate) fn give_back(&mut self, now: Time, queue: usize, job: JobId, gang: &Gang) {
        for ledger in self.queues[queue].ledgers.clone() {
            self.ledgers[ledger].give_back(now, job, gang);
            self.open_all(ledger);
            self.set_alarm(now, ledger);
        }
    }

    /// A job has these devices from now on, or none.
    pub(crate) fn place(&mut self, now: Time, queue: usize, job: JobId, devices: Option<u32>) {
        for ledger in self.queues[queue].ledgers.clone() {
            if self.ledgers[ledger].hours.is_some() {
                match devices {
                    Some(devices) => self.ledgers[ledger].place(now, job, devices),
                    None => self.ledgers[ledger].unplace(now, job),
                }
                self.set_alarm(now, ledger);
            }
        }
    }

    pub(crate) fn set_alarm(&mut self, now: Time, index: usize) {
        let ledger = &mut self.ledgers[index];
        let Some(hours) = &ledger.hours else { return };
        let alarm = hours.look_at(now);
        if let Some(before) = std::mem::replace(&mut ledger.alarm, alarm) {
            self.alarms.remove(&(before, index));
        }
        self.alarms.extend(alarm.map(|at| (at, index)));
    }

    pub(crate) fn next_alarm(&self) -> Option<Time> {
        self.alarms.first().map(|&(at, _)| at)
    }

    /// The next account whose hours have to be checked, with the outcome of it: whether they are used up now.
    pub(crate) fn due(&mut self, now: Time) -> Option<usize> {
        let &(at, index) = self.alarms.first()?;
        if at > now {
            return None;
        }
        self.check_hours(now, index);
        Some(index)
    }

    /// Finds out whether an account's hours are used up.
    pub(crate) fn check_hours(&mut self, now: Time, index: usize) {
        let ledger = &mut self.ledgers[index];
        let Some(hours) = &mut ledger.hours else { return };
        if hours.look(now) && !hours.is_spent() {
            self.open_all(index);
        }
        self.set_alarm(now, index);
    }

    /// Admits jobs in order, and returns the admitted ones.
    pub(crate) fn admit(&mut self, view: &View<'_>, mut admitted: impl FnMut(JobId)) {
        let mut heads: BTreeSet<(Turn, usize)> = std::mem::take(&mut self.open)
            .into_iter()
            .filter_map(|queue| Some((*self.queues[queue].jobs.first()?, queue)))
            .collect();
        while let Some((turn, queue)) = heads.pop_first() {
            let gang = &view.spec(turn.1).gang;
            match self.full(view.now, queue, turn, gang) {
                None => {
                    self.queues[queue].jobs.remove(&turn);
                    self.take(queue, turn.1, gang);
                    admitted(turn.1);
                    heads.extend(self.queues[queue].jobs.first().map(|&next| (next, queue)));
                }
                Some((ledger, full)) => {
                    let ledger = &mut self.ledgers[ledger];
                    ledger.blocked.insert(queue);
                    if let Full::Over(dimension, _) = full {
                        let first = ledger.claims.entry(dimension).or_insert(turn);
                        *first = turn.min(*first);
                    }
                }
            }
        }
    }

    fn full(&self, now: Time, queue: usize, turn: Turn, gang: &Gang) -> Option<(usize, Full)> {
        let ledgers = self.queues[queue].ledgers.iter();
        ledgers.copied().find_map(|ledger| Some((ledger, self.ledgers[ledger].full(now, turn, gang)?)))
    }

    /// Why a job is not admitted.
    pub(crate) fn explain(&self, view: &View<'_>, queue: usize, job: JobId) -> Reason {
        let turn = turn(view, job);
        let jobs = &self.queues[queue].jobs;
        if let Some(&(_, first)) = jobs.first().filter(|&&first| first < turn) {
            return Reason::QuotaBehind { first, ahead: jobs.range(..turn).count() as u32 };
        }
        match self.full(view.now, queue, turn, &view.spec(job).gang) {
            Some((_, Full::Over(_, quota))) => Reason::Quota(quota),
            Some((_, Full::Claimed(first))) => Reason::QuotaBehind { first, ahead: 1 },
            // It was admitted by this event, and is decided about next.
            None => Reason::NextRound { at: view.now },
        }
    }
}

/// A job's place in the order of admission.
pub(crate) fn turn(view: &View<'_>, job: JobId) -> Turn {
    (Reverse(view.spec(job).priority), job)
}
