//! The adapter for policies that think in whole schedules: they propose all groups, it does what differs.
//!
//! A policy proposes at rounds. What it proposes again stays where it is; what it leaves out is stopped; groups with other
//! members than before are stopped and started again, at the price of a restart for each member. Between rounds, free
//! devices go to waiting jobs in the policy's order.

use std::collections::BTreeSet;

use wharf_core::{
    Change, Chosen, Decision, JobId, Knowledge, Policy, Reason, RoundNotes, StopReason, Time, View,
};

use crate::placement::Placer;
use crate::priority::classes::Classes;
use crate::priority::free_devices;
use crate::priority::{Key, working_devices};
use crate::seating::{Party, Seated, Seating};

pub use crate::seating::Group;

/// A policy that thinks in whole schedules.
pub trait Propose: Send {
    /// What it is entitled to know.
    fn knowledge(&self) -> Knowledge;

    /// A waiting job's place in the order in which free devices are filled between rounds.
    fn key(&self, view: &View<'_>, job: JobId) -> Key;

    /// All groups that should run from now on beside those that are `pinned`, the most important first. `running` are the
    /// other groups that run now.
    fn propose(
        &mut self,
        view: &View<'_>,
        waiting: &[JobId],
        running: &[Group],
        pinned: &[Group],
    ) -> Vec<Group>;
}

/// Turns proposals into the changes that lead to them.
pub struct Rebuild<P> {
    proposer: P,
    seating: Seating,
    round_s: f64,
    /// Seconds for which a job keeps its devices and its group in any case.
    min_run_s: f64,
    waiting: Classes,
    placed: BTreeSet<JobId>,
    last_round: Option<Time>,
    round_count: u64,
}

impl<P: Propose> Rebuild<P> {
    /// An adapter that asks for a proposal every `round_s` seconds while something could be gained.
    pub fn new(proposer: P, placer: Box<dyn Placer>, round_s: f64, min_run_s: f64) -> Self {
        Self {
            proposer,
            seating: Seating::new(placer),
            round_s,
            min_run_s,
            waiting: Classes::default(),
            placed: BTreeSet::new(),
            last_round: None,
            round_count: 0,
        }
    }

    fn wait(&mut self, view: &View<'_>, job: JobId) {
        self.placed.remove(&job);
        let key = self.proposer.key(view, job);
        self.waiting.wait(job, &view.spec(job).gang, key);
    }

    fn next_round(&self) -> Option<Time> {
        self.last_round.map(|last| last.plus(self.round_s))
    }

    /// Whether another schedule could be better than this one.
    fn is_improvable(&self, view: &View<'_>) -> bool {
        self.waiting.has_waiting() || {
            let devices = |job: JobId| view.spec(job).gang.devices;
            let demand: u32 = self.placed.iter().map(|&job| devices(job)).sum();
            demand > used_devices(view)
        }
    }

    fn round(&mut self, decision: &mut Decision<'_>) {
        let view = decision.view();
        let is_pinned =
            |group: &Group| group.iter().any(|&job| view.protected_until(job, self.min_run_s).is_some());
        let (pinned, running): (Vec<Group>, Vec<Group>) =
            groups(&view, &self.placed).into_iter().partition(is_pinned);
        let waiting: Vec<JobId> = self.waiting.waiting_jobs().collect();
        let proposed = self.proposer.propose(&view, &waiting, &running, &pinned);
        let is_running: BTreeSet<&Group> = running.iter().collect();
        let (kept, fresh): (Vec<Group>, Vec<Group>) =
            proposed.into_iter().partition(|group| is_running.contains(group));
        self.stop_others(decision, kept.iter().chain(&pinned), &fresh);
        self.place_all(decision, kept, fresh);
    }

    fn stop_others<'a>(
        &mut self,
        decision: &mut Decision<'_>,
        kept: impl Iterator<Item = &'a Group>,
        fresh: &[Group],
    ) {
        let staying: BTreeSet<JobId> = kept.flatten().copied().collect();
        let moving: BTreeSet<JobId> = fresh.iter().flatten().copied().collect();
        let leaving: Vec<JobId> = self.placed.difference(&staying).copied().collect();
        for job in leaving {
            if moving.contains(&job) {
                self.stop(decision, job, StopReason::Moved);
            } else if decision.preempt(job, None, Chosen::NotInRound) {
                self.wait(&decision.view(), job);
            }
        }
    }

    fn stop(&mut self, decision: &mut Decision<'_>, job: JobId, why: StopReason) {
        if decision.stop(job, why) {
            self.wait(&decision.view(), job);
        }
    }

    /// Places groups, the largest gangs first; smaller ones may have to move.
    fn place_all(&mut self, decision: &mut Decision<'_>, kept: Vec<Group>, fresh: Vec<Group>) {
        let view = decision.view();
        let parties =
            |groups: Vec<Group>| groups.into_iter().filter_map(|group| party(&view, group)).collect();
        let (kept, fresh) = (parties(kept), parties(fresh));
        let seated = self.seating.seat(decision, kept, fresh);
        for job in seated.moved {
            self.wait(&decision.view(), job);
        }
        self.note(seated.started, seated.refused);
    }

    fn start_on_free(&mut self, decision: &mut Decision<'_>, job: JobId) -> bool {
        let Some(party) = party(&decision.view(), vec![job]) else { return false };
        let mut seated = Seated::default();
        let is_found = self.seating.seat_on_free(decision, &party, &mut seated);
        self.note(seated.started, seated.refused);
        is_found
    }

    fn note(&mut self, started: Vec<JobId>, refused: Vec<JobId>) {
        for job in started {
            self.waiting.remove(job);
            self.placed.insert(job);
        }
        for job in refused {
            self.waiting.block_class_of(job);
        }
    }

    fn fill(&mut self, decision: &mut Decision<'_>) {
        self.waiting.unblock();
        while let Some((class, job)) = self.waiting.first_open() {
            if !self.start_on_free(decision, job) {
                self.waiting.block(class);
            }
        }
    }
}

impl<P: Propose> Policy for Rebuild<P> {
    fn knowledge(&self) -> Knowledge {
        self.proposer.knowledge()
    }

    fn observe(&mut self, view: &View<'_>, change: Change) {
        match change {
            Change::Arrived(job) | Change::Waiting(job) | Change::Stopping(job) => {
                // Within one decision it may have been stopped and started again.
                if view.schedule().placement(job).is_none() {
                    self.wait(view, job);
                }
            }
            Change::Placed(job) => {
                self.waiting.remove(job);
                self.placed.insert(job);
            }
            Change::Ended(job) => {
                self.waiting.remove(job);
                self.placed.remove(&job);
            }
            Change::Running(_) | Change::Node(_) => {}
        }
    }

    fn schedule(&mut self, decision: &mut Decision<'_>) {
        let now = decision.view().now;
        let is_due = self.next_round().is_none_or(|next| next <= now);
        if is_due && self.is_improvable(&decision.view()) {
            self.last_round = Some(now);
            self.round_count += 1;
            self.round(decision);
        }
        self.fill(decision);
        if self.is_improvable(&decision.view()) {
            decision.wake_at(self.next_round().unwrap_or(now));
        }
    }

    fn rounds(&mut self) -> Option<RoundNotes> {
        Some(RoundNotes { rounds: self.round_count, round_s: self.round_s, ..RoundNotes::default() })
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> Reason {
        let gang = &view.spec(job).gang;
        let (needed, working) = (gang.devices, working_devices(view, job));
        if needed > working {
            return Reason::NodesOut { needed, working };
        }
        if let Some((first, ahead)) = self.waiting.ahead(job) {
            return Reason::Behind { first, ahead };
        }
        if let Some(at) = self.next_round()
            && self.last_round.is_some_and(|last| last < view.spec(job).submit)
        {
            return Reason::NextRound { at };
        }
        busy_or_fragmented(view, job)
    }
}

fn party(view: &View<'_>, group: Group) -> Option<Party> {
    let gang = view.spec(*group.first()?).gang.clone();
    Some(Party { group, gang })
}

/// Why a job that is first in its class does not start on free devices.
pub(crate) fn busy_or_fragmented(view: &View<'_>, job: JobId) -> Reason {
    let (needed, free) = (view.spec(job).gang.devices, free_devices(view, job));
    if free < needed { Reason::DevicesBusy { needed, free } } else { Reason::Fragmented { needed, free } }
}

/// Devices of working nodes.
pub(crate) fn up_devices(view: &View<'_>) -> u32 {
    let nodes = view.topology().nodes().iter().enumerate();
    nodes
        .filter(|(index, _)| view.schedule().is_up(wharf_core::NodeId::from_index(*index)))
        .map(|(index, node)| {
            node.spec.devices - view.schedule().broken(wharf_core::NodeId::from_index(index)).len()
        })
        .sum()
}

fn used_devices(view: &View<'_>) -> u32 {
    up_devices(view) - view.schedule().free_count()
}

/// Placed jobs by the devices they share.
pub(crate) fn groups(view: &View<'_>, placed: &BTreeSet<JobId>) -> Vec<Group> {
    let mut groups = Vec::new();
    for &job in placed {
        let mut group = view.schedule().neighbours(view.topology(), job);
        if group.first().is_none_or(|&first| job < first) {
            group.insert(0, job);
            groups.push(group);
        }
    }
    groups
}
