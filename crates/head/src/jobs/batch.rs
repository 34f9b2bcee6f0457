//! What batch scripts need beside other jobs: times to begin at, arrays with a limit, warnings before time limits, `SLURM_*`.

use std::collections::{BTreeMap, BTreeSet};

use wharf_core::{Command, Ignored, JobId, NodeId, Phase, Time};
use wharf_proto::dependency::Kind as DependencyKind;
use wharf_proto::{ChangeJobsRequest, LaunchTask, SignalTask, TaskId, Wait, to_worker};
use wharf_slurm::launch::GangNode;

use crate::dispatcher::Dispatcher;
use crate::journal::record::Record;
use crate::tasks::execution::Task;

/// State of batch jobs that is not journaled.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    /// Jobs that stay although what they depend on can never be.
    stranded: BTreeSet<JobId>,
    /// When jobs are sent a signal before their limit, and of which generation they are.
    warnings: BTreeMap<(Time, JobId), u32>,
    /// Time until which the holder of a job has to renew its lease.
    leases: BTreeMap<JobId, Time>,
    /// The same, by time.
    due: BTreeSet<(Time, JobId)>,
}

impl Batches {
    /// A job can never start, and stays.
    pub(crate) fn strand(&mut self, job: JobId) {
        self.stranded.insert(job);
    }

    /// Drops the records of a job that has ended.
    pub(crate) fn end(&mut self, job: JobId) {
        self.stranded.remove(&job);
        if let Some(until) = self.leases.remove(&job) {
            self.due.remove(&(until, job));
        }
    }

    /// When the next job is to be warned, or its lease expires.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let warning = self.warnings.keys().next().map(|&(at, _)| at);
        warning.into_iter().chain(self.due.first().map(|&(until, _)| until)).min()
    }

    /// A job is not to be warned.
    pub(crate) fn unwarn(&mut self, job: JobId) {
        self.warnings.retain(|(_, other), _| *other != job);
    }

    /// Takes out the next job that is to be warned, and the generation of its run.
    fn pop_warning(&mut self, now: Time) -> Option<(JobId, u32)> {
        let first = self.warnings.first_entry().filter(|entry| entry.key().0 <= now)?;
        let ((_, job), generation) = first.remove_entry();
        Some((job, generation))
    }

    /// A job has a lease until then.
    pub(crate) fn renew(&mut self, job: JobId, until: Time) {
        if let Some(earlier) = self.leases.insert(job, until) {
            self.due.remove(&(earlier, job));
        }
        self.due.insert((until, job));
    }

    /// Takes out the jobs whose leases are over.
    pub(crate) fn pop_expired(&mut self, now: Time) -> Vec<JobId> {
        let mut expired = Vec::new();
        while let Some(&(until, job)) = self.due.first().filter(|(until, _)| *until <= now) {
            self.due.remove(&(until, job));
            self.leases.remove(&job);
            expired.push(job);
        }
        expired
    }
}

impl Dispatcher {
    /// The wait reason of a held job; `NoWait` where it is not held, or may be released.
    pub(crate) fn wait_of(&self, job: JobId) -> Wait {
        if self.engine.state().job(job).phase != Phase::Held {
            Wait::NoWait
        } else if self.log.state.holds.contains(&job.0) {
            Wait::Person
        } else if self.jobs.batches.stranded.contains(&job) {
            Wait::Impossible
        } else if self.jobs.dependencies.of(job).is_some() {
            Wait::Dependency
        } else if self.log.state.delays.contains_key(&job.0) {
            Wait::Time
        } else if !self.jobs.array_limits.allows_more(self.log.state.first_of(job.0)) {
            Wait::ArrayLimit
        } else {
            Wait::NoWait
        }
    }

    /// Releases a held job, if nothing holds it any more.
    pub(crate) fn release_if_ready(&mut self, job: JobId) {
        match self.wait_of(job) {
            Wait::NoWait => self.engine_command(Command::ReleaseJob(job)),
            Wait::ArrayLimit => self.jobs.array_limits.wait(self.log.state.first_of(job.0), job.0),
            _ => {}
        }
    }

    /// An element of an array with a limit is over or held: others may start.
    pub(crate) fn fill_array(&mut self, job: JobId) {
        let first = self.log.state.first_of(job.0);
        while let Some(element) = self.jobs.array_limits.next(first) {
            self.release_if_ready(JobId(element));
        }
    }

    /// Delays a held job until a time, whatever else it waits for.
    pub(crate) fn wait_until(&mut self, job: JobId, until: Time) {
        self.note(Record::JobDelayed { job: job.0, until: until.seconds() });
        self.jobs.delays.add(until, job);
    }

    /// Until when a job whose dependencies are met has to wait after another one began.
    pub(crate) fn after_delay(&self, job: u32) -> Option<Time> {
        let spec = self.spec(JobId(job))?;
        let delayed =
            spec.dependencies.iter().filter(|one| one.kind() == DependencyKind::After && one.delay_s > 0.0);
        let state = self.engine.state();
        let known = |id: &u32| state.has_job(JobId(*id));
        let until = delayed
            .flat_map(|one| self.log.state.whole(one.job_id).filter(known).map(|id| (id, one.delay_s)));
        let until = until.filter_map(|(id, delay_s)| Some(state.job(JobId(id)).first_start?.plus(delay_s)));
        until.max()
    }

    /// Whether a job stays that can never start.
    pub(crate) fn stays_if_impossible(&self, job: JobId) -> bool {
        self.spec(job).is_some_and(|spec| spec.stays_if_impossible)
    }

    /// The begin time of a job is changed.
    pub(crate) fn begin_at(&mut self, job: JobId, begin_s: f64) -> Result<(), Ignored> {
        let begin = self.clock.future(begin_s);
        match self.engine.state().job(job).phase {
            Phase::Waiting if begin.is_some() => self.command(Command::HoldJob(job))?,
            Phase::Waiting | Phase::Held => {}
            _ => return Err(Ignored::WrongPhase),
        }
        self.log.state.end_delay(job);
        match begin {
            Some(begin) => self.wait_until(job, begin),
            None => self.release_if_ready(job),
        }
        Ok(())
    }

    /// Notes when jobs that were just launched reach their limits, and when they are to be warned of it.
    pub(crate) fn watch_limits(&mut self, launched: &[JobId]) {
        for &job in launched {
            let limit_s = self.time_limit_s(job).min(1e9);
            if limit_s <= 0.0 {
                continue;
            }
            let batch = self.spec(job).and_then(|spec| spec.batch.clone());
            // Counted from when it got its devices, which a restart of the head does not change.
            let life = self.engine.state().job(job);
            let (at, generation) = (life.placed_at().plus(limit_s), life.generation);
            self.jobs.time_limits.watch(job, at, generation);
            if let Some(batch) = batch.filter(|batch| batch.signal > 0) {
                let before_s = batch.signal_before_s.clamp(0.0, limit_s);
                self.jobs.batches.warnings.insert((at.plus(-before_s), job), generation);
            }
        }
    }

    /// Warns jobs whose limits are near.
    pub(crate) fn warn_jobs(&mut self) {
        let now = self.now();
        while let Some((job, generation)) = self.jobs.batches.pop_warning(now) {
            let life = self.engine.state().job(job);
            if life.phase != Phase::Running || life.generation != generation {
                continue;
            }
            if let Some(batch) = self.spec(job).and_then(|spec| spec.batch.clone()) {
                let (script, beside) = (batch.signal_script, !batch.signal_script);
                self.send_signal(
                    job,
                    SignalTask { signal: batch.signal, script, beside, ..SignalTask::default() },
                );
            }
        }
    }

    /// Sends a signal to a job on request.
    pub(crate) fn signal(&mut self, job: JobId, request: &ChangeJobsRequest) -> Result<(), Ignored> {
        if self.engine.state().job(job).phase != Phase::Running {
            return Err(Ignored::WrongPhase);
        }
        let wanted = SignalTask {
            task: None,
            signal: request.signal,
            script: request.signal_script,
            beside: request.signal_beside,
            group: request.signal_group,
            step: request.signal_step,
        };
        self.send_signal(job, wanted);
        Ok(())
    }

    fn send_signal(&mut self, job: JobId, wanted: SignalTask) {
        let Some(execution) = self.tasks.execution(job) else { return };
        let task = Some(TaskId { job_id: job.0, generation: execution.generation });
        let first = execution.tasks.first().map(|task| task.share.node);
        for node in execution.open_nodes() {
            let script = wanted.script && Some(node) == first;
            if script || wanted.beside {
                self.send(node, to_worker::Message::Signal(SignalTask { task, script, ..wanted }));
            }
        }
    }

    /// Completes the launch of a task of a batch job.
    pub(crate) fn complete_batch(&self, job: JobId, launch: &mut LaunchTask) {
        let (Some(spec), Some(execution)) = (self.spec(job), self.tasks.execution(job)) else { return };
        let topology = self.engine.state().topology();
        let gang_node = |task: &Task| {
            let node = &topology.node(task.share.node).spec;
            GangNode {
                name: &node.name,
                pool: &node.pool,
                device_type: &node.device_type,
                cpus: node.cpus,
                devices: node.devices,
                used: task.share.devices.len(),
            }
        };
        let gang: Vec<GangNode<'_>> = execution.tasks.iter().map(gang_node).collect();
        wharf_slurm::launch::complete(launch, spec, &gang, execution.generation.saturating_sub(1));
    }

    pub(crate) fn node_name(&self, node: NodeId) -> String {
        self.engine.state().topology().node(node).spec.name.to_string()
    }
}
