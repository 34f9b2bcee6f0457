//! The *elastic* family: a type and a number of devices are chosen for each job again at every round.
//!
//! A [`Planner`] is shown all jobs with what each could be given, and picks. The adapter does the rest, in simulations and on
//! real machines alike: jobs that are to have what they have stay where they are, the others are stopped and placed
//! again. A job that is still starting, or that has had its devices for less than `min_run_s`, is left alone. Between
//! rounds waiting jobs get free devices, as few as they can run on, on the type where that is fastest.

mod offers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wharf_core::{
    Change, Chosen, Decision, DeviceTypeId, FreeOfType, Gang, JobId, Knowledge, NodeShare, Policy, Reason,
    RoundNotes, StopReason, Time, View,
};

use crate::placement::{Placer, allowed_types};
use crate::priority::{free_devices, working_devices};
use crate::seating::{Party, Seated, Seating};
pub use offers::{Offer, Pool, offers, pools};

/// Chooses what jobs are to have.
pub trait Planner: Send {
    /// For each job of the scene the offer that it is to have, or none. Within the scene's capacity.
    fn plan(&self, scene: &Scene<'_>) -> ElasticPlan;

    /// What it is entitled to know of a job's length.
    fn knowledge(&self) -> Knowledge {
        Knowledge::Attained
    }

    /// Why it leaves a job waiting, where that is for its own reasons.
    fn reason(&self, _now: Time, _job: &Candidate<'_>) -> Option<Reason> {
        None
    }

    /// Whether it plans whenever jobs come or end, and everything: jobs are given nothing between its plans.
    fn is_eager(&self) -> bool {
        false
    }
}

/// What a planner sees.
#[derive(Debug)]
pub struct Scene<'a> {
    /// The present.
    pub now: Time,
    /// Devices of each type that can be given.
    pub capacity: Vec<u32>,
    /// The jobs, by id.
    pub jobs: Vec<Candidate<'a>>,
}

/// A job that can be given devices.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The job.
    pub job: JobId,
    /// What it can be given, by type and number.
    pub offers: &'a [Offer],
    /// What it has.
    pub current: Option<usize>,
    /// Seconds since its submission.
    pub age_s: f64,
    /// Starts but the first.
    pub restarts: u32,
    /// Seconds that a start costs.
    pub restart_s: f64,
    /// The type that it asks for, where it names one.
    pub asked: Option<usize>,
    /// Iterations that it has left, for those that are entitled to know.
    pub remaining: Option<f64>,
    /// When it should be done.
    pub deadline: Option<Time>,
}

impl Candidate<'_> {
    /// How much of its time a job would make use of if it were started once more: what Pollux weighs every move with.
    /// A job that has nothing to lose, because it waits or is as young as a restart is long, counts whole.
    pub fn restart_factor(&self) -> f64 {
        if self.current.is_none() || self.age_s < self.restart_s {
            return 1.0;
        }
        let useful_s = self.age_s - f64::from(self.restarts) * self.restart_s;
        useful_s.max(0.0) / (self.age_s + self.restart_s).max(f64::MIN_POSITIVE)
    }
}

/// What a planner picked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElasticPlan {
    /// For each job of the scene.
    pub picks: Vec<Option<usize>>,
    /// Whether nothing better is possible.
    pub is_exact: bool,
}

/// The numbers of the adapter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ElasticOptions {
    /// Seconds between two rounds.
    pub round_s: f64,
    /// Seconds for which a job keeps its devices in any case.
    pub min_run_s: f64,
}

/// Rounds around a planner.
pub struct Elastic<P> {
    planner: P,
    options: ElasticOptions,
    seating: Seating,
    waiting: BTreeSet<JobId>,
    placed: BTreeSet<JobId>,
    /// What each job can be given.
    offers: BTreeMap<JobId, Vec<Offer>>,
    pools: Vec<Pool>,
    last_round: Option<Time>,
    /// For each device type, the list that allows it alone.
    only: Vec<Arc<[Arc<str>]>>,
    notes: RoundNotes,
}

impl<P: Planner> Elastic<P> {
    /// A policy over an idle cluster.
    pub fn new(planner: P, options: ElasticOptions, placer: Box<dyn Placer>) -> Self {
        Self {
            planner,
            options,
            seating: Seating::new(placer),
            waiting: BTreeSet::new(),
            placed: BTreeSet::new(),
            offers: BTreeMap::new(),
            pools: Vec::new(),
            last_round: None,
            only: Vec::new(),
            notes: RoundNotes { round_s: options.round_s, ..RoundNotes::default() },
        }
    }

    fn next_round(&self) -> Option<Time> {
        self.last_round.map(|last| last.plus(self.options.round_s))
    }

    /// Whether another round could change an allocation.
    fn is_improvable(&self) -> bool {
        let has_choice = |job: &JobId| self.offers.get(job).is_some_and(|offers| offers.len() > 1);
        !self.waiting.is_empty() || self.placed.iter().any(has_choice)
    }

    /// Takes note of the machines; all offers are made again where they have changed.
    fn learn_machines(&mut self, view: &View<'_>) {
        let pools = pools(view);
        if pools == self.pools {
            return;
        }
        self.only = view.topology().types().iter().map(|name| Arc::from([name.clone()])).collect();
        for (&job, known) in &mut self.offers {
            *known = offers(view, job, &pools);
        }
        self.pools = pools;
    }

    fn learn(&mut self, view: &View<'_>, job: JobId) {
        if self.pools.is_empty() {
            self.learn_machines(view);
        }
        if !self.offers.contains_key(&job) {
            self.offers.insert(job, offers(view, job, &self.pools));
        }
    }

    /// Whether a job that has devices is to keep them whatever the plan: it is starting, or has not had them for long, or
    /// is on a node that is out of the policy's hands.
    fn is_pinned(&self, view: &View<'_>, job: JobId) -> bool {
        let least_s = self.options.min_run_s.max(view.perf().restart_s(view.spec(job)));
        let placement = view.schedule().placement(job).unwrap_or_default();
        view.protected_until(job, least_s).is_some()
            || placement.iter().any(|share| !view.schedule().is_up(share.node))
    }

    fn party(&self, view: &View<'_>, job: JobId, offer: Offer) -> Party {
        let gang = Gang {
            devices: offer.count,
            devices_min: offer.count,
            devices_max: offer.count,
            device_types: self.only[offer.kind].clone(),
            needs: view.spec(job).gang.needs.clone(),
        };
        Party { group: vec![job], gang }
    }

    fn round(&mut self, decision: &mut Decision<'_>) {
        let view = decision.view();
        let scene = self.scene(&view);
        let plan = self.planner.plan(&scene);
        let (mut kept, mut fresh, mut leaving) = (Vec::new(), Vec::new(), Vec::new());
        for (candidate, &pick) in scene.jobs.iter().zip(&plan.picks) {
            let party = pick.map(|pick| self.party(&view, candidate.job, candidate.offers[pick]));
            let is_placed = self.placed.contains(&candidate.job);
            let is_kept = is_placed && pick.is_some() && pick == candidate.current;
            if is_placed && !is_kept {
                leaving.push((candidate.job, pick.is_some()));
            }
            if is_kept {
                kept.extend(party);
            } else {
                fresh.extend(party);
            }
        }
        self.notes.rounds += 1;
        self.notes.fallbacks += u64::from(!plan.is_exact);
        self.notes.lease_chances += (kept.len() + leaving.len()) as u64;
        self.notes.lease_extensions += kept.len() as u64;
        for (job, is_moved) in leaving {
            let is_stopped = if is_moved {
                decision.stop(job, StopReason::Moved)
            } else {
                decision.preempt(job, None, Chosen::NotInRound)
            };
            if is_stopped {
                self.leave(job);
            }
        }
        let seated = self.seating.seat(decision, kept, fresh);
        self.note(&seated);
    }

    /// All jobs with what they can be given, but for those that are left alone.
    fn scene(&self, view: &View<'_>) -> Scene<'_> {
        let mut capacity: Vec<u32> = self.pools.iter().map(|pool| pool.devices).collect();
        let (pinned, open): (Vec<JobId>, Vec<JobId>) =
            self.placed.iter().partition(|&&job| self.is_pinned(view, job));
        for share in pinned.iter().flat_map(|&job| view.schedule().placement(job).unwrap_or_default()) {
            if view.schedule().is_up(share.node) {
                let left = &mut capacity[view.topology().node(share.node).device_type.index()];
                *left = left.saturating_sub(share.devices.len());
            }
        }
        let mut ids: Vec<JobId> = self.waiting.iter().copied().chain(open).collect();
        ids.sort_unstable();
        let jobs = ids.into_iter().map(|job| self.candidate(view, job)).collect();
        Scene { now: view.now, capacity, jobs }
    }

    fn candidate(&self, view: &View<'_>, job: JobId) -> Candidate<'_> {
        let offers = self.offers.get(&job).map_or(&[][..], Vec::as_slice);
        let held = view.schedule().placement(job).and_then(|placement| held(view, placement));
        let is_held = |offer: &Offer| held == Some((offer.kind, offer.count));
        Candidate {
            job,
            offers,
            current: offers.iter().position(is_held),
            age_s: view.now.since(view.spec(job).submit).max(0.0),
            restarts: view.job(job).generation.saturating_sub(1),
            restart_s: view.perf().restart_s(view.spec(job)),
            asked: asked_type(view, job),
            remaining: view.remaining_iterations(job),
            deadline: view.spec(job).deadline,
        }
    }

    /// Whether a waiting job could have been given something at the expense of others.
    fn could_have(&self, view: &View<'_>, job: JobId) -> bool {
        let scene = self.scene(view);
        let own = scene.jobs.iter().find(|candidate| candidate.job == job);
        own.is_some_and(|own| own.offers.iter().any(|offer| offer.count <= scene.capacity[offer.kind]))
    }

    fn leave(&mut self, job: JobId) {
        self.placed.remove(&job);
        self.waiting.insert(job);
    }

    fn note(&mut self, seated: &Seated) {
        for &job in &seated.moved {
            self.leave(job);
        }
        for &job in &seated.started {
            self.waiting.remove(&job);
            self.placed.insert(job);
        }
    }

    /// Gives free devices to waiting jobs, by id, as few as each can run on.
    fn fill(&mut self, decision: &mut Decision<'_>) {
        let mut full: BTreeSet<(usize, u32)> = BTreeSet::new();
        let waiting: Vec<JobId> = self.waiting.iter().copied().collect();
        for job in waiting {
            if decision.view().schedule().free_count() == 0 {
                return;
            }
            for offer in self.smallest(job) {
                let view = decision.view();
                let has_needs = view.spec(job).gang.needs.is_some();
                if full.contains(&(offer.kind, offer.count)) && !has_needs {
                    continue;
                }
                let party = self.party(&view, job, offer);
                let mut seated = Seated::default();
                if self.seating.seat_on_free(decision, &party, &mut seated) {
                    self.note(&seated);
                    break;
                }
                if !has_needs {
                    full.insert((offer.kind, offer.count));
                }
            }
        }
    }

    /// The smallest offer of each type, the fastest first.
    fn smallest(&self, job: JobId) -> Vec<Offer> {
        let offers = self.offers.get(&job).map_or(&[][..], Vec::as_slice);
        let mut smallest: Vec<Offer> =
            offers.chunk_by(|one, other| one.kind == other.kind).map(|of_type| of_type[0]).collect();
        smallest.sort_by(|one, other| other.speed.total_cmp(&one.speed).then(one.kind.cmp(&other.kind)));
        smallest
    }
}

/// The first type that a job names and the cluster has.
fn asked_type(view: &View<'_>, job: JobId) -> Option<usize> {
    let gang = &view.spec(job).gang;
    let first = allowed_types(view.topology(), gang).next();
    first.filter(|_| !gang.device_types.is_empty()).map(|kind| kind.index())
}

/// The type and the number of a placement's devices; `None` where they are of several types.
fn held(view: &View<'_>, placement: &[NodeShare]) -> Option<(usize, u32)> {
    let count = placement.iter().map(|share| share.devices.len()).sum();
    Some((view.topology().type_of(placement)?.index(), count))
}

impl<P: Planner> Policy for Elastic<P> {
    fn knowledge(&self) -> Knowledge {
        self.planner.knowledge()
    }

    fn observe(&mut self, view: &View<'_>, change: Change) {
        match change {
            Change::Arrived(job) | Change::Waiting(job) | Change::Stopping(job) => {
                self.learn(view, job);
                // Within one decision it may have been stopped and started again.
                if view.schedule().placement(job).is_none() {
                    self.leave(job);
                }
            }
            Change::Placed(job) => {
                self.learn(view, job);
                self.waiting.remove(&job);
                self.placed.insert(job);
            }
            Change::Ended(job) => {
                self.waiting.remove(&job);
                self.placed.remove(&job);
                self.offers.remove(&job);
            }
            Change::Node(_) => self.learn_machines(view),
            Change::Running(_) => {}
        }
    }

    fn schedule(&mut self, decision: &mut Decision<'_>) {
        let now = decision.view().now;
        let is_eager = self.planner.is_eager();
        let is_due = is_eager || self.next_round().is_none_or(|next| next <= now);
        if is_due && self.is_improvable() {
            self.last_round = Some(now);
            self.round(decision);
        }
        if !is_eager {
            self.fill(decision);
        }
        if self.is_improvable() {
            decision.wake_at(self.next_round().unwrap_or(now));
        }
    }

    fn rounds(&mut self) -> Option<RoundNotes> {
        Some(self.notes.clone())
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> Reason {
        let gang = &view.spec(job).gang;
        // Where its number of nodes is fixed, so is that of its devices.
        let needed = if gang.needs.is_some() { gang.devices } else { gang.devices_min };
        let working = working_devices(view, job);
        if needed > working {
            return Reason::NodesOut { needed, working };
        }
        let candidate = self.candidate(view, job);
        if let Some(reason) = self.planner.reason(view.now, &candidate) {
            return reason;
        }
        let of_type = |kind| view.schedule().free_index().of_type(kind).map_or(0, FreeOfType::devices);
        let free = match candidate.asked.filter(|_| self.planner.is_eager()) {
            Some(kind) => of_type(DeviceTypeId::from_index(kind)),
            None => free_devices(view, job),
        };
        match self.next_round() {
            // Between its plans, freed devices stay free.
            Some(at) if free >= needed && self.planner.is_eager() && at > view.now => {
                Reason::NextRound { at }
            }
            _ if free >= needed => Reason::Fragmented { needed, free },
            Some(at) if self.last_round < Some(view.spec(job).submit) => Reason::NextRound { at },
            _ if self.could_have(view, job) => Reason::NotWorthIt { needed, free },
            _ => Reason::DevicesBusy { needed, free },
        }
    }
}
