//! Waiting and running jobs, by gang, in order.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, btree_set};
use std::sync::Arc;

use wharf_core::{Gang, JobId, Needs, Time};

use super::rank::{Key, TOLERANCE_S};

/// All jobs that are not over, by class.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    classes: Vec<Class>,
    gangs: Gangs,
    places: Vec<Place>,
}

/// Gangs by number: equal ones have the same.
#[derive(Debug, Default)]
pub(crate) struct Gangs {
    known: Vec<Gang>,
    by_gang: BTreeMap<GangKey, usize>,
}

impl Gangs {
    /// The number of a gang; the next one where it is new.
    pub(crate) fn index(&mut self, gang: &Gang) -> usize {
        // Most traces have a handful of gangs: a look at them beats a search.
        if let Some(index) = self.known.iter().take(8).position(|known| known == gang) {
            return index;
        }
        let key = (
            gang.devices,
            gang.devices_min,
            gang.devices_max,
            gang.device_types.to_vec(),
            gang.needs.clone(),
        );
        let next = self.known.len();
        let index = *self.by_gang.entry(key).or_insert(next);
        if index == next {
            self.known.push(gang.clone());
        }
        index
    }
}

/// Jobs with equal gangs.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) gang: Gang,
    pub(crate) waiting: BTreeSet<(Key, JobId)>,
    /// Sorted by the key less its slope times the time: that order does not change while time passes.
    pub(crate) running: BTreeSet<(Key, JobId)>,
    pub(crate) slope: f64,
    /// The first job does not fit in this decision.
    is_blocked: bool,
    /// The first job for which victims were searched for everywhere.
    tried: Option<JobId>,
}

/// Gangs are equal where their bounds, types and needs are.
type GangKey = (u32, u32, u32, Vec<Arc<str>>, Option<Arc<Needs>>);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Place {
    #[default]
    Nowhere,
    Waiting(usize, Key),
    Running(usize, Key),
}

impl Classes {
    /// Puts a job among the waiting ones, or to another place among them.
    pub(crate) fn wait(&mut self, job: JobId, gang: &Gang, key: Key) {
        self.remove(job);
        let class = self.class(gang);
        self.classes[class].waiting.insert((key, job));
        self.set(job, Place::Waiting(class, key));
    }

    /// Puts a job among the running ones, or to another place among them.
    pub(crate) fn run(&mut self, job: JobId, gang: &Gang, base: Key, slope: f64) {
        self.remove(job);
        let class = self.class(gang);
        self.classes[class].slope = slope;
        self.classes[class].running.insert((base, job));
        self.set(job, Place::Running(class, base));
    }

    /// Takes a job out.
    pub(crate) fn remove(&mut self, job: JobId) {
        match self.place(job) {
            Place::Nowhere => return,
            Place::Waiting(class, key) => {
                let class = &mut self.classes[class];
                // Should it wait again, it is not where it was.
                class.tried = class.tried.filter(|&tried| tried != job);
                class.waiting.remove(&(key, job))
            }
            Place::Running(class, base) => self.classes[class].running.remove(&(base, job)),
        };
        self.set(job, Place::Nowhere);
    }

    /// The first waiting job of all classes that are not blocked.
    pub(crate) fn first_open(&self) -> Option<(usize, JobId)> {
        let open = self.classes.iter().enumerate().filter(|(_, class)| !class.is_blocked);
        let heads =
            open.filter_map(|(index, class)| class.waiting.first().map(|&(key, job)| (key, job, index)));
        heads.min().map(|(_, job, class)| (class, job))
    }

    /// The first waiting job of all.
    pub(crate) fn first(&self) -> Option<JobId> {
        self.first_of(|_| true)
    }

    /// The first waiting job of those whose gangs are meant.
    pub(crate) fn first_of(&self, is_meant: impl Fn(&Gang) -> bool) -> Option<JobId> {
        let meant = self.classes.iter().filter(|class| is_meant(&class.gang));
        meant.filter_map(|class| class.waiting.first()).min().map(|&(_, job)| job)
    }

    pub(crate) fn has_waiting(&self) -> bool {
        self.classes.iter().any(|class| !class.waiting.is_empty())
    }

    pub(crate) fn block(&mut self, class: usize) {
        self.classes[class].is_blocked = true;
    }

    pub(crate) fn block_class_of(&mut self, job: JobId) {
        if let Place::Waiting(class, _) = self.place(job) {
            self.block(class);
        }
    }

    pub(crate) fn unblock(&mut self) {
        for class in &mut self.classes {
            class.is_blocked = false;
        }
    }

    /// Notes that victims are searched for on behalf of this job; returns whether it is the first time.
    pub(crate) fn mark_tried(&mut self, class: usize, job: JobId) -> bool {
        self.classes[class].tried.replace(job) != Some(job)
    }

    pub(crate) fn forget_tried(&mut self) {
        for class in &mut self.classes {
            class.tried = None;
        }
    }

    pub(crate) fn get(&self, class: usize) -> &Class {
        &self.classes[class]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Class> {
        self.classes.iter()
    }

    /// A running job's key now.
    pub(crate) fn running_key(&self, job: JobId, now: Time) -> Option<Key> {
        match self.place(job) {
            Place::Running(class, base) => Some(self.classes[class].key_at(base, now)),
            _ => None,
        }
    }

    /// A waiting job's key.
    pub(crate) fn waiting_key(&self, job: JobId) -> Option<Key> {
        match self.place(job) {
            Place::Waiting(_, key) => Some(key),
            _ => None,
        }
    }

    /// The first job of the same class and how many go before this one; `None` where it is the first.
    pub(crate) fn ahead(&self, job: JobId) -> Option<(JobId, u32)> {
        let Place::Waiting(class, key) = self.place(job) else { return None };
        let waiting = &self.classes[class].waiting;
        let &(_, first) = waiting.first()?;
        let ahead = waiting.range(..(key, job)).count() as u32;
        (first != job).then_some((first, ahead))
    }

    /// The first waiting jobs of all classes, at most so many, with their classes.
    pub(crate) fn in_order(&self, count: usize) -> Vec<(usize, JobId)> {
        let mut waiting: Vec<_> = self.classes.iter().map(|class| class.waiting.iter()).collect();
        let first = |(class, jobs): (usize, &mut btree_set::Iter<'_, (Key, JobId)>)| {
            jobs.next().map(|&(key, job)| Reverse((key, job, class)))
        };
        let mut heads: BinaryHeap<_> = waiting.iter_mut().enumerate().filter_map(first).collect();
        let next = || {
            let mut head = heads.peek_mut()?;
            let Reverse((_, job, class)) = *head;
            match waiting[class].next() {
                Some(&(key, next)) => *head = Reverse((key, next, class)),
                None => drop(PeekMut::pop(head)),
            }
            Some((class, job))
        };
        std::iter::from_fn(next).take(count).collect()
    }

    /// All waiting jobs, taken out.
    pub(crate) fn take_waiting(&mut self) -> Vec<JobId> {
        let jobs: Vec<JobId> =
            self.classes.iter().flat_map(|class| class.waiting.iter().map(|&(_, job)| job)).collect();
        for &job in &jobs {
            self.remove(job);
        }
        jobs
    }

    /// All waiting jobs, class by class in order.
    pub(crate) fn waiting_jobs(&self) -> impl Iterator<Item = JobId> {
        self.classes.iter().flat_map(|class| class.waiting.iter().map(|&(_, job)| job))
    }

    /// All running jobs.
    pub(crate) fn running_jobs(&self) -> Vec<JobId> {
        self.classes.iter().flat_map(|class| class.running.iter().map(|&(_, job)| job)).collect()
    }

    fn class(&mut self, gang: &Gang) -> usize {
        let index = self.gangs.index(gang);
        if index == self.classes.len() {
            self.classes.push(Class {
                gang: gang.clone(),
                waiting: BTreeSet::new(),
                running: BTreeSet::new(),
                slope: 0.0,
                is_blocked: false,
                tried: None,
            });
        }
        index
    }

    fn place(&self, job: JobId) -> Place {
        self.places.get(job.index()).copied().unwrap_or_default()
    }

    fn set(&mut self, job: JobId, place: Place) {
        if self.places.len() <= job.index() {
            self.places.resize(job.index() + 1, Place::Nowhere);
        }
        self.places[job.index()] = place;
    }
}

impl Class {
    /// A running job's key now, from its base.
    pub(crate) fn key_at(&self, base: Key, now: Time) -> Key {
        base.moved(self.slope * now.seconds())
    }

    /// When the value of a running job next reaches a threshold after `from`. Of the jobs that have not reached it then, that is
    /// the last one in order.
    pub(crate) fn next_crossing(&self, threshold: f64, from: Time) -> Option<Time> {
        if self.slope <= 0.0 {
            return None;
        }
        let base = threshold - TOLERANCE_S - self.slope * from.seconds();
        let &(key, _) = self.running.range(..(Key::of(base), JobId(0))).next_back()?;
        Some(Time::from_seconds((threshold - key.exact) / self.slope))
    }
}
