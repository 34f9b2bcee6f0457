//! Effects become tasks on workers, and what workers say becomes commands.

use std::collections::BTreeSet;

use tokio::sync::mpsc::UnboundedSender;
use wharf_core::{Command, JobId, NodeId, NodeSpec, Phase};
use wharf_proto::{
    ForgetTask, FromWorker, LaunchTask, Register, StopTask, TaskId, ToWorkerBatch, Welcome, from_worker,
    to_worker,
};

use crate::dispatcher::{Dispatcher, Session};
use crate::execution::{Execution, TaskPhase};

/// How often a worker has to be heard, in seconds.
const HEARTBEAT_S: f64 = 5.0;

/// The exit code of a task that its worker does not know any more.
const LOST_CODE: i32 = 1;

impl Dispatcher {
    /// Carries out a placement.
    pub(crate) fn launch(&mut self, job: JobId, generation: u32) {
        let placement = self.engine.state().schedule().placement(job).unwrap_or_default();
        let execution = Execution::new(generation, placement, TaskPhase::Ordered);
        let nodes = execution.open_nodes();
        self.executions.insert(job, execution);
        for node in nodes {
            self.order(job, node);
        }
    }

    /// Tells one worker to start its task of a job.
    fn order(&mut self, job: JobId, node: NodeId) {
        let Some(execution) = self.executions.get(&job) else { return };
        let Some(rank) = execution.tasks.iter().position(|task| task.share.node == node) else { return };
        let spec = &self.specs[job.index()];
        let address = |node: NodeId| self.addresses.get(&node).cloned().unwrap_or_default();
        let message = LaunchTask {
            task: Some(TaskId { job_id: job.0, generation: execution.generation }),
            command: spec.command.clone(),
            env: spec.env.clone(),
            workdir: spec.workdir.clone(),
            output: expand(&spec.output, job, rank),
            devices: execution.tasks[rank].share.devices.iter().collect(),
            rank: rank as u32,
            ranks: execution.tasks.len() as u32,
            addresses: execution.tasks.iter().map(|task| address(task.share.node)).collect(),
            stop_signal: spec.stop_signal,
            grace_s: spec.grace_s,
            ..LaunchTask::default()
        };
        self.send(node, to_worker::Message::Launch(message));
    }

    /// Stops the tasks of a placement. Those on lost nodes count as over.
    pub(crate) fn stop(&mut self, job: JobId, generation: u32) {
        let Some(execution) = self.executions.get_mut(&job).filter(|run| run.generation == generation) else {
            // It was never launched.
            self.engine_command(Command::JobStopped { job, generation, done: 0.0 });
            return;
        };
        execution.is_stopping = true;
        for node in execution.open_nodes() {
            if self.engine.state().schedule().is_up(node) {
                self.send_stop(job, generation, node);
            } else {
                self.task_ended(job, generation, node, LOST_CODE);
            }
        }
        self.finish_if_over(job);
    }

    fn send_stop(&mut self, job: JobId, generation: u32, node: NodeId) {
        let task = Some(TaskId { job_id: job.0, generation });
        self.send(node, to_worker::Message::Stop(StopTask { task }));
    }

    pub(crate) fn on_messages(&mut self, session: u64, messages: Vec<FromWorker>) {
        let Some(node) = self.sessions.iter().find(|(_, open)| open.id == session).map(|(&node, _)| node)
        else {
            // From a connection that was replaced by a newer one.
            return;
        };
        for message in messages.into_iter().filter_map(|message| message.message) {
            self.on_message(node, message);
        }
    }

    fn on_message(&mut self, node: NodeId, message: from_worker::Message) {
        match message {
            from_worker::Message::Started(started) => {
                if let Some(task) = started.task {
                    self.task_started(JobId(task.job_id), task.generation, node);
                }
            }
            from_worker::Message::Ended(ended) => {
                if let Some(task) = ended.task {
                    let job = JobId(task.job_id);
                    let code = if ended.error.is_empty() { ended.exit_code } else { ended.exit_code.max(1) };
                    self.task_ended(job, task.generation, node, code);
                    self.finish_if_over(job);
                    // Sent once the end is durable.
                    self.send(node, to_worker::Message::Forget(ForgetTask { task: Some(task) }));
                }
            }
            from_worker::Message::Progress(progress) => {
                if let Some(task) = progress.task {
                    self.progress.insert(JobId(task.job_id), (progress.iterations, progress.checkpointed));
                }
            }
            from_worker::Message::Output(output) => {
                if let Some(reader) = self.readers.get(&output.request)
                    && !output.data.is_empty()
                    && reader.send(output.data).is_err()
                {
                    self.readers.remove(&output.request);
                }
                if output.end {
                    self.readers.remove(&output.request);
                }
            }
            from_worker::Message::Register(_)
            | from_worker::Message::Heartbeat(_)
            | from_worker::Message::Devices(_)
            | from_worker::Message::Exec(_) => {}
        }
    }

    fn task_started(&mut self, job: JobId, generation: u32, node: NodeId) {
        let Some(execution) = self.executions.get_mut(&job).filter(|run| run.generation == generation) else {
            return;
        };
        if let Some(task) = execution.task_on(node).filter(|task| task.phase == TaskPhase::Ordered) {
            task.phase = TaskPhase::Started;
        }
        self.launched_if_up(job);
    }

    fn launched_if_up(&mut self, job: JobId) {
        let ready = self.now();
        if let Some(execution) = self.executions.get_mut(&job)
            && execution.is_up()
            && !execution.is_launched
            && !execution.is_stopping
        {
            execution.is_launched = true;
            let generation = execution.generation;
            self.engine_command(Command::JobLaunched { job, generation, ready });
        }
    }

    fn task_ended(&mut self, job: JobId, generation: u32, node: NodeId, code: i32) {
        let Some(execution) = self.executions.get_mut(&job).filter(|run| run.generation == generation) else {
            return;
        };
        let stops_others = execution.end_task(node, code);
        self.launched_if_up(job);
        if stops_others && let Some(execution) = self.executions.get_mut(&job) {
            execution.is_stopping = true;
            for other in execution.open_nodes() {
                self.send_stop(job, generation, other);
            }
        }
    }

    /// Tells the engine how a job fared, once all its tasks are over.
    fn finish_if_over(&mut self, job: JobId) {
        if !self.executions.get(&job).is_some_and(Execution::is_over) {
            return;
        }
        let Some(execution) = self.executions.remove(&job) else { return };
        let generation = execution.generation;
        let (_, checkpointed) = self.progress.get(&job).copied().unwrap_or_default();
        let code = execution.exit_code();
        if self.engine.state().job(job).phase == Phase::Stopping {
            self.engine_command(Command::JobStopped { job, generation, done: checkpointed });
        } else if execution.is_struck || self.may_retry(job, code) {
            self.engine_command(Command::JobFailed { job, generation, done: checkpointed });
        } else {
            self.engine_command(Command::JobExited { job, generation, code });
        }
    }

    /// Whether a job that exited with this code is run again; counts the attempt.
    fn may_retry(&mut self, job: JobId, code: i32) -> bool {
        let spec = &self.specs[job.index()];
        let is_wanted = code != 0 && (spec.retry_codes.is_empty() || spec.retry_codes.contains(&code));
        let used = self.retries.entry(job).or_default();
        let may = is_wanted && *used < spec.retries;
        *used += u32::from(may);
        may
    }

    /// A worker introduces itself: its node is there, and both sides agree on what runs.
    pub(crate) fn attach(
        &mut self,
        register: &Register,
        session: u64,
        sender: UnboundedSender<ToWorkerBatch>,
    ) {
        let topology = self.engine.state().topology();
        let known = topology.nodes().iter().position(|node| *node.spec.name == *register.node);
        let node = known.map_or(NodeId::from_index(topology.nodes().len()), NodeId::from_index);
        match known {
            None => self.engine_command(Command::AddNode(NodeSpec {
                name: register.node.as_str().into(),
                device_type: register.device_type.as_str().into(),
                devices: register.devices,
                cpus: register.cpus,
                memory_gib: register.memory_gib,
                switch: register.switch,
            })),
            Some(_) if !self.engine.state().schedule().is_up(node) => {
                self.engine_command(Command::ReturnNode(node));
            }
            Some(_) => {}
        }
        self.missing.remove(&node);
        self.addresses.insert(node, register.address.clone());
        self.sessions.insert(node, Session { id: session, sender });
        self.send(node, to_worker::Message::Welcome(Welcome { heartbeat_s: HEARTBEAT_S }));
        self.reconcile(node, register);
    }

    /// Compares what a worker has with what it should have.
    fn reconcile(&mut self, node: NodeId, register: &Register) {
        let mut reported = BTreeSet::new();
        for state in &register.tasks {
            let Some(task) = state.task else { continue };
            let job = JobId(task.job_id);
            let is_expected = self.executions.get_mut(&job).is_some_and(|execution| {
                execution.generation == task.generation && execution.task_on(node).is_some()
            });
            if is_expected {
                reported.insert(job);
                self.task_started(job, task.generation, node);
            }
            if state.ended {
                self.task_ended(job, task.generation, node, state.exit_code);
                self.finish_if_over(job);
                self.send(node, to_worker::Message::Forget(ForgetTask { task: Some(task) }));
            } else if !is_expected {
                self.send_stop(job, task.generation, node);
            }
        }
        let here = |execution: &Execution| {
            let task = execution.tasks.iter().find(|task| task.share.node == node)?;
            Some((execution.generation, execution.is_stopping, task.phase))
        };
        let expected: Vec<_> =
            self.executions.iter().filter_map(|(&job, execution)| Some((job, here(execution)?))).collect();
        for (job, (generation, is_stopping, phase)) in expected {
            match (phase, reported.contains(&job)) {
                (TaskPhase::Ordered | TaskPhase::Started, true) if is_stopping => {
                    self.send_stop(job, generation, node);
                }
                (TaskPhase::Ordered, false) if !is_stopping => self.order(job, node),
                (TaskPhase::Ordered | TaskPhase::Started, false) => self.strike(job, generation, node),
                _ => {}
            }
        }
    }

    /// A task is gone without a trace: the job is not to blame and is run again.
    fn strike(&mut self, job: JobId, generation: u32, node: NodeId) {
        if let Some(execution) = self.executions.get_mut(&job) {
            execution.is_struck = true;
        }
        self.task_ended(job, generation, node, LOST_CODE);
        self.finish_if_over(job);
    }
}

/// Fills `%j` (job) and `%n` (rank) into an output path.
fn expand(pattern: &str, job: JobId, rank: usize) -> String {
    pattern.replace("%j", &job.0.to_string()).replace("%n", &rank.to_string())
}
