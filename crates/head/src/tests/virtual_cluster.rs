//! A dispatcher on a virtual clock with workers in the same thread: no process, no socket, no waiting.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;
use wharf_core::{ClusterSpec, Engine, JobId, NodeId, Phase, Regime, Time};
use wharf_policy::Settings;
use wharf_policy::governor::Limits;
use wharf_proto::{
    ChangeJobsRequest, FromWorker, HeadMark, JobSpec as WireSpec, LaunchTask, Refusal, Register,
    ReleaseCheckpoint, SendOutput, TaskEnded, TaskId, TaskProgress, TaskStarted, TaskState, from_worker,
    to_worker,
};
use wharf_sim::Preset;
use wharf_tls::{Fingerprint, TaskTokens};

use crate::dispatcher::clock::Clock;
use crate::dispatcher::request_error::with_cause;
use crate::dispatcher::{Dispatcher, Input, Setup};
use crate::jobs::Jobs;
use crate::jobs::secrets::Vault;
use crate::journal::Journal;
use crate::nodes::Nodes;
use crate::nodes::worker_outbox::{Outflow, outlet};
use crate::notify::NotifyConfig;
use crate::notify::notifications::LazyNotifier;
use crate::policy::active_policy::{ActivePolicy, PolicyChoice, UnusablePolicy};
use crate::policy::limits::{AppliedLimits, govern};
use crate::tasks::Tasks;

/// When the virtual world began, in seconds since the Unix epoch.
pub(super) const EPOCH_UNIX_S: f64 = 1.7e9;

/// A clock that stands still unless it is moved.
#[derive(Clone, Default)]
struct Hand(Arc<AtomicU64>);

impl Hand {
    fn set(&self, time: Time) {
        self.0.store(time.seconds().to_bits(), Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn now(&self) -> Time {
        Time::from_seconds(f64::from_bits(self.0.load(Ordering::Relaxed)))
    }
}

/// A policy by name under the default preset.
pub(super) fn regime(policy: &str, seed: u64) -> Regime {
    regime_with(policy, &Settings::default(), seed)
}

fn regime_with(policy: &str, settings: &Settings, seed: u64) -> Regime {
    let preset = Preset::load("wharf").unwrap();
    let rules = preset.rules().expect("the default preset is Wharf's own");
    wharf_sim::regime(rules, policy, settings, seed).unwrap().0
}

/// Makes policies by name, as a head's command line does.
fn make(choice: &PolicyChoice) -> Result<Regime, UnusablePolicy> {
    let mut settings = Settings::default();
    choice.settings.iter().for_each(|(key, value)| settings.set(key, value));
    match wharf_reproduce::find(&choice.name) {
        Ok(_) => Ok(regime_with(&choice.name, &settings, 0)),
        Err(error) => Err(UnusablePolicy { reason: error.to_string() }),
    }
}

/// A head and its workers, which do at once what they are told.
pub(super) struct VirtualCluster {
    pub(super) dispatcher: Dispatcher,
    clock: Hand,
    /// Messages to the operator of the head.
    pub(super) warnings: Arc<Mutex<Vec<String>>>,
    /// By session; at first that is the number of the node too.
    workers: Vec<Outflow>,
    registers: Vec<Register>,
    /// What the workers have to say.
    said: VecDeque<(u64, from_worker::Message)>,
    /// Tasks that run, by job: generation and nodes.
    running: BTreeMap<JobId, (u32, Vec<u64>)>,
    /// What the head knows durably, by session.
    pub(super) forgotten: Vec<(u64, TaskId)>,
    /// The workers do not state when they have started something.
    pub(super) is_silent: bool,
    /// What the workers will have to say, where they take their time.
    pub(super) late: Option<VecDeque<(u64, from_worker::Message)>>,
    /// What the workers were requested to start.
    pub(super) launches: Vec<LaunchTask>,
    /// Which output they were asked for.
    pub(super) outputs: Vec<SendOutput>,
    /// What they were requested to stop.
    pub(super) stops: Vec<TaskId>,
    /// Checkpoint directories whose jobs have ended.
    pub(super) released: Vec<ReleaseCheckpoint>,
    /// How often they were asked what processes do.
    pub(super) inspections: u32,
    /// How far the head's state goes, as they were told last.
    pub(super) mark: Option<HeadMark>,
}

impl VirtualCluster {
    pub(super) fn new(journal: &Path, cluster: &ClusterSpec, regime: Regime) -> Self {
        Self::after_restart(journal, cluster, regime, |_| Vec::new())
    }

    /// A head that comes back to workers which have these tasks, by session.
    pub(super) fn after_restart(
        journal: &Path,
        cluster: &ClusterSpec,
        regime: Regime,
        tasks: impl Fn(u64) -> Vec<TaskState>,
    ) -> Self {
        Self::after_restore(journal, cluster, regime, tasks, None)
    }

    /// A head that comes back to workers which have these tasks and were informed that its state went so far.
    pub(super) fn after_restore(
        journal: &Path,
        cluster: &ClusterSpec,
        regime: Regime,
        tasks: impl Fn(u64) -> Vec<TaskState>,
        mark: Option<HeadMark>,
    ) -> Self {
        let clock = Hand::default();
        let (journal, replayed) = Journal::open(journal, EPOCH_UNIX_S, f64::MAX).unwrap();
        clock.set(replayed.last);
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let said_to = warnings.clone();
        let warn = Arc::new(move |warning: &str| said_to.lock().unwrap().push(warning.to_owned()));
        let applied = replayed.head_state.limits.clone();
        // Without any there are no limits, as in a simulation.
        let limits = match &applied {
            Some(_) => AppliedLimits::parse(applied.as_ref()).unwrap(),
            None => Limits::default(),
        };
        let regime = govern(regime, &limits, applied.as_ref(), EPOCH_UNIX_S);
        let vault = Vault::new(journal.path().parent().unwrap());
        let setup = Setup {
            clock: Box::new(clock.clone()),
            jobs: Jobs::new(crate::Caps::default(), crate::CheckpointSettings::default(), vault),
            nodes: Nodes::new(1e9),
            tasks: Tasks::new(TaskTokens::new(Fingerprint::of(b"test"), b"test"), None),
            policy: ActivePolicy::new(Arc::new(make), wharf_reproduce::never_resizes, limits),
            notifier: LazyNotifier::new(NotifyConfig::default(), warn.clone()),
            warn,
            meter: Arc::default(),
            report_grace_s: 0.0,
        };
        let engine = |now, state| Engine::resume(now, state, regime);
        let dispatcher = Dispatcher::new(engine, journal, replayed, setup);
        let (workers, said, running) = (Vec::new(), VecDeque::new(), BTreeMap::new());
        let (forgotten, is_silent) = (Vec::new(), false);
        let (late, launches) = (None, Vec::new());
        let mut world = Self {
            dispatcher,
            clock,
            workers,
            registers: Vec::new(),
            said,
            running,
            forgotten,
            is_silent,
            warnings,
            late,
            launches,
            outputs: Vec::new(),
            stops: Vec::new(),
            released: Vec::new(),
            inspections: 0,
            mark: None,
        };
        for (session, node) in cluster.nodes.iter().enumerate() {
            let register = Register {
                node: node.name.to_string(),
                device_type: node.device_type.to_string(),
                devices: node.devices,
                cpus: node.cpus,
                memory_gib: node.memory_gib,
                switch: node.switch,
                pool: node.pool.to_string(),
                tasks: tasks(session as u64),
                mark: mark.clone(),
                ..Register::default()
            };
            world.attach(register);
        }
        world
    }

    /// Another worker connects; its session is returned.
    pub(super) fn attach(&mut self, register: Register) -> u64 {
        let (sender, receiver) = outlet();
        let session = self.workers.len() as u64;
        self.workers.push(receiver);
        self.registers.push(register.clone());
        self.step([Input::Attach { register, session, sender }]);
        session
    }

    /// Workers whose connections the head has closed connect again, and report what they run.
    pub(super) fn reconnect(&mut self) {
        for session in 0..self.workers.len() {
            let is_closed = self.workers[session].is_over();
            let (old, register) = (session as u64, self.registers[session].clone());
            if !is_closed || register.node.is_empty() {
                continue;
            }
            self.registers[session].node.clear();
            let here = self.running.iter().filter(|(_, (_, nodes))| nodes.contains(&old));
            let task = |(job, (generation, _)): (&JobId, &(u32, Vec<u64>))| TaskState {
                task: Some(TaskId { job_id: job.0, generation: *generation }),
                ..TaskState::default()
            };
            let tasks: Vec<TaskState> = here.map(task).collect();
            let new = self.workers.len() as u64;
            for (_, nodes) in self.running.values_mut() {
                nodes.iter_mut().filter(|node| **node == old).for_each(|node| *node = new);
            }
            self.attach(Register { tasks, mark: self.mark.clone(), ..register });
        }
    }

    /// Submits jobs and returns what the head answers.
    pub(super) fn try_submit(&mut self, specs: Vec<WireSpec>) -> Result<Vec<u32>, String> {
        let (reply, mut receiver) = oneshot::channel();
        self.step([Input::Submit { specs, key: None, reply }]);
        receiver.try_recv().unwrap().map_err(|error| with_cause(&error))
    }

    /// Whether an admin was told something like this.
    pub(super) fn has_warned(&self, what: &str) -> bool {
        self.warnings.lock().unwrap().iter().any(|warning| warning.contains(what))
    }

    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(super) fn set_time(&mut self, time: Time) {
        self.clock.set(time);
    }

    /// Lets the dispatcher handle inputs, and the workers do what they are told, until nothing is left to do.
    pub(super) fn step(&mut self, inputs: impl IntoIterator<Item = Input>) {
        self.dispatcher.step(inputs.into_iter()).unwrap();
        loop {
            for session in 0..self.workers.len() {
                while let Some(batch) = self.workers[session].try_recv() {
                    self.mark = batch.mark.clone().or(self.mark.take());
                    for message in batch.messages.into_iter().filter_map(|message| message.message) {
                        self.work(session as u64, message);
                    }
                }
            }
            let inputs: Vec<Input> = self.said.drain(..).map(input).collect();
            if inputs.is_empty() {
                return;
            }
            self.dispatcher.step(inputs.into_iter()).unwrap();
        }
    }

    fn work(&mut self, session: u64, message: to_worker::Message) {
        match message {
            to_worker::Message::Launch(launch) => {
                let task = launch.task.unwrap();
                let (generation, nodes) = self.running.entry(JobId(task.job_id)).or_default();
                *generation = task.generation;
                nodes.push(session);
                self.launches.push(*launch);
                let started = TaskStarted { task: Some(task) };
                if !self.is_silent {
                    self.say(session, from_worker::Message::Started(started));
                }
            }
            to_worker::Message::SendOutput(wanted) => self.outputs.push(wanted),
            to_worker::Message::ReleaseCheckpoint(released) => self.released.push(released),
            to_worker::Message::Inspect(_) => self.inspections += 1,
            to_worker::Message::Forget(forget) => self.forgotten.push((session, forget.task.unwrap())),
            to_worker::Message::Stop(stop) => {
                let task = stop.task.unwrap();
                self.stops.push(task);
                let job = JobId(task.job_id);
                let done = self.dispatcher.engine.state().job(job).done(self.now());
                self.running.remove(&job);
                let progress = TaskProgress {
                    task: Some(task),
                    iterations: done,
                    checkpointed: done,
                    ..TaskProgress::default()
                };
                self.say(session, from_worker::Message::Progress(progress));
                self.say(session, ended(task, 143));
            }
            _ => {}
        }
    }

    fn say(&mut self, session: u64, message: from_worker::Message) {
        self.late.as_mut().unwrap_or(&mut self.said).push_back((session, message));
    }

    /// Workers state what they have kept to themselves, and are quick from now on, or slow again.
    pub(super) fn catch_up(&mut self, is_slow: bool) {
        let late = self.late.take().unwrap_or_default();
        self.late = is_slow.then(VecDeque::new);
        self.step(late.into_iter().map(input));
    }

    /// The jobs that the workers run.
    pub(super) fn running_jobs(&self) -> impl Iterator<Item = JobId> {
        self.running.keys().copied()
    }

    /// Whether the workers run a job.
    pub(super) fn runs(&self, job: JobId) -> bool {
        self.running.contains_key(&job)
    }

    /// Workers run a job already.
    pub(super) fn adopt(&mut self, job: JobId, generation: u32, sessions: Vec<u64>) {
        self.running.insert(job, (generation, sessions));
    }

    /// When the first of the running jobs will have done its work, as the engine rates them now.
    pub(super) fn next_end(&self) -> Option<Time> {
        self.ends().map(|(time, _)| time).min()
    }

    fn ends(&self) -> impl Iterator<Item = (Time, JobId)> {
        let state = self.dispatcher.engine.state();
        let running = self.running.keys().filter(|&&job| state.job(job).phase == Phase::Running);
        running.filter_map(|&job| Some((state.job(job).finish(state.spec(job).iterations)?, job)))
    }

    /// What the workers say of jobs that have done their work by now.
    pub(super) fn take_ends(&mut self) -> Vec<Input> {
        let now = self.now();
        let mut due: Vec<(Time, JobId)> = self.ends().filter(|&(time, _)| time <= now).collect();
        due.sort_unstable();
        due.into_iter().flat_map(|(_, job)| self.exit(job, 0)).collect()
    }

    /// What the workers state when a running job ends.
    pub(super) fn exit(&mut self, job: JobId, code: i32) -> Vec<Input> {
        let (generation, nodes) = self.running.remove(&job).expect("it runs");
        let task = TaskId { job_id: job.0, generation };
        nodes.into_iter().map(|session| input((session, ended(task, code)))).collect()
    }

    /// What the workers state when a running job ends in such a way.
    pub(super) fn end(&mut self, job: JobId, how: &TaskEnded) -> Vec<Input> {
        let (generation, nodes) = self.running.remove(&job).expect("it runs");
        let task = Some(TaskId { job_id: job.0, generation });
        let ended = TaskEnded { task, by_itself: true, ..how.clone() };
        let said = |session| input((session, from_worker::Message::Ended(ended.clone())));
        nodes.into_iter().map(said).collect()
    }

    /// What the workers state when a running job was interrupted and has saved so much, which only its first node knows of.
    pub(super) fn interrupt(&mut self, job: JobId, checkpointed: f64) -> Vec<Input> {
        let (generation, nodes) = self.running.remove(&job).expect("it runs");
        let task = Some(TaskId { job_id: job.0, generation });
        let told = TaskProgress { task, iterations: checkpointed, ..TaskProgress::default() };
        let ended = TaskEnded { task, interrupted: true, ..TaskEnded::default() };
        let said = |(rank, session)| {
            let checkpointed = if rank == 0 { checkpointed } else { 0.0 };
            let progress = from_worker::Message::Progress(TaskProgress { checkpointed, ..told.clone() });
            [input((session, progress)), input((session, from_worker::Message::Ended(ended.clone())))]
        };
        nodes.into_iter().enumerate().flat_map(said).collect()
    }

    pub(super) fn submit(&mut self, specs: Vec<WireSpec>) -> Vec<u32> {
        self.try_submit(specs).unwrap()
    }

    pub(super) fn change(&mut self, request: ChangeJobsRequest) -> Vec<Refusal> {
        let (reply, mut receiver) = oneshot::channel();
        self.step([Input::Change { request, is_user: false, by: String::new(), reply }]);
        receiver.try_recv().unwrap()
    }

    pub(super) fn phase(&self, job: u32) -> Phase {
        self.dispatcher.engine.state().job(JobId(job)).phase
    }

    pub(super) fn node(&self, name: &str) -> NodeId {
        crate::query::views::node_named(&self.dispatcher, name).unwrap()
    }
}

fn ended(task: TaskId, exit_code: i32) -> from_worker::Message {
    from_worker::Message::Ended(TaskEnded { task: Some(task), exit_code, ..TaskEnded::default() })
}

pub(super) fn input((session, message): (u64, from_worker::Message)) -> Input {
    Input::FromWorker { session, messages: vec![FromWorker { message: Some(message) }] }
}
