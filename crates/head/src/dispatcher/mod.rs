//! The dispatcher: one thread around the engine, one input at a time, nothing told before it is durable.

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
pub(crate) mod queue;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;
use wharf_core::{Command, Effect, Engine, Ignored, JobEnd, JobId, NodeId, Phase, State, Time};
use wharf_policy::governor::Limits;
use wharf_proto::notify::Moment;
use wharf_proto::{
    ChangeJobsReply, ChangeJobsRequest, FromWorker, JobSpec as WireSpec, Refusal, Register, TaskId, ToWorker,
    to_worker,
};
use wharf_tls::TaskTokens;

use crate::curves::{CurveStore, Forgets, Run};
use crate::dispatcher::alerts::Alerts;
use crate::dispatcher::clock::Clock;
use crate::dispatcher::containment::Containment;
use crate::dispatcher::cycle::{Reply, refuse_all};
use crate::dispatcher::head_metrics::Meter;
use crate::dispatcher::incarnation::{Reports, SentMark};
use crate::dispatcher::journal_log::{News, Tap};
use crate::dispatcher::journal_stall::Stall;
use crate::jobs::accepted_requests::RequestKey;
use crate::jobs::array_limits::Rooms;
use crate::jobs::batch::Batches;
use crate::jobs::checkpoints::CheckpointSettings;
use crate::jobs::dependencies::Gates;
use crate::jobs::failures::Origin;
use crate::jobs::request_limits::Caps;
use crate::jobs::secrets::Vault;
use crate::journal::{Journal, Kept, Replayed};
use crate::nodes::device_health::Trouble;
use crate::nodes::worker_outbox::Outlet;
use crate::nodes::{NodeFacts, Session};
use crate::notify::Notice;
use crate::notify::notifications::Teller;
use crate::policy::active_policy::{MakeRegime, NeverResizes, PolicyChoice};
use crate::policy::decisions::{Decided, Decisions};
use crate::tasks::device_activity::Watch;
use crate::tasks::execution::{Execution, TaskPhase};
use crate::tasks::output_readers::{Flow, Pipe, Readers};
use crate::tasks::ports::Ports;
use crate::tasks::progress::Progress;

/// Something for the dispatcher to deal with.
pub(crate) enum Input {
    Submit {
        specs: Vec<WireSpec>,
        /// Where the request may be repeated.
        key: Option<RequestKey>,
        reply: oneshot::Sender<Result<Vec<u32>, String>>,
    },
    /// A change of named jobs, by a user if it is not an administrator's.
    Change {
        request: ChangeJobsRequest,
        is_user: bool,
        /// The user to name in the jobs' histories; empty: none.
        by: String,
        reply: oneshot::Sender<Vec<Refusal>>,
    },
    /// What a person wants of all jobs that match a filter; only of this owner's, if one is named.
    ChangeMatching {
        request: ChangeJobsRequest,
        owner: Option<String>,
        by: String,
        reply: oneshot::Sender<ChangeJobsReply>,
    },
    /// What a person wants of a node; refused ones are told why.
    ChangeNode {
        command: Command,
        node: NodeId,
        reason: String,
        reply: oneshot::Sender<Result<(), String>>,
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
        reply: oneshot::Sender<Result<(), String>>,
    },
    /// Another policy is to decide.
    SetPolicy {
        choice: PolicyChoice,
        by: String,
        reply: oneshot::Sender<Result<(), String>>,
    },
    Stop,
}

/// The engine and all that is known beside it.
pub(crate) struct Dispatcher {
    pub(crate) engine: Engine,
    pub(crate) journal: Journal,
    clock: Box<dyn Clock>,
    pub(crate) epoch_unix_s: f64,
    /// Makes policies from their names.
    pub(crate) make: MakeRegime,
    pub(crate) never_resizes: NeverResizes,
    /// Who may have how much.
    pub(crate) sharing: Limits,
    /// What live jobs run, by the first job of their array or their own.
    pub(crate) specs: BTreeMap<u32, Arc<WireSpec>>,
    /// Elements of arrays that are not over.
    pub(crate) array_live: BTreeMap<u32, u32>,
    /// Live jobs by user.
    pub(crate) live: BTreeMap<Arc<str>, BTreeSet<u32>>,
    /// Arrays with a limit.
    pub(crate) rooms: Rooms,
    pub(crate) caps: Caps,
    pub(crate) checkpoints: CheckpointSettings,
    pub(crate) kept: Kept,
    pub(crate) gates: Gates,
    pub(crate) batches: Batches,
    pub(crate) executions: BTreeMap<JobId, Execution>,
    pub(crate) sessions: BTreeMap<NodeId, Session>,
    pub(crate) node_of_session: BTreeMap<u64, NodeId>,
    /// Nodes without a connection, and until when they may come back.
    pub(crate) missing: BTreeMap<NodeId, Time>,
    pub(crate) facts: BTreeMap<NodeId, NodeFacts>,
    pub(crate) progress: BTreeMap<JobId, Progress>,
    /// The history of metrics; none: it is not stored.
    pub(crate) curves: Option<CurveStore>,
    pub(crate) vault: Vault,
    pub(crate) forgets: Forgets,
    /// The latest runs of jobs that are not over.
    pub(crate) runs: BTreeMap<JobId, VecDeque<Run>>,
    /// Jobs that wait after a failure, and until when.
    pub(crate) delays: BTreeSet<(Time, JobId)>,
    pub(crate) trouble: Trouble,
    pub(crate) watches: BTreeMap<JobId, Watch>,
    pub(crate) ports: Ports,
    pub(crate) readers: Readers,
    pub(crate) waiters: BTreeMap<JobId, Vec<oneshot::Sender<()>>>,
    /// When running jobs reach their time limits.
    pub(crate) limits: BTreeMap<(Time, JobId), u32>,
    /// The checkpoints that jobs began their last run from that ended with their time limit, in iterations.
    pub(crate) limit_marks: BTreeMap<JobId, f64>,
    /// When jobs that report are looked at next.
    pub(crate) stalls_due: Time,
    pub(crate) lost_after_s: f64,
    /// Messages and replies that go out once everything is durable.
    pub(crate) outgoing: BTreeMap<NodeId, Vec<ToWorker>>,
    pub(crate) replies: Vec<Reply>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) teller: Teller,
    pub(crate) news: News,
    pub(crate) meter: Arc<Meter>,
    pub(crate) decisions: Decisions,
    pub(crate) alerts: Alerts,
    pub(crate) sent_mark: SentMark,
    pub(crate) reports: Reports,
    pub(crate) containment: Containment,
    /// The journal cannot be written.
    pub(crate) stalled: Option<Stall>,
    /// Workers of unknown nodes that came meanwhile.
    pub(crate) parked: Vec<Session>,
    pub(crate) task_tokens: TaskTokens,
}

/// What a dispatcher is told when it begins.
pub(crate) struct Setup {
    pub(crate) clock: Box<dyn Clock>,
    pub(crate) make: MakeRegime,
    pub(crate) never_resizes: NeverResizes,
    /// What `kept` of the replayed journal says of limits.
    pub(crate) sharing: Limits,
    pub(crate) lost_after_s: f64,
    pub(crate) caps: Caps,
    pub(crate) checkpoints: CheckpointSettings,
    /// How long submissions wait for the reports of nodes after a start, in seconds.
    pub(crate) report_grace_s: f64,
    pub(crate) teller: Teller,
    pub(crate) meter: Arc<Meter>,
    pub(crate) task_tokens: TaskTokens,
    pub(crate) curves: Option<CurveStore>,
    pub(crate) vault: Vault,
}

impl Dispatcher {
    pub(crate) fn new(
        make_engine: impl FnOnce(Time, State) -> Engine,
        journal: Journal,
        replayed: Replayed,
        setup: Setup,
    ) -> Self {
        let Replayed { state, specs, kept, last, epoch_unix_s, quarantined, .. } = replayed;
        let Setup { clock, make, sharing, lost_after_s, caps, report_grace_s, teller, .. } = setup;
        let mut dispatcher = Self {
            engine: make_engine(last, state),
            journal,
            clock,
            epoch_unix_s,
            make,
            never_resizes: setup.never_resizes,
            sharing,
            specs,
            array_live: BTreeMap::new(),
            live: BTreeMap::new(),
            rooms: Rooms::default(),
            caps,
            checkpoints: setup.checkpoints,
            kept,
            gates: Gates::default(),
            batches: Batches::default(),
            executions: BTreeMap::new(),
            sessions: BTreeMap::new(),
            node_of_session: BTreeMap::new(),
            missing: BTreeMap::new(),
            facts: BTreeMap::new(),
            progress: BTreeMap::new(),
            curves: setup.curves,
            vault: setup.vault,
            forgets: Forgets::default(),
            runs: BTreeMap::new(),
            delays: BTreeSet::new(),
            trouble: Trouble::default(),
            watches: BTreeMap::new(),
            ports: Ports::default(),
            readers: Readers::default(),
            waiters: BTreeMap::new(),
            limits: BTreeMap::new(),
            limit_marks: BTreeMap::new(),
            stalls_due: Time::ZERO,
            lost_after_s,
            outgoing: BTreeMap::new(),
            replies: Vec::new(),
            notices: Vec::new(),
            teller,
            news: News::default(),
            meter: setup.meter,
            decisions: Decisions::default(),
            alerts: Alerts::default(),
            sent_mark: SentMark::default(),
            reports: Reports::default(),
            containment: Containment::default(),
            stalled: None,
            parked: Vec::new(),
            task_tokens: setup.task_tokens,
        };
        dispatcher.report_quarantined(&quarantined);
        dispatcher.recover();
        match dispatcher.journal.take_read_only() {
            Some(error) => dispatcher.stall(&error),
            None => dispatcher.identify(),
        }
        dispatcher.await_reports(report_grace_s);
        dispatcher
    }

    /// After a restart: what was placed is being carried out somewhere, and every node may come back.
    pub(crate) fn recover(&mut self) {
        let state = self.engine.state();
        let mut held = Vec::new();
        let mut running = Vec::new();
        for (job, spec, life) in state.jobs().filter(|(_, _, life)| !life.is_ended()) {
            let first = self.kept.first_of(job.0);
            self.live.entry(spec.user.clone().unwrap_or_default()).or_default().insert(job.0);
            self.rooms.add(first, self.specs.get(&first).map_or(0, |spec| spec.array_limit));
            if life.phase != Phase::Held {
                self.rooms.release(first, job.0);
            }
            if self.kept.arrays.contains_key(&first) {
                *self.array_live.entry(first).or_default() += 1;
            }
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
            self.executions.insert(job, execution);
        }
        let until = self.lost_at();
        self.missing = self.there().map(|node| (node, until)).collect();
        self.recover_part("time limits", |head| head.watch_limits(&running));
        self.recover_part("what devices do", |head| head.watch_runs(&running));
        self.recover_part("delays after failures", Self::delay_again);
        for (first, jobs) in self.by_array(&held) {
            let what = format!("the dependencies of job {first}, which stays held,");
            self.recover_part(&what, |head| head.gate_again(first, &jobs));
        }
        self.recover_part("jobs that are kept by their clients", Self::keep_again);
    }

    /// Tells those who wait for jobs that are over.
    pub(crate) fn release_waiters(&mut self) {
        let state = self.engine.state();
        let is_over = |job: &JobId| !state.has_job(*job) || state.job(*job).is_ended();
        let over: Vec<JobId> = self.waiters.keys().copied().filter(is_over).collect();
        over.into_iter().for_each(|job| self.release_waiter(job));
    }

    fn release_waiter(&mut self, job: JobId) {
        for waiter in self.waiters.remove(&job).unwrap_or_default() {
            self.reply(move || {
                let _ = waiter.send(());
            });
        }
    }

    /// Nodes that count as being there.
    fn there(&self) -> impl Iterator<Item = NodeId> {
        let state = self.engine.state();
        let nodes = (0..state.topology().nodes().len()).map(NodeId::from_index);
        nodes.filter(|&node| state.schedule().is_there(node))
    }

    pub(crate) fn handle(&mut self, input: Input) {
        match input {
            Input::Submit { .. } if self.reports.is_awaited(self.now()) => self.reports.defer(input),
            Input::Submit { specs, key, reply } => {
                let ids = self.attempt(|head| {
                    let ids = head.submit_once(specs, key);
                    crate::dispatcher::fault_points::point("submit");
                    ids
                });
                self.answer(reply, ids);
            }
            Input::Change { request, is_user, by, reply } => {
                let result = self.attempt(|head| {
                    let refused = head.change_jobs(&request, is_user);
                    head.note_change(&request, &refused, &by);
                    Ok(refused)
                });
                self.replies.push(Box::new(move |failed| {
                    let result = failed.map_or(result, |reason| Err(reason.to_owned()));
                    let refused = result.unwrap_or_else(|reason| refuse_all(&request.job_ids, &reason));
                    // The client may have gone.
                    let _ = reply.send(refused);
                }));
            }
            Input::ChangeMatching { request, owner, by, reply } => {
                let result = self.attempt(|head| Ok(head.change_matching(&request, owner.as_deref(), &by)));
                self.replies.push(Box::new(move |failed| {
                    let result = failed.map_or(result, |reason| Err(reason.to_owned()));
                    let changed = result.unwrap_or_else(|reason| ChangeJobsReply {
                        refused: refuse_all(&[0], &reason),
                        ..ChangeJobsReply::default()
                    });
                    // The client may have gone.
                    let _ = reply.send(changed);
                }));
            }
            Input::ChangeNode { command, node, reason, reply } => {
                let result = self.attempt(|head| head.change_node(command, node, reason));
                self.answer(reply, result);
            }
            // Everything is durable.
            Input::Ask(question) => question(self),
            Input::Wait { job, reply } => {
                if !self.engine.state().has_job(job) || self.engine.state().job(job).is_ended() {
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
            Input::ReadOutput { job, rank, generation, follow, pipe } => {
                self.read_output(job, rank, generation, follow, pipe);
            }
            Input::ReadOn { flow } => self.go_on_reading(&flow),
            Input::SetLimits { text, by, reply } => {
                let result = self.attempt(|head| head.set_limits(text, &by));
                self.answer(reply, result);
            }
            Input::SetPolicy { choice, by, reply } => {
                let result = self.attempt(|head| head.set_policy(choice, &by));
                self.answer(reply, result);
            }
            Input::Stop => {}
        }
    }

    /// Hands a command to the engine; whether it was taken is the sender's business.
    pub(crate) fn command(&mut self, command: Command) -> Result<(), Ignored> {
        self.command_as(Origin::of(&command), command)
    }

    /// The same on another account than the command itself says.
    pub(crate) fn command_as(&mut self, origin: Origin, command: Command) -> Result<(), Ignored> {
        let now = self.now();
        let Self { journal, kept, rooms, news, meter, .. } = self;
        self.engine.handle(
            now,
            command,
            &mut Tap { journal, kept, rooms, news, meter, origin, decided: None },
        )
    }

    /// A command that can come too late, in which case nothing has to be done.
    pub(crate) fn engine_command(&mut self, command: Command) {
        // On the wall clock an answer can be overtaken; the engine ignores what is stale.
        let _ = self.command(command);
    }

    /// Calls the policy if it is due.
    fn decide(&mut self, now: Time) {
        let (state, count, began) = (self.engine.state(), self.engine.decision_count(), Instant::now());
        let (waiting, free) = (state.counts().waiting, state.schedule().free_count());
        let mut decided = Decided { time_s: now.seconds(), waiting, free, ..Decided::default() };
        let Self { journal, kept, rooms, news, meter, .. } = self;
        let (origin, decided_here) = (Origin::Policy, Some(&mut decided));
        self.engine
            .settle(now, &mut Tap { journal, kept, rooms, news, meter, origin, decided: decided_here });
        if self.engine.decision_count() > count {
            self.note_decision(decided, began.elapsed());
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
            let news = std::mem::take(&mut self.news);
            if effects.is_empty() && news.is_empty() {
                return;
            }
            for &(node, job, cause) in &news.blamed {
                self.hold_against(node, job, cause);
            }
            for &job in &news.preempted {
                self.became(job, Moment::Preempted);
            }
            for effect in effects {
                match effect {
                    Effect::Launch { job, generation } => self.launch(job, generation),
                    Effect::Stop { job, generation } => {
                        self.stop_watching(job);
                        self.stop(job, generation);
                    }
                }
            }
            self.watch_limits(&news.launched);
            self.watch_runs(&news.launched);
            self.tell_paces(&news.launched);
            self.tell_paces(&news.rated);
            for &job in &news.launched {
                self.became(job, Moment::Started);
                self.open_gates(job);
            }
            for job in news.ended {
                self.after_end(job);
            }
        }
    }

    fn after_end(&mut self, job: JobId) {
        self.became_over(job);
        self.watches.remove(&job);
        let is_finished = self.engine.state().job(job).phase == Phase::Ended(JobEnd::Finished);
        self.kept.end(job.0, is_finished);
        self.progress.remove(&job);
        self.limit_marks.remove(&job);
        self.end_points(job);
        self.batches.end(job);
        self.fill_up(job);
        self.release_checkpoint(job);
        self.forget_spec(job);
        self.release_waiter(job);
        self.open_gates(job);
    }

    /// Deals with what is due: nodes that did not come back, jobs that reached their limit.
    pub(crate) fn expire(&mut self) {
        let now = self.now();
        crate::dispatcher::fault_points::point("expire");
        self.expire_delays();
        self.expire_stalls();
        self.warn_jobs();
        self.expire_leases(now);
        while let Some((&(at, job), &generation)) = self.limits.first_key_value() {
            if at > now {
                break;
            }
            self.limits.remove(&(at, job));
            let life = self.engine.state().job(job);
            if life.phase == Phase::Running && life.generation == generation {
                self.limit_reached(job);
            }
        }
        let gone: Vec<NodeId> =
            self.missing.iter().filter(|(_, until)| **until <= now).map(|(&node, _)| node).collect();
        for node in gone {
            self.missing.remove(&node);
            self.engine_command(Command::LoseNode(node));
            self.end_reading(node);
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

    pub(crate) fn send(&mut self, node: NodeId, message: to_worker::Message) {
        self.outgoing.entry(node).or_default().push(ToWorker { message: Some(message) });
    }

    /// Logs a message for the operator of the head.
    pub(crate) fn warn(&self, text: &str) {
        self.teller.warn(text);
    }

    /// The engine's present.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// What a job that is not over runs.
    pub(crate) fn spec(&self, job: JobId) -> Option<&Arc<WireSpec>> {
        self.specs.get(&self.kept.first_of(job.0))
    }

    /// How a job's process ended, for people: `None` while it lives.
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
