//! The contract between the engine and a policy: a view in, a decision out.

use crate::access::Access;
use crate::audit::{self, Violation};
use crate::cluster::NodeShare;
use crate::effect::Outbox;
use crate::engine::Log;
use crate::event::{Chosen, Detail, Event, StopReason};
use crate::ids::{JobId, NodeId};
use crate::job::JobSpec;
use crate::perf::PerfModel;
use crate::reason::Reason;
use crate::schedule::Schedule;
use crate::state::{JobState, Phase, State};
use crate::time::Time;
use crate::topology::Topology;

/// Decides what runs where.
///
/// Deterministic: equal observations and views give equal decisions. A policy that keeps indexes updates them in
/// [`observe`](Policy::observe), where the cost follows what changed.
pub trait Policy: Send {
    /// What the policy is entitled to know of a job's length.
    fn knowledge(&self) -> Knowledge;

    /// Tells of one change, after it happened.
    fn observe(&mut self, view: &View<'_>, change: Change);

    /// Changes the schedule, and states when to be called next even if nothing happens.
    fn schedule(&mut self, decision: &mut Decision<'_>);

    /// Why a job is not running.
    fn explain(&self, view: &View<'_>, job: JobId) -> Reason;

    /// What a policy that works in rounds has done so far, and the shares that it worked out since it was last asked;
    /// nothing from others.
    fn rounds(&mut self) -> Option<RoundNotes> {
        None
    }

    /// When to be called even if nothing happens, because of what it was told since it last decided.
    fn wake(&self) -> Option<Time> {
        None
    }
}

/// What a policy that works in rounds tells of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoundNotes {
    /// Rounds so far.
    pub rounds: u64,
    /// Seconds from one round to the next.
    pub round_s: f64,
    /// Times that jobs kept their devices from one round to the next.
    pub lease_extensions: u64,
    /// Times that they might have.
    pub lease_chances: u64,
    /// Decisions for which an approximation had to do.
    pub fallbacks: u64,
    /// Which part of the time jobs (several where they share devices) are to have devices of each type, where that was worked
    /// out since the last question.
    pub shares: Option<Vec<(Vec<JobId>, Vec<f64>)>>,
}

/// What a policy may know of a job's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// Only what has happened so far.
    Attained,
    /// Also how much work is left.
    Durations,
}

/// One thing that happened, for the indexes of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A job entered the system and waits.
    Arrived(JobId),
    /// A job was given devices, by this policy or before it took over.
    Placed(JobId),
    /// A job's processes run, or run at another speed.
    Running(JobId),
    /// A job was requested to give its devices back; it may be given others at once.
    Stopping(JobId),
    /// A job gave its devices back and waits.
    Waiting(JobId),
    /// A job has ended, or was withdrawn for now.
    Ended(JobId),
    /// A node was lost, or returned, or joined.
    Node(NodeId),
}

/// What a policy sees: everything that it may know, nothing that it can change.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The present.
    pub now: Time,
    state: &'a State,
    perf: &'a dyn PerfModel,
    knowledge: Knowledge,
}

impl<'a> View<'a> {
    /// A view of a state.
    pub fn new(now: Time, state: &'a State, perf: &'a dyn PerfModel, knowledge: Knowledge) -> Self {
        Self { now, state, perf, knowledge }
    }

    /// The machines.
    #[inline]
    pub fn topology(&self) -> &'a Topology {
        self.state.topology()
    }

    /// Who may use which pool.
    pub fn access(&self) -> &'a Access {
        self.state.access()
    }

    /// All placements in force.
    #[inline]
    pub fn schedule(&self) -> &'a Schedule {
        self.state.schedule()
    }

    /// What a job asked for. Its length is for those entitled to it: [`View::remaining_s`].
    #[inline]
    pub fn spec(&self, job: JobId) -> &'a JobSpec {
        self.state.spec(job)
    }

    /// What a job's life is like.
    #[inline]
    pub fn job(&self, job: JobId) -> &'a JobState {
        self.state.job(job)
    }

    /// All jobs that are not over, by id. Includes those that are held.
    pub fn live_jobs(&self) -> impl Iterator<Item = JobId> + 'a {
        self.state.jobs().filter(|(_, _, job)| !job.is_ended()).map(|(id, _, _)| id)
    }

    /// All jobs by id, also those that have ended.
    pub fn all_jobs(&self) -> impl Iterator<Item = JobId> + 'a {
        self.state.jobs().map(|(id, _, _)| id)
    }

    /// How fast jobs run.
    pub fn perf(&self) -> &'a dyn PerfModel {
        self.perf
    }

    /// Iterations that a job still has to make; `None` to a policy that is not entitled to know.
    pub fn remaining_iterations(&self, job: JobId) -> Option<f64> {
        (self.knowledge == Knowledge::Durations)
            .then(|| (self.spec(job).iterations - self.job(job).done(self.now)).max(0.0))
    }

    /// Seconds of undisturbed running that a job still needs; `None` to a policy that is not entitled to know.
    #[inline]
    pub fn remaining_s(&self, job: JobId) -> Option<f64> {
        self.remaining_iterations(job).map(|iterations| iterations * self.spec(job).iteration_ms / 1000.0)
    }

    /// Seconds that a job has held devices.
    #[inline]
    pub fn attained_s(&self, job: JobId) -> f64 {
        self.job(job).attained_s(self.now)
    }

    /// Until when a placed job has not had its devices for `min_run_s` yet, so that it should keep them; `None` where it has.
    pub fn protected_until(&self, job: JobId, min_run_s: f64) -> Option<Time> {
        let life = self.job(job);
        // One that has yet to leave its former devices has not begun to use the new ones.
        let since = if life.phase == Phase::Stopping { self.now } else { life.placed_at() };
        let until = since.plus(min_run_s);
        (self.now < until).then_some(until)
    }

    /// Seconds of a running job's work that no checkpoint holds.
    pub fn unsaved_s(&self, job: JobId) -> f64 {
        let life = self.job(job);
        let since_s =
            if life.phase == Phase::Running { self.now.since(life.saved_at()).max(0.0) } else { 0.0 };
        match self.perf.checkpoint_interval_s().filter(|&interval_s| interval_s > 0.0) {
            Some(interval_s) => since_s % interval_s,
            None => since_s,
        }
    }

    /// When a running job will be done if nothing changes; `None` to a policy that is not entitled to know.
    pub fn finish(&self, job: JobId) -> Option<Time> {
        (self.knowledge == Knowledge::Durations)
            .then(|| self.job(job).finish(self.spec(job).iterations))
            .flatten()
    }
}

/// Changes of the schedule, checked and applied as they are made: what a policy has decided so far is in its view.
///
/// A change that breaks a rule is refused and reported; it is never executed.
pub struct Decision<'a> {
    now: Time,
    state: &'a mut State,
    perf: &'a dyn PerfModel,
    knowledge: Knowledge,
    log: &'a mut dyn Log,
    outbox: &'a mut Outbox,
    changes: &'a mut Vec<Change>,
    violations: &'a mut Vec<Violation>,
    wake: Option<Time>,
}

pub(crate) struct DecisionParts<'a> {
    pub(crate) now: Time,
    pub(crate) state: &'a mut State,
    pub(crate) perf: &'a dyn PerfModel,
    pub(crate) knowledge: Knowledge,
    pub(crate) log: &'a mut dyn Log,
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) changes: &'a mut Vec<Change>,
    pub(crate) violations: &'a mut Vec<Violation>,
}

impl<'a> Decision<'a> {
    pub(crate) fn new(parts: DecisionParts<'a>) -> Self {
        let DecisionParts { now, state, perf, knowledge, log, outbox, changes, violations } = parts;
        Self { now, state, perf, knowledge, log, outbox, changes, violations, wake: None }
    }

    /// The present, with all that was decided so far.
    #[inline]
    pub fn view(&self) -> View<'_> {
        View { now: self.now, state: self.state, perf: self.perf, knowledge: self.knowledge }
    }

    /// Starts a waiting (or just stopped) job on these devices. Returns whether that was allowed.
    pub fn start(&mut self, job: JobId, placement: &[NodeShare]) -> bool {
        self.start_where(job, placement, false)
    }

    /// As [`Decision::start`], for a job that some of these nodes are kept for.
    pub fn start_kept(&mut self, job: JobId, placement: &[NodeShare]) -> bool {
        self.start_where(job, placement, true)
    }

    /// Reserves a node: it is given to no job but by [`Decision::start_kept`]. Running jobs continue.
    pub fn close(&mut self, node: NodeId) {
        if !self.state.schedule().is_closed(node) {
            self.record(Event::NodeClosed { node }, Detail::None);
            self.changes.push(Change::Node(node));
        }
    }

    /// Releases the reservation of a node.
    pub fn reopen(&mut self, node: NodeId) {
        if self.state.schedule().is_closed(node) {
            self.record(Event::NodeReopened { node }, Detail::None);
            self.changes.push(Change::Node(node));
        }
    }

    fn start_where(&mut self, job: JobId, placement: &[NodeShare], is_kept_for: bool) -> bool {
        if let Err(violation) = audit::check_start(self.state, job, placement, is_kept_for) {
            self.violations.push(violation);
            return false;
        }
        let generation = self.state.job(job).generation + 1;
        self.record(Event::JobPlaced { job, generation }, Detail::Placement(placement));
        self.changes.push(Change::Placed(job));
        self.outbox.launch_if_ready(self.state, job);
        true
    }

    /// Takes a placed job's devices back. Returns whether that was allowed.
    pub fn stop(&mut self, job: JobId, why: StopReason) -> bool {
        if self.state.schedule().placement(job).is_none() {
            self.violations.push(Violation::NotPlaced { job });
            return false;
        }
        stop(self.now, self.state, self.log, self.outbox, job, why);
        self.changes.push(Change::Stopping(job));
        true
    }

    /// Takes a placed job's devices back because another one is to have them, and records which and why this one was chosen.
    /// Returns whether that was allowed.
    pub fn preempt(&mut self, job: JobId, to: Option<JobId>, chosen: Chosen) -> bool {
        if self.state.schedule().placement(job).is_some() {
            self.record(Event::JobGaveWay { job, to, chosen }, Detail::None);
        }
        self.stop(job, StopReason::Preempted)
    }

    /// Records who was given the devices of jobs that were stopped without saying for whom: shrunk, moved, or not in the round.
    pub(crate) fn name_heirs(&mut self) {
        let of = |change: &Change| if let Change::Placed(job) = *change { Some(job) } else { None };
        let mut placed: Vec<JobId> = self.changes.iter().filter_map(of).collect();
        placed.sort_unstable();
        let mut index = 0;
        while let Some(&change) = self.changes.get(index) {
            index += 1;
            let Change::Stopping(job) = change else { continue };
            let life = self.state.job(job);
            let is_named = life.last_gave_way().is_some_and(|gave| gave.to.is_some());
            if life.phase == Phase::Stopping
                && !is_named
                && let Some(by) = self.heir(job, &placed)
            {
                self.record(Event::JobReplaced { job, by }, Detail::None);
            }
        }
    }

    /// The first of these jobs that has a device that another one leaves.
    fn heir(&self, leaver: JobId, placed: &[JobId]) -> Option<JobId> {
        let (schedule, topology) = (self.state.schedule(), self.state.topology());
        let left = self.state.job(leaver).leaving().iter();
        let devices = left.flat_map(|share| share.devices.iter().map(|device| (share.node, device)));
        let mut next = devices.flat_map(|(node, device)| schedule.occupants(topology, node, device));
        next.find(|job| *job != leaver && placed.binary_search(job).is_ok())
    }

    /// Reports that the policy itself has failed, or wants what cannot even be tried.
    pub fn refuse(&mut self, why: String) {
        self.violations.push(Violation::Senseless { why });
    }

    /// Asks to be called at `time` even if nothing happens until then; the earliest such wish counts.
    pub fn wake_at(&mut self, time: Time) {
        self.wake = Some(self.wake.map_or(time, |earlier| earlier.min(time)));
    }

    pub(crate) fn wake(&self) -> Option<Time> {
        self.wake
    }

    fn record(&mut self, event: Event, detail: Detail<'_>) {
        self.state.apply(self.now, &event, detail);
        self.log.event(self.now, &event, self.state);
    }
}

/// Tells a placed job to give its devices back.
pub(crate) fn stop(
    now: Time,
    state: &mut State,
    log: &mut dyn Log,
    outbox: &mut Outbox,
    job: JobId,
    why: StopReason,
) {
    let (phase, generation) = (state.job(job).phase, state.job(job).generation);
    let event = Event::JobStopping { job, why };
    state.apply(now, &event, Detail::None);
    log.event(now, &event, state);
    if matches!(phase, Phase::Placed | Phase::Running) {
        outbox.stop(job, generation);
    }
}
