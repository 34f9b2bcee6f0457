//! Effects become tasks on workers, and workers' messages become commands.

pub(crate) mod device_activity;
pub(crate) mod exec_sessions;
pub(crate) mod execution;
pub(crate) mod iteration_timing;
pub(crate) mod output_readers;
pub(crate) mod ports;
pub(crate) mod progress;
pub(crate) mod stalls;

use std::collections::BTreeMap;

use wharf_core::{Command, JobId, NodeId, NodeShare, Phase, Plan as ParallelPlan, Time};
use wharf_job::Chosen;
use wharf_proto::{
    Cause, Container, FromWorker, LaunchTask, Launcher, SetPace, StopTask, TaskId, TaskProgress, from_worker,
    to_worker,
};

use wharf_tls::TaskTokens;

use crate::curves::{CurveIntake, CurveStore, refused_metrics};
use crate::dispatcher::Dispatcher;
use crate::journal::record::Record;
use crate::tasks::device_activity::DeviceActivity;
use crate::tasks::execution::{End, Execution, TaskPhase};
use crate::tasks::output_readers::Readers;
use crate::tasks::ports::Ports;
use crate::tasks::progress::Progress;

/// The exit code of a task that its worker does not know any more.
const LOST_CODE: i32 = 1;

/// Seconds between two checkpoints of a job that the engine receives.
const SAVES_APART_S: f64 = 60.0;

/// A reason is a line for people, not a log.
const REASON_BYTES_MAX: usize = 1000;

/// The tasks of placed jobs, and the reports of their runs.
pub(crate) struct Tasks {
    /// The history of metrics.
    pub(crate) curves: CurveIntake,
    executions: BTreeMap<JobId, Execution>,
    progress: BTreeMap<JobId, Progress>,
    activity: DeviceActivity,
    readers: Readers,
    ports: Ports,
    /// When jobs that report are checked next.
    stalls_due: Time,
    tokens: TaskTokens,
}

/// A task that its worker should have: its job and generation, whether it was requested to stop, and its phase.
type ExpectedTask = (JobId, (u32, bool, TaskPhase));

impl Tasks {
    /// Without a store, metrics have no history.
    pub(crate) fn new(tokens: TaskTokens, store: Option<CurveStore>) -> Self {
        Self {
            curves: CurveIntake::new(store),
            executions: BTreeMap::new(),
            progress: BTreeMap::new(),
            activity: DeviceActivity::default(),
            readers: Readers::default(),
            ports: Ports::default(),
            stalls_due: Time::ZERO,
            tokens,
        }
    }

    /// Drops what workers report again and the journal restores. Readers stay.
    pub(crate) fn reset(&mut self) {
        self.executions.clear();
        self.progress.clear();
        self.activity = DeviceActivity::default();
        self.ports = Ports::default();
    }

    /// The tasks of a job's placement.
    pub(crate) fn execution(&self, job: JobId) -> Option<&Execution> {
        self.executions.get(&job)
    }

    /// The tasks of all placements.
    pub(crate) fn executions(&self) -> impl Iterator<Item = &Execution> {
        self.executions.values()
    }

    /// Adds the tasks of a placement that is already being carried out.
    pub(crate) fn adopt(&mut self, job: JobId, execution: Execution) {
        self.executions.insert(job, execution);
    }

    /// The tasks of a placement that is still the job's.
    fn execution_of(&mut self, job: JobId, generation: u32) -> Option<&mut Execution> {
        self.executions.get_mut(&job).filter(|run| run.generation == generation)
    }

    /// What the trainer of a job has reported in its run.
    pub(crate) fn progress(&self, job: JobId) -> Option<&Progress> {
        self.progress.get(&job)
    }

    /// Jobs whose trainers have reported.
    pub(crate) fn reporting(&self) -> impl Iterator<Item = (JobId, &Progress)> {
        self.progress.iter().map(|(&job, progress)| (job, progress))
    }

    /// Whether a task is one of the tasks that a node was ordered to run.
    pub(crate) fn is_task_of(&self, task: TaskId, node: NodeId) -> bool {
        let execution = self.executions.get(&JobId(task.job_id));
        execution.is_some_and(|run| {
            run.generation == task.generation && run.tasks.iter().any(|own| own.share.node == node)
        })
    }

    /// The tasks that a node's worker should have.
    pub(crate) fn expected_on(&self, node: NodeId) -> Vec<ExpectedTask> {
        let here = |(&job, execution): (&JobId, &Execution)| {
            let task = execution.tasks.iter().find(|task| task.share.node == node)?;
            Some((job, (execution.generation, execution.is_stopping, task.phase)))
        };
        self.executions.iter().filter_map(here).collect()
    }

    /// Drops the records of a job that has ended.
    pub(crate) fn end(&mut self, job: JobId) {
        self.activity.remove(job);
        self.progress.remove(&job);
        self.curves.end(job);
    }
}

impl Dispatcher {
    /// Carries out a placement.
    pub(crate) fn launch(&mut self, job: JobId, generation: u32) {
        let placement = self.engine.state().schedule().placement(job).unwrap_or_default();
        let mut execution = Execution::new(generation, placement, TaskPhase::Ordered);
        execution.ordered_at = Some(self.now());
        self.tasks.progress.remove(&job);
        execution.began_at = self.checkpointed(job);
        execution.is_led = self.is_led(job);
        let nodes = execution.open_nodes();
        self.tasks.ports.take(job);
        self.log.state.clear_reason(job);
        self.tasks.curves.note_run(job, generation, nodes.clone());
        self.tasks.executions.insert(job, execution);
        self.plan(job);
        for node in nodes {
            self.order(job, node);
        }
    }

    /// Chooses the parallel plan of a placement that is about to be carried out. It is stored, so that all tasks of the placement get
    /// the same one, even if the profile changes.
    fn plan(&mut self, job: JobId) {
        let state = self.engine.state();
        let placement = state.schedule().placement(job).unwrap_or_default();
        let devices = placement.iter().map(|share| share.devices.len()).sum();
        let known = state.topology().type_of(placement).and_then(|device_type| {
            self.engine.perf().plan(state.topology(), state.spec(job), device_type, devices)
        });
        let is_data_parallel = self.spec(job).is_some_and(|spec| spec.data_parallel);
        let plan = known.or(is_data_parallel.then_some(ParallelPlan { stages: 1, data: devices, tensor: 1 }));
        let plan = plan.map(|plan| (plan.stages, plan.data, plan.tensor));
        if self.log.state.plans.get(&job.0) != plan.as_ref() {
            self.note(Record::JobPlanned { job: job.0, plan });
        }
    }

    /// Whether the first task of a gang runs the others' commands: they only hold their devices until it ends.
    pub(crate) fn is_led(&self, job: JobId) -> bool {
        self.spec(job).is_some_and(|spec| matches!(spec.launcher(), Launcher::Mpirun | Launcher::Batch))
    }

    /// Orders one worker to start its task of a job.
    pub(crate) fn order(&mut self, job: JobId, node: NodeId) {
        let Some(mut message) = self.launch_task(job, node) else { return };
        let opened = self.spec(job).map(|spec| self.jobs.secrets(spec)).transpose();
        match opened {
            Ok(secrets) => message.env.extend(secrets.into_iter().flatten()),
            Err(error) => {
                self.note(Record::JobNoted { job: job.0, reason: error.to_string() });
                return self.engine_command(Command::CancelJob(job));
            }
        }
        self.complete_batch(job, &mut message);
        tracing::debug!(job = job.0, node = self.node_name(node), rank = message.rank, "task launched");
        self.send(node, to_worker::Message::Launch(Box::new(message)));
    }

    fn launch_task(&self, job: JobId, node: NodeId) -> Option<LaunchTask> {
        let execution = self.tasks.execution(job)?;
        let rank = execution.tasks.iter().position(|task| task.share.node == node)?;
        let spec = self.spec(job)?;
        let state = self.engine.state();
        let array_index = state.spec(job).array.as_ref().map(|element| element.index);
        let names = self.names_of(spec, job, rank, &state.topology().node(node).spec.name);
        let address = |node| self.nodes.facts(node).map(|facts| facts.address.clone()).unwrap_or_default();
        let devices = execution.tasks[rank].share.devices;
        let chosen = Chosen::of(spec, array_index);
        let checkpoint = self.checkpoint_dir(spec, job, &names);
        let is_shared = !state.schedule().neighbours(state.topology(), job).is_empty();
        let is_held = execution.is_led && rank > 0;
        let output =
            |pattern: &str| if is_held { String::new() } else { chosen.fill(&names.expand(pattern)) };
        let token = if execution.is_led && execution.tasks.len() > 1 {
            self.tasks.tokens.token(job.0, execution.generation).reveal().to_owned()
        } else {
            String::new()
        };
        Some(LaunchTask {
            task: Some(TaskId { job_id: job.0, generation: execution.generation }),
            command: chosen.fill_all(&spec.command),
            env: chosen.variables(&spec.env),
            workdir: spec.workdir.clone(),
            output: output(&spec.output),
            devices: devices.iter().collect(),
            rank: rank as u32,
            ranks: execution.tasks.len() as u32,
            addresses: execution.tasks.iter().map(|task| address(task.share.node)).collect(),
            stop_signal: spec.stop_signal,
            grace_s: spec.grace_s,
            steps: spec.steps.iter().map(|step| chosen.fill_step(step)).collect(),
            launcher: spec.launcher,
            cpus: spec.cpus * devices.len(),
            memory_mib: spec.memory_mib * u64::from(devices.len()),
            activate: spec.activate.clone(),
            limits: spec.limits.clone(),
            error_output: output(&spec.error_output),
            user: spec.user.clone(),
            network_interface: spec.network_interface.clone(),
            master_port: u32::from(self.tasks.ports.of(job)),
            job_name: self.name_of(job).to_owned(),
            devices_by_rank: execution.tasks.iter().map(|task| task.share.devices.len()).collect(),
            lease: None,
            checkpoint_dir: checkpoint.path,
            is_default_checkpoint: checkpoint.is_default,
            iterations_done: self.checkpointed(job),
            is_shared,
            array_index,
            array_job: names.array_job,
            paced_iterations: spec.paced.then(|| state.spec(job).iterations),
            plan: self.log.state.plan_of(job),
            container: spec
                .container
                .clone()
                .map(|container| Container { name: names.expand(&container.name), ..container }),
            batch: None,
            ray: spec.ray.clone(),
            token,
        })
    }

    /// Sends the tasks of jobs that run at the model's pace what it is now.
    pub(crate) fn send_paces(&mut self, jobs: &[JobId]) {
        for &job in jobs {
            if !self.spec(job).is_some_and(|spec| spec.paced) {
                continue;
            }
            for node in self.tasks.execution(job).map(Execution::open_nodes).unwrap_or_default() {
                self.send_pace(job, node);
            }
        }
    }

    /// Sends one worker the pace of its task of a running job.
    pub(crate) fn send_pace(&mut self, job: JobId, node: NodeId) {
        let life = self.engine.state().job(job);
        if life.phase == Phase::Running && self.spec(job).is_some_and(|spec| spec.paced) {
            let task = Some(TaskId { job_id: job.0, generation: life.generation });
            let iteration_s = life.iteration_s();
            self.send(node, to_worker::Message::SetPace(SetPace { task, iteration_s }));
        }
    }

    /// Stops the tasks of a placement. Those on lost nodes count as over.
    pub(crate) fn stop(&mut self, job: JobId, generation: u32) {
        let Some(execution) = self.tasks.execution_of(job, generation) else {
            // It was never launched.
            self.engine_command(Command::JobStopped { job, generation, done: 0.0 });
            return;
        };
        execution.is_stopping = true;
        // mpirun passes the signal on to its processes on other nodes: those tasks are stopped when it has ended.
        let is_mpirun = self.spec(job).is_some_and(|spec| spec.launcher() == Launcher::Mpirun);
        let Some(execution) = self.tasks.execution(job) else { return };
        let nodes = match execution.first_open().filter(|_| is_mpirun) {
            Some(first) => vec![first],
            None => execution.open_nodes(),
        };
        for node in nodes {
            if self.engine.state().schedule().is_there(node) {
                self.send_stop(job, generation, node);
            } else {
                self.task_ended(job, generation, node, End::lost(LOST_CODE, Cause::NodeAway));
            }
        }
        self.finish_if_over(job);
    }

    pub(crate) fn send_stop(&mut self, job: JobId, generation: u32, node: NodeId) {
        let task = Some(TaskId { job_id: job.0, generation });
        self.send(node, to_worker::Message::Stop(StopTask { task }));
    }

    pub(crate) fn on_messages(&mut self, session: u64, messages: Vec<FromWorker>) {
        let Some(node) = self.nodes.connections.node_of(session) else {
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
                    let code = if ended.error.is_empty() { ended.exit_code } else { ended.exit_code.max(1) };
                    let TaskId { job_id, generation } = task;
                    tracing::debug!(
                        job = job_id,
                        generation,
                        node = self.node_name(node),
                        code,
                        "task ended"
                    );
                    let end = End {
                        code,
                        is_blameless: ended.is_blameless,
                        is_interrupted: ended.interrupted,
                        is_by_itself: ended.by_itself,
                        cause: ended.cause(),
                        signal: ended.signal,
                    }
                    .blamed(ended.node_fault());
                    self.on_node_fault(node, ended.node_fault());
                    self.note_reason(node, task, ended.error);
                    self.task_over(JobId(task.job_id), task.generation, node, end);
                }
            }
            from_worker::Message::Progress(told) => self.task_progressed(node, told),
            from_worker::Message::Output(output) => self.on_output(node, output),
            from_worker::Message::Devices(report) => self.on_devices(node, report.devices),
            from_worker::Message::Leave(leave) => self.on_leave(node, leave),
            from_worker::Message::Heartbeat(heartbeat) => self.on_heartbeat(node, heartbeat),
            from_worker::Message::Inspected(inspected) => self.on_inspected(node, &inspected),
            from_worker::Message::Register(_) | from_worker::Message::Exec(_) => {}
        }
    }

    pub(crate) fn task_progressed(&mut self, node: NodeId, mut told: TaskProgress) {
        let refused = told.refused.take().map(refused_metrics);
        if let Some(task) = told.task {
            self.take_points(node, task, std::mem::take(&mut told.points), refused.as_ref());
        }
        let Some(task) = told.task.filter(|task| self.tasks.is_task_of(*task, node)) else { return };
        let job = JobId(task.job_id);
        let is_amount = |value: f64| value.is_finite() && value >= 0.0;
        if !is_amount(told.iterations) || !is_amount(told.checkpointed) {
            return;
        }
        let now = self.now();
        let progress = self.tasks.progress.entry(job).or_default();
        progress.timing.told(now, told.iterations);
        let is_saved = told.checkpointed > progress.checkpointed;
        progress.liveness.told(now, node, told.iterations, is_saved);
        progress.iterations = told.iterations;
        if told.total.is_finite() && told.total > 0.0 {
            progress.total = told.total;
        }
        // Mostly one rank saves for all; the others report the checkpoint that they started from.
        progress.checkpointed = progress.checkpointed.max(told.checkpointed);
        progress.take_metrics(told.metrics);
        progress.refused = refused.or(progress.refused.take());
        // The policy weighs unsaved work in minutes: a trainer that saves all the time does not fill the journal.
        let saved_at = self.engine.state().job(job).saved_at();
        if is_saved && self.now().since(saved_at) >= SAVES_APART_S {
            let (generation, done) = (task.generation, told.checkpointed);
            self.engine_command(Command::JobSaved { job, generation, done });
        }
        self.look_at_numbers(job);
    }

    pub(crate) fn task_started(&mut self, job: JobId, generation: u32, node: NodeId) {
        let Some(execution) = self.tasks.execution_of(job, generation) else {
            return;
        };
        if let Some(task) = execution.task_on(node).filter(|task| task.phase == TaskPhase::Ordered) {
            task.phase = TaskPhase::Started;
        }
        self.launched_if_up(job);
    }

    fn launched_if_up(&mut self, job: JobId) {
        if let Some(execution) = self.tasks.executions.get_mut(&job)
            && execution.is_up()
            && !execution.is_launched
        {
            execution.is_launched = true;
            let generation = execution.generation;
            let ordered_at = execution.ordered_at;
            let restart_s = self.engine.perf().restart_s(self.engine.state().spec(job));
            // Part of it has passed since the launch was ordered.
            let ready = ordered_at.unwrap_or(self.now()).plus(restart_s).max(self.now());
            self.engine_command(Command::JobLaunched { job, generation, ready });
        }
    }

    /// Stores why a worker could not run a task.
    pub(crate) fn note_reason(&mut self, node: NodeId, task: TaskId, mut reason: String) {
        if reason.is_empty()
            || !self.tasks.is_task_of(task, node)
            || self.log.state.reasons.contains_key(&task.job_id)
        {
            return;
        }
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        self.note(Record::JobNoted { job: task.job_id, reason });
    }

    /// A task has ended, and its job with it where it was the last.
    ///
    /// Its worker may forget it once the whole gang has ended: the journal does not have the ends of single tasks, so that after
    /// a restart the worker has to report them again.
    pub(crate) fn task_over(&mut self, job: JobId, generation: u32, node: NodeId, end: End) {
        if !self.tasks.is_task_of(TaskId { job_id: job.0, generation }, node) {
            return self.send_forget(job, generation, node);
        }
        let Some(execution) = self.tasks.execution_of(job, generation) else {
            return self.send_forget(job, generation, node);
        };
        if end.is_blameless {
            let cause = if end.cause == Cause::NoCause { Cause::LostWorker } else { end.cause };
            return self.task_lost(job, generation, node, cause);
        }
        if end.is_interrupted {
            let is_leader = execution.is_led && execution.first_open() == Some(node);
            execution.interrupt_task(node);
            self.launched_if_up(job);
            if is_leader {
                self.stop_tasks(job);
            }
        } else {
            self.task_ended(job, generation, node, end);
        }
        self.finish_if_over(job);
    }

    /// A task is gone, for which the job is not to blame.
    pub(crate) fn task_lost(&mut self, job: JobId, generation: u32, node: NodeId, cause: Cause) {
        self.task_ended(job, generation, node, End::lost(LOST_CODE, cause));
        self.finish_if_over(job);
    }

    fn task_ended(&mut self, job: JobId, generation: u32, node: NodeId, end: End) {
        let Some(execution) = self.tasks.execution_of(job, generation) else {
            return;
        };
        // A batch script or mpirun that ends takes along the tasks that are only held for it.
        let is_leader = execution.is_led && execution.first_open() == Some(node);
        let fails = execution.end_task(node, end);
        self.launched_if_up(job);
        if fails || is_leader {
            self.stop_tasks(job);
        }
    }

    /// Stops the tasks of a job that are not over.
    pub(crate) fn stop_tasks(&mut self, job: JobId) {
        let Some(execution) = self.tasks.executions.get_mut(&job) else { return };
        execution.is_stopping = true;
        let (generation, others) = (execution.generation, execution.open_nodes());
        for other in others {
            self.send_stop(job, generation, other);
        }
    }

    /// Reports the end of a run to the engine, once all its tasks have ended.
    fn finish_if_over(&mut self, job: JobId) {
        if !self.tasks.execution(job).is_some_and(Execution::is_over) {
            return;
        }
        let Some(execution) = self.tasks.executions.remove(&job) else { return };
        self.tasks.ports.give_back(job);
        let generation = execution.generation;
        for task in &execution.tasks {
            self.send_forget(job, generation, task.share.node);
        }
        let done = self.checkpointed(job);
        let iterations = self.tasks.progress(job).map_or(0.0, |told| told.iterations);
        let total = self.total_iterations(job);
        self.note_run(job);
        self.note_metrics(job);
        let placement: Vec<NodeShare> = execution.tasks.iter().map(|task| task.share).collect();
        self.note_timing(job, &placement);
        let code = execution.exit_code();
        let is_stopping = self.engine.state().job(job).phase == Phase::Stopping;
        // Requested to stop when it had just done everything. Without a total only the trainer could state this, by not being interrupted.
        let is_done = execution.is_clean()
            && !execution.is_interrupted()
            && total.is_some_and(|total| iterations >= total);
        // Tasks that had come to their own end before the order to stop reached them count as if it had not been given.
        let is_stopped = is_stopping && execution.is_cut_short() && !is_done;
        let nan = self.fails_by_nan(job).then_some(LOST_CODE);
        let failing = execution.failing.filter(|_| !is_done).or(nan);
        let (goes_on, is_delayed) = if failing.is_some() {
            (false, false)
        } else if is_stopped {
            (self.may_move_on(job), false)
        } else {
            self.goes_on_after(job, &execution, is_stopping)
        };
        if goes_on {
            self.log.state.set_checkpoint(job, done);
        }
        // One that may not be stopped by machines any more fails with what it would be lost with.
        let lost = (is_stopped && !goes_on).then_some(LOST_CODE);
        let code = failing.or(lost).unwrap_or(code);
        self.engine_command(match (goes_on, is_stopping) {
            (true, true) => Command::JobStopped { job, generation, done },
            (true, false) => Command::JobFailed { job, generation, done },
            (false, _) => Command::JobExited { job, generation, code },
        });
        if is_delayed {
            self.delay(job);
        }
    }

    /// Journals the last metrics of a run that has ended: sweeps are compared by them.
    fn note_metrics(&mut self, job: JobId) {
        let Some(progress) = self.tasks.progress(job) else { return };
        let (metrics, remarks) = (progress.metrics.clone(), progress.remarks());
        if !metrics.is_empty() || !remarks.is_empty() {
            self.note(Record::JobMeasured { job: job.0, metrics, remarks });
        }
    }

    /// Whether a job whose tasks came to their own end has more to do, and whether it waits a little before; notes why.
    fn goes_on_after(&mut self, job: JobId, execution: &Execution, is_stopping: bool) -> (bool, bool) {
        // It has saved and has more to do, which is no failure.
        if !is_stopping && execution.is_interrupted() {
            self.note_cause(job, Cause::Preemption, None, None);
            return (true, false);
        }
        let Some(failure) = execution.failure() else { return (false, false) };
        let contract = self.spec(job).and_then(|spec| spec.checkpoint.as_ref());
        if contract.is_some_and(|contract| contract.resume_codes.contains(&failure.code)) {
            self.note_cause(job, Cause::Request, Some(failure.node), Some(failure.code));
            // One that is resumed at once and gets nowhere would start again and again without an end.
            let checkpointed = self.checkpointed(job);
            let run_s = execution.ordered_at.map(|at| self.now().since(at));
            let runs = &mut self.jobs.fruitless_runs;
            return (true, runs.note_end(job, execution.began_at, checkpointed, run_s));
        }
        self.note_cause(job, failure.cause, Some(failure.node), Some(failure.code));
        if failure.signal > 0 {
            self.note(Record::JobSignalled { job: job.0, signal: failure.signal });
        }
        let goes_on = self.may_retry(job, failure.code, failure.cause);
        (goes_on, goes_on && self.log.state.is_delayed_after(job, failure.cause))
    }

    /// Iterations that a job has to make, as its trainer reports or its owner declares.
    pub(crate) fn total_iterations(&self, job: JobId) -> Option<f64> {
        let reported = self.tasks.progress(job).map(|told| told.total);
        let declared = || self.spec(job).map(|spec| spec.iterations).filter(|&total| total > 0.0);
        reported.filter(|&total| total > 0.0).or_else(declared)
    }

    /// Iterations in a job's last checkpoint: as this run reported, or else the one before it.
    pub(crate) fn checkpointed(&self, job: JobId) -> f64 {
        let before = self.log.state.checkpoints.get(&job.0).copied().unwrap_or(0.0);
        self.tasks.progress(job).map_or(before, |told| told.checkpointed)
    }
}
