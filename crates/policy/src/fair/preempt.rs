//! Taking devices from those who are far above their share.

use std::cmp::Reverse;

use wharf_core::{Chosen, Decision, JobId, Phase, View};

use super::Fair;
use crate::cost::Cost;
use crate::priority::Key;
use crate::room;

/// Seconds between checks shares that drift apart while nothing happens.
const LOOK_S: f64 = 300.0;

/// Running jobs checked before a search gives up.
const CANDIDATES_MAX: usize = 64;

/// When devices are taken from those who are far above their share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preempt {
    /// How many times more of its share a victim's user must have used than the waiting job's.
    pub ratio: f64,
    /// Seconds for which a job keeps its devices in any case.
    pub min_run_s: f64,
}

impl Fair {
    /// Starts a job on devices of users who are far above their share, where it then fits.
    pub(super) fn preempt_for(&mut self, decision: &mut Decision<'_>, user: usize, job: JobId) -> bool {
        let Some(rules) = self.options.preempt else { return false };
        let view = decision.view();
        let candidates = self.candidates(&view, rules, user, job);
        let Some(room) = room::find(&view, &view.spec(job).gang, candidates) else { return false };
        for &victim in &room.leaving {
            if decision.preempt(victim, Some(job), Chosen::AboveShare) {
                self.wait(&decision.view(), victim);
            }
        }
        let view = decision.view();
        let placement = room.placement(&view, &view.spec(job).gang);
        self.start(decision, job, &placement)
    }

    /// Jobs that may have to leave, those of the users who have used most of their shares first.
    fn candidates(&self, view: &View<'_>, rules: Preempt, user: usize, job: JobId) -> Vec<JobId> {
        let mut above: Vec<(Reverse<Key>, usize)> = self
            .ledger
            .running()
            .filter_map(|other| {
                let (own, others) = self.ledger.levels(view.now, (user, 0), (other, 0));
                (other != user && own * rules.ratio < others).then_some((Reverse(Key::of(others)), other))
            })
            .collect();
        above.sort_unstable();
        let more = i64::from(view.spec(job).gang.devices);
        let mut candidates = Vec::new();
        for (_, other) in above {
            let mut less = 0;
            for victim in self.victims_of(view, rules, other, job) {
                less += i64::from(view.spec(victim).gang.devices);
                // The giving user must not be worse off afterwards, or would take it back.
                let (own, others) = self.ledger.levels(view.now, (user, more), (other, -less));
                if own > others || candidates.len() >= CANDIDATES_MAX {
                    break;
                }
                candidates.push(victim);
            }
        }
        candidates
    }

    /// A user's jobs that may be stopped for another, the cheapest first, then the youngest.
    fn victims_of(&self, view: &View<'_>, rules: Preempt, user: usize, job: JobId) -> Vec<JobId> {
        let reserved = self.reserved(job);
        let is_elsewhere = |victim: JobId| {
            let shares = view.schedule().placement(victim).unwrap_or_default();
            shares.iter().all(|share| !reserved.contains(&share.node))
        };
        let placed = self.placed.get(user).into_iter().flatten().copied();
        // What was placed just now must not be stopped before it began.
        let running = placed.filter(|&victim| view.job(victim).phase == Phase::Running);
        let mut victims: Vec<JobId> = running
            .filter(|&victim| view.protected_until(victim, rules.min_run_s).is_none() && is_elsewhere(victim))
            .collect();
        victims
            .sort_by_key(|&victim| (Cost::of(view, victim), Reverse(view.job(victim).placed_at()), victim));
        victims
    }

    /// Shares drift apart, and minimum run times pass, while nothing happens.
    pub(super) fn plan_look(&self, decision: &mut Decision<'_>) {
        if self.options.preempt.is_some() && self.queues.has_any() {
            let next = decision.view().now.plus(LOOK_S);
            decision.wake_at(next);
        }
    }
}
