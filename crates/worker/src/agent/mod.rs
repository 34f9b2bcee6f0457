//! The agent: one loop between head and supervisor that passes on what each has to know.
//!
//! It holds no truth of its own that could be lost: tasks are the supervisor's, decisions the head's.

mod containers;
mod fence;
mod head;
mod identity;
mod leaving;
mod lifetime;
mod link;
mod mark;
mod measured;
mod output;
mod outputs;
mod run;
mod shutdown;
mod transport;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use wharf_proto::{
    Device, DeviceReport, LaunchTask, Register, RenewLease, SetPace, SignalTask, TaskStarted, TaskState,
    ToExec, from_worker, to_worker,
};

use crate::checkpoints::Released;
use crate::devices::{self, Sharing};
use crate::error::{WorkerError, with_causes};
use crate::launch::{Launching, Prepared};
use crate::processes::{Claim, StoppedSearch};
use crate::supervisor::protocol::{Event, Fence, Hello, Request, Start};
use crate::task::{Exit, TaskKey};
use crate::trainer::{Lease, Pace};
use crate::{Notice, Rehearsal, WorkerConfig, exec};
use fence::Clock;
use head::{HeadEvent, Outbound};
use lifetime::Departure;
pub use lifetime::Lifetime;
use link::Supervisor;
use mark::Mark;
use measured::Measured;
use outputs::{OUTPUTS_INTERVAL, REMOVAL_INTERVAL};
pub use run::{run, run_with};
pub use shutdown::end_tasks;

/// Until the head has said how often it wants to hear the worker.
const HEARTBEAT_FIRST: Duration = Duration::from_secs(1);
const HEARTBEAT_MIN: Duration = Duration::from_millis(50);
/// How often the node's containers are checked.
const ROUNDS: Duration = Duration::from_secs(30);
/// Attempts to have a supervisor again after it died.
const SUPERVISOR_ATTEMPTS: u32 = 5;

pub(crate) struct Agent<N> {
    config: WorkerConfig,
    supervisor: Supervisor,
    notice: N,
    launching: Launching,
    /// What was said to be missing already.
    reductions: BTreeSet<String>,
    head: Option<Outbound>,
    tasks: BTreeMap<TaskKey, Known>,
    outputs: HashMap<u64, AbortHandle>,
    heartbeat: Interval,
    /// When the node's containers are checked.
    rounds: Interval,
    /// As last checked.
    devices: Vec<Device>,
    device_news: mpsc::Receiver<Vec<Device>>,
    stopped_search: StoppedSearch,
    sharing: Sharing,
    execs: exec::Sessions,
    clock: Clock,
    departure: Departure,
    mark: Mark,
    /// When outputs of running tasks are checked, and what is done about them.
    outputs_due: Interval,
    trimming: Option<AbortHandle>,
    /// When old outputs are removed.
    removal: Interval,
    /// Checkpoint directories of jobs that have ended lately.
    released: Vec<Released>,
    /// When the head was last told of the disk.
    disk_told: Option<Instant>,
}

/// What the agent knows of a task.
struct Known {
    /// Until the supervisor has said that it was started.
    requested: Option<Box<Start>>,
    stop_requested: bool,
    /// The latest lease, where it is not the first.
    renewed: Option<Lease>,
    /// The latest pace, where it has one.
    pace: Option<Pace>,
    exit: Option<Exit>,
    measured: Measured,
    /// Some of its processes were stopped when it was last reported.
    has_stopped: bool,
    /// Stopped processes that claim to be its own, until the supervisor has stated its user.
    claims: Vec<Claim>,
    ended: watch::Sender<bool>,
}

impl Known {
    fn new(requested: Option<Box<Start>>) -> Self {
        let ended = watch::Sender::new(false);
        Self {
            requested,
            stop_requested: false,
            renewed: None,
            pace: None,
            exit: None,
            measured: Measured::default(),
            has_stopped: false,
            claims: Vec::new(),
            ended,
        }
    }
}

impl<N: FnMut(Notice)> Agent<N> {
    pub(crate) fn new(
        config: WorkerConfig,
        supervisor: Supervisor,
        hello: Hello,
        notice: N,
    ) -> Result<Self, WorkerError> {
        let workdir = std::env::current_dir()
            .map_err(|source| WorkerError::StateDir { path: PathBuf::from("."), source })?;
        let mut agent = Self {
            launching: Launching::new(&config, workdir),
            reductions: BTreeSet::new(),
            devices: devices::offered(&config),
            device_news: devices::watch(&config),
            stopped_search: StoppedSearch::start(config.node.clone()),
            sharing: Sharing::new(&config),
            execs: exec::Sessions::default(),
            clock: Clock::new(hello.fence, Instant::now()),
            departure: Departure::new(config.lifetime, Instant::now()),
            mark: Mark::open(&config.state_dir),
            config,
            supervisor,
            notice,
            head: None,
            tasks: BTreeMap::new(),
            outputs: HashMap::new(),
            heartbeat: ticking(HEARTBEAT_FIRST),
            rounds: ticking(ROUNDS),
            outputs_due: ticking(OUTPUTS_INTERVAL),
            trimming: None,
            removal: ticking(REMOVAL_INTERVAL),
            released: Vec::new(),
            disk_told: None,
        };
        agent.on_hello(hello);
        let Self { sharing, tasks, .. } = &mut agent;
        sharing.keep_only(|task| tasks.get(&task).is_some_and(|known| known.exit.is_none()));
        Ok(agent)
    }

    pub(crate) async fn serve(
        mut self,
        mut from_head: mpsc::Receiver<HeadEvent>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), WorkerError> {
        let result = self.pass_on(&mut from_head, shutdown).await;
        self.end_outputs();
        self.execs.end_all();
        self.supervisor.quit().await;
        containers::remove_idle(
            self.config.supervisor_program.as_deref(),
            &self.config.state_dir,
            Duration::ZERO,
        )
        .await;
        result
    }

    /// Handles one event after the other until the end.
    async fn pass_on(
        &mut self,
        from_head: &mut mpsc::Receiver<HeadEvent>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), WorkerError> {
        let mut shutdown = std::pin::pin!(shutdown);
        let mut is_shut = false;
        loop {
            tokio::select! {
                () = &mut shutdown, if !is_shut => {
                    if !self.departure.has_end() {
                        return Ok(());
                    }
                    is_shut = true;
                    self.leave("termination requested".to_owned(), true);
                }
                event = self.supervisor.event() => match event {
                    Some(event) => self.on_supervisor(event),
                    None => self.replace_supervisor().await?,
                },
                Some(event) = from_head.recv() => self.on_head(event).await?,
                Some(devices) = self.device_news.recv() => self.on_devices(devices),
                Some(claims) = self.stopped_search.next() => self.on_stopped(claims),
                () = at(self.clock.due()) => self.cut_off(),
                _ = self.rounds.tick() => self.retire_idle(),
                () = at(self.departure.due()) => {}
                _ = self.heartbeat.tick() => {
                    self.tell_heartbeat();
                    let stored = self.mark.store();
                    self.mark_stored(stored);
                }
                _ = self.outputs_due.tick() => {
                    self.trim_outputs();
                    self.remove_released();
                }
                _ = self.removal.tick() => self.remove_old(),
            }
            self.sharing.settle().await;
            if self.departure.has_end() && self.check_lifetime() {
                return Ok(());
            }
        }
    }

    /// Removes unused containers of the node in the background.
    fn retire_idle(&self) {
        let config = &self.config;
        let (program, folder, idle) =
            (config.supervisor_program.clone(), config.state_dir.clone(), config.containers.idle);
        drop(tokio::spawn(async move { containers::remove_idle(program.as_deref(), &folder, idle).await }));
    }

    fn tell(&self, message: from_worker::Message) {
        if let Some(head) = &self.head {
            head.send(message);
        }
    }

    // --- the supervisor's side ---

    /// Takes over what a supervisor knows; also of one that came after another had died.
    fn on_hello(&mut self, hello: Hello) {
        for report in hello.tasks {
            self.tasks.entry(report.task).or_insert_with(|| Known::new(None));
            self.on_started(report.task);
            if let Some(progress) = report.progress {
                self.on_progress(report.task, progress, &report.points, &report.refused);
            }
            if let Some(exit) = report.exit {
                self.on_ended(report.task, exit);
            }
        }
    }

    fn on_supervisor(&mut self, event: Event) {
        match event {
            Event::Hello(hello) => self.on_hello(hello),
            Event::Started { task } => self.on_started(task),
            Event::Progress { task, progress, points, refused } => {
                self.on_progress(task, progress, &points, &refused);
            }
            Event::Ended { task, exit } => self.on_ended(task, exit),
            Event::Reduced { what } => self.reduced(what),
            Event::Located { task, process } => {
                self.judge_stopped(task, process.as_ref());
                self.execs.located(&self.config, task, process.as_ref());
            }
            Event::Stale { task, newest } => {
                if self.tasks.get(&task).is_some_and(|known| known.requested.is_some()) {
                    self.tasks.remove(&task);
                }
                // A head that continues from an older copy of its state can order it: it must not wait indefinitely.
                let exit =
                    Exit::lost("a newer task of this job is known on the node, or it has ended already");
                self.tell(from_worker::Message::Ended(exit.to_message(task)));
                let TaskKey { job, generation } = task;
                (self.notice)(Notice::StaleLaunch { job, generation, newest });
            }
        }
    }

    fn on_started(&mut self, task: TaskKey) {
        if let Some(known) = self.tasks.get_mut(&task) {
            known.requested = None;
        }
        self.tell(from_worker::Message::Started(TaskStarted { task: Some(task.into()) }));
    }

    fn on_ended(&mut self, task: TaskKey, exit: Exit) {
        if let Some(exit) = self.departure.on_ended(task, exit, Instant::now()) {
            self.tell_ended(task, exit);
        }
    }

    fn tell_ended(&mut self, task: TaskKey, exit: Exit) {
        tracing::debug!(%task, code = exit.code, signal = exit.signal, "task ended");
        self.sharing.ended(task);
        self.execs.end_task(task);
        self.tell(from_worker::Message::Ended(exit.to_message(task)));
        if let Some(known) = self.tasks.get_mut(&task) {
            known.requested = None;
            known.exit = Some(exit);
            known.ended.send_replace(true);
        }
    }

    /// Starts another supervisor and says again what the dead one may not have heard.
    async fn replace_supervisor(&mut self) -> Result<(), WorkerError> {
        let mut attempt = 1;
        let (supervisor, hello) = loop {
            match Supervisor::attach(&self.config).await {
                Err(WorkerError::Supervisor { .. }) if attempt < SUPERVISOR_ATTEMPTS => attempt += 1,
                attached => break attached?,
            }
            tokio::time::sleep(HEARTBEAT_MIN * attempt).await;
        };
        self.supervisor = supervisor;
        (self.notice)(Notice::SupervisorRestarted);
        self.supervisor.ask(Request::Fence(self.clock.fence));
        if self.clock.is_cut_off {
            self.supervisor.ask(Request::CutOff);
        }
        self.on_hello(hello);
        self.execs.waiting().into_iter().for_each(|task| self.supervisor.ask(Request::Locate { task }));
        for (&task, known) in self.tasks.iter().filter(|(_, known)| known.exit.is_none()) {
            if let Some(start) = &known.requested {
                self.supervisor.ask(Request::Start(start.clone()));
            }
            if let Some(lease) = known.renewed {
                self.supervisor.ask(Request::Renew { task, lease });
            }
            if let Some(pace) = known.pace {
                self.supervisor.ask(Request::Pace { task, pace });
            }
            if known.stop_requested {
                self.supervisor.ask(Request::Stop { task });
            }
        }
        Ok(())
    }

    // --- the devices' side ---

    fn on_devices(&mut self, devices: Vec<Device>) {
        for (before, now) in self.devices.iter().zip(&devices) {
            if before.problem != now.problem {
                (self.notice)(Notice::Device { index: now.index, problem: now.problem.clone() });
            }
        }
        self.devices.clone_from(&devices);
        self.tell(from_worker::Message::Devices(DeviceReport { devices }));
    }

    // --- the head's side ---

    async fn on_head(&mut self, event: HeadEvent) -> Result<(), WorkerError> {
        match event {
            HeadEvent::Opening(outbound) => self.register(outbound),
            HeadEvent::Message(message) => self.on_message(*message).await,
            HeadEvent::Mark(mark) => {
                let stored = self.mark.set(mark);
                self.mark_stored(stored);
            }
            HeadEvent::Renewal(result) => (self.notice)(match result {
                Ok(()) => Notice::Renewed,
                Err(reason) => Notice::NotRenewed { reason },
            }),
            HeadEvent::Refused { reason } => return Err(WorkerError::Refused { reason }),
            HeadEvent::Away { reason, retry_in, last_contact } => {
                self.head = None;
                self.clock.on_away(last_contact, Instant::now());
                self.end_outputs();
                self.execs.end_all();
                if !self.departure.on_closed(Instant::now()) {
                    (self.notice)(Notice::HeadAway { reason, retry_in });
                }
            }
        }
        Ok(())
    }

    fn mark_stored(&mut self, stored: std::io::Result<()>) {
        if let Err(error) = stored {
            self.reduced(format!("cannot store the position in the head's state: {error}"));
        }
    }

    /// Stops all tasks: soon the head runs them elsewhere.
    fn cut_off(&mut self) {
        self.clock.is_cut_off = true;
        self.supervisor.ask(Request::CutOff);
        (self.notice)(Notice::CutOff);
    }

    /// Says who this is and all that the head may have missed.
    fn register(&mut self, outbound: Outbound) {
        let tasks = self.tasks.iter().map(|(&task, known)| TaskState {
            task: Some(task.into()),
            ended: known.exit.is_some(),
            exit_code: known.exit.as_ref().map_or(0, |exit| exit.code),
            error: known.exit.as_ref().map(|exit| exit.error.clone()).unwrap_or_default(),
            is_blameless: known.exit.as_ref().is_some_and(Exit::is_blameless),
            interrupted: known.exit.as_ref().is_some_and(|exit| exit.interrupted),
            by_itself: known.exit.as_ref().is_some_and(|exit| exit.by_itself),
            progress: known.measured.latest(task),
            cause: known.exit.as_ref().map_or(0, |exit| exit.wire_cause().into()),
            signal: known.exit.as_ref().map_or(0, |exit| exit.signal),
            node_fault: known.exit.as_ref().map_or(0, |exit| exit.node_fault().into()),
        });
        let config = &self.config;
        outbound.send(from_worker::Message::Register(Box::new(Register {
            node: config.node.clone(),
            device_type: config.device_type.clone(),
            devices: config.devices,
            cpus: config.cpus,
            memory_gib: config.memory_gib,
            switch: config.switch,
            pool: config.pool.clone(),
            address: config.address.clone(),
            tasks: tasks.collect(),
            device: self.devices.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            features: config.features.clone(),
            leaving: self.departure.leaving().to_owned(),
            mark: self.mark.to_wire(),
        })));
        for (&task, known) in &self.tasks {
            for message in known.measured.all(task) {
                outbound.send(from_worker::Message::Progress(message));
            }
            if let Some(exit) = &known.exit {
                outbound.send(from_worker::Message::Ended(exit.to_message(task)));
            }
        }
        self.head = Some(outbound);
    }

    async fn on_message(&mut self, message: to_worker::Message) {
        let done = match message {
            to_worker::Message::Welcome(welcome) => {
                // Twice as often as asked for, so that one that is late is no loss.
                let period =
                    Duration::try_from_secs_f64(welcome.heartbeat_s / 2.0).unwrap_or(HEARTBEAT_FIRST);
                self.heartbeat = ticking(period.max(HEARTBEAT_MIN));
                self.clock.on_welcome(Fence::new(welcome.fence_after_s, welcome.fence_grace_s));
                self.supervisor.ask(Request::Fence(self.clock.fence));
                self.departure.on_welcome(Instant::now());
                (self.notice)(Notice::Welcomed);
                Some(())
            }
            to_worker::Message::Launch(launch) => match launch.task {
                Some(task) => {
                    self.launch(task.into(), *launch).await;
                    Some(())
                }
                None => None,
            },
            to_worker::Message::Stop(stop) => stop.task.map(|task| self.stop(task.into())),
            to_worker::Message::Forget(forget) => forget.task.map(|task| self.forget(task.into())),
            to_worker::Message::SendOutput(wanted) => self.send_output(&wanted),
            to_worker::Message::RenewLease(renewal) => self.renew(&renewal),
            to_worker::Message::SetPace(pace) => self.set_pace(&pace),
            to_worker::Message::Signal(wanted) => self.signal(&wanted),
            to_worker::Message::Inspect(inspect) => inspect.task.map(|_| self.stopped_search.hasten()),
            to_worker::Message::ReleaseCheckpoint(released) => {
                self.release_checkpoint(released);
                Some(())
            }
            to_worker::Message::Exec(message) => {
                self.on_exec(message);
                Some(())
            }
        };
        if done.is_none() {
            (self.notice)(Notice::BadMessage { what: "it names no task" });
        }
    }

    /// Passes on the input of a command in a task.
    fn on_exec(&mut self, message: ToExec) {
        let Some(head) = &self.head else { return };
        if let Some(task) = self.execs.on_message(message, &head.output) {
            self.supervisor.ask(Request::Locate { task });
        }
    }

    async fn launch(&mut self, task: TaskKey, mut launch: LaunchTask) {
        if self.turns_away(task) {
            return;
        }
        if let Some(rehearsal) = self.config.rehearsal {
            self.tasks.entry(task).or_insert_with(|| Known::new(None));
            self.on_started(task);
            if rehearsal == Rehearsal::End {
                self.on_ended(task, Exit::code(0));
            }
            return;
        }
        if self.sharing.concerns(&launch)
            && let Err(error) = self.sharing.begin(task, &mut launch).await
        {
            (self.notice)(Notice::SharedInTurns { reason: with_causes(&error) });
        }
        let Prepared { start, other_user } = self.launching.prepare(&self.config, task, &launch);
        if let Some(user) = other_user {
            self.reduced(format!(
                "only root can run tasks as others: those of {user} run as the worker does"
            ));
        }
        let start = Box::new(start);
        tracing::debug!(%task, devices = ?launch.devices, rank = launch.rank, "task requested");
        self.tasks.entry(task).or_insert_with(|| Known::new(Some(start.clone())));
        // The supervisor decides what is known already: it may know more.
        self.supervisor.ask(Request::Start(start));
    }

    /// Says once what tasks have to do without.
    fn reduced(&mut self, what: String) {
        if self.reductions.insert(what.clone()) {
            (self.notice)(Notice::Reduced { what });
        }
    }

    fn stop(&mut self, task: TaskKey) {
        if self.config.rehearsal.is_some() {
            return self.on_ended(task, Exit::code(0));
        }
        if let Some(known) = self.tasks.get_mut(&task) {
            known.stop_requested = true;
        }
        self.supervisor.ask(Request::Stop { task });
    }

    fn renew(&mut self, renewal: &RenewLease) -> Option<()> {
        let task: TaskKey = renewal.task?.into();
        let lease = renewal.lease.map(Lease::from).unwrap_or_default();
        if let Some(known) = self.tasks.get_mut(&task) {
            known.renewed = Some(lease);
        }
        self.supervisor.ask(Request::Renew { task, lease });
        Some(())
    }

    fn set_pace(&mut self, wanted: &SetPace) -> Option<()> {
        let task: TaskKey = wanted.task?.into();
        if let Some(pace) = Pace::new(wanted.iteration_s) {
            if let Some(known) = self.tasks.get_mut(&task) {
                known.pace = Some(pace);
            }
            self.supervisor.ask(Request::Pace { task, pace });
        }
        Some(())
    }

    /// Sends a signal to a task's first process, which the supervisor knows, or to the commands in it.
    fn signal(&mut self, wanted: &SignalTask) -> Option<()> {
        let task: TaskKey = wanted.task?.into();
        if wanted.beside {
            self.execs.signal(task, wanted);
        }
        if wanted.script {
            let (signal, group) = (wanted.signal, wanted.group);
            self.supervisor.ask(Request::Signal { task, signal, group });
        }
        Some(())
    }

    fn forget(&mut self, task: TaskKey) {
        self.launching.forget(&self.config, task);
        if self.tasks.get(&task).is_some_and(|known| known.exit.is_some()) {
            self.tasks.remove(&task);
        }
        self.supervisor.ask(Request::Forget { task });
    }
}

/// Waits until then, or forever.
pub(crate) async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

fn ticking(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
