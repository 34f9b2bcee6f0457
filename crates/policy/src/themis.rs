//! Themis: devices are leased, and what is free goes to those who are treated worst.

use std::collections::{BTreeMap, BTreeSet};

use wharf_core::{Change, Chosen, Decision, Gang, JobId, Knowledge, NodeShare, Policy, Reason, Time, View};

use crate::placement::Placer;
use crate::priority::working_devices;
use crate::rebuild::{busy_or_fragmented, up_devices};
use crate::room;

/// Finish-time fairness by leases (NSDI'20), without the partial allocations of its auction.
pub struct Themis {
    lease_s: f64,
    /// The share of jobs that are not offered devices first: 0.8 means that the worst-off fifth is.
    fairness_knob: f64,
    /// Seconds for which a job keeps its devices in any case.
    min_run_s: f64,
    placer: Box<dyn Placer>,
    waiting: BTreeSet<JobId>,
    /// Placed jobs and the ends of their leases.
    leases: BTreeMap<JobId, Time>,
    /// When leases end.
    boundary: Option<Time>,
    placement: Vec<NodeShare>,
}

/// Jobs by how badly they are treated, the worst first.
type ByNeed = Vec<(f64, JobId)>;

impl Themis {
    /// A policy over an idle cluster.
    pub fn new(lease_s: f64, fairness_knob: f64, min_run_s: f64, placer: Box<dyn Placer>) -> Self {
        let (waiting, leases) = (BTreeSet::new(), BTreeMap::new());
        let (boundary, placement) = (None, Vec::new());
        Self { lease_s, fairness_knob, min_run_s, placer, waiting, leases, boundary, placement }
    }

    /// Jobs with their finish-time fairness: how long they will have taken if they run from now on, compared to their
    /// fair share of the cluster from the beginning.
    fn by_need(&self, view: &View<'_>, jobs: impl Iterator<Item = JobId>) -> ByNeed {
        let live = (self.waiting.len() + self.leases.len()).max(1) as f64;
        let fair_share = f64::from(up_devices(view).max(1)) / live;
        let mut by_need: ByNeed = jobs
            .map(|job| {
                let spec = view.spec(job);
                let shared_s = view.now.since(spec.submit) + view.remaining_s(job).unwrap_or(0.0);
                let ideal_s = spec.solo_s() * (f64::from(spec.gang.devices) / fair_share).max(1.0);
                (shared_s / ideal_s.max(f64::MIN_POSITIVE), job)
            })
            .collect();
        by_need.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        by_need
    }

    /// A lease lasts until the next boundary, or the one after where that is too near.
    fn lease_end(&self, now: Time) -> Time {
        let next = self.boundary.unwrap_or_else(|| now.plus(self.lease_s));
        if next.since(now) * 2.0 >= self.lease_s { next } else { next.plus(self.lease_s) }
    }

    /// Offers what is free, or leased until now, to the worst-off jobs; who is not outbid stays where it is.
    fn offer(&mut self, decision: &mut Decision<'_>) {
        let view = decision.view();
        let expired: Vec<JobId> = self
            .leases
            .iter()
            .filter(|&(_, &end)| end <= view.now)
            .map(|(&job, _)| job)
            .filter(|&job| view.protected_until(job, self.min_run_s).is_none())
            .collect();
        let bidders = self.by_need(&view, self.waiting.iter().chain(&expired).copied());
        let invited = ((1.0 - self.fairness_knob) * bidders.len() as f64).ceil().max(1.0) as usize;
        let (invited, others) = bidders.split_at(invited.min(bidders.len()));
        let outbid: Vec<JobId> =
            others.iter().rev().map(|&(_, job)| job).filter(|job| self.leases.contains_key(job)).collect();
        let mut failed = Vec::new();
        for &(_, job) in invited {
            if self.waiting.contains(&job) && !self.start_on_free(decision, job, &mut failed) {
                self.start_instead(decision, job, &outbid);
                // Victims may have left more than it takes, for gangs that had no room before.
                failed.clear();
            }
        }
        let end = self.lease_end(decision.view().now);
        for job in expired {
            if let Some(lease) = self.leases.get_mut(&job) {
                *lease = (*lease).max(end);
            }
        }
    }

    fn start_instead(&mut self, decision: &mut Decision<'_>, job: JobId, outbid: &[JobId]) {
        let view = decision.view();
        let stoppable = outbid.iter().copied().filter(|other| self.leases.contains_key(other));
        let Some(room) = room::find(&view, &view.spec(job).gang, stoppable) else { return };
        for &victim in &room.leaving {
            if decision.preempt(victim, Some(job), Chosen::AboveShare) {
                self.leases.remove(&victim);
                self.waiting.insert(victim);
            }
        }
        let view = decision.view();
        let placement = room.placement(&view, &view.spec(job).gang);
        self.start(decision, job, &placement);
    }

    fn start(&mut self, decision: &mut Decision<'_>, job: JobId, placement: &[NodeShare]) {
        if decision.start(job, placement) {
            self.waiting.remove(&job);
            self.leases.insert(job, self.lease_end(decision.view().now));
        }
    }

    /// Starts a job on free devices; `failed` are gangs that found none.
    fn start_on_free(&mut self, decision: &mut Decision<'_>, job: JobId, failed: &mut Vec<Gang>) -> bool {
        let view = decision.view();
        let gang = &view.spec(job).gang;
        if failed.contains(gang) {
            return false;
        }
        let mut placement = std::mem::take(&mut self.placement);
        let is_found = self.placer.place(view.topology(), view.schedule(), gang, &mut placement);
        if is_found {
            self.start(decision, job, &placement);
        } else {
            failed.push(gang.clone());
        }
        self.placement = placement;
        is_found
    }

    fn fill(&mut self, decision: &mut Decision<'_>) {
        if self.waiting.is_empty() || decision.view().schedule().free_count() == 0 {
            return;
        }
        let mut failed = Vec::new();
        for (_, job) in self.by_need(&decision.view(), self.waiting.iter().copied()) {
            self.start_on_free(decision, job, &mut failed);
        }
    }
}

impl Policy for Themis {
    fn knowledge(&self) -> Knowledge {
        Knowledge::Durations
    }

    fn observe(&mut self, view: &View<'_>, change: Change) {
        match change {
            Change::Arrived(job) | Change::Waiting(job) | Change::Stopping(job) => {
                if view.schedule().placement(job).is_none() {
                    self.leases.remove(&job);
                    self.waiting.insert(job);
                }
            }
            Change::Placed(job) => {
                self.waiting.remove(&job);
                let end = self.lease_end(view.now);
                self.leases.entry(job).or_insert(end);
            }
            Change::Ended(job) => {
                self.waiting.remove(&job);
                self.leases.remove(&job);
            }
            Change::Running(_) | Change::Node(_) => {}
        }
    }

    fn schedule(&mut self, decision: &mut Decision<'_>) {
        let now = decision.view().now;
        let is_due = self.boundary.is_some_and(|boundary| boundary <= now);
        if is_due || self.boundary.is_none() {
            self.boundary = Some(now.plus(self.lease_s));
        }
        if is_due && !self.waiting.is_empty() {
            self.offer(decision);
        }
        self.fill(decision);
        if let Some(boundary) = self.boundary.filter(|_| !self.waiting.is_empty()) {
            decision.wake_at(boundary);
        }
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> Reason {
        let (needed, working) = (view.spec(job).gang.devices, working_devices(view, job));
        if needed > working {
            return Reason::NodesOut { needed, working };
        }
        match (busy_or_fragmented(view, job), self.boundary) {
            (Reason::DevicesBusy { .. }, Some(until)) => {
                let by_need = self.by_need(view, self.waiting.iter().copied());
                let ahead = by_need.iter().position(|&(_, other)| other == job).unwrap_or(0) as u32;
                Reason::Leased { until, ahead }
            }
            (reason, _) => reason,
        }
    }
}
