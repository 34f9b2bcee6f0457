//! Which event comes next.

use super::workload::{Batch, Workload, is_close};

/// Relative distance within which ends are one event.
const SAME_END: f64 = 1e-9;
/// Seconds within which an arrival and an end are one event for Muri, and ends for AntMan.
pub(super) const NEAR_S: f64 = 1e-4;
/// Ends further than this from the first cannot take part in its event, however they chain.
const CHAIN: f64 = 1e-6;

/// When an arrival and an end are one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tie {
    /// At exactly the same time.
    Exact,
    /// Within [`NEAR_S`].
    Near,
}

/// One rescheduling point.
#[derive(Clone, Debug, Default)]
pub(super) struct Event {
    pub time: f64,
    /// Jobs that end, in order.
    pub ended: Vec<u32>,
    /// Range of [`Workload::order`] that arrives.
    pub arrived: std::ops::Range<usize>,
}

/// Arrivals still to come and the next end.
#[derive(Debug)]
pub(super) struct Clock<'a> {
    batches: &'a [Batch],
    tie: Tie,
    end_time: f64,
    ending: Vec<u32>,
    /// Ends that were tied to the next arrival when a queue change came between.
    carried: Vec<u32>,
    candidates: Vec<(f64, u32)>,
    near: Vec<(f64, u32, usize)>,
}

impl<'a> Clock<'a> {
    pub(super) fn new(workload: &'a Workload, tie: Tie) -> Self {
        Self {
            batches: &workload.batches,
            tie,
            end_time: f64::INFINITY,
            ending: Vec::new(),
            carried: Vec::new(),
            candidates: Vec::new(),
            near: Vec::new(),
        }
    }

    /// Moves to the next event; false where there is none. `jump` is when a job changes its queue.
    pub(super) fn advance(&mut self, jump: f64, event: &mut Event) -> bool {
        event.ended.clear();
        event.arrived = 0..0;
        let start_time = self.batches.first().map_or(f64::INFINITY, |batch| batch.time);
        if start_time == f64::INFINITY && self.end_time == f64::INFINITY {
            return false;
        }
        let tied = start_time < f64::INFINITY
            && match self.tie {
                Tie::Exact => self.end_time == start_time,
                Tie::Near => {
                    self.end_time < f64::INFINITY && is_close(self.end_time, start_time, SAME_END, NEAR_S)
                }
            };
        if tied {
            self.carried.clone_from(&self.ending);
        }
        let starts = tied || start_time < self.end_time;
        event.time = if starts { start_time } else { self.end_time };
        if event.time > jump {
            event.time = jump;
            return true;
        }
        if starts {
            event.ended.append(&mut self.carried);
            if let Some((batch, rest)) = self.batches.split_first() {
                event.arrived = batch.start..batch.end;
                self.batches = rest;
            }
        } else {
            event.ended.append(&mut self.ending);
            // The published code fails if a carried end comes by itself before the arrival that carries it.
            self.carried.retain(|job| !event.ended.contains(job));
        }
        true
    }

    /// Plans the next end from all running jobs' ends, in order: ends close to an earlier one join its event.
    pub(super) fn plan(&mut self, ends: impl Iterator<Item = (f64, u32)>) {
        self.candidates.clear();
        self.candidates.extend(ends);
        self.end_time = f64::INFINITY;
        self.ending.clear();
        let earliest = self.candidates.iter().fold(f64::INFINITY, |min: f64, end| min.min(end.0));
        if earliest == f64::INFINITY {
            return;
        }
        let limit = earliest + earliest.abs() * CHAIN;
        // Each end near the earliest, with the first such end whose event it joins.
        self.near.clear();
        for &(time, job) in self.candidates.iter().filter(|end| end.0 <= limit) {
            let own = self.near.len();
            let joins = |&(other, _, first): &(f64, u32, usize)| {
                is_close(other, time, SAME_END, 0.0).then_some(first)
            };
            let heads = self.near.iter().enumerate().filter(|(index, entry)| entry.2 == *index);
            let first = heads.map(|(_, entry)| entry).find_map(joins).unwrap_or(own);
            self.near.push((time, job, first));
        }
        let heads = self.near.iter().enumerate().filter(|(index, entry)| entry.2 == *index);
        let mut head = (f64::INFINITY, 0);
        for (index, &(time, ..)) in heads {
            if time < head.0 {
                head = (time, index);
            }
        }
        self.end_time = head.0;
        self.ending.extend(self.near.iter().filter(|entry| entry.2 == head.1).map(|entry| entry.1));
    }

    /// Plans the next end as Tiresias does: only exactly equal ends are one event.
    pub(super) fn plan_exact(&mut self, ends: impl Iterator<Item = (f64, u32)>) {
        self.end_time = f64::INFINITY;
        self.ending.clear();
        for (time, job) in ends {
            if time < self.end_time {
                self.end_time = time;
                self.ending.clear();
            }
            if time == self.end_time {
                self.ending.push(job);
            }
        }
    }

    /// As [`Clock::plan`], and then joins ends within [`NEAR_S`] of the first, as AntMan does.
    pub(super) fn plan_near(&mut self, ends: impl Iterator<Item = (f64, u32)>) {
        self.plan(ends);
        let first = self.end_time;
        let mut more: Vec<(f64, u32)> = self
            .candidates
            .iter()
            .filter(|end| is_close(first, end.0, SAME_END, NEAR_S) && !self.ending.contains(&end.1))
            .copied()
            .collect();
        more.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.ending.extend(more.iter().map(|end| end.1));
    }
}
