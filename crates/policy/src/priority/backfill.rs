//! Backfill: jobs that may start while the first job does not fit.

use std::collections::BTreeSet;

use wharf_core::{Decision, Gang, JobId, NodeId, NodeShare, Phase, Time, Topology, Vacancy, View};

use super::{Priority, Rank};
use crate::placement::Placer;
use crate::reserve::place_elsewhere;

/// Which jobs may start while the first one does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backfill {
    /// None: strict order.
    Off,
    /// All that fit.
    Greedy,
    /// Those that do not delay the first job: they end by the time at which it can start, or leave it enough devices then
    /// (EASY).
    Easy {
        /// Number of jobs behind the first one that are considered.
        depth: usize,
    },
}

/// Seconds by which the end of a job may differ from the expected one without a new forecast.
const TOLERANCE_S: f64 = 1e-6;

/// Expected ends of the jobs that have devices, and the reservation of the first waiting job.
#[derive(Default)]
pub(super) struct Forecast {
    ends: BTreeSet<(Time, JobId)>,
    end_of: Vec<Option<Time>>,
    /// Kept until the holder changes or an expectation turns out wrong.
    reservation: Option<Reservation>,
}

/// The earliest time at which the first waiting job can be placed.
struct Reservation {
    holder: JobId,
    time: Time,
    /// What is free at that time.
    vacancy: Vacancy,
    /// Nodes on which the holder would be placed then.
    nodes: Vec<NodeId>,
}

impl Forecast {
    /// Records when a job that has devices is expected to end.
    pub(super) fn expect(&mut self, view: &View<'_>, job: JobId) {
        let placement = view.schedule().placement(job).unwrap_or_default();
        self.set(job, expected_end(view, job, placement));
    }

    fn set(&mut self, job: JobId, end: Time) {
        if self.end_of.len() <= job.index() {
            self.end_of.resize(job.index() + 1, None);
        }
        if let Some(before) = self.end_of[job.index()].replace(end) {
            self.ends.remove(&(before, job));
            if is_apart(before, end) {
                self.reservation = None;
            }
        }
        self.ends.insert((end, job));
    }

    /// Records that a job has no devices any more.
    pub(super) fn forget(&mut self, now: Time, job: JobId) {
        let Some(end) = self.end_of.get_mut(job.index()).and_then(Option::take) else { return };
        self.ends.remove(&(end, job));
        if is_apart(end, now) {
            self.reservation = None;
        }
    }

    /// Records that what is free has changed for other reasons than expected ends and backfilled jobs.
    pub(super) fn discard(&mut self) {
        self.reservation = None;
    }

    /// The reservation of the first waiting job, made again where the last one does not hold any more.
    fn reserve(&mut self, placer: &mut dyn Placer, view: &View<'_>, holder: JobId) -> &mut Reservation {
        let kept = self.reservation.take().filter(|kept| kept.holder == holder && kept.time > view.now);
        let reservation = kept.unwrap_or_else(|| self.search(placer, view, holder));
        self.reservation.insert(reservation)
    }

    /// Lets jobs end in the expected order until the holder can be placed.
    fn search(&self, placer: &mut dyn Placer, view: &View<'_>, holder: JobId) -> Reservation {
        let gang = &view.spec(holder).gang;
        let mut vacancy: Vacancy = (**view.schedule()).clone();
        let mut placement = Vec::new();
        let mut ends = self.ends.iter().peekable();
        while let Some(&(end, job)) = ends.next() {
            let shares = view.schedule().placement(job).unwrap_or_default();
            vacancy.give_back(&view.spec(job).gang, shares);
            let is_last = ends.peek().is_none_or(|&&(next, _)| next > end);
            if is_last && placer.place(view.topology(), &vacancy, gang, &mut placement) {
                let nodes = placement.iter().map(|share| share.node).collect();
                return Reservation { holder, time: end.max(view.now), vacancy, nodes };
            }
        }
        Reservation { holder, time: Time::FAR, vacancy, nodes: Vec::new() }
    }
}

impl Reservation {
    /// Whether a job on these devices does not delay the holder. One that is still there at the time of the reservation is
    /// counted from now on.
    fn allows(
        &mut self,
        placer: &mut dyn Placer,
        topology: &Topology,
        holder: &Gang,
        candidate: (&Gang, &[NodeShare]),
        end: Time,
    ) -> bool {
        if end <= self.time {
            return true;
        }
        let (gang, shares) = candidate;
        self.vacancy.take(gang, shares);
        let mut placement = Vec::new();
        let is_left = placer.place(topology, &self.vacancy, holder, &mut placement);
        if is_left {
            self.nodes = placement.iter().map(|share| share.node).collect();
        } else {
            self.vacancy.give_back(gang, shares);
        }
        is_left
    }
}

impl<R: Rank> Priority<R> {
    /// Starts later jobs that do not delay `head`.
    pub(super) fn backfill_around(&mut self, decision: &mut Decision<'_>, head: JobId, depth: usize) {
        let Some(mut forecast) = self.forecast.take() else { return };
        if decision.view().schedule().free_count() > 0 {
            forecast.reserve(&mut *self.placer, &decision.view(), head);
            // Where one job does not fit, no other with the same gang does.
            let mut is_full = vec![false; self.classes.iter().count()];
            for (class, job) in self.classes.in_order(depth + 1) {
                if job == head || is_full[class] {
                    continue;
                }
                let mut placement = std::mem::take(&mut self.placement);
                let view = decision.view();
                let gang = &view.spec(job).gang;
                is_full[class] = !self.placer.place(view.topology(), view.schedule(), gang, &mut placement);
                if !is_full[class]
                    && self.may_backfill(&mut forecast, &view, head, job, &mut placement)
                    && self.start(decision, job, &placement)
                {
                    forecast.expect(&decision.view(), job);
                }
                self.placement = placement;
            }
        }
        self.forecast = Some(forecast);
    }

    /// Whether a job may start on these devices, or else on others that are put in their place.
    fn may_backfill(
        &mut self,
        forecast: &mut Forecast,
        view: &View<'_>,
        head: JobId,
        job: JobId,
        placement: &mut Vec<NodeShare>,
    ) -> bool {
        let placer = &mut *self.placer;
        let reservation = forecast.reserve(placer, view, head);
        let (holder, gang) = (&view.spec(head).gang, &view.spec(job).gang);
        let end = expected_end(view, job, placement);
        if reservation.allows(placer, view.topology(), holder, (gang, placement), end) {
            return true;
        }
        let Some(other) = place_elsewhere(view, gang, placement, &reservation.nodes) else { return false };
        *placement = other;
        let end = expected_end(view, job, placement);
        reservation.allows(placer, view.topology(), holder, (gang, placement), end)
    }
}

/// When a job that has, or is to get, these devices ends if nothing disturbs it.
fn expected_end(view: &View<'_>, job: JobId, placement: &[NodeShare]) -> Time {
    if view.job(job).phase == Phase::Running {
        return view.finish(job).unwrap_or(Time::FAR);
    }
    let spec = view.spec(job);
    let Some(iterations) = view.remaining_iterations(job) else { return Time::FAR };
    let iteration_s = view.perf().iteration_s(view.topology(), spec, placement, &[]);
    view.now.plus(view.perf().restart_s(spec) + iterations * iteration_s)
}

fn is_apart(one: Time, other: Time) -> bool {
    one.since(other).abs() > TOLERANCE_S
}
