//! The priority family: order the jobs, place greedily.
//!
//! One machine for FIFO, SJF, SRTF, SRSF, LAS, Tiresias and Gittins; they differ in their [`Rank`]. Jobs with equal
//! gangs form a *class*: if the first of a class does not fit, none of the class does, so a decision checks one
//! waiting job per class. Running jobs are kept sorted per class too; victims are searched for among the last ones,
//! and, when a job ends, on the nodes that it used. So the cost of a decision follows what changed.

mod backfill;
pub(crate) mod classes;
mod rank;
mod victims;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use wharf_core::{
    Change, Decision, DeviceTypeId, Gang, JobId, Knowledge, Needs, NodeId, NodeShare, Phase, Policy, Reason,
    Scarcity, Time, View,
};

use crate::placement::{Placer, Strategy};
use crate::reserve::place_elsewhere;
pub use backfill::Backfill;
use backfill::Forecast;
use classes::Classes;
pub(crate) use rank::TOLERANCE_S;
pub use rank::{Key, Rank};
pub use victims::VictimRules;

/// First waiting jobs of classes for which [`Priority::next_crossing`] looks ahead; the others' turn comes once they are among these.
const CROSSING_HEADS_MAX: usize = 64;

/// Moments that are closer to each other than this are one: sums of service in thirds or sevenths of a second differ by rounding.
const SAME_MOMENT_S: f64 = 1e-6;

/// A policy that serves jobs in the order of a [`Rank`].
pub struct Priority<R> {
    rank: R,
    placer: Box<dyn Placer>,
    backfill: Backfill,
    classes: Classes,
    /// When running jobs' keys jump; entries whose generation has passed are stale.
    jumps: BinaryHeap<Reverse<(Time, JobId, u32)>>,
    /// Nodes on which something ended since the last decision.
    touched: Vec<NodeId>,
    /// Kept for [`Backfill::Easy`] alone.
    forecast: Option<Forecast>,
    decided_at: Time,
    rules: VictimRules,
    /// When a running job that was spared may be a victim.
    next_victim: Option<Time>,
    placement: Vec<NodeShare>,
}

impl<R: Rank> Priority<R> {
    /// A policy over an idle cluster.
    pub fn new(rank: R, placer: Box<dyn Placer>, backfill: Backfill) -> Self {
        Self {
            rank,
            placer,
            backfill,
            classes: Classes::default(),
            jumps: BinaryHeap::new(),
            touched: Vec::new(),
            forecast: matches!(backfill, Backfill::Easy { .. }).then(Forecast::default),
            decided_at: Time::ZERO,
            rules: VictimRules::default(),
            next_victim: None,
            placement: Vec::new(),
        }
    }

    /// The same policy, with these rules about victims.
    #[must_use]
    pub fn with_victims(self, rules: VictimRules) -> Self {
        Self { rules, ..self }
    }

    fn wait(&mut self, view: &View<'_>, job: JobId) {
        let key = self.rank.key(view, job);
        self.classes.wait(job, &view.spec(job).gang, key);
    }

    fn run(&mut self, view: &View<'_>, job: JobId) {
        let spec = view.spec(job);
        let slope = self.rank.slope(spec.gang.devices);
        let base = self.rank.key(view, job).moved(-slope * view.now.seconds());
        self.classes.run(job, &spec.gang, base, slope);
        if let Some(jump) = self.rank.next_jump(view, job) {
            self.jumps.push(Reverse((jump, job, view.job(job).generation)));
        }
    }

    /// Moves the running jobs whose keys jump now to their new places. Jumps that only rounding sets apart occur together.
    fn jump(&mut self, view: &View<'_>) {
        let mut due = Vec::new();
        while let Some(&Reverse((time, job, generation))) = self.jumps.peek()
            && time.since(view.now) <= SAME_MOMENT_S
        {
            self.jumps.pop();
            due.push((job, generation));
        }
        for (job, generation) in due {
            let state = view.job(job);
            if state.phase == Phase::Running && state.generation == generation {
                self.run(view, job);
                let placement = view.schedule().placement(job).unwrap_or_default();
                self.touched.extend(placement.iter().map(|share| share.node));
            }
        }
    }

    /// Starts one waiting job after another, in order, until none fits.
    fn fill(&mut self, decision: &mut Decision<'_>) {
        self.classes.unblock();
        // Nodes of pools whose first jobs do not fit, in strict order.
        let mut held: Vec<NodeId> = Vec::new();
        while let Some((class, job)) = self.classes.first_open() {
            if self.start_on_free(decision, job, &held) {
                if let Some(forecast) = &mut self.forecast {
                    forecast.discard();
                    forecast.expect(&decision.view(), job);
                }
                continue;
            }
            if self.preempt_for(decision, class, job) {
                // Victims may have left more than it takes, for jobs that had no room before.
                self.classes.unblock();
                continue;
            }
            match self.backfill {
                Backfill::Off => {
                    let view = decision.view();
                    let Some(nodes) = pool_nodes(&view, &view.spec(job).gang) else { return };
                    held.extend(nodes);
                    self.classes.block(class);
                }
                Backfill::Greedy => self.classes.block(class),
                Backfill::Easy { depth } => {
                    self.backfill_around(decision, job, depth);
                    return;
                }
            }
        }
    }

    /// Starts a job on free devices, none of them on held nodes.
    fn start_on_free(&mut self, decision: &mut Decision<'_>, job: JobId, held: &[NodeId]) -> bool {
        let view = decision.view();
        let gang = &view.spec(job).gang;
        let mut placement = std::mem::take(&mut self.placement);
        let mut is_found = self.placer.place(view.topology(), view.schedule(), gang, &mut placement);
        if is_found && placement.iter().any(|share| held.contains(&share.node)) {
            let elsewhere = place_elsewhere(&view, gang, &placement, held);
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
            self.classes.remove(job);
        } else {
            // The audit refused: a bug, already reported. Leave the class alone until the next decision.
            self.classes.block_class_of(job);
        }
        is_started
    }

    fn preempt_for(&mut self, decision: &mut Decision<'_>, class: usize, job: JobId) -> bool {
        let view = decision.view();
        let is_new = self.classes.mark_tried(class, job);
        let order = (&self.rank, self.rules);
        let found = victims::find(order, &self.classes, &view, class, job, is_new, &self.touched);
        if let Some(again) = found.again {
            self.next_victim = Some(self.next_victim.map_or(again, |earlier| earlier.min(again)));
        }
        let Some(plan) = found.plan else { return false };
        for (&victim, &chosen) in plan.victims.iter().zip(&found.chosen) {
            let shares = decision.view().schedule().placement(victim).unwrap_or_default().to_vec();
            // Others may find room there too, with what is left of it.
            self.touched.extend(shares.iter().map(|share| share.node));
            decision.preempt(victim, Some(job), chosen);
            self.classes.remove(victim);
            self.wait(&decision.view(), victim);
        }
        let placement = plan.placement(&decision.view(), job);
        self.start(decision, job, &placement)
    }

    /// When a running job will next be so far behind a waiting one in the order that it can be preempted, after the last
    /// decision. Values of running jobs change steadily, so that this is known in advance.
    fn next_crossing(&self) -> Option<Time> {
        let mut heads: Vec<Key> =
            self.classes.iter().filter_map(|class| Some(class.waiting.first()?.0)).collect();
        heads.sort_unstable();
        heads.truncate(CROSSING_HEADS_MAX);
        let thresholds = heads.into_iter().filter_map(|head| self.rank.victim_from(head));
        let crossings = thresholds.flat_map(|threshold| {
            self.classes.iter().filter_map(move |class| class.next_crossing(threshold, self.decided_at))
        });
        crossings.min()
    }
}

impl<R: Rank> Policy for Priority<R> {
    fn knowledge(&self) -> Knowledge {
        match self.backfill {
            Backfill::Easy { .. } => Knowledge::Durations,
            Backfill::Off | Backfill::Greedy => self.rank.knowledge(),
        }
    }

    fn observe(&mut self, view: &View<'_>, change: Change) {
        if let Some(forecast) = &mut self.forecast {
            match change {
                Change::Placed(job) | Change::Running(job) => forecast.expect(view, job),
                Change::Stopping(job) | Change::Waiting(job) | Change::Ended(job) => {
                    forecast.forget(view.now, job)
                }
                Change::Node(_) => forecast.discard(),
                Change::Arrived(_) => {}
            }
        }
        match change {
            Change::Arrived(job) | Change::Waiting(job) => {
                if view.schedule().placement(job).is_none() {
                    self.wait(view, job);
                }
            }
            Change::Placed(job) => self.classes.remove(job),
            Change::Running(job) => {
                self.run(view, job);
                if view.job(job).placed_at() < view.now {
                    // It is a possible victim of jobs that have searched for some already.
                    let placement = view.schedule().placement(job).unwrap_or_default();
                    self.touched.extend(placement.iter().map(|share| share.node));
                }
            }
            Change::Stopping(job) => {
                // Within one decision it may have been stopped and started again.
                if view.schedule().placement(job).is_none() {
                    self.touched.extend(view.job(job).left().iter().map(|share| share.node));
                    self.wait(view, job);
                }
            }
            Change::Ended(job) => {
                self.classes.remove(job);
                self.touched.extend(view.job(job).left().iter().map(|share| share.node));
                if self.rank.learn(view, job) {
                    self.classes.forget_tried();
                    let waiting = self.classes.take_waiting();
                    for job in waiting {
                        self.wait(view, job);
                    }
                    for job in self.classes.running_jobs() {
                        self.run(view, job);
                    }
                }
            }
            Change::Node(node) => self.touched.push(node),
        }
    }

    fn schedule(&mut self, decision: &mut Decision<'_>) {
        let now = decision.view().now;
        self.jump(&decision.view());
        let is_due = |time: Option<Time>| time.is_some_and(|time| time <= now);
        if is_due(self.next_crossing()) || is_due(self.next_victim) {
            self.next_victim = self.next_victim.filter(|&next| next > now);
            self.classes.forget_tried();
        }
        self.fill(decision);
        self.touched.clear();
        self.decided_at = now;
    }

    /// Running jobs are known only after the decision that placed them, so that this cannot be part of it.
    fn wake(&self) -> Option<Time> {
        if !self.classes.has_waiting() {
            return None;
        }
        let jump = self.jumps.peek().map(|&Reverse((time, ..))| time);
        [jump, self.next_victim, self.next_crossing()].into_iter().flatten().min()
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> Reason {
        let gang = &view.spec(job).gang;
        let needed = gang.size();
        let working = working_devices(view, job);
        if needed > working {
            return Reason::NodesOut { needed, working };
        }
        if let Some((first, ahead)) = self.classes.ahead(job) {
            return Reason::Behind { first, ahead };
        }
        let is_strict = self.backfill == Backfill::Off;
        let is_in_its_way = |other: &Gang| other.pool().is_none() || other.pool() == gang.pool();
        if let Some(head) = self.classes.first_of(is_in_its_way).filter(|&head| is_strict && head != job) {
            return Reason::HeadOfLine { head };
        }
        let free = free_devices(view, job);
        if let Some(scarcity) = scarcity(view, job) {
            return Reason::Scarce(scarcity);
        }
        match (self.backfill, self.classes.first().filter(|&head| head != job)) {
            _ if free < needed => Reason::DevicesBusy { needed, free },
            (Backfill::Easy { .. }, Some(holder)) => Reason::Reserved { holder },
            (Backfill::Off, Some(head)) => Reason::HeadOfLine { head },
            _ => Reason::Fragmented { needed, free },
        }
    }
}

/// The nodes of the pool that a gang runs in; `None` where it may use all pools.
fn pool_nodes(view: &View<'_>, gang: &Gang) -> Option<Vec<NodeId>> {
    let needs = gang.needs.as_deref().filter(|needs| needs.pool().is_some())?;
    let in_pool = Needs { pool: needs.pool.clone(), scope: needs.scope.clone(), ..Needs::default() };
    let nodes = view.topology().nodes().iter().enumerate();
    Some(nodes.filter(|(_, node)| in_pool.allow(&node.spec)).map(|(id, _)| NodeId::from_index(id)).collect())
}

/// What keeps a job from starting, where that is not devices.
pub fn scarcity(view: &View<'_>, job: JobId) -> Option<Scarcity> {
    let (topology, schedule, gang) = (view.topology(), view.schedule(), &view.spec(job).gang);
    gang.needs.as_ref().filter(|needs| !needs.is_plain() && needs.reservation.is_none())?;
    let mut placer = Strategy::BestFit.placer(0);
    let mut shares = Vec::new();
    let mut is_placed = |gang: &Gang| placer.place(topology, schedule, gang, &mut shares);
    if is_placed(gang) { None } else { schedule.scarcity(topology, gang, is_placed) }
}

/// Free devices (tasks where it has none) of the type that has the most of those that the job may use.
pub fn free_devices(view: &View<'_>, job: JobId) -> u32 {
    let gang = &view.spec(job).gang;
    let of_type = |kind| match &gang.needs {
        None => view.schedule().free_index().of_type(kind).map_or(0, wharf_core::FreeOfType::devices),
        Some(needs) => {
            let nodes = view.topology().nodes().iter().enumerate();
            nodes
                .filter(|(_, node)| node.device_type == kind)
                .map(|(index, _)| view.schedule().room(view.topology(), NodeId::from_index(index), needs))
                .fold(0, u32::saturating_add)
        }
    };
    by_type(view, gang, of_type)
}

/// The most of any type that a gang may use, or all types together where it has no devices.
fn by_type(view: &View<'_>, gang: &Gang, of_type: impl Fn(DeviceTypeId) -> u32) -> u32 {
    if gang.has_devices() {
        return crate::placement::allowed_types(view.topology(), gang).map(of_type).max().unwrap_or(0);
    }
    let types = (0..view.topology().types().len()).map(DeviceTypeId::from_index);
    types.map(of_type).fold(0, u32::saturating_add)
}

/// Devices of working nodes of the type that has the most of those that the job may use at once.
pub fn working_devices(view: &View<'_>, job: JobId) -> u32 {
    let gang = &view.spec(job).gang;
    let (topology, schedule) = (view.topology(), view.schedule());
    let usable = |node: NodeId| match &gang.needs {
        None => topology.node(node).spec.devices - schedule.broken(node).len(),
        Some(needs) => {
            let capacity = schedule.capacity(topology, node, needs);
            match needs.nodes.filter(|&nodes| nodes > 0) {
                // The same share on each node: one that has less is of no use.
                Some(_) if !needs.is_even(gang) => capacity,
                Some(nodes) if capacity < gang.size() / nodes => 0,
                Some(nodes) => gang.size() / nodes,
                None => capacity,
            }
        }
    };
    let of_type = |kind| {
        let nodes = (0..topology.nodes().len()).map(NodeId::from_index);
        let working = nodes.filter(|&node| topology.node(node).device_type == kind && schedule.is_up(node));
        working.map(usable).fold(0, u32::saturating_add)
    };
    by_type(view, gang, of_type)
}
