//! Tiresias: jobs sink through queues with the service they attain; within a queue, what runs stays in front.
//!
//! Devices are only counted. Besides arrivals and completions, a job's change of queue is an event.

use wharf_outcome::Outcome;

use super::clock::{Clock, Event, Tie};
use super::cluster::Shape;
use super::numbers::Numbers;
use super::settings::Settings;
use super::tracker::Tracker;
use super::workload::{Job, Workload};

/// When jobs change their queue.
#[derive(Debug)]
pub(super) struct Demotion<'a> {
    limits: &'a [f64],
    gputime: bool,
}

impl<'a> Demotion<'a> {
    pub(super) fn new(limits: &'a [f64], gputime: bool) -> Self {
        Self { limits, gputime }
    }

    pub(super) fn queue_count(&self) -> usize {
        self.limits.len() + 1
    }

    /// Whether a job with this much running time has had its queue's service.
    pub(super) fn is_due(&self, queue: usize, job: &Job, executed_s: f64) -> bool {
        let service = if self.gputime { executed_s * f64::from(job.devices) } else { executed_s };
        self.limits.get(queue).is_some_and(|&limit| service >= limit)
    }

    /// When a running job reaches its queue's limit. Where rounding leaves it short of the limit this is `time` itself.
    pub(super) fn due_time(&self, queue: usize, job: &Job, executed_s: f64, time: f64) -> f64 {
        let Some(&limit) = self.limits.get(queue) else { return f64::INFINITY };
        let seconds = if self.gputime { (limit / f64::from(job.devices)).ceil() } else { limit };
        seconds - executed_s + time
    }
}

/// The state of one queue after an event: running jobs, then waiting ones, each in order.
type Queue = Vec<u32>;

struct Queues<'a> {
    jobs: &'a [Job],
    queues: Vec<Queue>,
    queue_of: Vec<usize>,
    /// Present jobs of each gang size.
    present: Vec<u32>,
    left: Vec<u32>,
    selected: Vec<bool>,
    waiting: Vec<u32>,
}

impl Queues<'_> {
    fn remove(&mut self, job: u32) {
        // Jobs that end or sink were running, and so are in front.
        let queue = &mut self.queues[self.queue_of[job as usize]];
        if let Some(index) = queue.iter().position(|&other| other == job) {
            queue.remove(index);
        }
    }

    fn push(&mut self, queue: usize, job: u32) {
        self.queue_of[job as usize] = queue;
        self.queues[queue].push(job);
    }

    /// Selects in queue order while devices last, and moves what was skipped behind what runs. Returns free devices.
    fn select(&mut self, sizes: &[u32], devices: u32) -> u32 {
        let mut free = devices;
        self.left.clone_from(&self.present);
        for queue in &mut self.queues {
            self.waiting.clear();
            let mut kept = 0;
            let mut scanned = 0;
            // Sizes are sorted, largest first: the last present one is the smallest.
            let fits_none = |left: &[u32], free: u32| {
                left.iter().zip(sizes).rev().find(|(left, _)| **left > 0).is_none_or(|(_, &size)| size > free)
            };
            while scanned < queue.len() && !fits_none(&self.left, free) {
                let job = queue[scanned];
                scanned += 1;
                let facts = &self.jobs[job as usize];
                self.left[facts.size] -= 1;
                if free >= facts.devices {
                    free -= facts.devices;
                    self.selected[job as usize] = true;
                    queue[kept] = job;
                    kept += 1;
                } else {
                    self.waiting.push(job);
                }
            }
            queue[kept..scanned].copy_from_slice(&self.waiting);
        }
        free
    }
}

pub(super) fn run(
    workload: &Workload,
    shape: &Shape,
    settings: &Settings,
    numbers: &Numbers,
    mut tracker: Tracker<'_>,
) -> Outcome {
    let jobs = &workload.jobs;
    let demotion = Demotion::new(&numbers.queue_limits, settings.gputime);
    let mut clock = Clock::new(workload, Tie::Exact);
    let mut event = Event::default();
    let mut jump = f64::INFINITY;
    let mut queues = Queues {
        jobs,
        queues: vec![Vec::new(); demotion.queue_count()],
        queue_of: vec![0; jobs.len()],
        present: vec![0; workload.sizes.len()],
        left: Vec::new(),
        selected: vec![false; jobs.len()],
        waiting: Vec::new(),
    };
    let mut rank = vec![0_u32; jobs.len()];
    for (index, &job) in workload.order.iter().enumerate() {
        rank[job as usize] = index as u32;
    }
    // In order of arrival, as demotions happen in that order.
    let mut running: Vec<u32> = Vec::new();
    let mut next: Vec<u32> = Vec::new();
    while clock.advance(jump, &mut event) {
        let time = event.time;
        for &job in &event.ended {
            tracker.finish(time, job);
            queues.remove(job);
            queues.present[jobs[job as usize].size] -= 1;
            running.retain(|&other| other != job);
        }
        for &job in &workload.order[event.arrived.clone()] {
            tracker.submit(time, job);
            queues.push(0, job);
            queues.present[jobs[job as usize].size] += 1;
        }
        for &job in &running {
            tracker.catch_up(time, job);
            let queue = queues.queue_of[job as usize];
            if demotion.is_due(queue, &jobs[job as usize], tracker.jobs[job as usize].executed_s) {
                queues.remove(job);
                queues.push(queue + 1, job);
            }
        }
        for &job in &running {
            queues.selected[job as usize] = false;
        }
        let free = queues.select(&workload.sizes, shape.devices());
        next.clear();
        for &job in &running {
            if !queues.selected[job as usize] {
                tracker.preempt(time, job);
            }
        }
        // What runs is in front of each queue.
        for queue in &queues.queues {
            next.extend(queue.iter().take_while(|&&job| queues.selected[job as usize]));
        }
        next.sort_unstable_by_key(|&job| rank[job as usize]);
        for &job in &next {
            tracker.run(time, job, &[], &[job]);
        }
        std::mem::swap(&mut running, &mut next);
        tracker.settle(time, running.len(), shape.devices() - free);
        clock.plan_exact(running.iter().map(|&job| tracker.end_of(time, job)));
        let due = running.iter().map(|&job| {
            let executed_s = tracker.jobs[job as usize].executed_s;
            demotion.due_time(queues.queue_of[job as usize], &jobs[job as usize], executed_s, time)
        });
        // Deciding again at the same time changes nothing: the published code would hang.
        jump = due.filter(|&due| due > time).fold(f64::INFINITY, f64::min);
    }
    tracker.into_outcome()
}
