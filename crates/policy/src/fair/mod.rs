//! Fair shares: the next devices go to the user with the least usage for their weight.
//!
//! Usage is device-seconds, fades with a half-life, and includes what runs now ([`ledger`]). Groups share the cluster,
//! the users of a group its share. A user's own jobs go by priority, which waiting makes up for, and submission. A gang that
//! does not fit is passed over, for a while only: then nodes are kept for it.

mod ledger;
mod preempt;
mod queues;

use std::collections::BTreeSet;

use wharf_core::{Change, Decision, JobId, Knowledge, NodeId, NodeShare, Policy, Reason, Time, View};

use crate::fifo::Fifo;
use crate::placement::Placer;
use crate::priority::working_devices;
use crate::rebuild::busy_or_fragmented;
use crate::reserve::{self, Reservation};
pub use ledger::Shares;
use ledger::{Ledger, Unit};
pub use preempt::Preempt;
use queues::Queues;

/// Further reservations are made while less than one in so many nodes is kept.
const RESERVED_PART: usize = 4;

/// What can be chosen about fair shares.
#[derive(Clone, Debug, PartialEq)]
pub struct FairOptions {
    /// Who shares, and how.
    pub shares: Shares,
    /// Seconds after which usage counts half; 0: it never fades.
    pub half_life_s: f64,
    /// Running devices are charged for so many seconds in advance: otherwise one user would get all that is free at once.
    pub ahead_s: f64,
    /// Seconds of waiting that make up for one level of priority; `None`: no waiting does.
    pub age_s: Option<f64>,
    /// Seconds after which nodes are kept for a job that does not fit.
    pub reserve_after_s: f64,
    /// Whether and when devices are taken from those who are far above their share.
    pub preempt: Option<Preempt>,
}

/// Fair shares with decay.
pub struct Fair {
    options: FairOptions,
    placer: Box<dyn Placer>,
    ledger: Ledger,
    queues: Queues,
    /// For each job, whom its devices are charged to, while they are.
    charged: Vec<Option<(usize, u32)>>,
    /// For each user, placed jobs.
    placed: Vec<BTreeSet<JobId>>,
    /// In the order in which they were made.
    reservations: Vec<Reservation>,
    /// Usage from before this policy took over is counted.
    is_settled: bool,
    placement: Vec<NodeShare>,
}

impl Fair {
    /// A policy over an idle cluster.
    pub fn new(options: FairOptions, placer: Box<dyn Placer>) -> Self {
        let unit = Unit::new(options.half_life_s, options.ahead_s);
        Self {
            ledger: Ledger::new(unit, options.shares.clone()),
            options,
            placer,
            queues: Queues::default(),
            charged: Vec::new(),
            placed: Vec::new(),
            reservations: Vec::new(),
            is_settled: false,
            placement: Vec::new(),
        }
    }

    /// Counts what was used before this policy took over. What a job had is dated to its end, or to now where it lives.
    fn settle_past(&mut self, view: &View<'_>) {
        self.is_settled = true;
        for job in view.all_jobs() {
            let (life, spec) = (view.job(job), view.spec(job));
            let at = life.end.unwrap_or(view.now);
            let since_placed_s = if is_charged(view, job) { view.now.since(life.placed_at()) } else { 0.0 };
            let past_s = life.attained_s(view.now) - since_placed_s;
            if past_s > 0.0 {
                let user = self.ledger.user(spec.user.as_ref());
                self.ledger.charge(user, past_s * f64::from(spec.gang.devices), at);
            }
        }
    }

    fn wait(&mut self, view: &View<'_>, job: JobId) {
        self.uncharge(view, job);
        let spec = view.spec(job);
        let user = self.ledger.user(spec.user.as_ref());
        let key = Fifo { age_s: self.options.age_s }.key_of(spec);
        if !self.queues.has_waiting(user) {
            self.ledger.want(user);
        }
        self.queues.wait(job, user, &spec.gang, key);
    }

    fn leave(&mut self, job: JobId) {
        if let Some(user) = self.queues.remove(job) {
            self.ledger.withdraw(user);
        }
    }

    fn charge(&mut self, view: &View<'_>, job: JobId) {
        if self.charged.len() <= job.index() {
            self.charged.resize(job.index() + 1, None);
        }
        if self.charged[job.index()].is_none() {
            let spec = view.spec(job);
            let user = self.ledger.user(spec.user.as_ref());
            self.charged[job.index()] = Some((user, spec.gang.devices));
            let since = if is_charged(view, job) { view.job(job).placed_at() } else { view.now };
            self.ledger.start(user, spec.gang.devices, since);
            if self.placed.len() <= user {
                self.placed.resize_with(user + 1, BTreeSet::new);
            }
            self.placed[user].insert(job);
        }
    }

    fn uncharge(&mut self, view: &View<'_>, job: JobId) {
        if let Some((user, devices)) = self.charged.get_mut(job.index()).and_then(Option::take) {
            self.ledger.stop(user, devices, view.now);
            self.placed[user].remove(&job);
        }
    }

    /// Starts one waiting job after another, of the user with the least usage, until nothing fits.
    fn fill(&mut self, decision: &mut Decision<'_>) {
        let now = decision.view().now;
        let mut set_aside = Vec::new();
        while self.queues.has_open() && self.could_start(decision) {
            let Some(user) = self.ledger.first(now) else { break };
            // Holders of reservations had their turn already.
            let is_holder = |job| self.reservations.iter().any(|held| held.holder == job);
            let Some((class, job)) = self.queues.first_open(user, is_holder) else {
                self.ledger.withdraw(user);
                set_aside.push(user);
                continue;
            };
            if !self.start_on_free(decision, job) && !self.preempt_for(decision, user, job) {
                self.pass_over(decision, job);
                self.queues.block(class);
            }
        }
        for user in set_aside {
            if self.queues.has_waiting(user) {
                self.ledger.want(user);
            }
        }
    }

    fn could_start(&self, decision: &Decision<'_>) -> bool {
        self.options.preempt.is_some() || decision.view().schedule().free_count() > 0
    }

    /// Nodes are kept for a job that has been passed over for too long.
    fn pass_over(&mut self, decision: &mut Decision<'_>, job: JobId) {
        let view = decision.view();
        // Which node is nearest to being free shows only when something is.
        if !self.may_reserve(&view, job) || view.schedule().free_count() == 0 {
            return;
        }
        let due = view.spec(job).submit.plus(self.options.reserve_after_s);
        if due > view.now {
            decision.wake_at(due);
            return;
        }
        let gang = &view.spec(job).gang;
        let reserved = self.reserved(job);
        let reservation = reserve::reserve(&view, job, |kind| {
            let mut nodes = reserve::by_free(&view, kind, gang);
            nodes.retain(|node| !reserved.contains(&node.node));
            nodes
        });
        self.reservations.extend(reservation);
    }

    /// One reservation is always possible, and more of them on a part of the nodes.
    fn may_reserve(&self, view: &View<'_>, job: JobId) -> bool {
        let kept: usize = self.reservations.iter().map(|held| held.nodes.len()).sum();
        let is_within = self.reservations.is_empty() || kept < view.topology().nodes().len() / RESERVED_PART;
        is_within && self.reservations.iter().all(|held| held.holder != job)
    }

    /// Gives the holders of reservations their devices where they are free, and gives up reservations that have no point.
    fn serve_reservations(&mut self, decision: &mut Decision<'_>) {
        let view = decision.view();
        self.reservations.retain(|held| {
            let is_up = held.nodes.iter().all(|&node| view.schedule().is_up(node));
            is_up && self.queues.place(held.holder).is_some()
        });
        let holders: Vec<JobId> = self.reservations.iter().map(|held| held.holder).collect();
        for holder in holders {
            if self.start_on_free(decision, holder) {
                self.reservations.retain(|held| held.holder != holder);
            }
        }
    }

    /// Nodes that are kept for others.
    fn reserved(&self, job: JobId) -> Vec<NodeId> {
        let others = self.reservations.iter().filter(|held| held.holder != job);
        others.flat_map(|held| held.nodes.iter().copied()).collect()
    }

    fn start_on_free(&mut self, decision: &mut Decision<'_>, job: JobId) -> bool {
        let view = decision.view();
        let gang = &view.spec(job).gang;
        let mut placement = std::mem::take(&mut self.placement);
        let mut is_found = self.placer.place(view.topology(), view.schedule(), gang, &mut placement);
        let reserved = self.reserved(job);
        if is_found && placement.iter().any(|share| reserved.contains(&share.node)) {
            let elsewhere = reserve::place_elsewhere(&view, gang, &placement, &reserved);
            is_found = elsewhere.is_some();
            placement = elsewhere.unwrap_or_default();
        }
        let is_started = is_found && self.start(decision, job, &placement);
        self.placement = placement;
        is_started
    }

    fn start(&mut self, decision: &mut Decision<'_>, job: JobId, placement: &[NodeShare]) -> bool {
        let is_started = decision.start(job, placement);
        if is_started {
            self.leave(job);
            self.charge(&decision.view(), job);
        }
        is_started
    }
}

/// Whether a job has held its devices since it was placed.
fn is_charged(view: &View<'_>, job: JobId) -> bool {
    matches!(view.job(job).phase, wharf_core::Phase::Placed | wharf_core::Phase::Running)
}

impl Policy for Fair {
    fn knowledge(&self) -> Knowledge {
        Knowledge::Attained
    }

    fn observe(&mut self, view: &View<'_>, change: Change) {
        if !self.is_settled {
            self.settle_past(view);
        }
        self.ledger.renew(view.now);
        match change {
            Change::Arrived(job) | Change::Waiting(job) | Change::Stopping(job) => {
                if view.schedule().placement(job).is_none() {
                    self.wait(view, job);
                }
            }
            Change::Placed(job) => {
                self.leave(job);
                self.charge(view, job);
            }
            Change::Ended(job) => {
                self.leave(job);
                self.uncharge(view, job);
            }
            Change::Running(_) | Change::Node(_) => {}
        }
    }

    fn schedule(&mut self, decision: &mut Decision<'_>) {
        self.ledger.renew(decision.view().now);
        self.queues.unblock();
        self.serve_reservations(decision);
        self.fill(decision);
        self.plan_look(decision);
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> Reason {
        let (needed, working) = (view.spec(job).gang.devices, working_devices(view, job));
        if needed > working {
            return Reason::NodesOut { needed, working };
        }
        if let Some((first, ahead)) = self.queues.ahead(job) {
            return Reason::Behind { first, ahead };
        }
        if let Some(place) = self.queues.place(job) {
            let now: Time = view.now;
            let mut others = self.queues.heads(place.class).filter(|&(user, _)| user != place.user);
            let first = others.find_map(|(user, first)| {
                let (used_h, least_h) = self.ledger.used_h(now, place.user, user);
                (least_h < used_h).then_some(Reason::Share { first, used_h, least_h })
            });
            if let Some(reason) = first {
                return reason;
            }
        }
        let holder = self.reservations.iter().map(|held| held.holder).find(|&holder| holder != job);
        match (busy_or_fragmented(view, job), holder) {
            (Reason::Fragmented { .. }, Some(holder)) => Reason::Reserved { holder },
            (reason, _) => reason,
        }
    }
}
