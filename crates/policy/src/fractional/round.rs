//! One round: from shares and deficits to who runs where.

use std::collections::{BTreeMap, BTreeSet};

use wharf_core::{Chosen, Decision, JobId, StopReason, Time, View};

use super::problem::{Allocation, Claim, Combo, Pairs, Problem};
use super::{Fractional, Seat, usable};
use crate::rebuild::{Group, groups};
use crate::seating::Party;

/// Claims that differ by less than this part of a round are equal, and the older job goes first: sums of the same times in another order differ in
/// their last digits. A power of two, so that runs whose times are scaled by one are the same.
const RESOLUTION: f64 = 1.0 / (1 << 24) as f64;

/// A combination on a device type, and how much it is wanted there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) combo: Combo,
    pub(super) device_type: usize,
    pub(super) share: f64,
    /// Seconds that it is owed if the round gives it nothing.
    pub(super) owed_s: f64,
}

impl Candidate {
    /// What it is owed, in units that can be distinguished.
    fn owed(&self, round_s: f64) -> f64 {
        (self.owed_s / (round_s * RESOLUTION)).round()
    }
}

/// The groups that run, and those of them that must not be disturbed.
struct Running {
    on_type: BTreeMap<Combo, usize>,
    pinned: BTreeSet<JobId>,
}

impl Fractional {
    pub(super) fn round(&mut self, decision: &mut Decision<'_>, at: Time, is_moving: bool) {
        let view = decision.view();
        let running = self.running(&view);
        self.settle(at);
        if self.is_stale {
            self.reallocate(&view, is_moving);
        }
        self.order = self.candidates(&running);
        let chosen = self.choose(&view, &running);
        self.notes.rounds += 1;
        self.carry_out(decision, at, &running, chosen);
    }

    /// What runs now. A job on a node that is out of the policy's hands, or that has not had its devices for long, stays.
    fn running(&self, view: &View<'_>) -> Running {
        let placed: BTreeSet<JobId> = self.placed.keys().copied().collect();
        let is_pinned = |job: JobId| {
            view.protected_until(job, self.options.min_run_s).is_some() || is_elsewhere(view, job)
        };
        let mut running = Running { on_type: BTreeMap::new(), pinned: BTreeSet::new() };
        for group in groups(view, &placed) {
            if group.len() > 2 || group.iter().any(|&job| is_pinned(job)) {
                running.pinned.extend(&group);
            } else if let Some(seat) = group.first().and_then(|first| self.placed.get(first)) {
                running.on_type.insert(combo(&group), seat.device_type);
            }
        }
        running
    }

    /// Brings all accounts up to the time of the round.
    fn settle(&mut self, at: Time) {
        let placed: Vec<JobId> = self.placed.keys().copied().collect();
        for job in placed {
            self.charge(at, job);
        }
        self.ledger.credit(at, self.options.round_s);
    }

    fn reallocate(&mut self, view: &View<'_>, is_moving: bool) {
        let usable = usable(view);
        let mut problem = Problem {
            capacities: usable.iter().copied().map(f64::from).collect(),
            prices: prices(view),
            is_moving,
            claims: Vec::new(),
            speeds: Vec::new(),
            pairs: Pairs { topology: view.topology(), perf: view.perf(), specs: Vec::new() },
        };
        self.newcomers.clear();
        for (&job, row) in &self.speeds {
            if is_elsewhere(view, job) {
                continue;
            }
            let devices = view.spec(job).gang.devices;
            let fits = |(&speed, &room): (&f64, &u32)| if devices <= room { speed } else { 0.0 };
            let row: Vec<f64> = row.iter().zip(&usable).map(fits).collect();
            if row.iter().any(|&speed| speed > 0.0) {
                problem.claims.push(claim(view, job, self.placed.get(&job)));
                problem.speeds.extend(row);
                problem.pairs.specs.push(view.spec(job));
            } else {
                self.newcomers.push(job);
            }
        }
        let allocation =
            if problem.claims.is_empty() { Allocation::default() } else { self.allocator.allocate(&problem) };
        self.notes.fallbacks += u64::from(allocation.fallback.is_some());
        let fractions = |(combo, shares): &(Combo, Vec<f64>)| (combo.jobs().collect(), shares.clone());
        self.notes.shares = Some(allocation.shares.iter().map(fractions).collect());
        self.ledger.replace(allocation);
        self.is_stale = false;
    }

    /// All combinations with a share, those first that are owed most; then those without, where devices may be left over.
    fn candidates(&self, running: &Running) -> Vec<Candidate> {
        let round_s = self.options.round_s;
        let mut candidates: Vec<Candidate> = self
            .ledger
            .entries()
            .filter(|&(combo, _, share, _)| share > 0.0 || combo.second.is_none())
            .map(|(combo, device_type, share, deficit_s)| {
                let is_there = running.on_type.get(&combo) == Some(&device_type);
                let sticky_s = if is_there { self.options.sticky_s } else { 0.0 };
                let owed_s = if share > 0.0 { deficit_s + share * round_s + sticky_s } else { 0.0 };
                Candidate { combo, device_type, share, owed_s }
            })
            .filter(|candidate| self.can_run(candidate))
            .collect();
        let speed = |candidate: &Candidate| self.speed_of(candidate.combo.first, candidate.device_type);
        candidates.sort_by(|a, b| {
            let has_share = |candidate: &Candidate| candidate.share > 0.0;
            has_share(b)
                .cmp(&has_share(a))
                .then(b.owed(round_s).total_cmp(&a.owed(round_s)))
                .then(a.combo.cmp(&b.combo))
                .then(speed(b).total_cmp(&speed(a)))
        });
        candidates
    }

    pub(super) fn speed_of(&self, job: JobId, device_type: usize) -> f64 {
        self.speeds.get(&job).and_then(|row| row.get(device_type)).copied().unwrap_or(0.0)
    }

    fn can_run(&self, candidate: &Candidate) -> bool {
        candidate.combo.jobs().all(|job| self.speed_of(job, candidate.device_type) > 0.0)
    }

    /// Takes candidates in order, as long as their types have devices left.
    fn choose(&self, view: &View<'_>, running: &Running) -> Vec<(Combo, usize)> {
        let mut left = usable(view);
        let mut taken = running.pinned.clone();
        for &job in &running.pinned {
            for share in view.schedule().placement(job).unwrap_or_default() {
                if view.schedule().is_up(share.node) {
                    let kind = view.topology().node(share.node).device_type.index();
                    left[kind] = left[kind].saturating_sub(share.devices.len());
                }
            }
        }
        let mut chosen = Vec::new();
        for candidate in &self.order {
            let devices = view.spec(candidate.combo.first).gang.devices;
            let is_dropped = candidate.share <= 0.0 && self.allocator.is_strict();
            let is_free = candidate.combo.jobs().all(|job| !taken.contains(&job));
            if !is_dropped && is_free && devices <= left[candidate.device_type] {
                left[candidate.device_type] -= devices;
                taken.extend(candidate.combo.jobs());
                chosen.push((candidate.combo, candidate.device_type));
            }
        }
        chosen
    }

    /// Stops who is not chosen, and places who is chosen again.
    fn carry_out(
        &mut self,
        decision: &mut Decision<'_>,
        at: Time,
        running: &Running,
        chosen: Vec<(Combo, usize)>,
    ) {
        let target: BTreeMap<JobId, (usize, Combo)> = chosen
            .iter()
            .flat_map(|&(combo, kind)| combo.jobs().map(move |job| (job, (kind, combo))))
            .collect();
        let (kept, fresh): (Vec<_>, Vec<_>) =
            chosen.into_iter().partition(|(combo, kind)| running.on_type.get(combo) == Some(kind));
        let staying: BTreeSet<Combo> = kept.iter().map(|&(combo, _)| combo).collect();
        self.notes.lease_chances += running.on_type.len() as u64;
        self.notes.lease_extensions += kept.len() as u64;
        for combo in running.on_type.keys().filter(|combo| !staying.contains(combo)) {
            for job in combo.jobs() {
                let is_stopped = if target.contains_key(&job) {
                    decision.stop(job, StopReason::Moved)
                } else {
                    decision.preempt(job, None, Chosen::NotInRound)
                };
                if is_stopped {
                    self.leave(job);
                }
            }
        }
        let parties = |chosen: Vec<(Combo, usize)>, view: &View<'_>| {
            let party = |(combo, kind): (Combo, usize)| Party {
                group: combo.jobs().collect(),
                gang: self.gang_on(view, combo.first, kind),
            };
            chosen.into_iter().map(party).collect::<Vec<_>>()
        };
        // An allocator that is asked at every change does not want moves either.
        let movable = if self.allocator.is_prompt() { Vec::new() } else { kept };
        let (kept, fresh) = (parties(movable, &decision.view()), parties(fresh, &decision.view()));
        let seated = self.seating.seat(decision, kept, fresh);
        for &job in &seated.moved {
            self.leave(job);
        }
        self.note(at, &seated, |job| {
            let (kind, combo) = target.get(&job).copied().unwrap_or((0, Combo::single(job)));
            (kind, combo.jobs().find(|&member| member != job))
        });
    }

    fn leave(&mut self, job: JobId) {
        self.placed.remove(&job);
        self.waiting.insert(job);
    }

    /// Waiting jobs that are owed more than this one.
    pub(super) fn ahead(&self, job: JobId) -> u32 {
        let mut seen = BTreeSet::new();
        for candidate in &self.order {
            if candidate.combo.jobs().any(|member| member == job) {
                break;
            }
            seen.extend(candidate.combo.jobs().filter(|member| self.waiting.contains(member)));
        }
        seen.len() as u32
    }
}

fn combo(group: &Group) -> Combo {
    match group[..] {
        [first, second] => Combo::pair(first, second),
        _ => Combo::single(group[0]),
    }
}

fn claim(view: &View<'_>, job: JobId, seat: Option<&Seat>) -> Claim {
    let spec = view.spec(job);
    Claim {
        job,
        devices: spec.gang.devices,
        weight: spec.weight,
        user: spec.user.clone(),
        elapsed_s: view.now.since(spec.submit).max(0.0),
        remaining: view.remaining_iterations(job).unwrap_or(0.0),
        left_s: spec.deadline.map(|deadline| deadline.since(view.now)),
        running_on: seat.map(|seat| seat.device_type),
        partner: seat.and_then(|seat| seat.partner),
    }
}

/// Prices by type; all alike where one is not known, or is nothing.
fn prices(view: &View<'_>) -> Vec<f64> {
    let types = view.topology().types().len();
    let price = |kind| view.perf().price_per_h(view.topology(), wharf_core::DeviceTypeId::from_index(kind));
    let known: Option<Vec<f64>> = (0..types).map(|kind| price(kind).filter(|&price| price > 0.0)).collect();
    known.unwrap_or_else(|| vec![1.0; types])
}

/// Whether a job is on a node outside of this policy: its devices are not among those that are shared.
fn is_elsewhere(view: &View<'_>, job: JobId) -> bool {
    let placement = view.schedule().placement(job).unwrap_or_default();
    placement.iter().any(|share| !view.schedule().is_up(share.node))
}
