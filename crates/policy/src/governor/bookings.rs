//! Reservations and maintenance windows: when which nodes are kept, and whose jobs go there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wharf_core::{Decision, JobId, NodeId, Reason, StopReason, Time, View};

use super::accounts::turn;
use super::ledger::Turn;
use super::limits::{Limits, Nodes, Reservation, user_of};
use super::site;
use super::units::Origin;

/// A reservation in the engine's time, with the outcome of it.
#[derive(Debug)]
pub(crate) struct Booking {
    reservation: Reservation,
    /// From when on others are not given its nodes.
    close: Time,
    start: Time,
    end: Time,
    /// Its nodes, while they are kept.
    nodes: Vec<NodeId>,
    /// Admitted jobs that ask for it and wait.
    queue: BTreeSet<Turn>,
    /// Jobs that came before it began.
    early: BTreeSet<JobId>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Bookings {
    all: Vec<Booking>,
    by_name: BTreeMap<Arc<str>, usize>,
    kept: BTreeMap<NodeId, usize>,
    /// When something begins or ends next.
    next: Option<Time>,
    /// Whether nodes were checked since they last changed.
    is_current: bool,
}

/// The reservation that a job asks for.
pub(crate) fn asked<'a>(view: &View<'a>, job: JobId) -> Option<&'a Arc<str>> {
    view.spec(job).gang.needs.as_ref().and_then(|needs| needs.reservation.as_ref())
}

impl Bookings {
    pub(crate) fn new(limits: &Limits, origin: Origin) -> Self {
        let booking = |reservation: &Reservation| {
            let (start, end) = (reservation.start.at(origin), reservation.end.at(origin));
            let close = Time::from_seconds(start.seconds() - reservation.lead_s);
            let (nodes, queue, early) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
            Booking { reservation: reservation.clone(), close, start, end, nodes, queue, early }
        };
        let all: Vec<Booking> = limits.reservations.iter().map(booking).collect();
        let by_name =
            all.iter().enumerate().map(|(index, one)| (one.reservation.name.clone(), index)).collect();
        Self { all, by_name, ..Self::default() }
    }

    /// Why a job that asks for a reservation can never have it.
    pub(crate) fn refuses(&self, view: &View<'_>, job: JobId) -> Option<Reason> {
        let name = asked(view, job)?;
        let why = match self.by_name.get(name).map(|&index| &self.all[index]) {
            None => Some("does not exist"),
            Some(one) if one.end <= view.now => Some("is over"),
            Some(one) => one.reservation.refuses(&user_of(view.spec(job))),
        };
        why.map(|why| Reason::ReservationRefuses { name: name.clone(), why })
    }

    fn of(&mut self, view: &View<'_>, job: JobId) -> Option<&mut Booking> {
        let index = *self.by_name.get(asked(view, job)?)?;
        self.all.get_mut(index)
    }

    /// Takes a job in that waits for its reservation's nodes.
    pub(crate) fn wait(&mut self, view: &View<'_>, job: JobId) {
        self.leave(view, job);
        if let Some(booking) = self.of(view, job) {
            booking.queue.insert(turn(view, job));
        }
    }

    /// Takes a job in that has come before its reservation begins; returns whether it has.
    pub(crate) fn wait_for_start(&mut self, view: &View<'_>, job: JobId) -> bool {
        let booking = self.of(view, job).filter(|booking| view.now < booking.start);
        booking.is_some_and(|booking| booking.early.insert(job))
    }

    /// Takes a job out, whatever its priority was.
    pub(crate) fn leave(&mut self, view: &View<'_>, job: JobId) {
        let Some(booking) = self.of(view, job) else { return };
        booking.early.remove(&job);
        if !booking.queue.remove(&turn(view, job)) {
            booking.queue.retain(|&(_, other)| other != job);
        }
    }

    /// Takes out the jobs whose reservations have begun, and those whose reservations are over.
    pub(crate) fn take_due(&mut self, now: Time) -> (Vec<JobId>, Vec<JobId>) {
        let (mut begun, mut over) = (Vec::new(), Vec::new());
        for booking in self.all.iter_mut().filter(|one| one.start <= now) {
            begun.extend(std::mem::take(&mut booking.early));
            if booking.end <= now {
                over.extend(std::mem::take(&mut booking.queue).into_iter().map(|(_, job)| job));
            }
        }
        (begun, over)
    }

    /// Whether nodes have to be closed or opened, now or because nodes changed.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        !self.is_current || self.next.is_some_and(|next| next <= now)
    }

    /// Checks all nodes again at the next decision.
    pub(crate) fn look_again(&mut self) {
        self.is_current = false;
    }

    /// When something begins or ends next.
    pub(crate) fn next(&self) -> Option<Time> {
        self.next
    }

    /// Whether a node is kept for a reservation.
    pub(crate) fn keeps(&self, node: NodeId) -> bool {
        self.kept.contains_key(&node)
    }

    /// Finds out which nodes are kept now.
    pub(crate) fn update(&mut self, view: &View<'_>) {
        let now = view.now;
        self.kept.clear();
        for (index, booking) in self.all.iter_mut().enumerate() {
            if now < booking.close || now >= booking.end {
                booking.nodes.clear();
                continue;
            }
            booking.choose(view, &self.kept);
            self.kept.extend(booking.nodes.iter().map(|&node| (node, index)));
        }
        let moments = self.all.iter().flat_map(|one| [one.close, one.start, one.end]);
        self.next = moments.filter(|&moment| moment > now).min();
        self.is_current = true;
    }

    /// Jobs that have to leave nodes whose windows have begun.
    pub(crate) fn to_drain(&self, view: &View<'_>) -> BTreeSet<JobId> {
        let mut leaving = BTreeSet::new();
        let mut here = Vec::new();
        for booking in self.all.iter().filter(|one| one.start <= view.now && view.now < one.end) {
            for &node in &booking.nodes {
                view.schedule().jobs_on(view.topology(), node, &mut here);
                let is_own = |job: &JobId| asked(view, *job) == Some(&booking.reservation.name);
                leaving.extend(here.iter().copied().filter(|job| !is_own(job)));
            }
        }
        leaving
    }

    /// Starts jobs on the nodes that are kept for them, in order.
    pub(crate) fn start(&mut self, decision: &mut Decision<'_>) {
        let now = decision.view().now;
        for booking in self.all.iter_mut().filter(|one| one.start <= now && now < one.end) {
            while let Some(&(priority, job)) = booking.queue.first() {
                let view = decision.view();
                let placement = site::place(&view, &view.spec(job).gang, &booking.nodes);
                if !placement.is_some_and(|placement| decision.start_kept(job, &placement)) {
                    break;
                }
                booking.queue.remove(&(priority, job));
            }
        }
    }

    /// Why a job that asks for a reservation waits.
    pub(crate) fn explain(&self, view: &View<'_>, job: JobId) -> Reason {
        if let Some(refused) = self.refuses(view, job) {
            return refused;
        }
        let booking = asked(view, job).and_then(|name| self.by_name.get(name)).map(|&index| &self.all[index]);
        let Some(booking) = booking else { return Reason::NotWaiting };
        let name = booking.reservation.name.clone();
        if view.now < booking.start {
            return Reason::ReservationBegins { name, at: booking.start };
        }
        let gang = &view.spec(job).gang;
        let free = booking.nodes.iter().map(|&node| site::room(view, gang, node)).sum();
        Reason::ReservationBusy { name, needed: gang.devices, free }
    }

    /// The reservation that a node is kept for, and when it ends.
    pub(crate) fn keeper(&self, node: NodeId) -> Option<(Arc<str>, Time)> {
        let booking = &self.all[*self.kept.get(&node)?];
        Some((booking.reservation.name.clone(), booking.end))
    }

    /// Nodes that are kept.
    pub(crate) fn kept(&self) -> impl Iterator<Item = NodeId> {
        self.kept.keys().copied()
    }
}

impl Booking {
    /// Finds its nodes: those it names, or as many as it wants, the ones that it has first.
    fn choose(&mut self, view: &View<'_>, kept: &BTreeMap<NodeId, usize>) {
        let nodes = view.topology().nodes().iter().enumerate();
        let nodes = nodes.map(|(index, node)| (NodeId::from_index(index), &node.spec));
        match &self.reservation.nodes {
            Nodes::Named(names) => {
                self.nodes = nodes.filter(|(_, spec)| names.contains(&spec.name)).map(|(id, _)| id).collect();
                self.nodes.retain(|node| !kept.contains_key(node));
            }
            Nodes::Some { count, pool } => {
                let schedule = view.schedule();
                let mut able: Vec<NodeId> = nodes
                    .filter(|(_, spec)| {
                        pool.as_ref().is_none_or(|pool| view.access().pool(&spec.pool) == &**pool)
                    })
                    .map(|(id, _)| id)
                    .filter(|id| schedule.is_usable_if_kept(*id) && !kept.contains_key(id))
                    .collect();
                // After a restart, those that are closed are the ones that it had.
                able.sort_by_key(|id| (!self.nodes.contains(id), !schedule.is_closed(*id), *id));
                able.truncate(*count as usize);
                self.nodes = able;
            }
        }
    }
}

/// Stops jobs that have to leave.
pub(crate) fn stop_all(decision: &mut Decision<'_>, jobs: impl IntoIterator<Item = JobId>) -> Vec<JobId> {
    jobs.into_iter().filter(|&job| decision.stop(job, StopReason::Preempted)).collect()
}
