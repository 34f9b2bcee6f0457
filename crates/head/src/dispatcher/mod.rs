//! The dispatcher: one thread around the engine, one input at a time, nothing published before it is durable.

pub(crate) mod alerts;
pub(crate) mod clock;
pub(crate) mod containment;
pub(crate) mod cycle;
pub(crate) mod fault_points;
pub(crate) mod head_metrics;
pub(crate) mod incarnation;
pub(crate) mod incident;
pub(crate) mod journal_log;
pub(crate) mod journal_stall;
pub(crate) mod outbox;
pub(crate) mod queue;
pub(crate) mod request_error;

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;
use wharf_core::{Command, Effect, Engine, Ignored, JobEnd, JobId, NodeId, Phase, State, Time};
use wharf_proto::notify::Moment;
use wharf_proto::{
    ChangeJobsReply, ChangeJobsRequest, FromWorker, JobSpec as WireSpec, Refusal, Register, TaskId, to_worker,
};

use crate::dispatcher::alerts::{Alerts, Warn};
use crate::dispatcher::clock::{Clock, EngineClock};
use crate::dispatcher::containment::Containment;
use crate::dispatcher::cycle::refuse_all;
use crate::dispatcher::head_metrics::Meter;
use crate::dispatcher::journal_log::{EventLog, Recorder, Transitions};
use crate::dispatcher::outbox::Outbox;
use crate::dispatcher::request_error::{RequestError, with_cause};
use crate::jobs::Jobs;
use crate::jobs::accepted_requests::RequestKey;
use crate::jobs::failures::Origin;
use crate::journal::record::Record;
use crate::journal::{Journal, Replayed};
use crate::nodes::Nodes;
use crate::nodes::worker_outbox::Outlet;
use crate::notify::notifications::LazyNotifier;
use crate::policy::active_policy::{ActivePolicy, PolicyChoice};
use crate::policy::decisions::Decided;
use crate::tasks::Tasks;
use crate::tasks::execution::{Execution, TaskPhase};
use crate::tasks::output_readers::{Flow, Pipe};

/// Something for the dispatcher to deal with.
pub(crate) enum Input {
    Submit {
        specs: Vec<WireSpec>,
        /// Where the request may be repeated.
        key: Option<RequestKey>,
        reply: oneshot::Sender<Result<Vec<u32>, RequestError>>,
    },
    /// A change of named jobs, by a user if it is not an administrator's.
    Change {
        request: ChangeJobsRequest,
        is_user: bool,
        /// The user to name in the jobs' histories; empty: none.
        by: String,
        reply: oneshot::Sender<Vec<Refusal>>,
    },
    /// A change of all jobs that match a filter; only of this owner's, if one is named.
    ChangeMatching {
        request: ChangeJobsRequest,
        owner: Option<String>,
        by: String,
        reply: oneshot::Sender<ChangeJobsReply>,
    },
    /// A change of a node.
    ChangeNode {
        command: Command,
        node: NodeId,
        reason: String,
        reply: oneshot::Sender<Result<(), RequestError>>,
    },
    /// A question, answered from a state in which everything earlier is durable.
    Ask(Box<dyn FnOnce(&Dispatcher) + Send>),
    /// A request for a reply when a job has ended.
    Wait {
        job: JobId,
        reply: oneshot::Sender<()>,
    },
    Attach {
        register: Register,
        session: u64,
        sender: Outlet,
    },
    FromWorker {
        session: u64,
        messages: Vec<FromWorker>,
    },
    Detach {
        session: u64,
    },
    /// Output of a task for its reader.
    ReadOutput {
        job: JobId,
        rank: usize,
        /// 0: the latest.
        generation: u32,
        follow: bool,
        pipe: Pipe,
    },
    /// The reader has capacity for more.
    ReadOn {
        flow: Arc<Flow>,
    },
    /// Other limits are to hold.
    SetLimits {
        text: String,
        by: String,
        reply: oneshot::Sender<Result<(), RequestError>>,
    },
    /// Another policy is to decide.
    SetPolicy {
        choice: PolicyChoice,
        by: String,
        reply: oneshot::Sender<Result<(), RequestError>>,
    },
    Stop,
}

/// The engine, and the components around it. Each owns its state; what concerns several of them is a method of the dispatcher.
pub(crate) struct Dispatcher {
    pub(crate) engine: Engine,
    pub(crate) clock: EngineClock,
    pub(crate) log: EventLog,
    pub(crate) outbox: Outbox,
    pub(crate) jobs: Jobs,
    pub(crate) nodes: Nodes,
    pub(crate) tasks: Tasks,
    pub(crate) policy: ActivePolicy,
    pub(crate) alerts: Alerts,
    containment: Containment,
    meter: Arc<Meter>,
}

/// What a dispatcher begins with.
pub(crate) struct Setup {
    pub(crate) clock: Box<dyn Clock>,
    pub(crate) jobs: Jobs,
    pub(crate) nodes: Nodes,
    pub(crate) tasks: Tasks,
    pub(crate) policy: ActivePolicy,
    pub(crate) notifier: LazyNotifier,
    pub(crate) warn: Warn,
    pub(crate) meter: Arc<Meter>,
    /// How long submissions wait for the reports of nodes after a start, in seconds.
    pub(crate) report_grace_s: f64,
}

impl Dispatcher {
    pub(crate) fn new(
        make_engine: impl FnOnce(Time, State) -> Engine,
        journal: Journal,
        replayed: Replayed,
        setup: Setup,
    ) -> Self {
        let Replayed { state, specs, head_state, last, epoch_unix_s, quarantined, .. } = replayed;
        let mut dispatcher = Self {
            engine: make_engine(last, state),
            clock: EngineClock::new(setup.clock, epoch_unix_s),
            log: EventLog::new(journal, head_state),
            outbox: Outbox::new(setup.notifier),
            jobs: setup.jobs,
            nodes: setup.nodes,
            tasks: setup.tasks,
            policy: setup.policy,
            alerts: Alerts::new(setup.warn),
            containment: Containment::default(),
            meter: setup.meter,
        };
        dispatcher.jobs.load(specs);
        dispatcher.report_quarantined(&quarantined);
        dispatcher.recover();
        match dispatcher.log.journal.take_read_only() {
            Some(error) => dispatcher.stall(&error),
            None => dispatcher.identify(),
        }
        dispatcher.await_reports(setup.report_grace_s);
        dispatcher
    }

    /// After a restart: placed jobs are being carried out somewhere, and every node may come back.
    pub(crate) fn recover(&mut self) {
        let state = self.engine.state();
        let mut held = Vec::new();
        let mut running = Vec::new();
        for (job, spec, life) in state.jobs().filter(|(_, _, life)| !life.is_ended()) {
            let (first, is_array) = (self.log.state.first_of(job.0), self.log.state.is_element(job.0));
            let user = spec.user.clone().unwrap_or_default();
            self.jobs.restore(job, first, is_array, life.phase == Phase::Held, user);
            let placement = state.schedule().placement(job).unwrap_or_default();
            let mut execution = match life.phase {
                // It is launched when others have given its devices back.
                Phase::Placed if state.is_blocked(job) => continue,
                Phase::Placed => Execution::new(life.generation, placement, TaskPhase::Ordered),
                Phase::Running => {
                    running.push(job);
                    Execution::new(life.generation, placement, TaskPhase::Started)
                }
                Phase::Stopping => Execution::stopping(life.process_generation(), life.leaving()),
                Phase::Held => {
                    held.push(job);
                    continue;
                }
                Phase::Waiting | Phase::Ended(_) => continue,
            };
            execution.began_at = self.checkpointed(job);
            execution.is_led = self.is_led(job);
            self.tasks.adopt(job, execution);
        }
        let schedule = state.schedule();
        let nodes = (0..state.topology().nodes().len()).map(NodeId::from_index);
        let known = nodes.filter(|&node| schedule.is_there(node));
        self.nodes.connections.await_nodes(known, self.clock.now());
        self.recover_part("time limits", |head| head.watch_limits(&running));
        self.recover_part("what devices do", |head| head.watch_runs(&running));
        self.recover_part("delays after failures", Self::restore_delays);
        for (first, jobs) in self.log.state.by_array(&held) {
            let what = format!("the dependencies of job {first}, which stays held,");
            self.recover_part(&what, |head| head.restore_dependencies(first, &jobs));
        }
        self.recover_part("jobs that are kept by their clients", Self::renew_leases);
    }

    /// Notifies clients that wait for jobs that have ended.
    pub(crate) fn release_waiters(&mut self) {
        let state = self.engine.state();
        let is_over = |job: &JobId| !state.has_job(*job) || state.job(*job).is_ended();
        let over: Vec<JobId> = self.jobs.awaited().filter(is_over).collect();
        over.into_iter().for_each(|job| self.release_waiter(job));
    }

    fn release_waiter(&mut self, job: JobId) {
        for waiter in self.jobs.take_waiters(job) {
            self.outbox.reply(move || {
                let _ = waiter.send(());
            });
        }
    }

    pub(crate) fn handle(&mut self, input: Input) {
        match input {
            Input::Submit { .. } if self.nodes.reports.is_awaited(self.now()) => {
                self.nodes.reports.defer(input);
            }
            Input::Submit { specs, key, reply } => {
                let ids = self.attempt(|head| {
                    let ids = head.submit_once(specs, key);
                    crate::dispatcher::fault_points::point("submit");
                    ids
                });
                self.outbox.answer(reply, ids);
            }
            Input::Change { request, is_user, by, reply } => self.change(request, is_user, &by, reply),
            Input::ChangeMatching { request, owner, by, reply } => {
                self.change_all(&request, owner.as_deref(), &by, reply);
            }
            Input::ChangeNode { command, node, reason, reply } => {
                let result = self.attempt(|head| head.change_node(command, node, reason));
                self.outbox.answer(reply, result);
            }
            // Everything is durable.
            Input::Ask(question) => question(self),
            Input::Wait { job, reply } => {
                if !self.engine.state().has_job(job) || self.engine.state().job(job).is_ended() {
                    self.outbox.reply(move || {
                        let _ = reply.send(());
                    });
                } else {
                    self.jobs.add_waiter(job, reply);
                }
            }
            Input::Attach { register, session, sender } => self.attach(&register, session, sender),
            Input::FromWorker { session, messages } => self.on_messages(session, messages),
            Input::Detach { session } => self.detach(session),
            Input::ReadOutput { job, rank, generation, follow, pipe } => {
                self.read_output(job, rank, generation, follow, pipe);
            }
            Input::ReadOn { flow } => self.continue_reading(&flow),
            Input::SetLimits { text, by, reply } => {
                let result = self.attempt(|head| head.set_limits(text, &by));
                self.outbox.answer(reply, result);
            }
            Input::SetPolicy { choice, by, reply } => {
                let result = self.attempt(|head| head.set_policy(choice, &by));
                self.outbox.answer(reply, result);
            }
            Input::Stop => {}
        }
    }

    fn change(
        &mut self,
        request: ChangeJobsRequest,
        is_user: bool,
        by: &str,
        reply: oneshot::Sender<Vec<Refusal>>,
    ) {
        let result = self.attempt(|head| {
            let refused = head.change_jobs(&request, is_user);
            head.note_change(&request, &refused, by);
            Ok::<_, RequestError>(refused)
        });
        self.outbox.reply_always(move |failed| {
            let result = failed.map_or(result, |reason| Err(reason.clone().into()));
            let refused = result.unwrap_or_else(|error| refuse_all(&request.job_ids, &with_cause(&error)));
            // The client may have gone.
            let _ = reply.send(refused);
        });
    }

    fn change_all(
        &mut self,
        request: &ChangeJobsRequest,
        owner: Option<&str>,
        by: &str,
        reply: oneshot::Sender<ChangeJobsReply>,
    ) {
        let result = self.attempt(|head| Ok::<_, RequestError>(head.change_matching(request, owner, by)));
        self.outbox.reply_always(move |failed| {
            let result = failed.map_or(result, |reason| Err(reason.clone().into()));
            let changed = result.unwrap_or_else(|error| ChangeJobsReply {
                refused: refuse_all(&[0], &with_cause(&error)),
                ..ChangeJobsReply::default()
            });
            // The client may have gone.
            let _ = reply.send(changed);
        });
    }

    /// Hands a command to the engine; whether it was accepted is the sender's business.
    pub(crate) fn command(&mut self, command: Command) -> Result<(), Ignored> {
        self.command_as(Origin::of(&command), command)
    }

    /// The same with another origin than the command's own.
    pub(crate) fn command_as(&mut self, origin: Origin, command: Command) -> Result<(), Ignored> {
        let now = self.now();
        let Self { engine, log, jobs, meter, .. } = self;
        let array_limits = &mut jobs.array_limits;
        engine.handle(now, command, &mut Recorder { log, array_limits, meter, origin, decided: None })
    }

    /// Hands over a command that may be stale, in which case nothing has to be done.
    pub(crate) fn engine_command(&mut self, command: Command) {
        // On the wall clock an answer can be overtaken; the engine ignores what is stale.
        let _ = self.command(command);
    }

    /// Calls the policy if it is due.
    fn decide(&mut self, now: Time) {
        let (state, count, began) = (self.engine.state(), self.engine.decision_count(), Instant::now());
        let (waiting, free) = (state.counts().waiting, state.schedule().free_count());
        let mut decided = Decided { time_s: now.seconds(), waiting, free, ..Decided::default() };
        let Self { engine, log, jobs, meter, policy, .. } = self;
        let array_limits = &mut jobs.array_limits;
        let recorded = Some(&mut decided);
        engine.settle(
            now,
            &mut Recorder { log, array_limits, meter, origin: Origin::Policy, decided: recorded },
        );
        if engine.decision_count() > count {
            policy.note_decision(decided, log.state.policy_name(), began.elapsed(), engine, meter);
        }
    }

    /// Lets the policy decide, turns its effects into messages, and acts on what happened.
    pub(crate) fn settle(&mut self) {
        let now = self.now();
        loop {
            self.decide(now);
            self.report_violations();
            let mut effects = Vec::new();
            self.engine.drain_effects(&mut effects);
            let transitions = self.log.take_transitions();
            if effects.is_empty() && transitions.is_empty() {
                return;
            }
            self.act_on(effects, transitions);
        }
    }

    fn act_on(&mut self, effects: Vec<Effect>, transitions: Transitions) {
        for &(node, job, cause) in &transitions.blamed {
            self.count_failure(node, job, cause);
        }
        for &job in &transitions.preempted {
            self.notify_owner(job, Moment::Preempted);
        }
        for effect in effects {
            match effect {
                Effect::Launch { job, generation } => self.launch(job, generation),
                Effect::Stop { job, generation } => {
                    self.tasks.pause_activity(job, self.clock.now());
                    self.stop(job, generation);
                }
            }
        }
        self.watch_limits(&transitions.launched);
        self.watch_runs(&transitions.launched);
        self.send_paces(&transitions.launched);
        self.send_paces(&transitions.rated);
        for &job in &transitions.launched {
            self.notify_owner(job, Moment::Started);
            self.resolve_dependents(job);
        }
        for job in transitions.ended {
            self.after_end(job);
        }
    }

    fn after_end(&mut self, job: JobId) {
        tracing::debug!(job = job.0, phase = ?self.engine.state().job(job).phase, "job ended");
        self.notify_end(job);
        let is_finished = self.engine.state().job(job).phase == Phase::Ended(JobEnd::Finished);
        self.log.state.end(job.0, is_finished);
        self.tasks.end(job);
        self.jobs.end_run(job);
        self.fill_array(job);
        self.release_checkpoint(job);
        let first = self.log.state.first_of(job.0);
        self.jobs.end(job, first, self.engine.state().spec(job).user.as_deref());
        self.release_waiter(job);
        self.resolve_dependents(job);
    }

    /// Acts on what is due: nodes that did not come back, jobs that reached their limit.
    pub(crate) fn expire(&mut self) {
        let now = self.now();
        crate::dispatcher::fault_points::point("expire");
        self.expire_delays();
        self.expire_stalls();
        self.warn_jobs();
        self.expire_leases(now);
        while let Some((job, generation)) = self.jobs.time_limits.pop_due(now) {
            let life = self.engine.state().job(job);
            if life.phase == Phase::Running && life.generation == generation {
                self.limit_reached(job);
            }
        }
        for node in self.nodes.connections.take_lost(now) {
            self.engine_command(Command::LoseNode(node));
            self.tasks.end_reading(node);
        }
    }

    /// The node and the name of a job's latest task of that rank.
    pub(crate) fn task_of(&self, job: JobId, rank: usize) -> Option<(NodeId, TaskId)> {
        let state = self.engine.state();
        if job >= state.next_job() {
            return None;
        }
        let life = state.job(job);
        let placement = state.schedule().placement(job).filter(|_| life.phase != Phase::Stopping);
        let share = placement.unwrap_or_else(|| life.left()).get(rank)?;
        let task = TaskId { job_id: job.0, generation: life.process_generation() };
        Some((share.node, task))
    }

    /// Journals a record that is not an event of the engine, and applies it.
    pub(crate) fn note(&mut self, record: Record) {
        self.log.note(self.clock.now(), record);
    }

    pub(crate) fn send(&mut self, node: NodeId, message: to_worker::Message) {
        self.outbox.send(node, message);
    }

    /// The engine's present.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// What a job that is not over runs.
    pub(crate) fn spec(&self, job: JobId) -> Option<&Arc<WireSpec>> {
        self.jobs.spec(self.log.state.first_of(job.0))
    }

    /// The exit code of a job, as users see it: `None` while it lives.
    pub(crate) fn exit_code(&self, job: JobId) -> Option<i32> {
        match self.engine.state().job(job).phase {
            Phase::Ended(JobEnd::Finished) => Some(0),
            Phase::Ended(JobEnd::Failed { code }) => Some(code),
            // As `timeout` and an interrupted shell have it.
            Phase::Ended(JobEnd::TimedOut) => Some(124),
            Phase::Ended(JobEnd::Cancelled | JobEnd::Rejected) => Some(130),
            _ => None,
        }
    }
}
