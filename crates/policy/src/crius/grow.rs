//! Free devices without waiting jobs make running jobs faster: more of them, or of a better type.

use wharf_core::{JobId, View};

use super::board::Seat;
use super::search::Quest;
use super::{Crius, Sendable};
use crate::priority::Key;

/// Times that all jobs are checked in one decision.
const ROUNDS_MAX: usize = 8;

impl Crius {
    /// Gives free devices to the jobs that gain most by each, as long as the gain exceeds the cost of a restart.
    pub(super) fn grow(&mut self, view: &View<'_>) {
        for _ in 0..ROUNDS_MAX {
            if self.board.free_count() == 0 {
                return;
            }
            let mut wishes: Vec<(Key, JobId)> = Vec::new();
            for job in self.board.seated().collect::<Vec<_>>() {
                if let Some((score, _)) = self.better(view, job) {
                    wishes.push((Key::of(-score), job));
                }
            }
            if wishes.is_empty() {
                return;
            }
            wishes.sort_unstable();
            for (_, job) in wishes {
                if self.board.free_count() == 0 {
                    return;
                }
                if let Some((_, seat)) = self.better(view, job) {
                    self.reseat(job, seat);
                }
            }
        }
    }

    /// Lets running jobs have better places at the expense of others, where all in all that brings more than the restarts cost.
    /// No job is preempted for that. It begins with another job each time, in case the budget does not do for all.
    pub(super) fn exchange(&mut self, view: &View<'_>) {
        let mut jobs: Vec<JobId> = self.board.seated().collect();
        let first = self.notes.rounds as usize % jobs.len().max(1);
        jobs.rotate_left(first);
        self.sendable = Sendable::NoJob;
        self.clearings.clear();
        let prices = vec![0.0; self.pools.len()];
        for job in jobs {
            let class = self.class(job);
            let now = self.worth_of(view, job);
            if self.steps >= self.rules.budget
                || class.fastest() * self.weight(view, job) <= now
                || self.is_pinned(view, job)
            {
                continue;
            }
            let Some(seat) = self.board.lift(job) else { continue };
            self.forget(&seat);
            let mut blocked = self.blocked.clone();
            blocked[seat.kind] |= !self.rules.may_migrate;
            let quest = Quest { job, prices: &prices, blocked: &blocked, floor: now, may_disturb: true };
            match self.find(view, &quest) {
                Some(plan) => self.apply(view, job, plan),
                None => {
                    self.forget(&seat);
                    self.board.put(job, seat);
                }
            }
        }
        self.sendable = Sendable::Lent;
    }

    fn reseat(&mut self, job: JobId, seat: Seat) {
        if let Some(left) = self.board.lift(job) {
            self.forget(&left);
        }
        self.forget(&seat);
        self.board.put(job, seat);
        self.touched.insert(job);
    }

    /// The place that brings a job most for each further device, and how much that is.
    fn better(&mut self, view: &View<'_>, job: JobId) -> Option<(f64, Seat)> {
        let class = self.class(job);
        if class.by_speed.len() < 2 || self.is_pinned(view, job) {
            return None;
        }
        let now = self.worth_of(view, job);
        let seat = self.board.lift(job)?;
        let mut best: Option<(f64, Seat)> = None;
        let speed = class.speed(seat.kind, seat.count);
        for &index in &class.by_speed {
            let cell = class.cells[index];
            if cell.speed <= speed {
                break;
            }
            if self.blocked.get(cell.kind).is_some_and(|&is_blocked| is_blocked) || !self.may(view, job, cell)
            {
                continue;
            }
            let is_here = cell.kind == seat.kind && !self.rules.may_migrate;
            let found = if is_here {
                self.board.fit_around(&seat, cell.count)
            } else {
                self.board.fit(cell.kind, cell.count, None)
            };
            let Some(found) = found.filter(|seat| self.may_sit(view, job, seat)) else { continue };
            let gain = self.worth(view, job, &found) - now;
            let more = cell.count.saturating_sub(seat.count);
            // Devices that it gives back are of use too.
            let score = gain / if more == 0 { 0.5 } else { f64::from(more) };
            if gain > 0.0 && best.as_ref().is_none_or(|(known, _)| score > *known) {
                best = Some((score, found));
            }
        }
        self.board.put(job, seat);
        best
    }
}
