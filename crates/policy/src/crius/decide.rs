//! One decision: who is tried in which order, and how what was thought out is carried out.

use std::collections::BTreeSet;

use wharf_core::{Chosen, Decision, JobId, NodeShare, StopReason, Time, View};

use super::board::Seat;
use super::search::Quest;
use super::{Crius, Rank, Sendable};
use crate::placement::share;
use crate::room;

/// Waiting jobs whose wishes make the price of a device.
const PRICED: usize = 16;

/// Which jobs are checked.
enum Look {
    /// The first of each kind.
    All,
    /// Those that have just come.
    Fresh(Vec<JobId>),
}

impl Crius {
    pub(super) fn decide(&mut self, decision: &mut Decision<'_>) {
        let now = decision.view().now;
        let next = self.last_round.map(|last| last.plus(self.rules.round_s));
        let is_round = next.is_none_or(|next| next <= now);
        let is_freed = self.board.sync_free(&decision.view()) | std::mem::take(&mut self.is_freed);
        let fresh = std::mem::take(&mut self.fresh);
        let is_overdue = self.waits.first().is_some_and(|&(_, job)| self.is_overdue(now, job));
        if is_round {
            self.last_round = Some(now);
            self.notes.rounds += 1;
            let view = decision.view();
            // What cannot run at all is not long.
            let able = self.jobs.keys().filter(|&&job| self.class(job).fastest() > 0.0);
            let lengths = able.map(|&job| self.shortest_s(&view, job));
            self.longest_s = lengths.fold(0.0, f64::max);
        }
        let is_full = is_round || is_freed || is_overdue || self.holder.is_some() || !self.rules.may_lend;
        if is_full || !fresh.is_empty() {
            self.steps = 0;
            self.clearings.clear();
            self.release();
            self.give_up(&decision.view());
            self.place_needy(decision);
            let look = if is_full { Look::All } else { Look::Fresh(fresh) };
            let view = decision.view();
            self.overdue(&view);
            self.admit(&view, look);
            self.grow(&view);
            if is_round {
                self.exchange(&view);
                self.optimise(&view);
            }
            self.carry_out(decision);
        }
        self.wake(decision);
    }

    /// Takes those out of the queues who would be done too late wherever they started: no job waits behind them, and nothing is
    /// kept for them. Nodes that return may bring them back.
    fn give_up(&mut self, view: &View<'_>) {
        if !self.rules.has_deadlines {
            return;
        }
        let waiting: Vec<JobId> = self.jobs.keys().copied().filter(|&job| is_without(view, job)).collect();
        for job in waiting {
            let cells = &self.class(job).cells;
            let is_lost = !cells.is_empty() && !cells.iter().any(|cell| self.is_in_time(view, job, *cell));
            let is_queued = self.jobs.get(&job).is_some_and(|known| known.rank.is_some());
            if is_lost {
                self.unqueue(job);
            } else if !is_queued {
                self.enqueue(view, job);
            }
        }
    }

    /// Reserves nothing.
    fn release(&mut self) {
        self.holder = None;
        self.blocked.fill(false);
    }

    /// Asks to be called when a job will have waited too long, and at the next round if there is anything to improve.
    fn wake(&self, decision: &mut Decision<'_>) {
        let now = decision.view().now;
        if !self.queue.is_empty() || self.board.free_count() > 0 && self.board.seated().next().is_some() {
            decision.wake_at(self.last_round.unwrap_or(now).plus(self.rules.round_s));
        }
        if let Some(&(since, _)) = self.waits.first() {
            let due = since.plus(self.rules.patience_s);
            if due > now {
                decision.wake_at(due);
            }
        }
    }

    /// Those who have waited too long go first, the longest waiting first, whatever it costs others.
    fn overdue(&mut self, view: &View<'_>) {
        let now = view.now;
        let late: Vec<JobId> =
            self.waits.iter().map(|&(_, job)| job).take_while(|&job| self.is_overdue(now, job)).collect();
        if late.is_empty() {
            return;
        }
        let prices = vec![0.0; self.pools.len()];
        for job in late {
            if view.spec(job).gang.needs.is_some() || self.board.seat(job).is_some() {
                continue;
            }
            (self.sendable, self.depth) = (Sendable::All, u32::MAX);
            self.clearings.clear();
            self.steps = 0;
            let blocked = self.blocked.clone();
            let floor = f64::NEG_INFINITY;
            let quest = Quest { job, prices: &prices, blocked: &blocked, floor, may_disturb: true };
            let plan = self.find(view, &quest);
            let is_started = plan.is_some();
            if let Some(plan) = plan {
                self.apply(view, job, plan);
            }
            (self.sendable, self.depth) = (Sendable::Lent, self.rules.depth);
            if is_started {
                let until = now.plus(self.rules.patience_s);
                self.jobs.entry(job).and_modify(|known| known.turn = Some(until));
            } else {
                self.keep_for(job, false);
            }
        }
        self.clearings.clear();
        self.steps = 0;
    }

    /// Keeps the types that a job could use (or the one that it asks for) for it.
    fn keep_for(&mut self, job: JobId, only_asked: bool) {
        let class = self.class(job);
        self.holder = self.holder.or(Some(job));
        for cell in &class.cells {
            let is_asked = class.asked_kind.is_none_or(|kind| kind == cell.kind);
            self.blocked[cell.kind] |= is_asked || !only_asked;
        }
    }

    /// Starts waiting jobs in order, with moves of running jobs where that brings more than it costs; and then, on what is
    /// still free, any job that fits.
    fn admit(&mut self, view: &View<'_>, look: Look) {
        let is_full = matches!(look, Look::All);
        let mut heads: BTreeSet<(Rank, JobId)> = match look {
            Look::All => self.queues.values().filter_map(|queue| queue.first().copied()).collect(),
            Look::Fresh(jobs) => {
                jobs.into_iter().filter_map(|job| Some((self.jobs.get(&job)?.rank?, job))).collect()
            }
        };
        while let Some((_, job)) = heads.pop_first() {
            // In strict order whatever is free is the first job's.
            let is_strict = !self.rules.may_lend;
            if self.start(view, job, true) || is_strict && self.start(view, job, false) {
                let next = self.next_of_class(job);
                heads.extend(next.filter(|_| is_full));
            } else if is_strict && self.jobs.get(&job).is_some_and(|known| known.rank.is_some()) {
                self.keep_for(job, true);
            }
        }
        let mut heads: BTreeSet<(Rank, JobId)> =
            self.queues.values().filter_map(|queue| queue.first().copied()).collect();
        while let Some((_, job)) = heads.pop_first() {
            if self.board.free_count() == 0 {
                return;
            }
            if self.start(view, job, false) {
                heads.extend(self.next_of_class(job));
            }
        }
    }

    fn next_of_class(&self, job: JobId) -> Option<(Rank, JobId)> {
        self.queues.get(&self.jobs.get(&job)?.class)?.first().copied()
    }

    fn start(&mut self, view: &View<'_>, job: JobId, may_disturb: bool) -> bool {
        if view.spec(job).gang.needs.is_some() {
            return false;
        }
        let prices = self.prices(view, job);
        let blocked = self.blocked.clone();
        let floor = if may_disturb { 0.0 } else { f64::NEG_INFINITY };
        let quest = Quest { job, prices: &prices, blocked: &blocked, floor, may_disturb };
        let Some(plan) = self.find(view, &quest) else { return false };
        self.apply(view, job, plan);
        true
    }

    /// What a device of each type is worth to the first of the other waiting jobs.
    fn prices(&self, view: &View<'_>, job: JobId) -> Vec<f64> {
        let mut prices = vec![0.0_f64; self.pools.len()];
        for &(_, other) in self.queue.iter().filter(|(_, other)| *other != job).take(PRICED) {
            let weight = self.weight(view, other);
            for (price, thrift) in prices.iter_mut().zip(&self.class(other).thrift) {
                *price = price.max(weight * thrift);
            }
        }
        prices
    }

    /// Makes the schedule what the board is.
    fn carry_out(&mut self, decision: &mut Decision<'_>) {
        let touched = std::mem::take(&mut self.touched);
        let mut arriving: Vec<(JobId, Seat)> = Vec::new();
        for &job in &touched {
            let view = decision.view();
            let own = view.schedule().placement(job).and_then(|placement| Seat::of(&view, placement));
            let seat = self.board.seat(job).cloned();
            if own == seat {
                continue;
            }
            if own.is_some() {
                let is_stopped = match seat {
                    Some(_) => decision.stop(job, StopReason::Moved),
                    None => decision.preempt(job, None, Chosen::Opportunistic),
                };
                if is_stopped && seat.is_none() {
                    self.set_waiting_since(&decision.view(), job);
                }
            }
            arriving.extend(seat.map(|seat| (job, seat)));
        }
        for (job, seat) in arriving {
            let schedule = decision.view().schedule();
            let placement: Vec<NodeShare> =
                seat.spots.iter().map(|&(node, count)| share(schedule, node, count)).collect();
            if !decision.start(job, &placement) {
                // The audit refused it, which is reported; it waits.
                self.board.lift(job);
                self.enqueue(&decision.view(), job);
            }
        }
    }

    /// From now on a job waits.
    pub(super) fn set_waiting_since(&mut self, view: &View<'_>, job: JobId) {
        let is_new = view.job(job).generation == 0;
        let since: Time = if is_new { view.spec(job).submit.min(view.now) } else { view.now };
        self.unqueue_then(view, job, since);
    }

    fn unqueue_then(&mut self, view: &View<'_>, job: JobId, since: Time) {
        self.unqueue(job);
        if let Some(known) = self.jobs.get_mut(&job) {
            known.since = since;
        }
        self.enqueue(view, job);
    }

    /// Gangs that ask for more than devices: on free devices, or, if they have waited too long, on those of any job.
    fn place_needy(&mut self, decision: &mut Decision<'_>) {
        let is_needy = |job: &JobId| decision.view().spec(*job).gang.needs.is_some();
        let needy: Vec<JobId> = self.queue.iter().map(|&(_, job)| job).filter(is_needy).collect();
        let mut placement = Vec::new();
        for job in needy {
            let view = decision.view();
            let gang = &view.spec(job).gang;
            let mut is_found = self.placer.place(view.topology(), view.schedule(), gang, &mut placement);
            if !is_found && self.is_overdue(view.now, job) {
                self.sendable = Sendable::All;
                let placed = self
                    .board
                    .seated()
                    .filter(|&other| !self.is_pinned(&view, other) && self.may_suspend(&view, other));
                let room = room::find(&view, gang, placed);
                self.sendable = Sendable::Lent;
                if let Some(room) = room {
                    for &other in &room.leaving {
                        if decision.preempt(other, Some(job), Chosen::LastInOrder) {
                            self.board.lift(other);
                            self.set_waiting_since(&decision.view(), other);
                        }
                    }
                    let view = decision.view();
                    placement = room.placement(&view, &view.spec(job).gang);
                    is_found = true;
                }
            }
            if is_found && decision.start(job, &placement) {
                self.unqueue(job);
                self.board.sync_job(&decision.view(), job);
                // It may have a part of a device, or a machine for itself.
                self.board.sync_free(&decision.view());
            }
        }
    }
}

/// Whether a job has no devices and none coming.
fn is_without(view: &View<'_>, job: JobId) -> bool {
    view.schedule().placement(job).is_none() && view.job(job).ending().is_none()
}
