//! SRTF and SRSF: what is shortest runs first, and what does not fit is skipped.
//!
//! Waiting jobs' keys never change and running jobs' only fall, so that the order is kept and repaired rather than
//! sorted again: everything that ran is in the part that the last scan checked.

use wharf_outcome::Outcome;

use super::clock::{Clock, Event, Tie};
use super::cluster::{Filling, Selection, Shape};
use super::tracker::Tracker;
use super::workload::{Job, Workload};

/// What "short" means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Remaining time.
    Time,
    /// Remaining time × devices.
    Service,
}

impl Key {
    fn of(self, job: &Job, remaining: f64) -> f64 {
        let time_s = remaining * job.iteration_s;
        match self {
            Self::Time => time_s,
            Self::Service => time_s * f64::from(job.devices),
        }
    }
}

/// All present jobs, shortest first; equal keys keep the order of the event before, arrivals last.
struct Order {
    entries: Vec<(f64, u32)>,
    /// How many entries the last scan checked.
    scanned: usize,
}

impl Order {
    /// Drops what ended, takes over new keys of what ran and restores the order.
    fn repair(&mut self, mut update: impl FnMut(u32) -> Option<Option<f64>>) {
        let mut kept = 0;
        for index in 0..self.scanned {
            let (key, job) = self.entries[index];
            match update(job) {
                None => continue,
                Some(new) => self.entries[kept] = (new.unwrap_or(key), job),
            }
            // Insertion sort: few entries overtake others.
            let entry = self.entries[kept];
            let mut slot = kept;
            while slot > 0 && self.entries[slot - 1].0 > entry.0 {
                self.entries[slot] = self.entries[slot - 1];
                slot -= 1;
            }
            self.entries[slot] = entry;
            kept += 1;
        }
        self.entries.drain(kept..self.scanned);
    }

    fn insert(&mut self, key: f64, job: u32) {
        let slot = self.entries.partition_point(|entry| entry.0 <= key);
        self.entries.insert(slot, (key, job));
    }
}

pub(super) fn run(workload: &Workload, shape: &Shape, key: Key, mut tracker: Tracker<'_>) -> Outcome {
    let jobs = &workload.jobs;
    let mut clock = Clock::new(workload, Tie::Exact);
    let mut event = Event::default();
    let mut order = Order { entries: Vec::new(), scanned: 0 };
    let mut scan = Scan::new(workload, shape);
    let mut running: Vec<u32> = Vec::new();
    let mut ended = vec![false; jobs.len()];
    while clock.advance(f64::INFINITY, &mut event) {
        let time = event.time;
        for &job in &event.ended {
            tracker.finish(time, job);
            ended[job as usize] = true;
            scan.present[jobs[job as usize].size] -= 1;
        }
        for &job in &running {
            if !ended[job as usize] {
                tracker.catch_up(time, job);
            }
        }
        order.repair(|job| {
            let progress = &tracker.jobs[job as usize];
            let running = progress.running.then(|| key.of(&jobs[job as usize], progress.remaining));
            (!ended[job as usize]).then_some(running)
        });
        for &job in &workload.order[event.arrived.clone()] {
            tracker.submit(time, job);
            order.insert(key.of(&jobs[job as usize], jobs[job as usize].iterations), job);
            scan.present[jobs[job as usize].size] += 1;
        }
        scan.select(&mut order, jobs);
        for &job in &running {
            if !ended[job as usize] && !scan.is_selected(job) {
                tracker.preempt(time, job);
            }
        }
        for (job, placement) in scan.selection.iter() {
            tracker.run(time, job, placement, &[job]);
        }
        std::mem::swap(&mut running, &mut scan.selection.jobs);
        tracker.settle(time, running.len(), shape.devices() - scan.filling.free_total);
        clock.plan(running.iter().map(|&job| tracker.end_of(time, job)));
    }
    tracker.into_outcome()
}

/// First fit in order, until nothing that is left can fit.
struct Scan<'a> {
    filling: Filling<'a>,
    sizes: &'a [u32],
    /// Present jobs of each gang size.
    present: Vec<u32>,
    left: Vec<u32>,
    alive: Vec<bool>,
    selection: Selection,
    selected_at: Vec<u32>,
    round: u32,
}

impl<'a> Scan<'a> {
    fn new(workload: &'a Workload, shape: &'a Shape) -> Self {
        let sizes = workload.sizes.len();
        Self {
            filling: Filling::new(shape),
            sizes: &workload.sizes,
            present: vec![0; sizes],
            left: vec![0; sizes],
            alive: vec![false; sizes],
            selection: Selection::default(),
            selected_at: vec![0; workload.jobs.len()],
            round: 0,
        }
    }

    fn is_selected(&self, job: u32) -> bool {
        self.selected_at[job as usize] == self.round
    }

    fn select(&mut self, order: &mut Order, jobs: &[Job]) {
        self.round += 1;
        self.selection.clear();
        self.filling.clear();
        self.left.clone_from(&self.present);
        self.alive.fill(true);
        let mut open: u32 = self.left.iter().sum();
        order.scanned = 0;
        for &(_, job) in &order.entries {
            if open == 0 {
                break;
            }
            order.scanned += 1;
            let size = jobs[job as usize].size;
            if !self.alive[size] {
                continue;
            }
            open -= 1;
            self.left[size] -= 1;
            if self.selection.place(&mut self.filling, self.sizes[size], job) {
                self.selected_at[job as usize] = self.round;
            } else {
                self.alive[size] = false;
                open -= self.left[size];
            }
            // Sizes that cannot fit any more need not be met to be given up.
            for other in 0..self.sizes.len() {
                if self.alive[other] && !self.filling.may_fit(self.sizes[other]) {
                    self.alive[other] = false;
                    open -= self.left[other];
                }
            }
        }
    }
}
