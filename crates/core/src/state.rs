//! The state of everything, as a fold over events.

use std::sync::Arc;

use crate::access::Access;
use crate::accounts::Accounts;
use crate::cluster::{ClusterSpec, NodeShare, NodeSpec};
use crate::event::{Chosen, Detail, Event, JobEnd, StopReason};
use crate::ids::{JobId, NodeId};
use crate::image::{JobImage, NodeImage};
use crate::job::{ArrayElement, JobSpec};
use crate::reshape::{Reshape, Reshapes};
use crate::schedule::Schedule;
use crate::time::Time;
use crate::topology::Topology;

/// Nodes, jobs and the schedule. Changed by [`State::apply`] only, so replaying a journal rebuilds it.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    topology: Topology,
    schedule: Schedule,
    specs: Vec<JobSpec>,
    jobs: Vec<JobState>,
    /// For each device, how many jobs were requested to leave it and have not yet.
    pub(crate) vacating: Vec<u8>,
    /// What these jobs still have of machines beside devices.
    pub(crate) leaving: Accounts,
    counts: PhaseCounts,
    access: Access,
    /// Ids that were left out.
    skipped: u32,
}

/// How many jobs are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseCounts {
    /// Waiting for devices.
    pub waiting: u32,
    /// Waiting, and must not start.
    pub held: u32,
    /// Placed or running.
    pub placed: u32,
    /// Running; these are among the placed ones.
    pub running: u32,
    /// Requested to stop.
    pub stopping: u32,
    /// Over.
    pub ended: u32,
    /// Over because they failed, or could never have run; these and the next two are among those that have ended.
    pub failed: u32,
    /// Cancelled.
    pub cancelled: u32,
    /// Over because they took too long.
    pub timed_out: u32,
}

impl PhaseCounts {
    /// A job is in a phase from now on.
    fn enter(&mut self, phase: Phase) {
        self.of(phase).into_iter().flatten().for_each(|count| *count += 1);
    }

    /// A job is in it no more.
    fn leave(&mut self, phase: Phase) {
        self.of(phase).into_iter().flatten().for_each(|count| *count -= 1);
    }

    /// The counts that a job in this phase is in.
    fn of(&mut self, phase: Phase) -> [Option<&mut u32>; 2] {
        match phase {
            Phase::Waiting => [Some(&mut self.waiting), None],
            Phase::Held => [Some(&mut self.held), None],
            Phase::Placed => [Some(&mut self.placed), None],
            Phase::Running => [Some(&mut self.placed), Some(&mut self.running)],
            Phase::Stopping => [Some(&mut self.stopping), None],
            Phase::Ended(JobEnd::Finished) => [Some(&mut self.ended), None],
            Phase::Ended(JobEnd::Failed { .. } | JobEnd::Rejected) => {
                [Some(&mut self.ended), Some(&mut self.failed)]
            }
            Phase::Ended(JobEnd::Cancelled) => [Some(&mut self.ended), Some(&mut self.cancelled)],
            Phase::Ended(JobEnd::TimedOut) => [Some(&mut self.ended), Some(&mut self.timed_out)],
        }
    }
}

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It waits for devices.
    Waiting,
    /// It waits, and must not start.
    Held,
    /// It has devices; its processes are not running yet.
    Placed,
    /// Its processes run.
    Running,
    /// It was requested to stop; its processes may still hold their devices. It may have a new placement already.
    Stopping,
    /// It is over.
    Ended(JobEnd),
}

/// How a job last made room for another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GaveWay {
    /// When.
    pub at: Time,
    /// The job that got its devices, where it is one.
    pub to: Option<JobId>,
    /// Why this one had to.
    pub chosen: Chosen,
}

/// What changes while a job lives.
#[derive(Clone, Debug, PartialEq)]
pub struct JobState {
    /// Where it is in its life.
    pub phase: Phase,
    /// Counts its placements.
    pub generation: u32,
    /// When it first had devices.
    pub first_start: Option<Time>,
    /// When it ended.
    pub end: Option<Time>,
    /// How often the scheduler stopped it before its end, to give its devices to others or to move it.
    pub preemptions: u32,
    /// Iterations done at `since`; from then on one every `iteration_s`.
    pub(crate) done: f64,
    pub(crate) since: Time,
    pub(crate) iteration_s: f64,
    /// Seconds with devices, up to `placed_at`.
    pub(crate) attained_s: f64,
    pub(crate) placed_at: Time,
    /// When its work was last safe: at a checkpoint, or when it began from one.
    pub(crate) saved_at: Time,
    /// For whom it was last stopped, where that is known.
    pub(crate) gave_way: Option<GaveWay>,
    pub(crate) reshapes: Reshapes,
    /// The devices that it gives back, or gave back last.
    pub(crate) left: Option<Box<[NodeShare]>>,
    pub(crate) leaving_generation: u32,
    /// How it ends as soon as it has stopped.
    pub(crate) ending: Option<JobEnd>,
}

impl JobState {
    fn new(now: Time) -> Self {
        Self {
            phase: Phase::Waiting,
            generation: 0,
            first_start: None,
            end: None,
            preemptions: 0,
            done: 0.0,
            since: now,
            iteration_s: f64::INFINITY,
            attained_s: 0.0,
            placed_at: now,
            saved_at: now,
            gave_way: None,
            reshapes: Reshapes::default(),
            left: None,
            leaving_generation: 0,
            ending: None,
        }
    }

    /// Iterations done by `now`: progress accrues lazily.
    pub fn done(&self, now: Time) -> f64 {
        match self.phase {
            Phase::Running => self.done + now.since(self.since).max(0.0) / self.iteration_s,
            _ => self.done,
        }
    }

    /// Seconds that it had devices for.
    pub fn attained_s(&self, now: Time) -> f64 {
        match self.phase {
            Phase::Placed | Phase::Running => self.attained_s + now.since(self.placed_at),
            _ => self.attained_s,
        }
    }

    /// When it last got devices.
    pub fn placed_at(&self) -> Time {
        self.placed_at
    }

    /// When its work was last safe: at a checkpoint, or when it began from one.
    pub fn saved_at(&self) -> Time {
        self.saved_at
    }

    /// How it made room for another, where it has not had devices since.
    pub fn gave_way(&self) -> Option<GaveWay> {
        let is_without = matches!(self.phase, Phase::Waiting | Phase::Held | Phase::Stopping);
        self.gave_way.filter(|gave| is_without && gave.at >= self.placed_at)
    }

    /// For whom it was last stopped, where the policy wanted that; also of one that has had devices again since.
    pub fn last_gave_way(&self) -> Option<GaveWay> {
        self.gave_way
    }

    /// How often it was started on other devices than the last time.
    pub fn reshapes(&self) -> Reshapes {
        self.reshapes
    }

    /// From when on its iterations count, while it runs.
    pub fn since(&self) -> Time {
        self.since
    }

    /// How long an iteration takes where it runs.
    pub fn iteration_s(&self) -> f64 {
        self.iteration_s
    }

    /// When its work will be done if nothing changes; `None` unless it runs.
    pub fn finish(&self, iterations: f64) -> Option<Time> {
        (self.phase == Phase::Running)
            .then(|| self.since.plus((iterations - self.done).max(0.0) * self.iteration_s))
    }

    /// Devices that it still has to give back.
    pub fn leaving(&self) -> &[NodeShare] {
        if self.phase == Phase::Stopping { self.left() } else { &[] }
    }

    /// The devices that it gives back, or gave back last.
    pub fn left(&self) -> &[NodeShare] {
        self.left.as_deref().unwrap_or_default()
    }

    /// The placement that its processes belong to: the one it is leaving, while it does.
    pub fn process_generation(&self) -> u32 {
        if self.phase == Phase::Stopping { self.leaving_generation } else { self.generation }
    }

    /// How it ends as soon as it has stopped, where it was stopped for good.
    pub fn ending(&self) -> Option<JobEnd> {
        self.ending
    }

    /// Whether it has ended.
    pub fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }
}

impl State {
    /// A cluster without jobs, with up to `slots` jobs on a device.
    pub fn new(cluster: &ClusterSpec, slots: usize) -> Self {
        let topology = Topology::new(cluster);
        let schedule = Schedule::new(&topology, slots);
        let vacating = vec![0; topology.numbers()];
        let (specs, jobs, counts) = (Vec::new(), Vec::new(), PhaseCounts::default());
        let access = Access::default();
        let leaving = Accounts::default();
        Self { topology, schedule, specs, jobs, vacating, leaving, counts, access, skipped: 0 }
    }

    /// Lets a device hold so many jobs from now on. What shares devices already is not disturbed.
    pub(crate) fn set_slots(&mut self, slots: usize) {
        self.schedule.set_slots(slots);
    }

    /// Confines jobs to the pools that their owners may use from now on. What runs elsewhere is not disturbed.
    pub(crate) fn set_access(&mut self, access: Access) {
        if access != self.access {
            let live = self.specs.iter_mut().zip(&self.jobs).filter(|(_, job)| !job.is_ended());
            live.for_each(|(spec, _)| access.confine(spec));
            self.access = access;
        }
    }

    /// Gives the cluster these licences from now on. Jobs that have some keep them.
    pub(crate) fn set_licences(&mut self, licences: Vec<(Arc<str>, u64)>) {
        self.topology.set_licences(licences);
    }

    /// Who may use which pool.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The machines.
    #[inline]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// All placements in force.
    #[inline]
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// What a job asked for.
    #[inline]
    pub fn spec(&self, job: JobId) -> &JobSpec {
        &self.specs[job.index()]
    }

    /// What a job's life is like.
    #[inline]
    pub fn job(&self, job: JobId) -> &JobState {
        &self.jobs[job.index()]
    }

    /// All jobs by id, without ids that were left out.
    pub fn jobs(&self) -> impl Iterator<Item = (JobId, &JobSpec, &JobState)> {
        self.specs
            .iter()
            .zip(&self.jobs)
            .enumerate()
            .filter(|(_, (spec, _))| !spec.is_placeholder())
            .map(|(index, (spec, job))| (JobId::from_index(index), spec, job))
    }

    /// Whether there is a job with this id.
    pub fn has_job(&self, job: JobId) -> bool {
        self.specs.get(job.index()).is_some_and(|spec| !spec.is_placeholder())
    }

    /// How many ids were left out.
    pub fn skipped_ids(&self) -> u32 {
        self.skipped
    }

    /// The id that the next submitted job gets.
    pub fn next_job(&self) -> JobId {
        JobId::from_index(self.jobs.len())
    }

    /// How many jobs are where.
    pub fn counts(&self) -> PhaseCounts {
        self.counts
    }

    /// What jobs that were requested to stop still have of machines beside devices.
    pub fn leaving(&self) -> &Accounts {
        &self.leaving
    }

    /// How a job's devices differ from those that it had before them.
    pub fn reshape(&self, job: JobId) -> Option<Reshape> {
        let placement = self.schedule.placement(job)?;
        Reshape::between(&self.topology, self.job(job).left(), placement)
    }

    fn replace_node(&mut self, node: NodeId, spec: NodeSpec) {
        let (before, count) = {
            let known = self.topology.node(node);
            (known.first_device, known.spec.devices as usize)
        };
        self.topology.replace(node, spec);
        self.vacating.resize(self.topology.numbers(), 0);
        let first = self.topology.node(node).first_device;
        if first != before {
            // Processes that still leave do so from the devices of the same index.
            let from = before as usize;
            self.vacating.copy_within(from..from + count, first as usize);
        }
        self.schedule.replace_node(&self.topology, node, before);
    }

    /// Folds one event into the state.
    pub fn apply(&mut self, now: Time, event: &Event, detail: Detail<'_>) {
        match (*event, detail) {
            (Event::NodeJoined { node }, Detail::Node(spec))
                if node.index() < self.topology.nodes().len() =>
            {
                self.replace_node(node, spec);
            }
            (Event::NodeJoined { node }, Detail::Node(spec)) => {
                self.vacating.resize(self.vacating.len() + spec.devices as usize, 0);
                self.topology.add(spec);
                self.schedule.add_node(&self.topology, node);
            }
            (Event::NodeLost { node }, _) => self.schedule.set_there(&self.topology, node, false),
            (Event::NodeReturned { node }, _) => self.schedule.set_there(&self.topology, node, true),
            (Event::NodeCordoned { node }, _) => self.schedule.set_cordoned(&self.topology, node, true),
            (Event::NodeOpened { node }, _) => self.schedule.set_cordoned(&self.topology, node, false),
            (Event::NodeClosed { node }, _) => self.schedule.set_closed(&self.topology, node, true),
            (Event::NodeReopened { node }, _) => self.schedule.set_closed(&self.topology, node, false),
            (Event::DeviceLost { node, device }, _) => {
                self.schedule.set_broken(&self.topology, node, device, true);
            }
            (Event::DeviceReturned { node, device }, _) => {
                self.schedule.set_broken(&self.topology, node, device, false);
            }
            (Event::JobSubmitted { .. }, Detail::Spec(spec)) => self.submit(now, spec),
            (Event::ArraySubmitted { .. }, Detail::Array(spec, indexes)) => {
                self.specs.reserve(indexes.len());
                self.jobs.reserve(indexes.len());
                let mut spec = spec;
                self.access.confine(&mut spec);
                for &index in indexes {
                    let array = Some(ArrayElement { array: spec.name.clone(), index });
                    self.submit(now, JobSpec { array, ..spec.clone() });
                }
            }
            (Event::IdsSkipped { count, .. }, _) => (0..count).for_each(|_| self.skip(now)),
            (Event::JobPlaced { job, generation }, Detail::Placement(shares)) => {
                self.place(now, job, generation, shares);
            }
            (Event::JobLaunched { job, ready, iteration_s }, _) => {
                self.enter(job, Phase::Running);
                let state = &mut self.jobs[job.index()];
                state.since = ready;
                state.saved_at = ready;
                state.iteration_s = iteration_s;
                if let Some(reshape) = self.reshape(job) {
                    self.jobs[job.index()].reshapes.add(reshape);
                }
            }
            (Event::JobRated { job, iteration_s }, _) => {
                let state = &mut self.jobs[job.index()];
                state.done = state.done(now);
                state.since = state.since.max(now);
                state.iteration_s = iteration_s;
            }
            (Event::JobSaved { job, .. }, _) => self.jobs[job.index()].saved_at = now,
            (Event::JobGaveWay { job, to, chosen }, _) => {
                self.jobs[job.index()].gave_way = Some(GaveWay { at: now, to, chosen });
            }
            (Event::JobReplaced { job, by }, _) => {
                let gave_way = &mut self.jobs[job.index()].gave_way;
                let chosen = gave_way.map_or(Chosen::Reshaped, |gave| gave.chosen);
                *gave_way = Some(GaveWay { at: now, to: Some(by), chosen });
            }
            (Event::JobStopping { job, why }, _) => self.stopping(now, job, why),
            (Event::JobStopped { job, done }, _) => self.stopped(now, job, done),
            (Event::JobHeld { job }, _) => {
                self.enter(job, Phase::Held);
            }
            (Event::JobReleased { job }, _) => {
                self.enter(job, Phase::Waiting);
            }
            (Event::JobReprioritised { job, priority }, _) => self.specs[job.index()].priority = priority,
            (Event::JobEnded { job, end }, _) => self.ended(now, job, end),
            (event, detail) => unreachable!("{event:?} does not come with {detail:?}"),
        }
    }

    /// The one place where a job's phase changes.
    fn enter(&mut self, job: JobId, phase: Phase) {
        let state = &mut self.jobs[job.index()];
        self.counts.leave(state.phase);
        self.counts.enter(phase);
        state.phase = phase;
    }

    fn submit(&mut self, now: Time, mut spec: JobSpec) {
        self.access.confine(&mut spec);
        self.specs.push(spec);
        let state = JobState::new(now);
        self.counts.enter(state.phase);
        self.jobs.push(state);
    }

    /// Leaves an id out. What stands there is over and is not counted.
    fn skip(&mut self, now: Time) {
        self.specs.push(JobSpec::placeholder(now));
        let phase = Phase::Ended(JobEnd::Cancelled);
        self.jobs.push(JobState { phase, end: Some(now), ..JobState::new(now) });
        self.skipped += 1;
    }

    fn place(&mut self, now: Time, job: JobId, generation: u32, shares: &[NodeShare]) {
        self.schedule.place(&self.topology, job, &self.specs[job.index()].gang, shares);
        let state = &mut self.jobs[job.index()];
        state.generation = generation;
        if state.phase == Phase::Waiting {
            state.placed_at = now;
            state.first_start.get_or_insert(now);
            self.enter(job, Phase::Placed);
        }
    }

    fn stopping(&mut self, now: Time, job: JobId, why: StopReason) {
        let state = &mut self.jobs[job.index()];
        match why {
            StopReason::Cancelled => state.ending = Some(JobEnd::Cancelled),
            StopReason::TimeLimit => state.ending = Some(JobEnd::TimedOut),
            StopReason::Preempted | StopReason::Moved | StopReason::NodeLost | StopReason::Requeued => {}
        }
        // What was informed of this stop was told a moment ago; the rest is about another.
        state.gave_way = state.gave_way.filter(|gave| gave.at >= now);
        if matches!(state.phase, Phase::Placed | Phase::Running) {
            state.done = state.done(now);
            state.attained_s = state.attained_s(now);
            // Neither a lost node nor a request to begin again is a decision of the scheduler.
            if matches!(why, StopReason::Preempted | StopReason::Moved) {
                state.preemptions += 1;
            }
            state.leaving_generation = state.generation;
            state.left = self.schedule.release(&self.topology, job, &self.specs[job.index()].gang);
            self.enter(job, Phase::Stopping);
            self.vacate(job, 1);
        } else {
            // Requested to stop again before it began to run where it was to be moved.
            self.schedule.release(&self.topology, job, &self.specs[job.index()].gang);
        }
    }

    fn stopped(&mut self, now: Time, job: JobId, done: f64) {
        self.vacate(job, -1);
        let has_placement = self.schedule.placement(job).is_some();
        let state = &mut self.jobs[job.index()];
        state.done = done;
        if has_placement {
            state.placed_at = now;
        }
        self.enter(job, if has_placement { Phase::Placed } else { Phase::Waiting });
    }

    fn ended(&mut self, now: Time, job: JobId, end: JobEnd) {
        self.vacate(job, -1);
        let released = self.schedule.release(&self.topology, job, &self.specs[job.index()].gang);
        let spec_iterations = self.specs[job.index()].iterations;
        let state = &mut self.jobs[job.index()];
        if matches!(state.phase, Phase::Ended(_)) {
            return;
        }
        state.attained_s = state.attained_s(now);
        state.done = if end == JobEnd::Finished { spec_iterations } else { state.done(now) };
        if state.phase == Phase::Stopping {
            // Its processes were where it was leaving; where it was to go next it never ran.
            state.generation = state.leaving_generation;
        } else {
            state.left = released.or_else(|| state.left.take());
        }
        state.end = Some(now);
        self.enter(job, Phase::Ended(end));
    }

    fn vacate(&mut self, job: JobId, by: i8) {
        let shares = self.jobs[job.index()].leaving();
        let gang = &self.specs[job.index()].gang;
        if gang.needs.is_some() {
            let host = |node: NodeId| self.topology.node(node).host;
            if by > 0 {
                self.leaving.charge(host, gang, shares);
            } else if !shares.is_empty() {
                self.leaving.refund(host, gang, shares);
            }
        }
        for share in shares {
            let first = self.topology.node(share.node).first_device;
            for device in share.devices.iter() {
                let count = &mut self.vacating[(first + device) as usize];
                *count = count.wrapping_add_signed(by);
            }
        }
    }

    /// Adds a job in the middle of its life.
    pub(crate) fn add_image(&mut self, image: JobImage) {
        let job = self.next_job();
        let (spec, life, placement) = image.into_parts();
        if spec.is_placeholder() {
            self.skipped += 1;
        } else {
            self.counts.enter(life.phase);
        }
        self.jobs.push(life);
        self.specs.push(spec);
        self.vacate(job, 1);
        if let Some(shares) = placement {
            self.schedule.place(&self.topology, job, &self.specs[job.index()].gang, &shares);
        }
    }

    pub(crate) fn set_node(&mut self, node: NodeId, image: &NodeImage) {
        self.schedule.set_there(&self.topology, node, image.is_there);
        self.schedule.set_cordoned(&self.topology, node, image.is_cordoned);
        self.schedule.set_closed(&self.topology, node, image.is_closed);
        for device in image.broken.iter() {
            self.schedule.set_broken(&self.topology, node, device, true);
        }
    }

    /// Working nodes, by id.
    pub fn nodes_up(&self) -> impl Iterator<Item = NodeId> {
        (0..self.topology.nodes().len()).map(NodeId::from_index).filter(|&node| self.schedule.is_up(node))
    }
}
