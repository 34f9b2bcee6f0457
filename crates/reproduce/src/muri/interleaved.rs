//! Muri-S and Muri-L: candidates in order of priority are grouped, and groups are placed like single jobs.

use wharf_outcome::Outcome;

use super::candidates::{Candidates, QueueFront};
use super::clock::{Clock, Event, Tie};
use super::cluster::{Filling, Selection, Shape};
use super::grouping::{Group, Grouper};
use super::numbers::Numbers;
use super::settings::{Policy, Queues, Settings};
use super::tracker::Tracker;
use super::workload::{Job, Workload};

/// No group, in the table from jobs to groups.
const UNGROUPED: u32 = u32::MAX;

struct Muri<'a> {
    workload: &'a Workload,
    settings: Settings,
    candidates: Candidates<'a>,
    queues: Option<QueueFront<'a>>,
    grouper: Grouper,
    filling: Filling<'a>,
    /// In the published list's order: by gang size, largest first.
    running: Vec<u32>,
    group_of: Vec<u32>,
    selection: Selection,
    ended: Vec<bool>,
    arrivals: Vec<u32>,
}

pub(super) fn run(
    workload: &Workload,
    shape: &Shape,
    settings: &Settings,
    numbers: &Numbers,
    mut tracker: Tracker<'_>,
) -> Outcome {
    let mut muri = Muri {
        workload,
        settings: *settings,
        candidates: Candidates::new(workload),
        queues: (settings.queues == Queues::Tiresias)
            .then(|| QueueFront::new(workload, &numbers.queue_limits)),
        grouper: Grouper::new(workload, shape, settings, numbers),
        filling: Filling::new(shape),
        running: Vec::new(),
        group_of: vec![UNGROUPED; workload.jobs.len()],
        selection: Selection::default(),
        ended: vec![false; workload.jobs.len()],
        arrivals: Vec::new(),
    };
    let mut clock = Clock::new(workload, Tie::Near);
    let mut event = Event::default();
    let mut jump = f64::INFINITY;
    while clock.advance(jump, &mut event) {
        let time = event.time;
        muri.update(&event, &mut tracker);
        muri.candidates.choose(&mut muri.filling, settings.packing_num);
        let groups = muri.surviving_groups();
        muri.place(time, &groups, &mut tracker);
        let busy = shape.devices() - muri.filling.free_total;
        tracker.settle(time, muri.running.len(), busy);
        clock.plan(muri.running.iter().map(|&job| tracker.end_of(time, job)));
        if let Some(queues) = &mut muri.queues {
            jump = queues.settle(time, &muri.running, workload, &tracker);
        }
    }
    tracker.into_outcome()
}

impl Muri<'_> {
    /// Priority of a job: remaining service, or attained service where durations are unknown.
    fn key(policy: Policy, job: &Job, remaining: f64, executed_s: f64) -> f64 {
        let devices = f64::from(job.devices);
        match policy {
            Policy::MuriS => remaining * job.iteration_s * devices,
            _ => executed_s * devices,
        }
    }

    /// Takes over what has happened since the last event.
    fn update(&mut self, event: &Event, tracker: &mut Tracker<'_>) {
        let (time, workload, policy) = (event.time, self.workload, self.settings.policy);
        for &job in &event.ended {
            tracker.finish(time, job);
            self.ended[job as usize] = true;
            if let Some(queues) = &mut self.queues {
                queues.remove(job);
            }
        }
        self.running.retain(|&job| !self.ended[job as usize]);
        for &job in &self.running {
            tracker.catch_up(time, job);
        }
        self.candidates.forget_arrivals(&self.arrivals);
        self.arrivals.clear();
        self.arrivals.extend_from_slice(&workload.order[event.arrived.clone()]);
        for &job in &self.arrivals {
            tracker.submit(time, job);
        }
        if let Some(queues) = &mut self.queues {
            for &job in &self.arrivals {
                queues.insert(job);
            }
            queues.demote(&self.running, workload, tracker);
            queues.fill(&mut self.candidates, workload);
            return;
        }
        let ended = &self.ended;
        self.candidates.repair(|job| {
            let progress = &tracker.jobs[job as usize];
            let key =
                || Self::key(policy, &workload.jobs[job as usize], progress.remaining, progress.executed_s);
            (!ended[job as usize]).then(|| progress.running.then(key))
        });
        for (place, &job) in self.arrivals.iter().enumerate() {
            let facts = &workload.jobs[job as usize];
            // The trace's own duration, until the job has run.
            let key = match policy {
                Policy::MuriS => facts.declared_s * f64::from(facts.devices),
                _ => 0.0,
            };
            self.candidates.insert(facts.size, key, job, place);
        }
    }

    /// The groups that get devices.
    fn surviving_groups(&mut self) -> Vec<Group> {
        let (mut groups, all_fit) = self.grouper.form(&self.candidates);
        if !all_fit {
            self.filling.clear();
            groups.retain(|group| self.filling.place(self.workload.sizes[group.size], None));
        }
        groups
    }

    /// Places groups, those of larger gangs first, and starts and stops jobs accordingly.
    fn place(&mut self, time: f64, groups: &[Group], tracker: &mut Tracker<'_>) {
        let previous = std::mem::take(&mut self.running);
        for (index, group) in groups.iter().enumerate() {
            for &job in group.members() {
                self.group_of[job as usize] = index as u32;
            }
        }
        self.filling.clear();
        self.selection.clear();
        // Per group: its place in the selection, once it has one.
        let mut placed = vec![UNGROUPED; groups.len()];
        let mut starting: Vec<(u32, u32)> = Vec::new();
        for size in 0..self.workload.sizes.len() {
            let mut members: Vec<u32> = self.candidates.chosen(size).iter().map(|entry| entry.1).collect();
            if self.queues.is_some() {
                // Queues do not sort the published list, which stays in order of arrival.
                members.sort_by(|&a, &b| {
                    let submit = |job: u32| self.workload.jobs[job as usize].submit;
                    submit(a).total_cmp(&submit(b)).then(a.cmp(&b))
                });
            }
            for job in members {
                let index = self.group_of[job as usize];
                if index == UNGROUPED {
                    continue;
                }
                let devices = self.workload.sizes[size];
                let slot = &mut placed[index as usize];
                if *slot == UNGROUPED && self.selection.place(&mut self.filling, devices, job) {
                    *slot = self.selection.jobs.len() as u32 - 1;
                }
                if *slot != UNGROUPED {
                    starting.push((job, index));
                }
            }
        }
        self.running.extend(starting.iter().map(|&(job, _)| job));
        let unplaced = |job: u32| {
            let index = self.group_of[job as usize];
            index == UNGROUPED || placed[index as usize] == UNGROUPED
        };
        for &job in previous.iter().filter(|&&job| unplaced(job)) {
            tracker.preempt(time, job);
        }
        for &(job, index) in &starting {
            let group = &groups[index as usize];
            let restart_s =
                group.members().iter().map(|&member| self.workload.jobs[member as usize].restart_s).sum();
            let progress = &mut tracker.jobs[job as usize];
            progress.pace_s = self.grouper.iteration_s(group);
            progress.restart_s = restart_s;
            tracker.run(
                time,
                job,
                self.selection.placement(placed[index as usize] as usize),
                group.members(),
            );
        }
        for group in groups {
            for &job in group.members() {
                self.group_of[job as usize] = UNGROUPED;
            }
        }
    }
}
