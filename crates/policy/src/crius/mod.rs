//! Crius: jobs are given cells (device type x number of devices x pipeline stages) and change them while they run.
//!
//! A job that comes starts at once in the cell that brings most, on free devices or on those that running jobs give up: they
//! shrink, change type, move, or wait, if the job that comes gains more than all of them lose. When devices become free,
//! waiting jobs are tried in order, and devices without waiting jobs make running jobs faster. Every move pays for its
//! restart: it is made only where that is worth it over what the job has left to do, or over a horizon.
//!
//! Gains are counted once, in one unit for all jobs: how much sooner they are done (`value=finish`), samples as
//! published, or speed in relation to what each asked for. Moves are thought out on a [`board`] and carried out together.
//!
//! No job starves: a job that has waited for `patience_s` goes before all others and may take all devices but
//! those of jobs that were as late themselves; until it has started, no other job starts on the types that it can use.

mod board;
mod cells;
mod clearing;
mod decide;
mod exact;
mod grow;
mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wharf_core::{
    Change, Decision, DeviceTypeId, FreeOfType, JobId, Knowledge, NodeId, Policy, Reason, RoundNotes, Time,
    View,
};

use crate::elastic::{Offer, Pool, pools};
use crate::placement::Placer;
use crate::priority::{Key, free_devices, working_devices};
use board::{Board, Seat};
use cells::{Class, Classes};
use clearing::Clearings;

/// The unit in which gains are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Parts of a job's remaining work per second: the sooner it would be done, the more.
    Finish,
    /// Samples per second, as published.
    Samples,
    /// Speed in relation to what the job asked for.
    Relative,
}

/// What the policy may do, and its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Whether jobs may have other numbers of devices than they ask for.
    pub may_resize: bool,
    /// Whether jobs may change their device type.
    pub may_retype: bool,
    /// Whether later jobs may use what earlier ones cannot use yet.
    pub may_lend: bool,
    /// Whether running jobs may move to other nodes of their type.
    pub may_migrate: bool,
    /// Whether each device must hold a whole copy of the model.
    pub is_data_parallel: bool,
    /// Whether cells in which a job would miss its deadline count for nothing.
    pub has_deadlines: bool,
    /// The unit of gains, and with it the order of waiting jobs.
    pub value: Value,
    /// How much more the job with the most to do counts, where what is done first counts most.
    pub tail: f64,
    /// Most running jobs that are disturbed for one.
    pub depth: u32,
    /// Steps of the search in one decision.
    pub budget: u64,
    /// Whether what cannot be better is left out of the search.
    pub is_pruned: bool,
    /// For how long at most a move is taken to bring something, in seconds.
    pub horizon_s: f64,
    /// Seconds between two decisions where nothing happens.
    pub round_s: f64,
    /// Seconds for which a job keeps its devices in any case.
    pub min_run_s: f64,
    /// Seconds of waiting after which a job goes before all others.
    pub patience_s: f64,
}

/// Running jobs that may be sent away for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sendable {
    /// No job.
    NoJob,
    /// Those that make less of their devices, where devices are lent at all.
    Lent,
    /// All but those that had waited too long themselves.
    All,
}

/// A place in the order of waiting jobs: the more urgent first.
type Rank = (i32, Key);

/// What is known of a job.
#[derive(Clone, Debug)]
struct Job {
    class: usize,
    /// Its place in the order, while it waits.
    rank: Option<Rank>,
    /// Since when it waits.
    since: Time,
    /// The first type that it ran on, where it must not change it.
    kind: Option<usize>,
    /// Time until which it may not be preempted, because it had waited too long.
    turn: Option<Time>,
}

/// The policy.
pub struct Crius {
    rules: Rules,
    placer: Box<dyn Placer>,
    pools: Vec<Pool>,
    classes: Classes,
    jobs: BTreeMap<JobId, Job>,
    /// Those that wait, in order: all, those of each class, and by how long.
    queue: BTreeSet<(Rank, JobId)>,
    queues: BTreeMap<usize, BTreeSet<(Rank, JobId)>>,
    waits: BTreeSet<(Time, JobId)>,
    /// Those that came since the last decision.
    fresh: Vec<JobId>,
    /// Whether devices became free since then.
    is_freed: bool,
    last_round: Option<Time>,
    board: Board,
    /// Jobs whose place on the board may differ from the one that they have.
    touched: BTreeSet<JobId>,
    clearings: Vec<Option<Clearings>>,
    steps: u64,
    /// Most running jobs that are disturbed for the job at hand.
    depth: u32,
    /// Who may be sent away for the job at hand.
    sendable: Sendable,
    /// Seconds that the longest job would still take at its fastest.
    longest_s: f64,
    /// Types that are kept for a job, and the job.
    blocked: Vec<bool>,
    holder: Option<JobId>,
    notes: RoundNotes,
}

impl Crius {
    /// A policy over an idle cluster. Gangs that ask for more than devices are placed by `placer`, all others as tightly as
    /// can be.
    pub fn new(rules: Rules, placer: Box<dyn Placer>) -> Self {
        Self {
            rules,
            placer,
            pools: Vec::new(),
            classes: Classes::default(),
            jobs: BTreeMap::new(),
            queue: BTreeSet::new(),
            queues: BTreeMap::new(),
            waits: BTreeSet::new(),
            fresh: Vec::new(),
            is_freed: false,
            last_round: None,
            board: Board::default(),
            touched: BTreeSet::new(),
            clearings: Vec::new(),
            steps: 0,
            depth: rules.depth,
            sendable: Sendable::Lent,
            longest_s: 0.0,
            blocked: Vec::new(),
            holder: None,
            notes: RoundNotes { round_s: rules.round_s, ..RoundNotes::default() },
        }
    }

    /// Takes note of the machines; all cells are made again where they have changed.
    fn learn_machines(&mut self, view: &View<'_>) {
        let pools = pools(view);
        if pools == self.pools {
            return;
        }
        self.pools = pools;
        self.blocked = vec![false; self.pools.len()];
        self.classes = Classes::default();
        for (&job, known) in &mut self.jobs {
            known.class = self.classes.learn(view, job, &self.pools, &self.rules);
        }
        self.queues.clear();
        for (_, job) in std::mem::take(&mut self.queue) {
            self.enqueue(view, job);
        }
    }

    fn learn(&mut self, view: &View<'_>, job: JobId) {
        if self.pools.is_empty() {
            self.learn_machines(view);
        }
        for index in self.board.node_count()..view.topology().nodes().len() {
            self.board.sync_node(view, NodeId::from_index(index));
        }
        if self.jobs.contains_key(&job) {
            return;
        }
        let class = self.classes.learn(view, job, &self.pools, &self.rules);
        let since = view.spec(job).submit.min(view.now);
        self.jobs.insert(job, Job { class, rank: None, since, kind: None, turn: None });
    }

    fn class(&self, job: JobId) -> Arc<Class> {
        self.jobs.get(&job).map_or_else(Arc::default, |known| self.classes.get(known.class))
    }

    /// Puts a job among those that wait.
    fn enqueue(&mut self, view: &View<'_>, job: JobId) {
        self.unqueue(job);
        let rank = self.rank(view, job);
        let Some(known) = self.jobs.get_mut(&job) else { return };
        known.rank = Some(rank);
        known.turn = None;
        self.queue.insert((rank, job));
        self.queues.entry(known.class).or_default().insert((rank, job));
        self.waits.insert((known.since, job));
    }

    fn unqueue(&mut self, job: JobId) {
        let Some(known) = self.jobs.get_mut(&job) else { return };
        let Some(rank) = known.rank.take() else { return };
        self.queue.remove(&(rank, job));
        self.waits.remove(&(known.since, job));
        if let Some(queue) = self.queues.get_mut(&known.class) {
            queue.remove(&(rank, job));
        }
    }

    /// The place in the order: what is worth most for each device goes first.
    fn rank(&self, view: &View<'_>, job: JobId) -> Rank {
        let class = self.class(job);
        let thrift = class.thrift.iter().copied().fold(0.0, f64::max);
        // The complement orders as the negative does, and has no overflow.
        (!view.spec(job).priority, Key::of(-self.weight(view, job) * thrift))
    }

    /// Iterations that a job has left; a job without any counts as if it had one.
    fn remaining(view: &View<'_>, job: JobId) -> f64 {
        let remaining = view.remaining_iterations(job).unwrap_or(1.0);
        if remaining.is_finite() && remaining > 0.0 { remaining } else { 1.0 }
    }

    /// Seconds that a job would still take at its fastest.
    fn shortest_s(&self, view: &View<'_>, job: JobId) -> f64 {
        Self::remaining(view, job) / self.class(job).fastest().max(f64::MIN_POSITIVE)
    }

    /// What an iteration per second of a job is worth. The nearer a job is to being the longest, the more it counts, up to `tail`
    /// times more than its length alone would make it: the end of all work is the end of the last job, and that cannot be
    /// made up for later. It counts the less for that the more devices of a type it has, since others would wait for them.
    fn weight(&self, view: &View<'_>, job: JobId) -> f64 {
        match self.rules.value {
            Value::Finish => {
                let soon = 1.0 / Self::remaining(view, job);
                if self.longest_s <= 0.0 {
                    return soon;
                }
                // Cubed, so that few are meant: half as long as the longest is an eighth of it.
                let share = (self.shortest_s(view, job) / self.longest_s).min(1.0);
                soon * (1.0 + self.rules.tail * share * share * share * self.left_to_others(job))
            }
            Value::Samples => f64::from(view.spec(job).batch_size.unwrap_or(1)),
            Value::Relative => 1.0 / self.class(job).asked.max(f64::MIN_POSITIVE),
        }
    }

    /// Which part of a type's devices a job leaves to others where it is fastest.
    fn left_to_others(&self, job: JobId) -> f64 {
        let class = self.class(job);
        let Some(cell) = class.by_speed.first().map(|&index| class.cells[index]) else { return 0.0 };
        let devices = self.pools.get(cell.kind).map_or(0, |pool| pool.devices).max(1);
        (1.0 - f64::from(cell.count) / f64::from(devices)).max(0.0)
    }

    /// Which part of its worth a cell has left for a job that has to be started there.
    fn toll(&self, view: &View<'_>, job: JobId, kind: usize, count: u32) -> f64 {
        let restart_s = view.perf().restart_s(view.spec(job)).max(0.0);
        if restart_s == 0.0 {
            return 1.0;
        }
        let speed = self.class(job).speed(kind, count).max(f64::MIN_POSITIVE);
        let lasts_s = (restart_s + Self::remaining(view, job) / speed).min(self.rules.horizon_s);
        (1.0 - restart_s / lasts_s).max(0.0)
    }

    /// What a place is worth to a job.
    fn worth(&self, view: &View<'_>, job: JobId, seat: &Seat) -> f64 {
        let stays = view.schedule().placement(job).is_some_and(|placement| seat.is_of(placement));
        let toll = if stays { 1.0 } else { self.toll(view, job, seat.kind, seat.count) };
        self.weight(view, job) * self.class(job).speed(seat.kind, seat.count) * toll
    }

    /// What a job's place on the board is worth.
    fn worth_of(&self, view: &View<'_>, job: JobId) -> f64 {
        self.board.seat(job).map_or(0.0, |seat| self.worth(view, job, seat))
    }

    /// Whether a job may be started in a cell.
    fn may(&self, view: &View<'_>, job: JobId, cell: Offer) -> bool {
        let bound = self.jobs.get(&job).and_then(|known| known.kind);
        bound.is_none_or(|kind| kind == cell.kind) && self.is_in_time(view, job, cell)
    }

    /// Whether a job would meet its deadline in a cell, or has none.
    fn is_in_time(&self, view: &View<'_>, job: JobId, cell: Offer) -> bool {
        let spec = view.spec(job);
        let Some(deadline) = spec.deadline.filter(|_| self.rules.has_deadlines) else { return true };
        let needed_s = view.perf().restart_s(spec) + Self::remaining(view, job) / cell.speed;
        view.now.plus(needed_s) <= deadline
    }

    /// Whether a job may go to a place: one that must not move stays on its nodes as long as it is on their type.
    fn may_sit(&self, view: &View<'_>, job: JobId, seat: &Seat) -> bool {
        let own = view.schedule().placement(job).and_then(|placement| Seat::of(view, placement));
        self.rules.may_migrate || own.is_none_or(|own| own.kind != seat.kind || own.is_around(seat))
    }

    /// What is told a job that would miss its deadline everywhere.
    fn too_late(&self, view: &View<'_>, job: JobId) -> Reason {
        let spec = view.spec(job);
        let earliest = view.now.plus(view.perf().restart_s(spec) + self.shortest_s(view, job));
        Reason::DeadlineLost { deadline: spec.deadline.unwrap_or(earliest), earliest }
    }

    /// Whether a job that has devices is to keep them: it is starting, or has not had them for long, or is on a node that is
    /// out of the policy's hands, or shares its devices.
    fn is_pinned(&self, view: &View<'_>, job: JobId) -> bool {
        let schedule = view.schedule();
        let Some(placement) = schedule.placement(job) else { return false };
        let least_s = self.rules.min_run_s.max(view.perf().restart_s(view.spec(job)));
        let is_moved = !self.board.seat(job).is_some_and(|seat| seat.is_of(placement));
        let kind = |node| view.topology().node(node).device_type;
        !is_moved
            && (view.protected_until(job, least_s).is_some()
                || view.spec(job).gang.needs.is_some()
                || placement.iter().any(|share| !schedule.is_up(share.node))
                || placement.iter().any(|share| kind(share.node) != kind(placement[0].node))
                || schedule.is_sharing() && !schedule.neighbours(view.topology(), job).is_empty())
    }

    /// Whether a job may be sent away for the job at hand.
    fn may_suspend(&self, view: &View<'_>, job: JobId) -> bool {
        let turn = self.jobs.get(&job).and_then(|known| known.turn);
        // What was started to meet its deadline is not kept from it.
        let is_due = self.rules.has_deadlines && view.spec(job).deadline.is_some();
        let is_safe = is_due || turn.is_some_and(|until| view.now < until);
        match self.sendable {
            Sendable::NoJob => false,
            Sendable::Lent => !is_safe && self.rules.may_lend,
            Sendable::All => !is_safe,
        }
    }

    /// Whether a job has waited too long.
    fn is_overdue(&self, now: Time, job: JobId) -> bool {
        let known = self.jobs.get(&job).filter(|known| known.rank.is_some());
        known.is_some_and(|known| known.since.plus(self.rules.patience_s) <= now)
    }
}

impl Policy for Crius {
    fn knowledge(&self) -> Knowledge {
        Knowledge::Durations
    }

    fn observe(&mut self, view: &View<'_>, change: Change) {
        match change {
            Change::Arrived(job) | Change::Waiting(job) | Change::Stopping(job) => {
                self.learn(view, job);
                self.board.sync_job(view, job);
                // Within one decision it may have been stopped and started again.
                if view.schedule().placement(job).is_none() {
                    if self.jobs.get(&job).is_some_and(|known| known.rank.is_none()) {
                        self.set_waiting_since(view, job);
                    }
                    self.enqueue(view, job);
                    self.fresh.push(job);
                    self.is_freed |= !matches!(change, Change::Arrived(_));
                }
            }
            Change::Placed(job) => {
                self.learn(view, job);
                self.unqueue(job);
                self.board.sync_job(view, job);
                let kind = self.board.seat(job).map(|seat| seat.kind);
                if let Some(known) = self.jobs.get_mut(&job).filter(|_| !self.rules.may_retype) {
                    known.kind = known.kind.or(kind);
                }
            }
            Change::Ended(job) => {
                self.unqueue(job);
                self.jobs.remove(&job);
                self.board.lift(job);
                self.board.sync_job(view, job);
                self.is_freed = true;
            }
            Change::Node(node) => {
                self.learn_machines(view);
                self.board.sync_node(view, node);
                self.is_freed = true;
            }
            Change::Running(_) => {}
        }
    }

    fn schedule(&mut self, decision: &mut Decision<'_>) {
        self.decide(decision);
    }

    fn rounds(&mut self) -> Option<RoundNotes> {
        Some(self.notes.clone())
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> Reason {
        let class = self.class(job);
        let gang = &view.spec(job).gang;
        let Some(least) = class.cells.iter().map(|cell| cell.count).min() else {
            return Reason::NodesOut { needed: gang.devices_min, working: 0 };
        };
        let working = working_devices(view, job);
        if least > working {
            return Reason::NodesOut { needed: least, working };
        }
        let free = |kind: usize| match gang.needs {
            Some(_) => free_devices(view, job),
            None => {
                let of_type = view.schedule().free_index().of_type(DeviceTypeId::from_index(kind));
                of_type.map_or(0, FreeOfType::devices)
            }
        };
        // What comes closest to being enough.
        let cells = class.cells.iter().filter(|cell| self.may(view, job, **cell));
        let closest = cells.max_by_key(|cell| i64::from(free(cell.kind)) - i64::from(cell.count));
        let Some(cell) = closest else { return self.too_late(view, job) };
        let (needed, free) = (cell.count, free(cell.kind));
        let next = self.last_round.map(|last| last.plus(self.rules.round_s)).filter(|next| *next > view.now);
        let has_room = || {
            let mut cells = class.cells.iter().filter(|cell| self.may(view, job, **cell));
            cells.any(|cell| self.board.fit(cell.kind, cell.count, None).is_some())
        };
        match self.holder {
            _ if free < needed => Reason::DevicesBusy { needed, free },
            Some(head) if head != job && self.blocked[cell.kind] && !self.rules.may_lend => {
                Reason::HeadOfLine { head }
            }
            Some(holder) if holder != job && self.blocked[cell.kind] => Reason::Starving { holder },
            // What others have just left is checked again in the next round.
            _ if has_room()
                && let Some(at) = next =>
            {
                Reason::NextRound { at }
            }
            _ => Reason::Fragmented { needed, free },
        }
    }
}
