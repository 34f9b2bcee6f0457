//! Waiting jobs: for each user one queue per gang.

use std::collections::{BTreeMap, BTreeSet};

use wharf_core::{Gang, JobId};

use crate::priority::Key;
use crate::priority::classes::Gangs;

/// All waiting jobs.
#[derive(Debug, Default)]
pub(super) struct Queues {
    gangs: Gangs,
    classes: Vec<Class>,
    /// For each user, by class.
    users: Vec<BTreeMap<usize, BTreeSet<(Key, JobId)>>>,
    places: Vec<Option<Place>>,
    /// Classes with waiting jobs that may fit.
    open: usize,
}

/// Jobs with equal gangs, of all users.
#[derive(Debug, Default)]
struct Class {
    waiting: u32,
    /// It does not fit in this decision.
    is_blocked: bool,
}

/// Where a waiting job is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) user: usize,
    pub(super) class: usize,
    key: Key,
}

impl Queues {
    /// Puts a job among the waiting ones, or to another place among them.
    pub(super) fn wait(&mut self, job: JobId, user: usize, gang: &Gang, key: Key) {
        self.remove(job);
        let class = self.gangs.index(gang);
        if class == self.classes.len() {
            self.classes.push(Class::default());
        }
        if self.users.len() <= user {
            self.users.resize_with(user + 1, BTreeMap::new);
        }
        self.users[user].entry(class).or_default().insert((key, job));
        self.count(class, 1);
        if self.places.len() <= job.index() {
            self.places.resize(job.index() + 1, None);
        }
        self.places[job.index()] = Some(Place { user, class, key });
    }

    /// Takes a job out; returns whose it was where that user has no other.
    pub(super) fn remove(&mut self, job: JobId) -> Option<usize> {
        let Place { user, class, key } = self.places.get_mut(job.index())?.take()?;
        let queue = self.users[user].get_mut(&class)?;
        queue.remove(&(key, job));
        if queue.is_empty() {
            self.users[user].remove(&class);
        }
        self.count(class, -1);
        self.users[user].is_empty().then_some(user)
    }

    fn count(&mut self, class: usize, by: i32) {
        let class = &mut self.classes[class];
        let was_open = class.waiting > 0 && !class.is_blocked;
        class.waiting = class.waiting.saturating_add_signed(by);
        let is_open = class.waiting > 0 && !class.is_blocked;
        self.open = self.open + usize::from(is_open) - usize::from(was_open);
    }

    pub(super) fn place(&self, job: JobId) -> Option<Place> {
        self.places.get(job.index()).copied().flatten()
    }

    pub(super) fn has_waiting(&self, user: usize) -> bool {
        self.users.get(user).is_some_and(|queues| !queues.is_empty())
    }

    /// Whether any job waits that may fit.
    pub(super) fn has_open(&self) -> bool {
        self.open > 0
    }

    /// Whether any job waits.
    pub(super) fn has_any(&self) -> bool {
        self.classes.iter().any(|class| class.waiting > 0)
    }

    /// A user's first job of those that may fit, but for these few.
    pub(super) fn first_open(&self, user: usize, but: impl Fn(JobId) -> bool) -> Option<(usize, JobId)> {
        let open = self.users.get(user)?.iter().filter(|&(&class, _)| !self.classes[class].is_blocked);
        let first = |queue: &BTreeSet<(Key, JobId)>| queue.iter().copied().find(|&(_, job)| !but(job));
        let heads = open.filter_map(|(&class, queue)| first(queue).map(|(key, job)| (key, job, class)));
        heads.min().map(|(_, job, class)| (class, job))
    }

    pub(super) fn block(&mut self, class: usize) {
        let class = &mut self.classes[class];
        if !class.is_blocked {
            class.is_blocked = true;
            self.open -= usize::from(class.waiting > 0);
        }
    }

    pub(super) fn unblock(&mut self) {
        for class in &mut self.classes {
            class.is_blocked = false;
        }
        self.open = self.classes.iter().filter(|class| class.waiting > 0).count();
    }

    /// The first job of the same user and class and how many go before this one; `None` where it is the first.
    pub(super) fn ahead(&self, job: JobId) -> Option<(JobId, u32)> {
        let Place { user, class, key } = self.place(job)?;
        let queue = self.users[user].get(&class)?;
        let &(_, first) = queue.first()?;
        (first != job).then(|| (first, queue.range(..(key, job)).count() as u32))
    }

    /// The first jobs of a class, one for each user that has any.
    pub(super) fn heads(&self, class: usize) -> impl Iterator<Item = (usize, JobId)> {
        let queues = self.users.iter().enumerate();
        queues.filter_map(move |(user, queues)| Some((user, queues.get(&class)?.first()?.1)))
    }
}
