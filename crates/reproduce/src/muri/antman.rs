//! AntMan: guaranteed jobs get devices for good, opportunistic jobs fill the gaps of one of them per device.
//!
//! Nothing is preempted. A guaranteed job that does not fit reserves what is free and waits for the rest; its devices
//! idle meanwhile, except for opportunistic jobs. Opportunistic jobs go to the least utilised devices.

use wharf_core::{DeviceSet, NodeShare};
use wharf_outcome::Outcome;
use wharf_perf::opportunistic::{BOTH_OPPORTUNISTIC_FACTOR, iteration_beside_s};

use super::clock::{Clock, Event, Tie};
use super::cluster::Shape;
use super::numbers::{AntMan, Numbers};
use super::tracker::Tracker;
use super::workload::{Job, Workload};

#[derive(Clone, Debug, Default)]
struct Device {
    /// Sums of additions and subtractions: their residue orders devices, so that it must not be tidied up.
    util: f64,
    guaranteed: Option<u32>,
    opportunistic: Vec<u32>,
}

/// What a job holds.
#[derive(Clone, Debug, Default)]
struct Holding {
    /// Device indexes, in the order in which they were taken.
    devices: Vec<usize>,
    /// Devices still missing.
    missing: u32,
    /// The node that a part of a node is reserved on.
    bound_node: Option<usize>,
}

struct Devices<'a> {
    jobs: &'a [Job],
    node_devices: usize,
    numbers: AntMan,
    devices: Vec<Device>,
    holdings: Vec<Holding>,
    /// Devices without guaranteed job, by node and in all.
    unclaimed: Vec<usize>,
    unclaimed_total: usize,
    /// Devices below the utilisation limit.
    open: u32,
    candidates: Vec<usize>,
}

impl<'a> Devices<'a> {
    fn new(workload: &'a Workload, shape: &Shape, numbers: AntMan) -> Self {
        let node_devices = shape.node_devices as usize;
        let holding = |job: &Job| Holding { missing: job.devices, ..Holding::default() };
        Self {
            jobs: &workload.jobs,
            node_devices,
            numbers,
            devices: vec![Device::default(); shape.devices() as usize],
            holdings: workload.jobs.iter().map(holding).collect(),
            unclaimed: vec![node_devices; shape.nodes.len()],
            unclaimed_total: shape.devices() as usize,
            open: shape.devices(),
            candidates: Vec::new(),
        }
    }

    fn add_util(&mut self, device: usize, util: f64) {
        let limit = self.numbers.util_limit;
        let held = &mut self.devices[device].util;
        let was_open = *held < limit;
        *held += util;
        self.open = self.open + u32::from(*held < limit) - u32::from(was_open);
    }

    /// Claims up to `count` devices of a node for a guaranteed job.
    fn claim(&mut self, job: u32, node: usize, count: usize) {
        let util = self.numbers.guaranteed_util - self.numbers.reserve_util;
        let mut left = count;
        for device in node * self.node_devices..(node + 1) * self.node_devices {
            if left > 0 && self.devices[device].guaranteed.is_none() {
                self.devices[device].guaranteed = Some(job);
                self.add_util(device, util);
                self.holdings[job as usize].devices.push(device);
                left -= 1;
            }
        }
        let claimed = count - left;
        self.holdings[job as usize].missing -= claimed as u32;
        self.unclaimed[node] -= claimed;
        self.unclaimed_total -= claimed;
    }

    /// Claims what a guaranteed job can get now; true once it has all.
    fn try_guaranteed(&mut self, job: u32) -> bool {
        if self.jobs[job as usize].devices as usize > self.node_devices {
            self.claim_across(job);
        } else {
            self.claim_within(job);
        }
        let ready = self.holdings[job as usize].missing == 0;
        if ready {
            for index in 0..self.holdings[job as usize].devices.len() {
                let device = self.holdings[job as usize].devices[index];
                self.add_util(device, self.numbers.reserve_util);
            }
        }
        ready
    }

    fn claim_within(&mut self, job: u32) {
        let need = self.holdings[job as usize].missing as usize;
        let node = self.holdings[job as usize].bound_node.or_else(|| self.roomiest(need, &[]));
        if let Some(node) = node {
            self.holdings[job as usize].bound_node = Some(node);
            self.claim(job, node, need);
        }
    }

    fn claim_across(&mut self, job: u32) {
        let need = self.holdings[job as usize].missing as usize;
        let (full_nodes, rest) = (need / self.node_devices, need % self.node_devices);
        let whole = |node: &usize| self.unclaimed[*node] == self.node_devices;
        let full: Vec<usize> = (0..self.unclaimed.len()).filter(whole).take(full_nodes).collect();
        if rest > 0 {
            let bound = self.holdings[job as usize].bound_node;
            if let Some(node) = bound.or_else(|| self.roomiest(rest, &full)) {
                self.holdings[job as usize].bound_node = Some(node);
                self.claim(job, node, rest);
            }
        }
        for node in full {
            self.claim(job, node, self.node_devices);
        }
    }

    /// The first node with `need` unclaimed devices, or the first with most if there is none; not one with none.
    fn roomiest(&self, need: usize, except: &[usize]) -> Option<usize> {
        let mut best = (0, None);
        for (node, &unclaimed) in self.unclaimed.iter().enumerate() {
            if except.contains(&node) {
                continue;
            }
            if unclaimed >= need {
                return Some(node);
            }
            if unclaimed > best.0 {
                best = (unclaimed, Some(node));
            }
        }
        best.1
    }

    /// Puts an opportunistic job on the least utilised devices if there are enough open ones.
    fn try_opportunistic(&mut self, job: u32) -> bool {
        let need = self.jobs[job as usize].devices;
        if self.open < need {
            return false;
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        let open = |device: &usize| self.devices[*device].util < self.numbers.util_limit;
        candidates.extend((0..self.devices.len()).filter(open));
        candidates.sort_by(|&a, &b| self.devices[a].util.total_cmp(&self.devices[b].util));
        for &device in &candidates[..need as usize] {
            self.add_util(device, self.numbers.opportunistic_util);
            self.devices[device].opportunistic.push(job);
        }
        self.holdings[job as usize].devices.extend_from_slice(&candidates[..need as usize]);
        self.holdings[job as usize].missing = 0;
        self.candidates = candidates;
        true
    }

    fn release(&mut self, job: u32) {
        let guaranteed = self.jobs[job as usize].is_guaranteed;
        for device in std::mem::take(&mut self.holdings[job as usize].devices) {
            if guaranteed {
                self.devices[device].guaranteed = None;
                self.add_util(device, -self.numbers.guaranteed_util);
                self.unclaimed[device / self.node_devices] += 1;
                self.unclaimed_total += 1;
            } else {
                self.devices[device].opportunistic.retain(|&other| other != job);
                self.add_util(device, -self.numbers.opportunistic_util);
            }
        }
    }

    /// Seconds per iteration of an opportunistic job beside what runs on its devices.
    fn shared_pace_s(&self, job: u32) -> f64 {
        let own = &self.jobs[job as usize];
        let mut pace_s = own.iteration_s;
        let mut last = None;
        for &device in &self.holdings[job as usize].devices {
            let device = &self.devices[device];
            if let Some(other) = device.guaranteed.filter(|&other| Some(other) != last) {
                last = Some(other);
                if self.holdings[other as usize].missing == 0 {
                    let neighbour = &self.jobs[other as usize];
                    let beside_s = iteration_beside_s(own.stages, neighbour.stages, neighbour.iteration_s);
                    pace_s = pace_s.max(beside_s);
                }
            }
            if device.opportunistic.len() > 1 {
                pace_s = pace_s.max(own.iteration_s * BOTH_OPPORTUNISTIC_FACTOR);
            }
        }
        pace_s
    }

    fn placement(&self, job: u32, shape: &Shape) -> Vec<NodeShare> {
        let mut shares: Vec<NodeShare> = Vec::new();
        for &device in &self.holdings[job as usize].devices {
            let node = shape.nodes[device / self.node_devices];
            let index = (device % self.node_devices) as u32;
            match shares.iter_mut().find(|share| share.node == node) {
                Some(share) => share.devices.insert(index),
                None => shares.push(NodeShare::new(node, DeviceSet(1 << index))),
            }
        }
        shares
    }

    /// Devices on which something runs.
    fn busy(&self) -> u32 {
        let runs = |device: &&Device| {
            !device.opportunistic.is_empty()
                || device.guaranteed.is_some_and(|job| self.holdings[job as usize].missing == 0)
        };
        self.devices.iter().filter(runs).count() as u32
    }
}

/// Jobs of one kind, in order of submission.
#[derive(Default)]
struct Line {
    waiting: Vec<u32>,
    running: Vec<u32>,
}

impl Line {
    /// Tries each waiting job once, while `go_on` holds; what starts is appended to `started`.
    fn start(&mut self, started: &mut Vec<u32>, mut attempt: impl FnMut(u32) -> Option<bool>) {
        let mut kept = 0;
        let mut index = 0;
        while index < self.waiting.len() {
            let job = self.waiting[index];
            match attempt(job) {
                None => break,
                Some(true) => started.push(job),
                Some(false) => {
                    self.waiting[kept] = job;
                    kept += 1;
                }
            }
            index += 1;
        }
        self.waiting.drain(kept..index);
    }
}

pub(super) fn run(
    workload: &Workload,
    shape: &Shape,
    numbers: &Numbers,
    mut tracker: Tracker<'_>,
) -> Outcome {
    let jobs = &workload.jobs;
    let mut clock = Clock::new(workload, Tie::Exact);
    let mut event = Event::default();
    let mut devices = Devices::new(workload, shape, numbers.antman);
    let mut rank = vec![0_u32; jobs.len()];
    for (index, &job) in workload.order.iter().enumerate() {
        rank[job as usize] = index as u32;
    }
    let (mut guaranteed, mut opportunistic) = (Line::default(), Line::default());
    let mut started: Vec<u32> = Vec::new();
    while clock.advance(f64::INFINITY, &mut event) {
        let time = event.time;
        for &job in &event.ended {
            tracker.finish(time, job);
            devices.release(job);
            guaranteed.running.retain(|&other| other != job);
            opportunistic.running.retain(|&other| other != job);
        }
        for &job in &workload.order[event.arrived.clone()] {
            tracker.submit(time, job);
            let line = if jobs[job as usize].is_guaranteed { &mut guaranteed } else { &mut opportunistic };
            line.waiting.push(job);
        }
        for &job in guaranteed.running.iter().chain(&opportunistic.running) {
            tracker.catch_up(time, job);
        }
        started.clear();
        guaranteed
            .start(&mut started, |job| (devices.unclaimed_total > 0).then(|| devices.try_guaranteed(job)));
        let guaranteed_count = started.len();
        opportunistic.start(&mut started, |job| (devices.open > 0).then(|| devices.try_opportunistic(job)));
        for (index, &job) in started.iter().enumerate() {
            let running =
                if index < guaranteed_count { &mut guaranteed.running } else { &mut opportunistic.running };
            let slot = running.partition_point(|&other| rank[other as usize] < rank[job as usize]);
            running.insert(slot, job);
            tracker.run(time, job, &devices.placement(job, shape), &[job]);
        }
        for &job in &opportunistic.running {
            tracker.jobs[job as usize].pace_s = devices.shared_pace_s(job);
        }
        let running = guaranteed.running.iter().chain(&opportunistic.running);
        tracker.settle(time, running.clone().count(), devices.busy());
        clock.plan_near(running.map(|&job| tracker.end_of(time, job)));
    }
    tracker.into_outcome()
}
