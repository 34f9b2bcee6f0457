//! The governor: limits around any policy.
//!
//! A job that would exceed a limit is not shown to the policy, so no policy has to know of limits. Nodes that are kept for
//! a reservation, or for a job that has waited too long, are closed: to a policy they look as if they were out, and the
//! governor itself gives them to those whom they are kept for.

mod accounts;
mod bookings;
mod document;
mod guard;
mod hours;
mod ledger;
mod limits;
mod site;
#[cfg(test)]
mod tests;
mod units;
mod usage;

use std::collections::BTreeSet;

use wharf_core::{Change, Decision, JobId, Knowledge, NodeId, Phase, Policy, Quota, Reason, Time, View};

use accounts::{Accounts, turn};
use bookings::{Bookings, asked};
pub use document::LimitsError;
use guard::Guard;
use limits::user_of;
pub use limits::{Caps, Group, Limits, Nodes, Pool, Refused, Reservation, Terms};
pub use units::{Moment, Origin};
pub use usage::{Usage, usage};

use crate::priority::{free_devices, working_devices};

/// A policy within limits.
pub struct Governed {
    inner: Box<dyn Policy>,
    limits: Limits,
    accounts: Accounts,
    bookings: Bookings,
    guard: Guard,
    /// Nodes that are closed.
    kept: BTreeSet<NodeId>,
    jobs: Vec<Entry>,
    /// When it was last told or asked anything.
    now: Time,
    /// Whether it has decided before: what came earlier was there when it took over.
    is_settled: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    place: Place,
    queue: u32,
    /// The priority that it is queued with.
    priority: i32,
}

/// Where a job is as far as limits are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Not here, or over.
    Nowhere,
    /// It waits for a limit.
    Pending,
    /// It can never run under its limits.
    Never,
    /// The policy knows of it.
    Admitted,
    /// Its reservation has not begun.
    Early,
    /// It is admitted, and goes to its reservation's nodes.
    Booked,
    /// It runs where nodes were kept for it.
    Guarded,
}

impl Governed {
    /// Puts limits around a policy.
    pub fn new(inner: Box<dyn Policy>, limits: Limits, origin: Origin) -> Self {
        let (bookings, guard) = (Bookings::new(&limits, origin), Guard::new(limits.starvation_s));
        let (accounts, kept) = (Accounts::default(), BTreeSet::new());
        let now = origin.applied;
        Self { inner, limits, accounts, bookings, guard, kept, jobs: Vec::new(), now, is_settled: false }
    }

    fn entry(&self, job: JobId) -> Entry {
        let nowhere = Entry { place: Place::Nowhere, queue: 0, priority: 0 };
        self.jobs.get(job.index()).copied().unwrap_or(nowhere)
    }

    fn set(&mut self, job: JobId, entry: Entry) {
        if self.jobs.len() <= job.index() {
            self.jobs.resize(job.index() + 1, Entry { place: Place::Nowhere, queue: 0, priority: 0 });
        }
        self.jobs[job.index()] = entry;
    }

    fn set_place(&mut self, job: JobId, place: Place) {
        let entry = self.entry(job);
        self.set(job, Entry { place, ..entry });
    }

    /// Why a job can never run under its limits.
    fn never(&self, view: &View<'_>, queue: usize, job: JobId) -> Option<Reason> {
        let spec = view.spec(job);
        let pool = spec.gang.pool().and_then(|name| Some((name, self.limits.pools.get(name)?)));
        if let Some((name, pool)) = pool {
            let user = user_of(spec);
            if pool.users.as_ref().is_some_and(|users| !users.contains(&user)) {
                return Some(Reason::PoolRefuses { pool: name.clone(), user });
            }
            if let Some(most) = pool.gang_max.filter(|&most| spec.gang.devices_max > most) {
                let quota = Quota {
                    whose: format!("a job of pool {name}").into(),
                    what: "devices".into(),
                    used: 0.0,
                    asked: spec.gang.devices_max.into(),
                    limit: most.into(),
                };
                return Some(Reason::OverLimit(quota));
            }
        }
        let ledgers =
            self.accounts.queues[queue].ledgers.iter().map(|&ledger| &self.accounts.ledgers[ledger]);
        let mut over = ledgers.filter_map(|ledger| ledger.caps.never(&ledger.whose, &spec.gang));
        over.next().map(Reason::OverLimit).or_else(|| self.bookings.refuses(view, job))
    }

    fn arrive(&mut self, view: &View<'_>, job: JobId) {
        let spec = view.spec(job);
        let queue = self.accounts.queue(&self.limits, view.now, spec);
        let entry = Entry { place: Place::Nowhere, queue: queue as u32, priority: spec.priority };
        let is_placed = view.schedule().placement(job).is_some() || view.job(job).phase == Phase::Stopping;
        if !is_placed && self.never(view, queue, job).is_some() {
            self.set(job, Entry { place: Place::Never, ..entry });
        } else if !is_placed && self.bookings.wait_for_start(view, job) {
            self.set(job, Entry { place: Place::Early, ..entry });
        } else if is_placed || self.accounts.queues[queue].ledgers.is_empty() {
            // What runs continues, even where limits have become tighter meanwhile.
            self.set(job, entry);
            self.accounts.take(queue, job, &spec.gang);
            self.admit(view, job);
        } else {
            self.set(job, Entry { place: Place::Pending, ..entry });
            self.accounts.wait(queue, turn(view, job));
        }
    }

    /// Admits jobs. One whose reservation has ended makes room for others.
    fn admit_all(&mut self, view: &View<'_>) {
        loop {
            let mut admitted: Vec<JobId> = Vec::new();
            self.accounts.admit(view, |job| admitted.push(job));
            if admitted.is_empty() {
                return;
            }
            for job in admitted {
                self.admit(view, job);
            }
        }
    }

    /// Shows an admitted job to the policy, or puts it among those of its reservation.
    fn admit(&mut self, view: &View<'_>, job: JobId) {
        if asked(view, job).is_some() {
            self.set_place(job, Place::Booked);
            if view.schedule().placement(job).is_none() {
                self.bookings.wait(view, job);
                if self.bookings.refuses(view, job).is_some() {
                    self.give_up(view, job);
                }
            }
            return;
        }
        self.set_place(job, Place::Admitted);
        self.inner.observe(view, Change::Arrived(job));
        if view.schedule().placement(job).is_none() {
            let life = view.job(job);
            let is_old = !self.is_settled && life.first_start.is_none();
            self.guard.wait(job, if is_old { view.spec(job).submit } else { view.now });
        }
    }

    /// A job whose reservation has ended can never run.
    fn give_up(&mut self, view: &View<'_>, job: JobId) {
        let entry = self.entry(job);
        self.bookings.leave(view, job);
        self.accounts.give_back(view.now, entry.queue as usize, job, &view.spec(job).gang);
        self.set(job, Entry { place: Place::Never, ..entry });
    }

    /// Takes an admitted job that waits back from the policy.
    fn withdraw(&mut self, view: &View<'_>, job: JobId) {
        let entry = self.entry(job);
        match entry.place {
            Place::Admitted => self.inner.observe(view, Change::Ended(job)),
            Place::Booked => self.bookings.leave(view, job),
            Place::Nowhere | Place::Pending | Place::Never | Place::Early | Place::Guarded => {}
        }
        self.guard.leave(job);
        let spec = view.spec(job);
        self.accounts.give_back(view.now, entry.queue as usize, job, &spec.gang);
        self.set(job, Entry { place: Place::Pending, priority: spec.priority, ..entry });
        self.accounts.wait(entry.queue as usize, turn(view, job));
    }

    fn end(&mut self, view: &View<'_>, job: JobId) {
        let entry = self.entry(job);
        let queue = entry.queue as usize;
        match entry.place {
            Place::Nowhere | Place::Never => {}
            Place::Early => self.bookings.leave(view, job),
            Place::Pending => self.accounts.leave(queue, (std::cmp::Reverse(entry.priority), job)),
            Place::Admitted | Place::Booked | Place::Guarded => {
                self.accounts.give_back(view.now, queue, job, &view.spec(job).gang);
                self.bookings.leave(view, job);
            }
        }
        self.guard.leave(job);
        self.set_place(job, Place::Nowhere);
        if !matches!(entry.place, Place::Pending | Place::Never | Place::Early) {
            self.inner.observe(view, Change::Ended(job));
        }
    }

    fn placed(&mut self, view: &View<'_>, job: JobId) {
        let entry = self.entry(job);
        let shares = view.schedule().placement(job).unwrap_or_default();
        let devices = shares.iter().map(|share| share.devices.len()).sum();
        self.accounts.place(view.now, entry.queue as usize, job, Some(devices));
        self.guard.leave(job);
        match entry.place {
            Place::Admitted => self.inner.observe(view, Change::Placed(job)),
            Place::Booked => self.bookings.leave(view, job),
            Place::Nowhere | Place::Pending | Place::Never | Place::Early | Place::Guarded => {}
        }
    }

    fn stopping(&mut self, view: &View<'_>, job: JobId) {
        let entry = self.entry(job);
        let has_devices = view.schedule().placement(job).is_some();
        match entry.place {
            Place::Admitted | Place::Guarded => {
                // What was the job's own is the policy's again.
                self.set_place(job, Place::Admitted);
                self.inner.observe(view, Change::Stopping(job));
                if !has_devices {
                    self.guard.wait(job, view.now);
                }
            }
            Place::Booked if !has_devices => self.bookings.wait(view, job),
            Place::Booked | Place::Nowhere | Place::Pending | Place::Never | Place::Early => {}
        }
        if !has_devices && entry.place != Place::Pending {
            self.accounts.place(view.now, entry.queue as usize, job, None);
        }
    }

    fn waiting(&mut self, view: &View<'_>, job: JobId) {
        let entry = self.entry(job);
        match entry.place {
            Place::Pending => {
                let queue = entry.queue as usize;
                self.accounts.leave(queue, (std::cmp::Reverse(entry.priority), job));
                self.set(job, Entry { priority: view.spec(job).priority, ..entry });
                self.accounts.wait(queue, turn(view, job));
            }
            Place::Admitted => {
                self.inner.observe(view, Change::Waiting(job));
                if !self.guard.is_waiting(job) && view.schedule().placement(job).is_none() {
                    self.guard.wait(job, view.now);
                }
            }
            Place::Booked if view.schedule().placement(job).is_none() => self.bookings.wait(view, job),
            Place::Booked | Place::Guarded | Place::Nowhere | Place::Never | Place::Early => {}
        }
    }

    /// Before the first decision: GPU-hours that were used before it took over.
    fn settle(&mut self, view: &View<'_>) {
        self.is_settled = true;
        usage::recall(&mut self.accounts, &self.limits, view);
        for ledger in 0..self.accounts.ledgers.len() {
            self.accounts.check_hours(view.now, ledger);
            self.enforce_hours(view, ledger);
        }
        // Nodes that an earlier governor kept, and this one may not.
        let nodes = (0..view.topology().nodes().len()).map(NodeId::from_index);
        self.kept = nodes.filter(|&node| view.schedule().is_closed(node)).collect();
    }

    /// Takes back those that wait from an owner who has used up the GPU-hours.
    fn enforce_hours(&mut self, view: &View<'_>, ledger: usize) {
        if self.accounts.ledgers[ledger].is_spent() {
            for job in self.accounts.ledgers[ledger].waiting.clone() {
                self.withdraw(view, job);
            }
        }
    }

    fn check_hours(&mut self, decision: &mut Decision<'_>) {
        let now = decision.view().now;
        while let Some(ledger) = self.accounts.due(now) {
            self.enforce_hours(&decision.view(), ledger);
        }
        // Also those that were used up before this decision, such as when the limits were applied.
        let spent = self.accounts.ledgers.iter().filter(|one| one.caps.stop_at_limit && one.is_spent());
        let running: BTreeSet<JobId> = spent.flat_map(|one| one.running.keys().copied()).collect();
        for job in bookings::stop_all(decision, running) {
            let view = decision.view();
            self.stopping(&view, job);
            self.withdraw(&view, job);
        }
    }

    /// Reservations begin and end, or nodes have changed.
    fn begin_and_end(&mut self, view: &View<'_>) {
        self.bookings.update(view);
        let (begun, over) = self.bookings.take_due(view.now);
        for job in begun {
            self.arrive(view, job);
        }
        for job in over {
            self.give_up(view, job);
        }
    }

    /// Closes nodes that have to be kept, opens those that need not be, and sends away who has to leave.
    fn keep_nodes(&mut self, decision: &mut Decision<'_>, is_due: bool) {
        let view = decision.view();
        self.guard.update(&view, &self.bookings);
        let wanted: BTreeSet<NodeId> =
            self.bookings.kept().chain(self.guard.kept().iter().copied()).collect();
        for &node in self.kept.symmetric_difference(&wanted) {
            if wanted.contains(&node) {
                decision.close(node);
            } else {
                decision.reopen(node);
            }
            self.inner.observe(&decision.view(), Change::Node(node));
        }
        self.kept = wanted;
        if is_due {
            let leaving = self.bookings.to_drain(&decision.view());
            for job in bookings::stop_all(decision, leaving) {
                self.stopping(&decision.view(), job);
            }
        }
    }

    /// Starts those for whom nodes are kept, and gives back what is not needed for that any more.
    fn start_kept(&mut self, decision: &mut Decision<'_>, is_due: bool) {
        self.keep_nodes(decision, is_due);
        self.bookings.start(decision);
        while let Some((job, placement)) = self.guard.ready(&decision.view()) {
            // The policy hears no more of it: it would take the devices away again.
            self.inner.observe(&decision.view(), Change::Ended(job));
            self.guard.leave(job);
            if decision.start_kept(job, &placement) {
                self.set_place(job, Place::Guarded);
            } else {
                self.inner.observe(&decision.view(), Change::Arrived(job));
            }
            self.keep_nodes(decision, false);
        }
    }

    /// The reason that the policy gives, or that devices are reserved for another job.
    fn explain_admitted(&self, view: &View<'_>, job: JobId) -> Reason {
        let gang = &view.spec(job).gang;
        let is_confined =
            gang.pool().is_some() || gang.needs.as_ref().is_some_and(|needs| needs.scope.is_limited());
        let reason = match self.inner.explain(view, job) {
            Reason::NodesOut { needed, working } if is_confined => {
                Reason::PoolTooSmall { pool: gang.pool().cloned(), needed, working }
            }
            reason => reason,
        };
        let is_about_devices = matches!(
            reason,
            Reason::DevicesBusy { .. }
                | Reason::Fragmented { .. }
                | Reason::NoPartner { .. }
                | Reason::Leased { .. }
                | Reason::NodesOut { .. }
                | Reason::PoolTooSmall { .. }
        );
        let kept = self.bookings.kept().chain(self.guard.kept().iter().copied());
        let could_use = |node: &NodeId| {
            let spec = &view.topology().node(*node).spec;
            limits::is_of(gang, &spec.device_type)
                && gang.needs.as_ref().is_none_or(|needs| needs.allow(spec))
        };
        let kept: Vec<NodeId> = kept.filter(could_use).collect();
        if !is_about_devices || kept.is_empty() || self.guard.holder() == Some(job) {
            return reason;
        }
        let is_out = matches!(reason, Reason::NodesOut { .. } | Reason::PoolTooSmall { .. });
        let idle: u32 = kept.iter().map(|&node| site::room(view, gang, node)).sum();
        let all: u32 = kept.iter().map(|&node| view.topology().node(node).spec.devices).sum();
        let would_do = if is_out {
            working_devices(view, job) + all >= gang.size()
        } else {
            idle > 0 && free_devices(view, job) + idle >= gang.size()
        };
        if !would_do {
            return reason;
        }
        match (kept.iter().find_map(|&node| self.bookings.keeper(node)), self.guard.holder()) {
            (Some((name, until)), _) => Reason::Kept { name, until },
            (None, Some(holder)) => Reason::Starving { holder },
            (None, None) => reason,
        }
    }
}

impl Policy for Governed {
    fn knowledge(&self) -> Knowledge {
        self.inner.knowledge()
    }

    fn observe(&mut self, view: &View<'_>, change: Change) {
        self.now = view.now;
        match change {
            Change::Arrived(job) => self.arrive(view, job),
            Change::Placed(job) => self.placed(view, job),
            Change::Running(job) => {
                if self.entry(job).place == Place::Admitted {
                    self.inner.observe(view, change);
                }
            }
            Change::Stopping(job) => self.stopping(view, job),
            Change::Waiting(job) => self.waiting(view, job),
            Change::Ended(job) => self.end(view, job),
            Change::Node(_) => {
                self.bookings.look_again();
                self.guard.look_again();
                self.inner.observe(view, change);
            }
        }
    }

    fn schedule(&mut self, decision: &mut Decision<'_>) {
        self.now = decision.view().now;
        if !self.is_settled {
            self.settle(&decision.view());
        }
        self.check_hours(decision);
        let view = decision.view();
        let is_due = self.bookings.is_due(view.now);
        if is_due {
            self.begin_and_end(&view);
        }
        self.admit_all(&view);
        self.start_kept(decision, is_due);
        self.inner.schedule(decision);
    }

    fn rounds(&mut self) -> Option<wharf_core::RoundNotes> {
        self.inner.rounds()
    }

    fn wake(&self) -> Option<Time> {
        let wakes = [self.accounts.next_alarm(), self.bookings.next(), self.guard.next(), self.inner.wake()];
        // What is due already is due now: time does not go back.
        wakes.into_iter().flatten().min().map(|wake| wake.max(self.now))
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> Reason {
        let entry = self.entry(job);
        match entry.place {
            Place::Never => {
                let reason = self.never(view, entry.queue as usize, job);
                reason.unwrap_or(Reason::NextRound { at: view.now })
            }
            Place::Pending => self.accounts.explain(view, entry.queue as usize, job),
            Place::Booked | Place::Early => self.bookings.explain(view, job),
            Place::Admitted => self.explain_admitted(view, job),
            Place::Guarded | Place::Nowhere => Reason::NotWaiting,
        }
    }
}
