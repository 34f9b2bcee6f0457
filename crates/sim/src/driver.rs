//! The virtual clock: feeds the engine with arrivals, ends and failures, and answers its effects at once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use wharf_core::{
    Command, Effect, Engine, Event, JobId, JobSpec, Log, NodeShare, Phase, Reshapes, State, StopReason, Time,
    Violation,
};
use wharf_outcome::{JobRecord, MetricRules, Outcome, Recorder, Span, Tally};

use crate::failures::Failures;
use crate::flow::Flow;
use crate::occupancy::Occupancy;
use crate::rounds::Rounds;

/// Decisions in a row that start nothing while nothing runs, comes or is repaired: then nothing ever will.
const IDLE_DECISIONS_MAX: u32 = 1000;

/// Seconds within which everything is one moment: ends and decisions that are computed in different ways differ by rounding errors.
const MOMENT_S: f64 = 1e-6;

/// Failures per node, and the least number of nodes to count with, before [`Stalled`] is called.
const FAILURES_PER_NODE_MAX: u64 = 1000;
const FAILING_NODES_MIN: u64 = 1000;

/// Nodes fail so often that work is lost as fast as it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stalled {
    /// How many times nodes failed since a job last ended or kept any progress.
    pub(crate) failures: u64,
}

/// Drives one engine through one trace.
pub(crate) struct Driver<'a> {
    engine: Engine,
    /// Jobs that are still to come, by time.
    jobs: &'a [JobSpec],
    /// Iterations that jobs really take, where that is not what they declared.
    actual: BTreeMap<JobId, f64>,
    /// Held jobs, and for how many ends they wait.
    waits: BTreeMap<JobId, usize>,
    /// Jobs, and who waits for their ends.
    waiters: BTreeMap<JobId, Vec<JobId>>,
    failures: Failures,
    checkpoint_interval_s: f64,
    next_arrival: usize,
    /// Predicted ends; an entry whose stamp is not the job's latest is stale.
    ends: BinaryHeap<Reverse<(Time, JobId, u32)>>,
    stamps: Vec<u32>,
    /// Iterations that each job had done at its latest launch.
    done_at_launch: Vec<f64>,
    notes: Notes<'a>,
    effects: Vec<Effect>,
    rounds: Rounds,
    occupancy: Occupancy,
    /// Decisions since anything else could happen.
    idle_decisions: u32,
    /// Node failures since a job last ended or kept any progress.
    vain_failures: u64,
}

/// Listens to the engine's events on behalf of the driver and of the recorder.
struct Notes<'a> {
    recorder: &'a mut dyn Recorder,
    event_count: u64,
    launch_count: u64,
    reshapes: Reshapes,
    flow: Flow,
    /// Jobs whose end has to be predicted again.
    rated: Vec<JobId>,
    /// Jobs that were stopped because a node was lost.
    struck: BTreeSet<JobId>,
    /// How often that has happened to each.
    failures: BTreeMap<JobId, u32>,
    /// Jobs that have just ended.
    ended: Vec<JobId>,
    /// Since when, and which, devices each job holds.
    held: Vec<(Time, Box<[NodeShare]>)>,
    spans: Vec<Span>,
    group: Vec<JobId>,
}

impl<'a> Driver<'a> {
    pub(crate) fn new(
        engine: Engine,
        jobs: &'a [JobSpec],
        failures: Failures,
        checkpoint_interval_s: f64,
        recorder: &'a mut dyn Recorder,
    ) -> Self {
        let wants_timeline = recorder.wants_timeline();
        let job_count = engine.state().next_job().index() + jobs.len();
        let notes = Notes {
            recorder,
            event_count: 0,
            launch_count: 0,
            reshapes: Reshapes::default(),
            flow: Flow::default(),
            rated: Vec::new(),
            struck: BTreeSet::new(),
            failures: BTreeMap::new(),
            ended: Vec::new(),
            held: if wants_timeline { vec![(Time::ZERO, Box::default()); job_count] } else { Vec::new() },
            spans: Vec::new(),
            group: Vec::new(),
        };
        Self {
            occupancy: Occupancy::new(&engine, wants_timeline),
            rounds: Rounds::default(),
            engine,
            jobs,
            actual: BTreeMap::new(),
            waits: BTreeMap::new(),
            waiters: BTreeMap::new(),
            failures,
            checkpoint_interval_s,
            next_arrival: 0,
            ends: BinaryHeap::new(),
            stamps: vec![0; job_count],
            done_at_launch: vec![0.0; job_count],
            notes,
            effects: Vec::new(),
            idle_decisions: 0,
            vain_failures: 0,
        }
    }

    /// Jobs that take longer or shorter than they declared, and held ones that wait for the ends of others.
    pub(crate) fn knowing(
        mut self,
        actual: BTreeMap<JobId, f64>,
        waits: BTreeMap<JobId, BTreeSet<JobId>>,
    ) -> Self {
        self.actual = actual;
        for (job, others) in waits {
            self.waits.insert(job, others.len());
            for other in others {
                self.waiters.entry(other).or_default().push(job);
            }
        }
        self
    }

    /// Takes up what was going on when the engine was made from a state: what is being stopped or started, is so now.
    pub(crate) fn take_up(&mut self, now: Time) {
        self.occupancy.accrue(now);
        let state = self.engine.state();
        let phase_of: Vec<(JobId, Phase)> = state.jobs().map(|(job, _, life)| (job, life.phase)).collect();
        for &(job, phase) in &phase_of {
            self.done_at_launch[job.index()] = self.engine.state().job(job).done(now);
            match phase {
                Phase::Stopping => {
                    let life = self.engine.state().job(job);
                    let (generation, done) = (life.process_generation(), life.done(now));
                    self.tell(now, Command::JobStopped { job, generation, done });
                }
                Phase::Running => {
                    self.notes.rated.push(job);
                    self.predict();
                }
                Phase::Waiting | Phase::Held | Phase::Placed | Phase::Ended(_) => {}
            }
        }
        self.answer(now);
        for (job, _) in phase_of {
            let (life, is_blocked) = (self.engine.state().job(job), self.engine.state().is_blocked(job));
            if life.phase == Phase::Placed && !is_blocked {
                let generation = life.generation;
                let ready = now.plus(self.engine.perf().restart_s(self.engine.state().spec(job)));
                self.tell(now, Command::JobLaunched { job, generation, ready });
            }
        }
        self.settle(now);
        self.occupancy.sample(now, self.engine.state());
    }

    /// The present of a run that has been stopped.
    #[cfg(test)]
    pub(crate) fn present(&self) -> crate::Present {
        crate::Present {
            now: self.occupancy.last().unwrap_or(Time::ZERO),
            state: self.engine.state().clone(),
            actual: BTreeMap::new(),
            waits: BTreeMap::new(),
            arrivals: self.jobs[self.next_arrival..].to_vec(),
        }
    }

    /// Runs until every job has ended, or nothing can happen any more, or the recorder has seen enough.
    ///
    /// # Errors
    /// [`Stalled`] where something always happens, and no job gets anywhere.
    pub(crate) fn run(mut self) -> Result<(Outcome, Vec<Violation>), Stalled> {
        self.advance()?;
        let violations = self.engine.violations().to_vec();
        Ok((self.outcome(), violations))
    }

    pub(crate) fn advance(&mut self) -> Result<(), Stalled> {
        while let Some(first) = self.next_moment().filter(|_| !self.is_over()) {
            if let Some(end) = self.rounds.end.filter(|end| *end <= first) {
                self.occupancy.accrue(end);
                self.end_jobs(end);
                break;
            }
            let now = self.pass_moment(first)?;
            self.settle(now);
            self.occupancy.sample(now, self.engine.state());
            self.notes.flow.sample();
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        // What a policy that broke a rule does afterwards is of no interest.
        self.notes.recorder.is_satisfied() || !self.engine.violations().is_empty()
    }

    /// Ends the run after so many rounds of a policy that works in rounds.
    pub(crate) fn until(mut self, rounds: Option<u64>) -> Self {
        self.rounds.cut_off(rounds, self.jobs.first(), &mut self.engine);
        self
    }

    /// The first predicted end.
    fn next_end(&mut self) -> Option<Time> {
        while let Some(&Reverse((time, job, stamp))) = self.ends.peek() {
            if self.stamps[job.index()] == stamp {
                return Some(time);
            }
            self.ends.pop();
        }
        None
    }

    /// Everything that happens within [`MOMENT_S`] of a time, each at its own time. Returns the last time of the moment, at which the
    /// policy decides: no job is preempted in the last rounding error before its end, and none is started in the last one before the
    /// arrival of a job that goes first.
    fn pass_moment(&mut self, first: Time) -> Result<Time, Stalled> {
        let nodes = self.engine.state().topology().nodes().len() as u64;
        let vain_failures_max = FAILURES_PER_NODE_MAX * nodes.max(FAILING_NODES_MIN);
        let limit = first.plus(MOMENT_S);
        let mut now = first;
        loop {
            self.occupancy.accrue(now);
            self.end_jobs(now);
            self.change_nodes(now, vain_failures_max);
            if self.vain_failures > vain_failures_max {
                return Err(Stalled { failures: self.vain_failures });
            }
            self.submit_jobs(now);
            let arrival = self.jobs.get(self.next_arrival).map(|job| job.submit);
            let happenings = [arrival, self.next_end(), self.failures.next_time()];
            let Some(next) = happenings.into_iter().flatten().min().filter(|next| *next <= limit) else {
                break;
            };
            now = now.max(next);
        }
        let decision = self.engine.next_decision().filter(|decision| *decision <= limit);
        now = decision.map_or(now, |decision| now.max(decision));
        self.occupancy.accrue(now);
        Ok(now)
    }

    fn next_moment(&mut self) -> Option<Time> {
        let end = self.next_end();
        let counts = self.engine.state().counts();
        let has_live = counts.waiting + counts.placed + counts.stopping > 0;
        let arrival = self.jobs.get(self.next_arrival).map(|job| job.submit);
        if arrival.is_none() && !has_live {
            return None;
        }
        // Failures alone do not keep the world turning: a job that waits for a repair does.
        let failure = self.failures.next_time();
        if !has_live {
            self.vain_failures = 0;
        }
        // Rounds alone do not either: where the nodes that a job waits for are gone for good, it waits indefinitely.
        // One that a policy will not start on any of the nodes waits indefinitely too, however often they fail and return.
        let is_idle = arrival.is_none() && end.is_none();
        let state = self.engine.state();
        let is_whole = || state.nodes_up().count() == state.topology().nodes().len();
        let counted = u32::from(is_idle && (failure.is_none() || is_whole()));
        self.idle_decisions = if is_idle { self.idle_decisions + counted } else { 0 };
        let may_decide = has_live && self.idle_decisions <= IDLE_DECISIONS_MAX;
        let decision = self.engine.next_decision().filter(|_| may_decide);
        let failure = failure.filter(|_| self.idle_decisions <= IDLE_DECISIONS_MAX);
        [arrival, end, decision, failure].into_iter().flatten().min()
    }

    fn end_jobs(&mut self, now: Time) {
        while let Some(&Reverse((time, job, stamp))) = self.ends.peek() {
            if time > now {
                break;
            }
            self.ends.pop();
            if self.stamps[job.index()] == stamp {
                let generation = self.engine.state().job(job).generation;
                self.vain_failures = 0;
                self.tell(now, Command::JobExited { job, generation, code: 0 });
            }
        }
    }

    /// At most so many failures: where they come faster than the clock can tell, they never end.
    fn change_nodes(&mut self, now: Time, vain_failures_max: u64) {
        while self.vain_failures <= vain_failures_max
            && let Some(change) = self.failures.pop_due(now)
        {
            let state = self.engine.state();
            let groups = state.topology().groups(change.node);
            if state.topology().node(change.node).host != change.node {
                // Machines fail, and with them all their device groups.
                continue;
            }
            match (state.schedule().is_up(change.node), change.is_up) {
                (true, false) => {
                    groups.for_each(|group| self.occupancy.node_lost(state, group));
                    self.vain_failures += 1;
                    self.tell(now, Command::LoseNode(change.node));
                }
                (false, true) => {
                    groups.for_each(|group| self.occupancy.node_returned(state, group));
                    self.tell(now, Command::ReturnNode(change.node));
                }
                _ => {}
            }
        }
    }

    fn submit_jobs(&mut self, now: Time) {
        while let Some(spec) = self.jobs.get(self.next_arrival).filter(|spec| spec.submit <= now) {
            self.next_arrival += 1;
            self.tell(now, Command::SubmitJob(spec.clone()));
        }
    }

    /// Lets the policy decide and answers everything it wants done, which takes no time.
    fn settle(&mut self, now: Time) {
        self.answer(now);
        self.engine.settle(now, &mut self.notes);
        self.answer(now);
        self.rounds.look(now, &mut self.engine, self.notes.recorder);
        self.explain(now);
    }

    /// Reports why the job waits whose reasons are wanted.
    fn explain(&mut self, now: Time) {
        let state = self.engine.state();
        let Some(job) = self.notes.recorder.explained().filter(|&job| state.has_job(job)) else { return };
        if matches!(state.job(job).phase, Phase::Waiting | Phase::Held) {
            let reason = self.engine.explain(now, job);
            self.notes.recorder.waits(now, job, &reason);
        }
    }

    fn answer(&mut self, now: Time) {
        let mut effects = std::mem::take(&mut self.effects);
        loop {
            self.engine.drain_effects(&mut effects);
            if effects.is_empty() {
                break;
            }
            for effect in effects.drain(..) {
                match effect {
                    Effect::Launch { job, generation } => {
                        let state = self.engine.state();
                        self.done_at_launch[job.index()] = state.job(job).done(now);
                        let ready = now.plus(self.engine.perf().restart_s(state.spec(job)));
                        self.tell(now, Command::JobLaunched { job, generation, ready });
                    }
                    Effect::Stop { job, generation } => {
                        self.stamps[job.index()] += 1;
                        let done = self.kept(now, job);
                        self.tell(now, Command::JobStopped { job, generation, done });
                    }
                }
            }
        }
        self.effects = effects;
    }

    /// Iterations that survive a stop: all of them, or those up to the last checkpoint where a node was lost.
    fn kept(&mut self, now: Time, job: JobId) -> f64 {
        let state = self.engine.state().job(job);
        let done = state.done(now);
        let at_launch = self.done_at_launch[job.index()];
        let mut kept = done;
        if self.notes.struck.remove(&job) {
            let per_checkpoint = self.checkpoint_interval_s / state.iteration_s();
            let rounding = MOMENT_S / self.checkpoint_interval_s;
            let checkpoints = ((done - at_launch) / per_checkpoint + rounding).floor();
            kept = (at_launch + checkpoints * per_checkpoint).min(done);
        }
        if kept > at_launch {
            self.vain_failures = 0;
        }
        kept
    }

    fn tell(&mut self, now: Time, command: Command) {
        let handled = self.engine.handle(now, command, &mut self.notes);
        debug_assert!(handled.is_ok(), "virtual time has no late answers: {handled:?}");
        self.predict();
        while let Some(job) = self.notes.ended.pop() {
            self.release_after(now, job);
        }
    }

    /// Predicts the ends of jobs that run at another speed now.
    fn predict(&mut self) {
        while let Some(job) = self.notes.rated.pop() {
            let state = self.engine.state();
            let iterations = self.actual.get(&job).copied().unwrap_or(state.spec(job).iterations);
            if let Some(end) = state.job(job).finish(iterations) {
                self.stamps[job.index()] += 1;
                // One that has taken longer than estimated ends now.
                let end = self.occupancy.last().map_or(end, |last| end.max(last));
                self.ends.push(Reverse((end, job, self.stamps[job.index()])));
            }
        }
    }

    /// Lets go of the held jobs that have waited for this one last.
    fn release_after(&mut self, now: Time, ended: JobId) {
        let mut free = Vec::new();
        for job in self.waiters.remove(&ended).unwrap_or_default() {
            if let Some(count) = self.waits.get_mut(&job) {
                *count -= 1;
                if *count == 0 {
                    free.push(job);
                }
            }
        }
        for job in free {
            self.tell(now, Command::ReleaseJob(job));
        }
    }

    fn outcome(mut self) -> Outcome {
        let over = self.rounds.end.and(self.occupancy.last());
        let last = self.occupancy.last().unwrap_or(Time::ZERO);
        let tally = Tally {
            reschedules: self.notes.launch_count,
            cost: self.occupancy.cost(),
            reshapes: self.notes.reshapes,
            throughput: self.notes.flow.throughput(self.engine.state(), last),
            ..Rounds::tally(&mut self.engine, over)
        };
        let state = self.engine.state();
        let mut jobs: Vec<JobRecord> = state
            .jobs()
            .map(|(job, spec, life)| {
                let run_s = life.attained_s(last);
                JobRecord {
                    job,
                    devices: spec.gang.devices,
                    submit: spec.submit,
                    first_start: life.first_start,
                    end: life.end,
                    queue_s: (life.end.unwrap_or(last).since(spec.submit) - run_s).max(0.0),
                    run_s,
                    preemptions: life.preemptions,
                    failures: self.notes.failures.get(&job).copied().unwrap_or(0),
                }
            })
            .collect();
        // Of a run that is cut off, those that were still to come.
        for spec in &self.jobs[self.next_arrival..] {
            jobs.push(JobRecord::new(JobId::from_index(jobs.len()), spec));
        }
        Outcome {
            jobs,
            timeline: self.occupancy.timeline,
            spans: self.notes.spans,
            event_count: self.notes.event_count,
            busy_device_s: self.occupancy.busy_device_s,
            device_count: state.topology().device_count(),
            rules: MetricRules::Wharf,
            tally,
            measure: None,
            packing: None,
        }
    }
}

impl Notes<'_> {
    /// Tells of a job that was started on other devices than the last time.
    fn note_reshape(&mut self, time: Time, job: JobId, state: &State) {
        if let Some(reshape) = state.reshape(job) {
            self.reshapes.add(reshape);
            let life = state.job(job);
            let to = life.last_gave_way().and_then(|gave| gave.to);
            self.recorder.reshaped(time, job, reshape, life.left(), to);
        }
    }

    fn close_spans(&mut self, time: Time, job: JobId) {
        if let Some((start, shares)) = self.held.get_mut(job.index()) {
            let start = *start;
            let shares = std::mem::take(shares);
            self.spans.extend(shares.into_iter().map(|share| Span { job, share, start, end: time }));
        }
    }
}

impl Log for Notes<'_> {
    fn event(&mut self, time: Time, event: &Event, state: &State) {
        self.event_count += 1;
        match *event {
            Event::JobSubmitted { job } => self.recorder.submitted(time, job),
            Event::ArraySubmitted { first, count } => {
                for id in first.0..first.0 + count {
                    self.recorder.submitted(time, JobId(id));
                }
            }
            Event::JobLaunched { job, .. } => {
                self.rated.push(job);
                self.flow.note(job, state, true);
                self.note_reshape(time, job, state);
                let placement = state.schedule().placement(job).unwrap_or_default();
                if let Some(held) = self.held.get_mut(job.index()) {
                    *held = (time, placement.into());
                }
                self.group.clear();
                self.group.push(job);
                self.group.extend(state.schedule().neighbours(state.topology(), job));
                self.launch_count += 1;
                self.recorder.started(time, job, placement, &self.group);
            }
            Event::JobRated { job, .. } => {
                self.rated.push(job);
                self.flow.note(job, state, true);
            }
            Event::JobGaveWay { job, to, chosen } => self.recorder.gave_way(time, job, to, chosen),
            Event::JobStopping { job, why } => {
                self.flow.note(job, state, false);
                self.close_spans(time, job);
                if why == StopReason::NodeLost {
                    self.struck.insert(job);
                    *self.failures.entry(job).or_default() += 1;
                    self.recorder.interrupted(time, job);
                } else {
                    self.recorder.preempted(time, job);
                }
            }
            Event::JobEnded { job, .. } => {
                self.flow.note(job, state, false);
                self.close_spans(time, job);
                self.ended.push(job);
                self.recorder.finished(time, job);
            }
            Event::NodeLost { node } => self.recorder.node_lost(time, node),
            Event::NodeReturned { node } => self.recorder.node_returned(time, node),
            Event::NodeJoined { .. }
            | Event::NodeCordoned { .. }
            | Event::NodeOpened { .. }
            | Event::NodeClosed { .. }
            | Event::NodeReopened { .. }
            | Event::DeviceLost { .. }
            | Event::DeviceReturned { .. }
            | Event::IdsSkipped { .. }
            | Event::JobPlaced { .. }
            | Event::JobReplaced { .. }
            | Event::JobStopped { .. }
            | Event::JobSaved { .. }
            | Event::JobHeld { .. }
            | Event::JobReleased { .. }
            | Event::JobReprioritised { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests;
