//! Which jobs Muri considers at an event, in which order.
//!
//! The published code keeps one list, which each event sorts by priority and then by gang size. Equal priorities are thus
//! ordered by size and within a size by the past, except that a new job comes last once. One list per gang size, kept
//! in order, says the same; only jobs that ran have moved.

use super::cluster::Filling;
use super::tiresias::Demotion;
use super::tracker::Tracker;
use super::workload::Workload;

/// A job with its priority; smaller is sooner.
pub(super) type Entry = (f64, u32);

/// Waiting and running jobs by gang size.
#[derive(Debug)]
pub(super) struct Candidates<'a> {
    sizes: &'a [u32],
    /// Per gang size, in order.
    pub lists: Vec<Vec<Entry>>,
    /// Per gang size: how many were chosen at the last event. All that runs is among them.
    pub chosen: Vec<usize>,
    /// Per gang size: how many gangs of devices were found.
    pub slots: Vec<usize>,
    /// Gang sizes by their first job.
    pub bucket_order: Vec<usize>,
    /// Per job: its place among this event's arrivals, or 0.
    fresh: Vec<u32>,
    changed: Vec<(f64, u32, u32)>,
    rebuilt: Vec<Entry>,
}

impl<'a> Candidates<'a> {
    pub(super) fn new(workload: &'a Workload) -> Self {
        let sizes = workload.sizes.len();
        Self {
            sizes: &workload.sizes,
            lists: vec![Vec::new(); sizes],
            chosen: vec![0; sizes],
            slots: vec![0; sizes],
            bucket_order: Vec::new(),
            fresh: vec![0; workload.jobs.len()],
            changed: Vec::new(),
            rebuilt: Vec::new(),
        }
    }

    /// Takes over the new priorities of jobs that ran and forgets those that ended: `update` gives `None` for an
    /// ended job, and otherwise the new priority where there is one.
    pub(super) fn repair(&mut self, mut update: impl FnMut(u32) -> Option<Option<f64>>) {
        for (list, &chosen) in self.lists.iter_mut().zip(&self.chosen) {
            self.changed.clear();
            self.rebuilt.clear();
            // Unmoved entries keep their position as a rank for ties, which `changed` is merged by.
            let mut unmoved: Vec<(f64, u32, u32)> = Vec::with_capacity(chosen);
            for (position, &(key, job)) in list[..chosen].iter().enumerate() {
                match update(job) {
                    None => {}
                    Some(None) => unmoved.push((key, job, position as u32)),
                    Some(Some(key)) => self.changed.push((key, job, position as u32)),
                }
            }
            self.changed.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut unmoved = unmoved.into_iter().peekable();
            let mut tail = chosen;
            for &(key, job, position) in &self.changed {
                let before = |other: &(f64, u32, u32)| other.0 < key || other.0 == key && other.2 < position;
                while let Some((key, job, _)) = unmoved.next_if(before) {
                    self.rebuilt.push((key, job));
                }
                // All unmoved entries precede the tail, so that the tail only follows once they are used up.
                if unmoved.peek().is_none() {
                    let passed = list[tail..].partition_point(|entry| entry.0 < key);
                    self.rebuilt.extend_from_slice(&list[tail..tail + passed]);
                    tail += passed;
                }
                self.rebuilt.push((key, job));
            }
            self.rebuilt.extend(unmoved.map(|(key, job, _)| (key, job)));
            let kept = self.rebuilt.len();
            list[tail - kept..tail].copy_from_slice(&self.rebuilt);
            list.drain(..tail - kept);
        }
    }

    /// Adds this event's arrivals behind all of equal priority.
    pub(super) fn insert(&mut self, size: usize, key: f64, job: u32, place: usize) {
        self.fresh[job as usize] = place as u32 + 1;
        let list = &mut self.lists[size];
        let slot = list.partition_point(|entry| entry.0 <= key);
        list.insert(slot, (key, job));
    }

    /// Arrivals of the event before are no longer new.
    pub(super) fn forget_arrivals(&mut self, jobs: &[u32]) {
        for &job in jobs {
            self.fresh[job as usize] = 0;
        }
    }

    /// Chooses jobs for as many gangs of devices as fit, up to `packing` for each.
    pub(super) fn choose(&mut self, filling: &mut Filling<'_>, packing: usize) {
        filling.clear();
        self.chosen.fill(0);
        self.slots.fill(0);
        let mut alive: Vec<usize> =
            (0..self.sizes.len()).filter(|&size| !self.lists[size].is_empty()).collect();
        let rank = |candidates: &Self, size: usize| {
            let (key, job) = candidates.lists[size][candidates.chosen[size]];
            (key, candidates.fresh[job as usize], size)
        };
        self.bucket_order.clone_from(&alive);
        let mut bucket_order = std::mem::take(&mut self.bucket_order);
        bucket_order.sort_by(|&a, &b| compare(rank(self, a), rank(self, b)));
        self.bucket_order = bucket_order;
        loop {
            let first = (0..alive.len()).min_by(|&a, &b| compare(rank(self, alive[a]), rank(self, alive[b])));
            let Some(index) = first else { return };
            let size = alive[index];
            if filling.place(self.sizes[size], None) {
                self.slots[size] += 1;
                self.chosen[size] = (self.chosen[size] + packing).min(self.lists[size].len());
            } else {
                // What does not fit now does not fit later either, for any job of the size.
                alive.swap_remove(index);
                continue;
            }
            if self.chosen[size] == self.lists[size].len() {
                alive.swap_remove(index);
            }
        }
    }

    /// The chosen jobs of a gang size, in order.
    pub(super) fn chosen(&self, size: usize) -> &[Entry] {
        &self.lists[size][..self.chosen[size]]
    }
}

fn compare(a: (f64, u32, usize), b: (f64, u32, usize)) -> std::cmp::Ordering {
    a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2)))
}

/// The queues and the running jobs after an event.
type Decision = (Vec<Vec<u32>>, Vec<u32>);

/// Tiresias' queues in front of the candidates.
#[derive(Debug)]
pub(super) struct QueueFront<'a> {
    demotion: Demotion<'a>,
    queues: Vec<Vec<u32>>,
    queue_of: Vec<usize>,
    /// A time at which a job is due at once, and what was decided at that time so far.
    repeated: (f64, Vec<Decision>),
}

impl<'a> QueueFront<'a> {
    pub(super) fn new(workload: &Workload, limits: &'a [f64]) -> Self {
        let demotion = Demotion::new(limits, true);
        let queues = vec![Vec::new(); demotion.queue_count()];
        let queue_of = vec![0; workload.jobs.len()];
        Self { demotion, queues, queue_of, repeated: (f64::NEG_INFINITY, Vec::new()) }
    }

    pub(super) fn insert(&mut self, job: u32) {
        self.queues[0].push(job);
    }

    pub(super) fn remove(&mut self, job: u32) {
        self.queues[self.queue_of[job as usize]].retain(|&other| other != job);
    }

    /// Moves jobs that have had their queue's service to the next; `running` in the published list's order.
    pub(super) fn demote(&mut self, running: &[u32], workload: &Workload, tracker: &Tracker<'_>) {
        for &job in running {
            let queue = self.queue_of[job as usize];
            let executed_s = tracker.jobs[job as usize].executed_s;
            if self.demotion.is_due(queue, &workload.jobs[job as usize], executed_s) {
                self.remove(job);
                self.queue_of[job as usize] = queue + 1;
                self.queues[queue + 1].push(job);
            }
        }
    }

    /// Makes positions in the queues the candidates' priorities.
    pub(super) fn fill(&self, candidates: &mut Candidates<'_>, workload: &Workload) {
        candidates.lists.iter_mut().for_each(Vec::clear);
        for (position, &job) in self.queues.iter().flatten().enumerate() {
            candidates.lists[workload.jobs[job as usize].size].push((position as f64, job));
        }
    }

    /// Moves waiting jobs behind running ones in each queue, and returns when the next job changes its queue.
    ///
    /// Rounding can leave a job short of its limit by less than the clock resolves. The published code then decides again at the
    /// same time, with the queues in their new order, until that job does not run any more; where the decisions repeat themselves
    /// it would hang, and the job is passed over here.
    pub(super) fn settle(
        &mut self,
        time: f64,
        running: &[u32],
        workload: &Workload,
        tracker: &Tracker<'_>,
    ) -> f64 {
        for queue in &mut self.queues {
            queue.sort_by_key(|&job| !tracker.jobs[job as usize].running);
        }
        let due = |&job: &u32| {
            let executed_s = tracker.jobs[job as usize].executed_s;
            let queue = self.queue_of[job as usize];
            self.demotion.due_time(queue, &workload.jobs[job as usize], executed_s, time)
        };
        let next = running.iter().map(due).fold(f64::INFINITY, f64::min);
        if next > time {
            return next;
        }
        let later = running.iter().map(due).filter(|&due| due > time).fold(f64::INFINITY, f64::min);
        let decision = (self.queues.clone(), running.to_vec());
        if self.repeated.0 != time {
            self.repeated = (time, Vec::new());
        }
        if self.repeated.1.contains(&decision) {
            return later;
        }
        self.repeated.1.push(decision);
        time
    }
}
