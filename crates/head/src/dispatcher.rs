//! The dispatcher: one thread around the engine, one input at a time, nothing told before it is durable.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use wharf_core::{Command, Effect, Engine, Event, Ignored, JobEnd, JobId, Log, NodeId, Phase, State, Time};
use wharf_proto::{FromWorker, JobSpec as WireSpec, Register, ToWorker, ToWorkerBatch, to_worker};

use crate::execution::{Execution, TaskPhase};
use crate::journal::{Journal, JournalError, Replayed};
use crate::wire;

/// Inputs handled before they are made durable together.
const BATCH_MAX: usize = 512;

/// Something for the dispatcher to deal with.
pub(crate) enum Input {
    Submit {
        specs: Vec<WireSpec>,
        reply: oneshot::Sender<Vec<u32>>,
    },
    /// Any other command of a person; refused ones are told why.
    Command {
        command: Command,
        reply: oneshot::Sender<Result<(), Ignored>>,
    },
    /// A question, answered from a state in which everything earlier is durable.
    Ask(Box<dyn FnOnce(&Dispatcher) + Send>),
    /// A wish to be told when a job is over.
    Wait {
        job: JobId,
        reply: oneshot::Sender<()>,
    },
    Attach {
        register: Register,
        session: u64,
        sender: UnboundedSender<ToWorkerBatch>,
    },
    FromWorker {
        session: u64,
        messages: Vec<FromWorker>,
    },
    Detach {
        session: u64,
    },
    /// Output of a task for somebody who reads it.
    ReadOutput {
        job: JobId,
        rank: usize,
        follow: bool,
        sender: UnboundedSender<Vec<u8>>,
    },
    Stop,
}

/// A worker that is connected.
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) sender: UnboundedSender<ToWorkerBatch>,
}

/// The engine and all that is known beside it.
pub(crate) struct Dispatcher {
    pub(crate) engine: Engine,
    pub(crate) journal: Journal,
    pub(crate) epoch_unix_s: f64,
    /// What each job runs, by job id.
    pub(crate) specs: Vec<WireSpec>,
    pub(crate) executions: BTreeMap<JobId, Execution>,
    pub(crate) sessions: BTreeMap<NodeId, Session>,
    /// Nodes without a connection, and until when they may come back.
    pub(crate) missing: BTreeMap<NodeId, Instant>,
    pub(crate) addresses: BTreeMap<NodeId, String>,
    /// Iterations made and iterations checkpointed, as trainers tell.
    pub(crate) progress: BTreeMap<JobId, (f64, f64)>,
    pub(crate) retries: BTreeMap<JobId, u32>,
    pub(crate) readers: BTreeMap<u64, UnboundedSender<Vec<u8>>>,
    next_reader: u64,
    waiters: BTreeMap<JobId, Vec<oneshot::Sender<()>>>,
    /// When running jobs reach their time limits.
    limits: BTreeMap<(Instant, JobId), u32>,
    lost_after: Duration,
    /// Messages and replies that go out once everything is durable.
    outgoing: Vec<(NodeId, to_worker::Message)>,
    replies: Vec<Box<dyn FnOnce() + Send>>,
    news: News,
}

/// What the engine did since it was last asked.
#[derive(Default)]
struct News {
    ended: Vec<JobId>,
    launched: Vec<JobId>,
}

/// Journals events and keeps those that the dispatcher has to act on.
struct Tap<'a> {
    journal: &'a mut Journal,
    news: &'a mut News,
}

impl Log for Tap<'_> {
    fn event(&mut self, time: Time, event: &Event, state: &State) {
        self.journal.event(time, event, state);
        match *event {
            Event::JobEnded { job, .. } => self.news.ended.push(job),
            Event::JobLaunched { job, .. } => self.news.launched.push(job),
            _ => {}
        }
    }
}

impl Dispatcher {
    pub(crate) fn new(
        make_engine: impl FnOnce(Time, State) -> Engine,
        journal: Journal,
        replayed: Replayed,
        lost_after: Duration,
    ) -> Self {
        let Replayed { state, specs, last, epoch_unix_s } = replayed;
        let engine = make_engine(last, state);
        let mut dispatcher = Self {
            engine,
            journal,
            epoch_unix_s,
            specs,
            executions: BTreeMap::new(),
            sessions: BTreeMap::new(),
            missing: BTreeMap::new(),
            addresses: BTreeMap::new(),
            progress: BTreeMap::new(),
            retries: BTreeMap::new(),
            readers: BTreeMap::new(),
            next_reader: 0,
            waiters: BTreeMap::new(),
            limits: BTreeMap::new(),
            lost_after,
            outgoing: Vec::new(),
            replies: Vec::new(),
            news: News::default(),
        };
        dispatcher.recover();
        dispatcher
    }

    /// After a restart: what was placed is being carried out somewhere, and every node may come back.
    fn recover(&mut self) {
        let state = self.engine.state();
        for (job, _, life) in state.jobs() {
            let placement = state.schedule().placement(job).unwrap_or_default();
            let execution = match life.phase {
                Phase::Placed => Execution::new(life.generation, placement, TaskPhase::Ordered),
                Phase::Running => Execution::new(life.generation, placement, TaskPhase::Started),
                Phase::Stopping => {
                    let mut execution =
                        Execution::new(life.process_generation(), life.leaving(), TaskPhase::Started);
                    execution.is_stopping = true;
                    execution
                }
                Phase::Waiting | Phase::Held | Phase::Ended(_) => continue,
            };
            self.executions.insert(job, execution);
        }
        let until = Instant::now() + self.lost_after;
        self.missing = state.nodes_up().map(|node| (node, until)).collect();
    }

    /// Serves until told to stop.
    pub(crate) fn run(mut self, inputs: &Receiver<Input>) -> Result<(), JournalError> {
        loop {
            let first = match self.next_deadline() {
                Some(deadline) => {
                    match inputs.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                        Ok(input) => Some(input),
                        Err(RecvTimeoutError::Timeout) => None,
                        Err(RecvTimeoutError::Disconnected) => return Ok(()),
                    }
                }
                None => match inputs.recv() {
                    Ok(input) => Some(input),
                    Err(_) => return Ok(()),
                },
            };
            let mut is_last = false;
            for input in first.into_iter().chain(inputs.try_iter().take(BATCH_MAX)) {
                is_last |= matches!(input, Input::Stop);
                self.handle(input);
            }
            self.expire();
            self.settle();
            self.journal.commit()?;
            self.tell_everyone();
            if is_last {
                return Ok(());
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let missing = self.missing.values().min().copied();
        let limit = self.limits.keys().next().map(|&(at, _)| at);
        let wake = self.engine.next_decision().map(|at| {
            let wait_s = at.since(self.now()).clamp(0.0, 86_400.0);
            Instant::now() + Duration::from_secs_f64(wait_s)
        });
        [missing, limit, wake].into_iter().flatten().min()
    }

    fn handle(&mut self, input: Input) {
        match input {
            Input::Submit { specs, reply } => {
                let ids: Vec<u32> = specs.into_iter().map(|spec| self.submit(spec)).collect();
                self.reply(move || drop(reply.send(ids)));
            }
            Input::Command { command, reply } => {
                let result = self.command(command);
                self.reply(move || {
                    let _ = reply.send(result);
                });
            }
            Input::Ask(question) => {
                // Events of this batch must be durable before anybody hears of them, also by asking.
                self.settle();
                if self.journal.commit().is_ok() {
                    question(self);
                }
            }
            Input::Wait { job, reply } => {
                if job >= self.engine.state().next_job() || self.engine.state().job(job).is_ended() {
                    self.reply(move || {
                        let _ = reply.send(());
                    });
                } else {
                    self.waiters.entry(job).or_default().push(reply);
                }
            }
            Input::Attach { register, session, sender } => self.attach(&register, session, sender),
            Input::FromWorker { session, messages } => self.on_messages(session, messages),
            Input::Detach { session } => self.detach(session),
            Input::ReadOutput { job, rank, follow, sender } => self.read_output(job, rank, follow, sender),
            Input::Stop => {}
        }
    }

    fn submit(&mut self, spec: WireSpec) -> u32 {
        let job = self.engine.state().next_job();
        let core = wire::to_core(&spec, self.now());
        self.journal.keep_spec(job.0, &spec);
        let is_held = spec.held || !spec.dependencies.is_empty();
        self.specs.push(spec);
        self.engine_command(Command::SubmitJob(core));
        if is_held {
            self.engine_command(Command::HoldJob(job));
            self.release_if_free(job);
        }
        job.0
    }

    /// Hands a command to the engine; whether it was taken is the sender's business.
    pub(crate) fn command(&mut self, command: Command) -> Result<(), Ignored> {
        let now = self.now();
        let mut tap = Tap { journal: &mut self.journal, news: &mut self.news };
        self.engine.handle(now, command, &mut tap)
    }

    /// A command that can come too late, in which case nothing has to be done.
    pub(crate) fn engine_command(&mut self, command: Command) {
        // On the wall clock an answer can be overtaken; the engine ignores what is stale.
        let _ = self.command(command);
    }

    /// Lets the policy decide, turns its effects into messages, and acts on what happened.
    fn settle(&mut self) {
        let now = self.now();
        loop {
            let mut tap = Tap { journal: &mut self.journal, news: &mut self.news };
            self.engine.settle(now, &mut tap);
            let mut effects = Vec::new();
            self.engine.drain_effects(&mut effects);
            let news = std::mem::take(&mut self.news);
            if effects.is_empty() && news.ended.is_empty() && news.launched.is_empty() {
                return;
            }
            for effect in effects {
                match effect {
                    Effect::Launch { job, generation } => self.launch(job, generation),
                    Effect::Stop { job, generation } => self.stop(job, generation),
                }
            }
            self.watch_limits(&news.launched);
            for job in news.ended {
                self.after_end(job);
            }
        }
    }

    fn after_end(&mut self, job: JobId) {
        self.retries.remove(&job);
        for waiter in self.waiters.remove(&job).unwrap_or_default() {
            self.reply(move || {
                let _ = waiter.send(());
            });
        }
        let dependents: Vec<JobId> = self
            .engine
            .state()
            .jobs()
            .filter(|(id, _, life)| life.phase == Phase::Held && self.depends_on(*id, job))
            .map(|(id, _, _)| id)
            .collect();
        for dependent in dependents {
            self.release_if_free(dependent);
        }
    }

    fn depends_on(&self, dependent: JobId, on: JobId) -> bool {
        self.specs[dependent.index()].dependencies.iter().any(|dependency| dependency.job_id == on.0)
    }

    /// Releases a held job whose dependencies are met, and cancels one whose dependencies can never be.
    fn release_if_free(&mut self, job: JobId) {
        let spec = &self.specs[job.index()];
        if spec.held {
            return;
        }
        let state = self.engine.state();
        let end_of = |id: u32| {
            let job = JobId(id);
            (job < state.next_job()).then(|| match state.job(job).phase {
                Phase::Ended(end) => Some(end),
                _ => None,
            })
        };
        match wire::dependencies(&spec.dependencies, end_of) {
            wire::Dependencies::Met => self.engine_command(Command::ReleaseJob(job)),
            wire::Dependencies::Open => {}
            wire::Dependencies::Impossible => self.engine_command(Command::CancelJob(job)),
        }
    }

    fn watch_limits(&mut self, launched: &[JobId]) {
        for &job in launched {
            let limit_s = self.specs[job.index()].time_limit_s;
            if limit_s > 0.0 {
                let at = Instant::now() + Duration::from_secs_f64(limit_s.min(1e9));
                self.limits.insert((at, job), self.engine.state().job(job).generation);
            }
        }
    }

    /// Deals with what is due: nodes that did not come back, jobs that reached their limit.
    fn expire(&mut self) {
        let now = Instant::now();
        while let Some((&(at, job), &generation)) = self.limits.first_key_value() {
            if at > now {
                break;
            }
            self.limits.remove(&(at, job));
            let life = self.engine.state().job(job);
            if life.phase == Phase::Running && life.generation == generation {
                self.engine_command(Command::CancelJob(job));
            }
        }
        let gone: Vec<NodeId> =
            self.missing.iter().filter(|(_, until)| **until <= now).map(|(&node, _)| node).collect();
        for node in gone {
            self.missing.remove(&node);
            self.engine_command(Command::LoseNode(node));
        }
    }

    fn read_output(&mut self, job: JobId, rank: usize, follow: bool, sender: UnboundedSender<Vec<u8>>) {
        let Some((node, task)) = self.task_of(job, rank) else { return };
        self.next_reader += 1;
        let request = self.next_reader;
        self.readers.insert(request, sender);
        let message = wharf_proto::SendOutput { request, task: Some(task), offset: 0, follow, stop: false };
        self.send(node, to_worker::Message::SendOutput(message));
    }

    /// The node and the name of a job's latest task of that rank.
    pub(crate) fn task_of(&self, job: JobId, rank: usize) -> Option<(NodeId, wharf_proto::TaskId)> {
        let state = self.engine.state();
        if job >= state.next_job() {
            return None;
        }
        let life = state.job(job);
        let placement = state.schedule().placement(job).filter(|_| life.phase != Phase::Stopping);
        let share = placement.unwrap_or_else(|| life.left()).get(rank)?;
        let task = wharf_proto::TaskId { job_id: job.0, generation: life.process_generation() };
        Some((share.node, task))
    }

    pub(crate) fn send(&mut self, node: NodeId, message: to_worker::Message) {
        self.outgoing.push((node, message));
    }

    fn reply(&mut self, reply: impl FnOnce() + Send + 'static) {
        self.replies.push(Box::new(reply));
    }

    /// Everything is durable: tell workers and people.
    fn tell_everyone(&mut self) {
        let mut batches: BTreeMap<NodeId, Vec<ToWorker>> = BTreeMap::new();
        for (node, message) in self.outgoing.drain(..) {
            batches.entry(node).or_default().push(ToWorker { message: Some(message) });
        }
        for (node, messages) in batches {
            if let Some(session) = self.sessions.get(&node) {
                // A session that just broke is noticed by its own task.
                let _ = session.sender.send(ToWorkerBatch { messages });
            }
        }
        for reply in self.replies.drain(..) {
            reply();
        }
    }

    fn detach(&mut self, session: u64) {
        let node = self.sessions.iter().find(|(_, open)| open.id == session).map(|(&node, _)| node);
        if let Some(node) = node {
            self.sessions.remove(&node);
            self.missing.insert(node, Instant::now() + self.lost_after);
        }
    }

    /// The engine's present.
    pub(crate) fn now(&self) -> Time {
        Time::from_seconds(unix_s() - self.epoch_unix_s)
    }

    /// How a job's process ended, for people: `None` while it lives.
    pub(crate) fn exit_code(&self, job: JobId) -> Option<i32> {
        match self.engine.state().job(job).phase {
            Phase::Ended(JobEnd::Finished) => Some(0),
            Phase::Ended(JobEnd::Failed { code }) => Some(code),
            Phase::Ended(JobEnd::Cancelled | JobEnd::Rejected) => Some(130),
            _ => None,
        }
    }
}

/// Seconds since the Unix epoch; a clock before that counts as its beginning.
pub(crate) fn unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
