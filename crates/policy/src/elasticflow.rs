//! ElasticFlow: a job is admitted if all jobs still get the minimum that meets their deadlines; the rest goes, step by step,
//! to the job with the largest gain.
//!
//! Each job stays on one device type: the one that it asks for, or the one with the most room when it starts.

use wharf_core::{Knowledge, Reason, Time};

use crate::elastic::{Candidate, ElasticPlan, Offer, Planner, Scene};
use crate::priority::Key;

/// Serverless training with deadlines (ASPLOS'23).
#[derive(Clone, Copy, Debug)]
pub struct ElasticFlow {
    has_deadlines: bool,
}

impl ElasticFlow {
    /// A planner that keeps deadlines, or (`elasticflow-l`) knows none.
    pub const fn new(has_deadlines: bool) -> Self {
        Self { has_deadlines }
    }

    /// The least that a job must have on a type: the fewest devices with which it meets its deadline. One that runs and cannot
    /// meet it any more continues with the fewest there are.
    fn least(&self, scene: &Scene<'_>, job: &Candidate<'_>, kind: usize) -> Option<usize> {
        let mut of_kind = (0..job.offers.len()).filter(|&index| job.offers[index].kind == kind);
        let Some(deadline) = job.deadline.filter(|_| self.has_deadlines) else { return of_kind.next() };
        let is_in_time = |index: usize| {
            let start_s = if job.current == Some(index) { 0.0 } else { job.restart_s };
            let needed_s = start_s + job.remaining.unwrap_or(0.0) / job.offers[index].speed;
            scene.now.plus(needed_s) <= deadline
        };
        let first = of_kind.clone().next();
        of_kind.find(|&index| is_in_time(index)).or(first.filter(|_| job.current.is_some()))
    }

    /// The least of a job that is not admitted yet, on the type that it is to have, if there is room.
    fn admitted(&self, scene: &Scene<'_>, job: &Candidate<'_>, free: &[u32]) -> Option<usize> {
        let has = |kind: usize| job.offers.iter().any(|offer| offer.kind == kind);
        let held = job.current.map(|current| job.offers[current].kind);
        let bound = held.or(job.asked.filter(|&kind| has(kind)));
        let kinds = 0..free.len();
        let fits = |kind: usize| {
            let least = self.least(scene, job, kind)?;
            (job.offers[least].count <= free[kind]).then_some(least)
        };
        match bound {
            Some(kind) => fits(kind),
            None => kinds.filter_map(fits).max_by_key(|&least| free[job.offers[least].kind]),
        }
    }
}

/// The next larger offer of the same type, and what each further device brings in units of the smallest one's speed.
fn next(job: &Candidate<'_>, at: usize) -> Option<(Key, usize)> {
    let own = job.offers[at];
    let larger = job.offers.get(at + 1).filter(|offer| offer.kind == own.kind)?;
    let unit = job.offers.iter().find(|offer| offer.kind == own.kind).map_or(1.0, |offer| offer.speed);
    let more = f64::from(larger.count - own.count);
    // Growth beyond what it has must be worth a restart.
    let is_growth = job.current.is_none_or(|current| current < at + 1);
    let factor = if is_growth { job.restart_factor() } else { 1.0 };
    let gain = (larger.speed * factor - own.speed) / unit / more;
    (gain > 0.0).then(|| (Key::of(gain), at + 1))
}

impl Planner for ElasticFlow {
    fn knowledge(&self) -> Knowledge {
        Knowledge::Durations
    }

    fn is_eager(&self) -> bool {
        true
    }

    fn reason(&self, now: Time, job: &Candidate<'_>) -> Option<Reason> {
        let deadline = job.deadline.filter(|_| self.has_deadlines)?;
        let is_usable = |offer: &&Offer| job.asked.is_none_or(|kind| kind == offer.kind);
        let fastest = job.offers.iter().filter(is_usable).map(|offer| offer.speed).max_by(f64::total_cmp)?;
        let earliest = now.plus(job.restart_s + job.remaining.unwrap_or(0.0) / fastest);
        (earliest > deadline).then_some(Reason::DeadlineLost { deadline, earliest })
    }

    fn plan(&self, scene: &Scene<'_>) -> ElasticPlan {
        let mut free = scene.capacity.clone();
        let mut picks: Vec<Option<usize>> = vec![None; scene.jobs.len()];
        // Those that run were admitted; others come by deadline, then by id.
        let mut order: Vec<usize> = (0..scene.jobs.len()).collect();
        order.sort_by_key(|&index| {
            let job = &scene.jobs[index];
            let deadline = job.deadline.filter(|_| self.has_deadlines);
            (job.current.is_none(), deadline.is_none(), deadline, index)
        });
        for index in order {
            let job = &scene.jobs[index];
            picks[index] = self.admitted(scene, job, &free);
            if let Some(Offer { kind, count, .. }) = picks[index].map(|pick| job.offers[pick]) {
                free[kind] -= count;
            }
        }
        let step = |index: usize, pick: usize, free: &[u32]| {
            let job = &scene.jobs[index];
            let (gain, larger) = next(job, pick)?;
            let more = job.offers[larger].count - job.offers[pick].count;
            (more <= free[job.offers[larger].kind]).then_some((gain, std::cmp::Reverse(index), larger))
        };
        let mut steps: std::collections::BinaryHeap<_> =
            picks.iter().enumerate().filter_map(|(index, &pick)| step(index, pick?, &free)).collect();
        while let Some((_, std::cmp::Reverse(index), larger)) = steps.pop() {
            let offers = scene.jobs[index].offers;
            let Some(pick) = picks[index] else { continue };
            let more = offers[larger].count - offers[pick].count;
            if more <= free[offers[larger].kind] {
                free[offers[larger].kind] -= more;
                picks[index] = Some(larger);
                steps.extend(step(index, larger, &free));
            }
        }
        ElasticPlan { picks, is_exact: true }
    }
}

#[cfg(test)]
mod tests {
    use wharf_core::JobId;

    use super::*;

    fn offer(kind: usize, count: u32, speed: f64) -> Offer {
        Offer { kind, count, speed }
    }

    fn candidate(job: u32, offers: &[Offer], deadline_s: Option<f64>) -> Candidate<'_> {
        Candidate {
            job: JobId(job),
            offers,
            current: None,
            age_s: 0.0,
            restarts: 0,
            restart_s: 10.0,
            asked: None,
            remaining: Some(100.0),
            deadline: deadline_s.map(Time::from_seconds),
        }
    }

    fn plan(has_deadlines: bool, capacity: &[u32], jobs: Vec<Candidate<'_>>) -> Vec<Option<usize>> {
        let scene = Scene { now: Time::ZERO, capacity: capacity.to_vec(), jobs };
        ElasticFlow::new(has_deadlines).plan(&scene).picks
    }

    #[test]
    fn a_job_is_admitted_with_the_least_that_meets_its_deadline() {
        let offers = [offer(0, 1, 1.0), offer(0, 2, 2.0), offer(0, 4, 4.0)];
        let tight = || candidate(0, &offers, Some(65.0));
        // It needs two devices; with three there is room for one more job on the third.
        assert_eq!(plan(true, &[3], vec![tight(), candidate(1, &offers, None)]), [Some(1), Some(0)]);
        assert_eq!(plan(true, &[1], vec![tight()]), [None], "it would be too late");
        assert_eq!(plan(false, &[1], vec![tight()]), [Some(0)], "deadlines have no effect");
        assert_eq!(plan(true, &[4], vec![tight(), tight(), tight()]), [Some(1), Some(1), None]);
    }

    #[test]
    fn remaining_devices_go_to_the_largest_gain() {
        let scales = [offer(0, 1, 1.0), offer(0, 2, 2.0), offer(0, 4, 4.0)];
        let flat = [offer(0, 1, 1.0), offer(0, 2, 1.1), offer(0, 4, 1.2)];
        let jobs = || vec![candidate(0, &flat, None), candidate(1, &scales, None)];
        assert_eq!(plan(true, &[5], jobs()), [Some(0), Some(2)]);
        assert_eq!(plan(true, &[6], jobs()), [Some(1), Some(2)]);
    }

    #[test]
    fn jobs_stay_on_one_type() {
        let offers = [offer(0, 1, 1.0), offer(1, 1, 9.0)];
        let asks = Candidate { asked: Some(0), ..candidate(0, &offers, None) };
        assert_eq!(plan(true, &[1, 1], vec![asks]), [Some(0)]);
        let runs = Candidate { current: Some(1), ..asks };
        assert_eq!(plan(true, &[1, 1], vec![runs]), [Some(1)]);
        assert_eq!(plan(true, &[1, 5], vec![candidate(0, &offers, None)]), [Some(1)], "the most room");
    }
}
