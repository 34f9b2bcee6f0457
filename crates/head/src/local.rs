//! One host: the engine on the wall clock, jobs as child processes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use wharf_core::{
    Cadence, ClusterSpec, Command, Effect, Engine, JobEnd, JobId, JobSpec, NodeShare, PerfModel, Phase,
    Policy, Reason, Time,
};

use crate::process::{self, ProcessGroup};

/// How long a job may take to end after it was asked to, before it is made to.
const GRACE: Duration = Duration::from_secs(10);

/// A job and what it runs.
#[derive(Clone, Debug)]
pub struct LocalJob {
    /// What the policy is told.
    pub spec: JobSpec,
    /// Program and arguments; never interpreted by a shell.
    pub command: Vec<OsString>,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobResult {
    /// The engine's verdict.
    pub end: JobEnd,
    /// The exit code of its process, as a shell tells it; `None` if it never ran.
    pub exit_code: Option<i32>,
}

/// Jobs that cannot be run here.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// A gang that can never start.
    #[error("job `{job}` needs {devices} devices, but there are {most}")]
    ImpossibleGang {
        /// The job.
        job: String,
        /// What it needs.
        devices: u32,
        /// What there is.
        most: u32,
    },
    /// The command cannot be started.
    #[error("cannot start `{program}`")]
    Start {
        /// The program.
        program: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The policy broke a rule: a bug.
    #[error("the policy broke a rule of scheduling; this is a bug in Wharf")]
    Audit(#[source] wharf_core::Violation),
    /// The policy leaves a job waiting on an idle host: a bug.
    #[error("job `{job}` waits on an idle host ({reason}); this is a bug in Wharf")]
    Stuck {
        /// The job.
        job: String,
        /// What the policy says.
        reason: Reason,
    },
}

/// Something that happened outside the engine.
enum Message {
    Exited { job: JobId, generation: u32, code: i32 },
    Interrupted,
}

struct Running {
    group: ProcessGroup,
    generation: u32,
    /// When it is made to end.
    kill_at: Option<Instant>,
}

/// An engine on the wall clock with this host's processes.
pub struct LocalCluster {
    engine: Engine,
    cluster: ClusterSpec,
    commands: Vec<Vec<OsString>>,
    epoch: Instant,
    running: BTreeMap<JobId, Running>,
    exit_codes: BTreeMap<JobId, i32>,
    sender: Sender<Message>,
    receiver: Receiver<Message>,
}

impl LocalCluster {
    /// An idle host with these devices.
    pub fn new(cluster: ClusterSpec, policy: Box<dyn Policy>, perf: Box<dyn PerfModel>) -> Self {
        let (sender, receiver) = channel();
        Self {
            engine: Engine::new(&cluster, 1, policy, perf, Cadence::Events),
            cluster,
            commands: Vec::new(),
            epoch: Instant::now(),
            running: BTreeMap::new(),
            exit_codes: BTreeMap::new(),
            sender,
            receiver,
        }
    }

    /// A function that cancels all jobs, for a signal handler's thread.
    pub fn interrupter(&self) -> impl Fn() + Send + 'static {
        let sender = self.sender.clone();
        // A cluster that is gone has nothing left to cancel.
        move || drop(sender.send(Message::Interrupted))
    }

    /// Runs jobs until all have ended, and tells how each did.
    ///
    /// # Errors
    /// [`LocalError`] where one can never start; those that run are stopped first.
    pub fn run(mut self, jobs: Vec<LocalJob>) -> Result<Vec<JobResult>, LocalError> {
        self.check(&jobs)?;
        for job in jobs {
            self.commands.push(job.command);
            self.tell(Command::SubmitJob(job.spec));
        }
        let result = self.serve();
        if result.is_err() {
            self.stop_everything();
        }
        result.map(|()| self.results())
    }

    fn check(&self, jobs: &[LocalJob]) -> Result<(), LocalError> {
        let most = self.cluster.nodes.iter().map(|node| node.devices).max().unwrap_or(0);
        match jobs.iter().find(|job| job.spec.gang.devices > most) {
            None => Ok(()),
            Some(job) => Err(LocalError::ImpossibleGang {
                job: job.spec.name.to_string(),
                devices: job.spec.gang.devices,
                most,
            }),
        }
    }

    /// One message at a time, until no job is left.
    fn serve(&mut self) -> Result<(), LocalError> {
        loop {
            self.settle()?;
            let counts = self.engine.state().counts();
            if counts.waiting + counts.placed + counts.stopping == 0 {
                return Ok(());
            }
            if self.running.is_empty() {
                return Err(self.stuck());
            }
            if let Some(message) = self.next_message() {
                self.handle(message);
            }
        }
    }

    /// The next message; `None` where a deadline came first and was seen to.
    fn next_message(&mut self) -> Option<Message> {
        let Some(deadline) = self.running.values().filter_map(|running| running.kill_at).min() else {
            return self.receiver.recv().ok();
        };
        match self.receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                for running in self.running.values_mut().filter(|running| running.kill_at == Some(deadline)) {
                    running.group.kill();
                    running.kill_at = None;
                }
                None
            }
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Exited { job, generation, code } => {
                self.running.remove(&job);
                self.exit_codes.insert(job, code);
                let is_stopping = self.engine.state().job(job).phase == Phase::Stopping;
                self.tell(if is_stopping {
                    let done = self.engine.state().job(job).done(self.now());
                    Command::JobStopped { job, generation, done }
                } else {
                    Command::JobExited { job, generation, code }
                });
            }
            Message::Interrupted => {
                for index in 0..self.commands.len() {
                    let job = JobId::from_index(index);
                    if !self.engine.state().job(job).is_ended() {
                        self.tell(Command::CancelJob(job));
                    }
                }
            }
        }
    }

    /// Lets the policy decide, and does what it wants.
    fn settle(&mut self) -> Result<(), LocalError> {
        let now = self.now();
        self.engine.settle(now, &mut ());
        if let Some(violation) = self.engine.violations().first() {
            return Err(LocalError::Audit(violation.clone()));
        }
        let mut effects = Vec::new();
        self.engine.drain_effects(&mut effects);
        for effect in effects {
            match effect {
                Effect::Launch { job, generation } => self.launch(job, generation)?,
                Effect::Stop { job, generation } => {
                    if let Some(running) =
                        self.running.get_mut(&job).filter(|run| run.generation == generation)
                    {
                        running.group.terminate();
                        running.kill_at = Some(Instant::now() + GRACE);
                    }
                }
            }
        }
        Ok(())
    }

    fn launch(&mut self, job: JobId, generation: u32) -> Result<(), LocalError> {
        let state = self.engine.state();
        let devices = device_list(state.schedule().placement(job).unwrap_or_default());
        let command = &self.commands[job.index()];
        let (mut child, group) =
            process::start(command, &devices, &state.spec(job).name).map_err(|source| LocalError::Start {
                program: command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default(),
                source,
            })?;
        self.running.insert(job, Running { group, generation, kill_at: None });
        let sender = self.sender.clone();
        std::thread::spawn(move || {
            let code = child.wait().map_or(1, process::exit_code);
            // Nobody listens any more only where the cluster is gone.
            drop(sender.send(Message::Exited { job, generation, code }));
        });
        let ready = self.now();
        self.tell(Command::JobLaunched { job, generation, ready });
        Ok(())
    }

    fn tell(&mut self, command: Command) {
        let now = self.now();
        // On the wall clock an answer can be late: the engine knows, and what is stale changes nothing.
        let _ = self.engine.handle(now, command, &mut ());
    }

    fn stop_everything(&mut self) {
        for running in self.running.values() {
            running.group.kill();
        }
        while !self.running.is_empty() {
            if let Ok(Message::Exited { job, .. }) = self.receiver.recv() {
                self.running.remove(&job);
            }
        }
    }

    fn stuck(&self) -> LocalError {
        let state = self.engine.state();
        let waiting = state.jobs().find(|(_, _, job)| job.phase == Phase::Waiting);
        let (job, name) = waiting.map_or((JobId(0), ""), |(id, spec, _)| (id, &*spec.name));
        LocalError::Stuck { job: name.to_owned(), reason: self.engine.explain(self.now(), job) }
    }

    fn results(&self) -> Vec<JobResult> {
        let jobs = self.engine.state().jobs();
        jobs.map(|(job, _, life)| JobResult {
            end: match life.phase {
                Phase::Ended(end) => end,
                _ => JobEnd::Cancelled,
            },
            exit_code: self.exit_codes.get(&job).copied(),
        })
        .collect()
    }

    fn now(&self) -> Time {
        Time::from_seconds(self.epoch.elapsed().as_secs_f64())
    }
}

/// Device indexes as `CUDA_VISIBLE_DEVICES` lists them. One host, so one share.
fn device_list(placement: &[NodeShare]) -> String {
    let devices = placement.iter().flat_map(|share| share.devices.iter());
    devices.map(|device| device.to_string()).collect::<Vec<_>>().join(",")
}
