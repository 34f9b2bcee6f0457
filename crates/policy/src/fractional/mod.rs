//! The *fractional* family: shares of time are worked out first, then rounds hand out devices in proportion.
//!
//! An [`Allocator`] states which part of the time each job (or pair of jobs) should have devices of which type. It is asked
//! again when jobs or machines have changed. The mechanism does the rest, in simulations and on real machines alike:
//! every round it credits each share, charges what was had, and gives devices to those who are owed most
//! ([`ledger`]). A job that is chosen again for the same type keeps its devices: its lease is extended. Devices that are left over
//! go to jobs that can use them, unless the allocator is strict.
//!
//! A round that was asked for takes place when it was due, however late the decision is: on real machines that is some milliseconds, by which accounts
//! that are equal in a simulation would differ, and another job would run.

pub mod allocate;
mod ledger;
pub mod problem;
mod round;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wharf_core::{Change, Decision, Gang, JobId, Knowledge, NodeId, Policy, Reason, RoundNotes, Time, View};

use crate::placement::{Placer, allowed_types};
use crate::priority::working_devices;
use crate::rebuild::busy_or_fragmented;
use crate::seating::{Party, Seated, Seating};
use ledger::Ledger;
pub use problem::{Allocation, Claim, Combo, Pairs, Problem};
use round::Candidate;

/// Says who should have which part of the time on which device type.
pub trait Allocator: Send {
    /// What it is entitled to know.
    fn knowledge(&self) -> Knowledge {
        Knowledge::Attained
    }

    /// Whether those without a share stay without devices although some are left over.
    fn is_strict(&self) -> bool {
        false
    }

    /// Whether it is asked at every change, and not only at the next round.
    fn is_prompt(&self) -> bool {
        false
    }

    /// Whether running jobs may be moved to other types at rounds, although it is asked at every change.
    fn is_migrating(&self) -> bool {
        false
    }

    /// Why a job without a share waits, where its place in the order of submission is not the reason.
    fn explain(&self, _job: JobId) -> Option<Reason> {
        None
    }

    /// Works out shares. Rows of the problem are never empty, and each job can run somewhere.
    fn allocate(&mut self, problem: &Problem<'_>) -> Allocation;
}

/// The numbers of the round mechanism.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundOptions {
    /// Seconds between two rounds.
    pub round_s: f64,
    /// Seconds for which a job keeps its devices in any case.
    pub min_run_s: f64,
    /// Difference of deficits, in seconds, above which a running job is preempted for another.
    pub sticky_s: f64,
}

/// A job that has devices.
#[derive(Clone, Copy, Debug)]
struct Seat {
    device_type: usize,
    /// The job that shares its devices.
    partner: Option<JobId>,
    /// Since when its time has not been charged.
    since: Time,
}

/// Rounds around an allocator.
pub struct Fractional {
    allocator: Box<dyn Allocator>,
    options: RoundOptions,
    seating: Seating,
    ledger: Ledger,
    /// All jobs that wait or have devices, with their speeds on each type by themselves.
    speeds: BTreeMap<JobId, Vec<f64>>,
    waiting: BTreeSet<JobId>,
    placed: BTreeMap<JobId, Seat>,
    /// Who was owed most at the last round, for devices that become free before the next.
    order: Vec<Candidate>,
    /// Jobs that the present shares do not know of: they came later, or could not run then.
    newcomers: Vec<JobId>,
    last_round: Option<Time>,
    /// Whether the next round was asked for.
    is_awaited: bool,
    /// Whether jobs or machines are others than when shares were worked out.
    is_stale: bool,
    /// Whether jobs or machines are others than when running jobs were last allowed to move.
    is_unbalanced: bool,
    /// For each device type, the list that allows it alone.
    only: Vec<Arc<[Arc<str>]>>,
    notes: RoundNotes,
}

impl Fractional {
    /// A policy over an idle cluster.
    pub fn new(allocator: Box<dyn Allocator>, options: RoundOptions, placer: Box<dyn Placer>) -> Self {
        Self {
            allocator,
            options,
            seating: Seating::new(placer),
            ledger: Ledger::default(),
            speeds: BTreeMap::new(),
            waiting: BTreeSet::new(),
            placed: BTreeMap::new(),
            order: Vec::new(),
            newcomers: Vec::new(),
            last_round: None,
            is_awaited: false,
            is_stale: true,
            is_unbalanced: true,
            only: Vec::new(),
            notes: RoundNotes { round_s: options.round_s, ..RoundNotes::default() },
        }
    }

    fn next_round(&self) -> Option<Time> {
        self.last_round.map(|last| last.plus(self.options.round_s))
    }

    /// When a round that is held now takes place: when it was due, where it was asked for and is not a whole round late.
    fn round_time(&self, now: Time) -> Time {
        let due = self.next_round().filter(|due| self.is_awaited && now.since(*due) < self.options.round_s);
        due.map_or(now, |due| due.min(now))
    }

    /// Whether another round could give a job more.
    fn is_improvable(&self) -> bool {
        const WHOLE: f64 = 1.0 - 1e-6;
        let has_whole =
            |(&job, seat): (&JobId, &Seat)| self.ledger.share(Combo::single(job), seat.device_type) >= WHOLE;
        !self.waiting.is_empty() || !self.placed.iter().all(has_whole)
    }

    /// Records that jobs or machines are others than before.
    fn change(&mut self) {
        self.is_stale = true;
        self.is_unbalanced = true;
    }

    /// Whether the next round could move a running job to a faster type.
    fn is_movable(&self) -> bool {
        let has_faster = |(job, seat): (&JobId, &Seat)| {
            let speed = self.speed_of(*job, seat.device_type);
            self.speeds.get(job).is_some_and(|row| row.iter().any(|&other| other > speed))
        };
        self.allocator.is_migrating() && self.is_unbalanced && self.placed.iter().any(has_faster)
    }

    /// Makes a job known.
    fn learn(&mut self, view: &View<'_>, job: JobId) {
        self.learn_types(view);
        if let Entry::Vacant(vacant) = self.speeds.entry(job) {
            vacant.insert(speeds(view, job));
            self.newcomers.push(job);
            self.change();
        }
    }

    fn learn_types(&mut self, view: &View<'_>) {
        let types = view.topology().types();
        if self.only.len() != types.len() {
            self.only = types.iter().map(|name| Arc::from([name.clone()])).collect();
            for (&job, row) in &mut self.speeds {
                *row = speeds(view, job);
            }
            self.change();
        }
    }

    /// A job's gang, on devices of one type.
    fn gang_on(&self, view: &View<'_>, job: JobId, device_type: usize) -> Gang {
        Gang { device_types: self.only[device_type].clone(), ..view.spec(job).gang.clone() }
    }

    /// Notes who was placed on devices of a type, alone or with a partner.
    fn note(&mut self, now: Time, seated: &Seated, target: impl Fn(JobId) -> (usize, Option<JobId>)) {
        for &job in &seated.started {
            let (device_type, partner) = target(job);
            self.waiting.remove(&job);
            self.placed.insert(job, Seat { device_type, partner, since: now });
        }
    }

    /// Charges a job for the time that it has had its devices since it was last charged. Of a pair, the first pays.
    fn charge(&mut self, now: Time, job: JobId) {
        let Some(seat) = self.placed.get_mut(&job) else { return };
        // One that came after a round was due is charged from the next round on.
        let until = now.max(seat.since);
        let seconds = until.since(std::mem::replace(&mut seat.since, until));
        let combo = seat.partner.map_or(Combo::single(job), |partner| Combo::pair(job, partner));
        if combo.first == job {
            self.ledger.charge(combo, seat.device_type, seconds);
        }
    }

    /// A job has ended: the one that shared its devices now has them alone.
    fn part(&mut self, now: Time, job: JobId) {
        let partner = self.placed.get(&job).and_then(|seat| seat.partner);
        self.charge(now, job);
        if let Some(partner) = partner {
            self.charge(now, partner);
            if let Some(seat) = self.placed.get_mut(&partner) {
                seat.partner = None;
            }
        }
        self.placed.remove(&job);
    }

    /// Gives free devices to waiting jobs, those first who are owed most.
    fn fill(&mut self, decision: &mut Decision<'_>, now: Time) {
        if self.waiting.is_empty() || decision.view().schedule().free_count() == 0 {
            return;
        }
        let order = std::mem::take(&mut self.order);
        let mut full: BTreeSet<(usize, u32)> = BTreeSet::new();
        let is_strict = self.allocator.is_strict();
        let owed = order.iter().filter(|candidate| candidate.combo.second.is_none());
        for candidate in owed.filter(|candidate| !is_strict || candidate.share > 0.0) {
            if decision.view().schedule().free_count() == 0 {
                break;
            }
            self.fill_one(decision, now, candidate.combo.first, candidate.device_type, &mut full);
        }
        self.order = order;
        if !is_strict {
            self.fill_others(decision, now, &mut full);
        }
    }

    /// Gives free devices to jobs that have no share by themselves: those that came since, and one of a pair.
    fn fill_others(&mut self, decision: &mut Decision<'_>, now: Time, full: &mut BTreeSet<(usize, u32)>) {
        let mut rest: Vec<JobId> = self.waiting.iter().copied().collect();
        rest.retain(|&job| decision.view().schedule().free_count() >= decision.view().spec(job).gang.devices);
        for job in rest {
            for device_type in self.by_speed(job) {
                self.fill_one(decision, now, job, device_type, full);
            }
        }
    }

    /// Starts a job on free devices of a type; `full` are gangs that found none.
    fn fill_one(
        &mut self,
        decision: &mut Decision<'_>,
        now: Time,
        job: JobId,
        device_type: usize,
        full: &mut BTreeSet<(usize, u32)>,
    ) {
        let can_run = self.speeds.get(&job).is_some_and(|row| row.get(device_type).is_some_and(|&s| s > 0.0));
        if !can_run || !self.waiting.contains(&job) {
            return;
        }
        let gang = self.gang_on(&decision.view(), job, device_type);
        let key = (device_type, gang.devices);
        if full.contains(&key) {
            return;
        }
        let has_needs = gang.needs.is_some();
        let mut seated = Seated::default();
        let is_found = self.seating.seat_on_free(decision, &Party { group: vec![job], gang }, &mut seated);
        self.note(now, &seated, |_| (device_type, None));
        if !is_found && !has_needs {
            full.insert(key);
        }
    }

    /// The types that a job can run on, the fastest first.
    fn by_speed(&self, job: JobId) -> Vec<usize> {
        let Some(row) = self.speeds.get(&job) else { return Vec::new() };
        let mut types: Vec<usize> = (0..row.len()).filter(|&kind| row[kind] > 0.0).collect();
        types.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
        types
    }

    fn has_share(&self, job: JobId) -> bool {
        (0..self.only.len()).any(|kind| self.ledger.share(Combo::single(job), kind) > 0.0)
    }

    /// Why a job without a share waits under a strict allocator: for those before it, or for one that has been promised what is
    /// free.
    fn explain_order(&self, job: JobId, reason: Reason) -> Reason {
        let head = self.waiting.iter().copied().find(|&other| !self.has_share(other));
        if let Some(head) = head.filter(|&head| head != job) {
            return Reason::HeadOfLine { head };
        }
        let promised = self.waiting.iter().copied().find(|&other| self.has_share(other));
        match (reason, promised) {
            (Reason::Fragmented { .. }, Some(holder)) => Reason::Reserved { holder },
            (reason, _) => reason,
        }
    }
}

impl Policy for Fractional {
    fn knowledge(&self) -> Knowledge {
        self.allocator.knowledge()
    }

    fn observe(&mut self, view: &View<'_>, change: Change) {
        match change {
            Change::Arrived(job) | Change::Waiting(job) | Change::Stopping(job) => {
                self.learn(view, job);
                // Within one decision it may have been stopped and started again.
                if view.schedule().placement(job).is_none() {
                    // Stopped from elsewhere.
                    if self.placed.contains_key(&job) {
                        self.change();
                    }
                    self.part(view.now, job);
                    self.waiting.insert(job);
                }
            }
            Change::Placed(job) => {
                self.learn(view, job);
                self.waiting.remove(&job);
                self.placed.entry(job).or_insert_with(|| Seat {
                    device_type: type_of(view, job),
                    partner: view.schedule().neighbours(view.topology(), job).first().copied(),
                    since: view.now,
                });
            }
            Change::Ended(job) => {
                self.part(view.now, job);
                self.waiting.remove(&job);
                if self.speeds.remove(&job).is_some() {
                    self.change();
                }
                self.ledger.forget(job);
            }
            Change::Node(_) => {
                self.learn_types(view);
                self.change();
            }
            Change::Running(_) => {}
        }
    }

    fn schedule(&mut self, decision: &mut Decision<'_>) {
        let now = decision.view().now;
        let is_prompt = self.allocator.is_prompt();
        let is_round = self.next_round().is_none_or(|next| next <= now);
        let is_moving = is_round && self.is_movable();
        self.is_stale |= is_moving;
        let is_due = is_round || is_prompt && self.is_stale;
        let mut at = now;
        if is_due && (is_moving || self.is_improvable()) {
            if is_round {
                at = self.round_time(now);
                self.last_round = Some(at);
                self.is_unbalanced = false;
            }
            self.round(decision, at, is_moving);
        }
        self.fill(decision, at);
        self.is_awaited = !is_prompt && self.is_improvable() || self.is_movable();
        if self.is_awaited {
            decision.wake_at(self.next_round().unwrap_or(now));
        }
    }

    fn rounds(&mut self) -> Option<RoundNotes> {
        let shares = self.notes.shares.take();
        Some(RoundNotes { shares, ..self.notes.clone() })
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> Reason {
        let (needed, working) = (view.spec(job).gang.devices, working_devices(view, job));
        if needed > working {
            return Reason::NodesOut { needed, working };
        }
        let reason = busy_or_fragmented(view, job);
        if self.allocator.is_strict() && !self.has_share(job) {
            return match (self.allocator.explain(job), reason) {
                (Some(_), reason @ Reason::DevicesBusy { .. }) => reason,
                (Some(planned), _) => planned,
                (None, reason) => self.explain_order(job, reason),
            };
        }
        let Some(at) = self.next_round().filter(|_| !self.allocator.is_prompt()) else { return reason };
        if self.newcomers.contains(&job) && matches!(reason, Reason::DevicesBusy { .. }) {
            return Reason::NextRound { at };
        }
        match reason {
            Reason::DevicesBusy { .. } => Reason::Leased { until: at, ahead: self.ahead(job) },
            reason => reason,
        }
    }
}

/// A job's speed by itself on each device type; 0 where it must not run.
fn speeds(view: &View<'_>, job: JobId) -> Vec<f64> {
    let (topology, spec) = (view.topology(), view.spec(job));
    let mut row = vec![0.0; topology.types().len()];
    for kind in allowed_types(topology, &spec.gang) {
        let speed = view.perf().speed(topology, spec, kind, spec.gang.devices, &[]);
        row[kind.index()] = if speed.is_finite() { speed.max(0.0) } else { 0.0 };
    }
    row
}

/// The type of a placed job's devices: that of its first node.
fn type_of(view: &View<'_>, job: JobId) -> usize {
    let first = view.schedule().placement(job).and_then(|placement| placement.first());
    first.map_or(0, |share| view.topology().node(share.node).device_type.index())
}

/// Working devices of each type on nodes that can be given jobs.
fn usable(view: &View<'_>) -> Vec<u32> {
    let mut usable = vec![0; view.topology().types().len()];
    for (index, node) in view.topology().nodes().iter().enumerate() {
        let id = NodeId::from_index(index);
        if view.schedule().is_up(id) {
            usable[node.device_type.index()] += node.spec.devices - view.schedule().broken(id).len();
        }
    }
    usable
}
