//! The engine: commands in, events and effects out. One core for both clocks.

use crate::audit::Violation;
use crate::cluster::{ClusterSpec, NodeSpec};
use crate::effect::{Command, Effect, Ignored, Outbox};
use crate::event::{Detail, Event, JobEnd, StopReason};
use crate::ids::{JobId, NodeId};
use crate::job::JobSpec;
use crate::perf::PerfModel;
use crate::policy::{self, Change, Decision, DecisionParts, Policy, View};
use crate::reason::Reason;
use crate::regime::{Cadence, Regime};
use crate::state::{Phase, State};
use crate::time::Time;

/// Where events go as they happen: a journal, a recorder, nothing.
pub trait Log {
    /// One event, already folded into `state`.
    fn event(&mut self, time: Time, event: &Event, state: &State);
}

/// Keeps no events.
impl Log for () {
    fn event(&mut self, _time: Time, _event: &Event, _state: &State) {}
}

/// The state, the policy that changes it and the model that predicts it.
pub struct Engine {
    state: State,
    policy: Box<dyn Policy>,
    perf: Box<dyn PerfModel>,
    cadence: Cadence,
    /// Something happened that the policy has not been asked about.
    is_dirty: bool,
    wake: Option<Time>,
    changes: Vec<Change>,
    outbox: Outbox,
    violations: Vec<Violation>,
    decision_count: u64,
}

impl Engine {
    /// An engine over an idle cluster.
    pub fn new(cluster: &ClusterSpec, regime: Regime) -> Self {
        Self::resume(Time::ZERO, State::new(cluster, regime.slots), regime)
    }

    /// An engine that continues from a state, such as one rebuilt from a journal. The policy is informed of what lives.
    pub fn resume(now: Time, mut state: State, regime: Regime) -> Self {
        let Regime { policy, perf, cadence, slots, access } = regime;
        state.set_slots(slots);
        state.set_access(access);
        let mut engine = Self {
            state,
            policy,
            perf,
            cadence,
            is_dirty: false,
            wake: None,
            changes: Vec::new(),
            outbox: Outbox::default(),
            violations: Vec::new(),
            decision_count: 0,
        };
        engine.adopt(now);
        engine
    }

    /// The state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The model that predicts speeds.
    pub fn perf(&self) -> &dyn PerfModel {
        &*self.perf
    }

    /// How often the policy was called.
    pub fn decision_count(&self) -> u64 {
        self.decision_count
    }

    /// What the policy did wrong so far; each was refused.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// The rules that policies have broken since this was last asked.
    pub fn take_violations(&mut self) -> Vec<Violation> {
        std::mem::take(&mut self.violations)
    }

    /// Gives the cluster these licences from now on; jobs that have some keep them.
    pub fn set_licences(&mut self, licences: Vec<(std::sync::Arc<str>, u64)>) {
        self.state.set_licences(licences);
        self.is_dirty = true;
    }

    /// Takes what the outside must do, in order.
    pub fn drain_effects(&mut self, into: &mut Vec<Effect>) {
        self.outbox.drain(into);
    }

    /// When the policy wants to be called next, if nothing happens until then.
    pub fn next_decision(&self) -> Option<Time> {
        match self.cadence {
            Cadence::Events => [self.wake, self.policy.wake()].into_iter().flatten().min(),
            Cadence::Rounds { .. } => self.wake,
        }
    }

    /// Why a job is not running.
    pub fn explain(&self, now: Time, job: JobId) -> Reason {
        match self.state.job(job).phase {
            Phase::Waiting => self.policy.explain(&self.view(now), job),
            Phase::Held => Reason::Held,
            _ => Reason::NotWaiting,
        }
    }

    /// Replaces who decides; running jobs are not disturbed. The new policy is informed of everything that lives.
    pub fn set_regime(&mut self, now: Time, regime: Regime) {
        let Regime { policy, perf, cadence, slots, access } = regime;
        self.policy = policy;
        self.perf = perf;
        self.cadence = cadence;
        self.wake = None;
        self.state.set_slots(slots);
        self.state.set_access(access);
        self.adopt(now);
    }

    /// Tells the policy of everything that lives.
    fn adopt(&mut self, now: Time) {
        self.outbox.adopt(&self.state);
        let knowledge = self.policy.knowledge();
        let view = View::new(now, &self.state, &*self.perf, knowledge);
        for job in view.live_jobs().filter(|&job| view.job(job).phase != Phase::Held) {
            self.policy.observe(&view, Change::Arrived(job));
            match view.job(job).phase {
                Phase::Placed => self.policy.observe(&view, Change::Placed(job)),
                Phase::Running => {
                    self.policy.observe(&view, Change::Placed(job));
                    self.policy.observe(&view, Change::Running(job));
                }
                Phase::Stopping => {
                    self.policy.observe(&view, Change::Placed(job));
                    // As when it was requested to: one that is to end does not come back.
                    let is_over = view.job(job).ending().is_some();
                    let change = if is_over { Change::Ended(job) } else { Change::Stopping(job) };
                    self.policy.observe(&view, change);
                }
                Phase::Waiting | Phase::Held | Phase::Ended(_) => {}
            }
            self.is_dirty = true;
        }
    }

    /// Handles one command. The policy is not called before [`Engine::settle`].
    ///
    /// # Errors
    /// [`Ignored`] where the command has no effect, because it came too late or names what does not exist.
    pub fn handle(&mut self, now: Time, command: Command, log: &mut dyn Log) -> Result<(), Ignored> {
        match command {
            Command::AddNode(spec) => {
                let node = NodeId::from_index(self.state.topology().nodes().len());
                self.join(now, node, spec, log);
            }
            Command::ReplaceNode(node, spec) => self.replace_node(now, node, spec, log)?,
            Command::LoseNode(node) => self.lose_node(now, node, log)?,
            Command::ReturnNode(node) => {
                self.known_node(node)?;
                self.record_groups(now, node, |node| Event::NodeReturned { node }, log);
            }
            Command::CordonNode(node) => self.cordon(now, node, log)?,
            Command::DrainNode(node) => {
                self.cordon(now, node, log)?;
                let jobs = self.state.jobs_on_machine(node);
                self.stop_all(now, &jobs, StopReason::Moved, log);
            }
            Command::OpenNode(node) => {
                self.known_node(node)?;
                self.record_groups(now, node, |node| Event::NodeOpened { node }, log);
            }
            Command::LoseDevice(node, device) => {
                self.known_device(node, device)?;
                let state = &self.state;
                let jobs: Vec<JobId> = state.schedule().occupants(state.topology(), node, device).collect();
                self.stop_all(now, &jobs, StopReason::NodeLost, log);
                self.record_node(now, node, Event::DeviceLost { node, device }, log);
            }
            Command::ReturnDevice(node, device) => {
                self.known_device(node, device)?;
                self.record_node(now, node, Event::DeviceReturned { node, device }, log);
            }
            Command::SubmitJob(spec) => self.submit(now, spec, log),
            Command::SubmitArray(spec, indexes) => self.submit_array(now, spec, &indexes, log),
            Command::SkipIds(until) => {
                let first = self.state.next_job();
                let count = until.0.checked_sub(first.0).filter(|count| *count > 0).ok_or(Ignored::Stale)?;
                self.record(now, Event::IdsSkipped { first, count }, Detail::None, log);
            }
            Command::CancelJob(job) => self.end_early(now, job, StopReason::Cancelled, log)?,
            Command::ExpireJob(job) => self.end_early(now, job, StopReason::TimeLimit, log)?,
            Command::HoldJob(job) => self.hold(now, job, log)?,
            Command::ReleaseJob(job) => self.release(now, job, log)?,
            Command::SetPriority { job, priority } => self.reprioritise(now, job, priority, log)?,
            Command::RequeueJob(job) => self.requeue(now, job, log)?,
            Command::JobFailed { job, generation, done } => {
                self.current(job, generation, Phase::Running)?;
                let event = Event::JobStopping { job, why: StopReason::Requeued };
                self.record(now, event, Detail::None, log);
                self.tell(now, Change::Stopping(job));
                self.stopped(now, job, generation, done, log)?;
                self.is_dirty = true;
            }
            Command::JobLaunched { job, generation, ready } => {
                self.current(job, generation, Phase::Placed)?;
                self.launched(now, job, ready, log);
            }
            Command::JobSaved { job, generation, done } => {
                self.current(job, generation, Phase::Running)?;
                self.record(now, Event::JobSaved { job, done }, Detail::None, log);
            }
            Command::JobStopped { job, generation, done } => {
                self.stopped(now, job, generation, done, log)?;
            }
            Command::JobExited { job, generation, code } => self.exited(now, job, generation, code, log)?,
        }
        Ok(())
    }

    /// Calls the policy if it is due.
    pub fn settle(&mut self, now: Time, log: &mut dyn Log) {
        let is_woken = self.next_decision().is_some_and(|wake| wake <= now);
        match self.cadence {
            Cadence::Events if self.is_dirty || is_woken => self.decide(now, log),
            Cadence::Rounds { .. } if is_woken => self.decide(now, log),
            Cadence::Rounds { period_s } if self.is_dirty && self.wake.is_none() => {
                let round = Time::from_seconds((now.seconds() / period_s).ceil() * period_s);
                if round <= now {
                    self.decide(now, log);
                } else {
                    self.wake = Some(round);
                }
            }
            _ => {}
        }
    }

    fn decide(&mut self, now: Time, log: &mut dyn Log) {
        self.is_dirty = false;
        self.decision_count += 1;
        let knowledge = self.policy.knowledge();
        let mut decision = Decision::new(DecisionParts {
            now,
            state: &mut self.state,
            perf: &*self.perf,
            knowledge,
            log,
            outbox: &mut self.outbox,
            changes: &mut self.changes,
            violations: &mut self.violations,
        });
        self.policy.schedule(&mut decision);
        decision.name_heirs();
        self.wake = decision.wake().filter(|&wake| wake > now);
        if let Cadence::Rounds { period_s } = self.cadence {
            let counts = self.state.counts();
            let is_active = counts.waiting + counts.placed + counts.stopping > 0;
            let next = Time::from_seconds(((now.seconds() / period_s).floor() + 1.0) * period_s);
            self.wake = is_active.then_some(next);
        }
        let mut changes = std::mem::take(&mut self.changes);
        let view = View::new(now, &self.state, &*self.perf, knowledge);
        for change in changes.drain(..) {
            self.policy.observe(&view, change);
        }
        self.changes = changes;
    }

    fn submit(&mut self, now: Time, spec: JobSpec, log: &mut dyn Log) {
        let job = self.state.next_job();
        self.record(now, Event::JobSubmitted { job }, Detail::Spec(spec), log);
        self.tell(now, Change::Arrived(job));
        self.is_dirty = true;
    }

    fn submit_array(&mut self, now: Time, spec: JobSpec, indexes: &[u32], log: &mut dyn Log) {
        let first = self.state.next_job();
        let count = indexes.len() as u32;
        let event = Event::ArraySubmitted { first, count };
        self.record(now, event, Detail::Array(spec, indexes), log);
        for index in first.index()..self.state.next_job().index() {
            self.tell(now, Change::Arrived(JobId::from_index(index)));
        }
        self.is_dirty = true;
    }

    fn hold(&mut self, now: Time, job: JobId, log: &mut dyn Log) -> Result<(), Ignored> {
        match self.known_job(job)?.phase {
            Phase::Waiting => {
                self.record(now, Event::JobHeld { job }, Detail::None, log);
                // For the policy it is as good as gone.
                self.tell(now, Change::Ended(job));
                Ok(())
            }
            Phase::Held => Ok(()),
            Phase::Placed | Phase::Running | Phase::Stopping | Phase::Ended(_) => Err(Ignored::WrongPhase),
        }
    }

    fn release(&mut self, now: Time, job: JobId, log: &mut dyn Log) -> Result<(), Ignored> {
        if self.known_job(job)?.phase != Phase::Held {
            return Err(Ignored::WrongPhase);
        }
        self.record(now, Event::JobReleased { job }, Detail::None, log);
        self.tell(now, Change::Arrived(job));
        self.is_dirty = true;
        Ok(())
    }

    fn reprioritise(
        &mut self,
        now: Time,
        job: JobId,
        priority: i32,
        log: &mut dyn Log,
    ) -> Result<(), Ignored> {
        let phase = self.known_job(job)?.phase;
        if matches!(phase, Phase::Ended(_)) {
            return Err(Ignored::WrongPhase);
        }
        self.record(now, Event::JobReprioritised { job, priority }, Detail::None, log);
        match phase {
            Phase::Waiting => self.tell(now, Change::Waiting(job)),
            Phase::Running => self.tell(now, Change::Running(job)),
            Phase::Held | Phase::Placed | Phase::Stopping | Phase::Ended(_) => {}
        }
        self.is_dirty = true;
        Ok(())
    }

    fn requeue(&mut self, now: Time, job: JobId, log: &mut dyn Log) -> Result<(), Ignored> {
        if !matches!(self.known_job(job)?.phase, Phase::Placed | Phase::Running) {
            return Err(Ignored::WrongPhase);
        }
        policy::stop(now, &mut self.state, log, &mut self.outbox, job, StopReason::Requeued);
        self.tell(now, Change::Stopping(job));
        self.is_dirty = true;
        Ok(())
    }

    /// Stops a job for good.
    fn end_early(
        &mut self,
        now: Time,
        job: JobId,
        why: StopReason,
        log: &mut dyn Log,
    ) -> Result<(), Ignored> {
        match self.known_job(job)?.phase {
            Phase::Ended(_) => return Err(Ignored::Stale),
            Phase::Waiting | Phase::Held => self.end(now, job, JobEnd::Cancelled, log),
            // Its devices are free only when its processes are gone.
            Phase::Placed | Phase::Running | Phase::Stopping => {
                policy::stop(now, &mut self.state, log, &mut self.outbox, job, why);
                self.tell(now, Change::Ended(job));
                self.is_dirty = true;
            }
        }
        Ok(())
    }

    fn launched(&mut self, now: Time, job: JobId, ready: Time, log: &mut dyn Log) {
        let iteration_s = self.iteration_s(job);
        self.record(now, Event::JobLaunched { job, ready, iteration_s }, Detail::None, log);
        self.tell(now, Change::Running(job));
        // Only what runs can be preempted: one that took a while to start may have to make room for what came meanwhile.
        self.is_dirty |= self.state.job(job).placed_at() < now;
        let neighbours = self.state.schedule().neighbours(self.state.topology(), job);
        self.rate_again(now, &neighbours, log);
    }

    fn stopped(
        &mut self,
        now: Time,
        job: JobId,
        generation: u32,
        done: f64,
        log: &mut dyn Log,
    ) -> Result<(), Ignored> {
        let state = self.known_job(job)?;
        if state.phase != Phase::Stopping || state.process_generation() != generation {
            return Err(Ignored::Stale);
        }
        if let Some(ending) = state.ending() {
            self.end(now, job, ending, log);
            return Ok(());
        }
        let left = state.leaving().to_vec();
        self.record(now, Event::JobStopped { job, done }, Detail::None, log);
        if self.state.job(job).phase == Phase::Waiting {
            self.tell(now, Change::Waiting(job));
        } else {
            self.outbox.launch_if_ready(&self.state, job);
        }
        self.vacated(now, &left, log);
        Ok(())
    }

    /// Launches the jobs that waited for these devices to be given back, and rates those that shared them.
    fn vacated(&mut self, now: Time, left: &[crate::NodeShare], log: &mut dyn Log) {
        let mut affected: Vec<JobId> = Vec::new();
        for share in left {
            for device in share.devices.iter() {
                affected.extend(self.state.schedule().occupants(self.state.topology(), share.node, device));
            }
        }
        affected.sort_unstable();
        affected.dedup();
        for &job in &affected {
            self.outbox.launch_if_ready(&self.state, job);
        }
        self.outbox.launch_blocked(&self.state);
        self.rate_again(now, &affected, log);
    }

    fn exited(
        &mut self,
        now: Time,
        job: JobId,
        generation: u32,
        code: i32,
        log: &mut dyn Log,
    ) -> Result<(), Ignored> {
        let state = self.known_job(job)?;
        // A job can be faster than the order to stop.
        let has_processes = matches!(state.phase, Phase::Running | Phase::Stopping);
        if !has_processes || state.process_generation() != generation {
            return Err(Ignored::Stale);
        }
        self.end(now, job, if code == 0 { JobEnd::Finished } else { JobEnd::Failed { code } }, log);
        Ok(())
    }

    fn end(&mut self, now: Time, job: JobId, end: JobEnd, log: &mut dyn Log) {
        let leaving = self.state.job(job).leaving();
        // No other job can be on, or on the way to, devices that are not shared and were not being given back.
        let left = if self.state.schedule().is_sharing() || !leaving.is_empty() {
            [leaving, self.state.schedule().placement(job).unwrap_or_default()].concat()
        } else {
            Vec::new()
        };
        // Where it was to go next, it is not known to have been.
        let next = self.state.schedule().placement(job).filter(|_| !leaving.is_empty());
        let next: Vec<NodeId> = next.unwrap_or_default().iter().map(|share| share.node).collect();
        self.record(now, Event::JobEnded { job, end }, Detail::None, log);
        self.tell(now, Change::Ended(job));
        for node in next {
            self.tell(now, Change::Node(node));
        }
        self.is_dirty = true;
        self.vacated(now, &left, log);
    }

    fn lose_node(&mut self, now: Time, node: NodeId, log: &mut dyn Log) -> Result<(), Ignored> {
        self.known_node(node)?;
        let jobs = self.state.jobs_on_machine(node);
        self.stop_all(now, &jobs, StopReason::NodeLost, log);
        self.record_groups(now, node, |node| Event::NodeLost { node }, log);
        Ok(())
    }

    /// A node is there as another machine; one with other devices loses its jobs.
    fn replace_node(
        &mut self,
        now: Time,
        node: NodeId,
        spec: NodeSpec,
        log: &mut dyn Log,
    ) -> Result<(), Ignored> {
        self.known_node(node)?;
        let known = &self.state.topology().node(node).spec;
        let is_other = (known.devices, &known.device_type) != (spec.devices, &spec.device_type);
        if is_other && self.state.schedule().is_there(node) {
            self.lose_node(now, node, log)?;
        }
        self.join(now, node, spec, log);
        Ok(())
    }

    fn join(&mut self, now: Time, node: NodeId, spec: NodeSpec, log: &mut dyn Log) {
        self.record(now, Event::NodeJoined { node }, Detail::Node(spec), log);
        self.tell(now, Change::Node(node));
        self.is_dirty = true;
    }

    fn cordon(&mut self, now: Time, node: NodeId, log: &mut dyn Log) -> Result<(), Ignored> {
        self.known_node(node)?;
        self.record_groups(now, node, |node| Event::NodeCordoned { node }, log);
        Ok(())
    }

    fn stop_all(&mut self, now: Time, jobs: &[JobId], why: StopReason, log: &mut dyn Log) {
        for &job in jobs {
            policy::stop(now, &mut self.state, log, &mut self.outbox, job, why);
            self.tell(now, Change::Stopping(job));
        }
        self.is_dirty = true;
    }

    /// Records an event of a machine for each of its device groups.
    fn record_groups(&mut self, now: Time, node: NodeId, event: impl Fn(NodeId) -> Event, log: &mut dyn Log) {
        for group in self.state.topology().groups(node) {
            self.record_node(now, group, event(group), log);
        }
    }

    fn record_node(&mut self, now: Time, node: NodeId, event: Event, log: &mut dyn Log) {
        self.record(now, event, Detail::None, log);
        self.tell(now, Change::Node(node));
        self.is_dirty = true;
    }

    fn rate_again(&mut self, now: Time, jobs: &[JobId], log: &mut dyn Log) {
        if !self.state.schedule().is_sharing() {
            return;
        }
        for &job in jobs {
            if self.state.job(job).phase != Phase::Running {
                continue;
            }
            let iteration_s = self.iteration_s(job);
            if iteration_s != self.state.job(job).iteration_s() {
                self.record(now, Event::JobRated { job, iteration_s }, Detail::None, log);
                self.tell(now, Change::Running(job));
            }
        }
    }

    fn iteration_s(&self, job: JobId) -> f64 {
        crate::machine::iteration_s(&self.state, &*self.perf, job)
    }

    /// What a policy that works in rounds has to tell of them; nothing from others.
    pub fn rounds(&mut self) -> Option<crate::policy::RoundNotes> {
        self.policy.rounds()
    }

    fn view(&self, now: Time) -> View<'_> {
        View::new(now, &self.state, &*self.perf, self.policy.knowledge())
    }

    fn tell(&mut self, now: Time, change: Change) {
        let view = View::new(now, &self.state, &*self.perf, self.policy.knowledge());
        self.policy.observe(&view, change);
    }

    fn record(&mut self, now: Time, event: Event, detail: Detail<'_>, log: &mut dyn Log) {
        self.state.apply(now, &event, detail);
        log.event(now, &event, &self.state);
    }

    fn known_job(&self, job: JobId) -> Result<&crate::state::JobState, Ignored> {
        if job < self.state.next_job() { Ok(self.state.job(job)) } else { Err(Ignored::Unknown) }
    }

    fn known_node(&self, node: NodeId) -> Result<(), Ignored> {
        if node.index() < self.state.topology().nodes().len() { Ok(()) } else { Err(Ignored::Unknown) }
    }

    fn known_device(&self, node: NodeId, device: u32) -> Result<(), Ignored> {
        self.known_node(node)?;
        if device < self.state.topology().node(node).spec.devices { Ok(()) } else { Err(Ignored::Unknown) }
    }

    fn current(&self, job: JobId, generation: u32, phase: Phase) -> Result<(), Ignored> {
        let state = self.known_job(job)?;
        if state.generation == generation && state.phase == phase { Ok(()) } else { Err(Ignored::Stale) }
    }
}
