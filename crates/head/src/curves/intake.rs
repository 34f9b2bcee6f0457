//! Points of metrics from workers, on their way to the store.

use std::collections::{BTreeMap, VecDeque};

use wharf_core::{Command, JobId, NodeId, Phase, Time};
use wharf_curve::{NAMES_MAX, Number, Point, Refused, Segment, check_name, shown};
use wharf_proto::{ForgetTask, MetricPoints, OnNan, RefusedMetrics, TaskId, to_worker};

use super::{Batch, CurveStore};
use crate::dispatcher::Dispatcher;
use crate::journal::record::Record;
use crate::tasks::progress::Progress;

/// Points that one message of a worker may have.
const MESSAGE_POINTS_MAX: usize = 4096;
/// Earlier runs of a job whose nodes may still send points.
const RUNS_MAX: usize = 16;
/// How long a worker keeps a task that has ended because its points are not stored, in seconds.
const FORGET_AFTER_S: f64 = 60.0;
/// How often the store is asked whether it has them, in seconds.
const LOOK_S: f64 = 0.2;

/// How the reason of a job ends that a metric has stopped.
const ON_NAN: &str = "(on_nan)";

/// A run of a job: its generation and its nodes by rank.
type Run = (u32, Vec<NodeId>);

/// Points on their way to the store, and tasks that have ended and wait until theirs are stored.
pub(crate) struct CurveIntake {
    /// None: no points are stored.
    store: Option<CurveStore>,
    waiting: VecDeque<Forget>,
    /// The latest points of jobs that run.
    tickets: BTreeMap<JobId, u64>,
    /// The latest runs of jobs that are not over.
    runs: BTreeMap<JobId, VecDeque<Run>>,
}

/// A task that has ended and that its worker may forget once its points are stored.
struct Forget {
    ticket: u64,
    since: Time,
    node: NodeId,
    task: TaskId,
}

impl CurveIntake {
    pub(crate) fn new(store: Option<CurveStore>) -> Self {
        Self { store, waiting: VecDeque::new(), tickets: BTreeMap::new(), runs: BTreeMap::new() }
    }

    /// The store, where there is one.
    pub(crate) fn store(&self) -> Option<&CurveStore> {
        self.store.as_ref()
    }

    /// When the store is to be asked again.
    pub(crate) fn next_due(&self, now: Time) -> Option<Time> {
        (!self.waiting.is_empty()).then(|| now.plus(LOOK_S))
    }

    /// Notes which nodes run a job from now on.
    pub(crate) fn note_run(&mut self, job: JobId, generation: u32, nodes: Vec<NodeId>) {
        let runs = self.runs.entry(job).or_default();
        runs.push_back((generation, nodes));
        if runs.len() > RUNS_MAX {
            runs.pop_front();
        }
    }

    /// The nodes of a run of a job that is not over, by rank, where it is one of the latest.
    fn nodes_of(&self, job: JobId, generation: u32) -> Option<&[NodeId]> {
        let run = self.runs.get(&job)?.iter().find(|(of, _)| *of == generation)?;
        Some(&run.1)
    }

    /// Queues points for the store. Returns how many were dropped lately.
    fn add(&mut self, batch: Batch) -> u64 {
        let Some(store) = &self.store else { return 0 };
        let job = JobId(batch.job);
        let ticket = store.add(batch);
        self.tickets.extend(ticket.map(|ticket| (job, ticket)));
        store.take_dropped()
    }

    fn is_stored(&self, ticket: u64) -> bool {
        self.store.as_ref().is_none_or(|store| store.is_stored(ticket))
    }

    /// Whether a worker may forget a task that has ended now; otherwise the task waits until its points are stored.
    fn may_forget(&mut self, node: NodeId, task: TaskId, now: Time) -> bool {
        let ticket = self.tickets.get(&JobId(task.job_id)).copied();
        match ticket.filter(|&ticket| !self.is_stored(ticket)) {
            Some(ticket) => {
                self.waiting.push_back(Forget { ticket, since: now, node, task });
                false
            }
            None => true,
        }
    }

    /// Takes out the next task whose points are stored by now, or that has waited long enough.
    fn pop_stored(&mut self, now: Time) -> Option<(NodeId, TaskId)> {
        let first = self.waiting.front()?;
        if !self.is_stored(first.ticket) && now.since(first.since) < FORGET_AFTER_S {
            return None;
        }
        self.waiting.pop_front().map(|Forget { node, task, .. }| (node, task))
    }

    /// Drops the records of a job that has ended.
    pub(crate) fn end(&mut self, job: JobId) {
        self.runs.remove(&job);
        self.tickets.remove(&job);
    }
}

/// Metrics that a task could not report, with a name that can be shown.
pub(crate) fn refused_metrics(message: RefusedMetrics) -> Refused {
    Refused { points: message.points, example: shown(&message.example) }
}

impl Dispatcher {
    /// The rank of a node's task in a run of a job: the present run, the last one, or one that is remembered.
    fn rank_of(&self, task: TaskId, node: NodeId) -> Option<u32> {
        let job = JobId(task.job_id);
        let state = self.engine.state();
        if !state.has_job(job) {
            return None;
        }
        let position = |nodes: &[NodeId]| nodes.iter().position(|own| *own == node).map(|rank| rank as u32);
        if let Some(execution) = self.tasks.execution(job).filter(|run| run.generation == task.generation) {
            let nodes: Vec<NodeId> = execution.tasks.iter().map(|task| task.share.node).collect();
            return position(&nodes);
        }
        let life = state.job(job);
        if life.process_generation() == task.generation {
            let nodes: Vec<NodeId> = life.left().iter().map(|share| share.node).collect();
            return position(&nodes);
        }
        position(self.tasks.curves.nodes_of(job, task.generation)?)
    }

    /// Hands the points of a message to the store.
    pub(crate) fn take_points(
        &mut self,
        node: NodeId,
        task: TaskId,
        points: Vec<MetricPoints>,
        refused: Option<&Refused>,
    ) {
        if points.is_empty() && refused.is_none() {
            return;
        }
        let Some(rank) = self.rank_of(task, node) else { return };
        let mut room = MESSAGE_POINTS_MAX;
        let segment = |one: MetricPoints| {
            let points = one.step.iter().zip(&one.time_s).zip(&one.value);
            let points = points.map(|((&step, &time_s), &value)| Point { step, time_s, value });
            let points: Vec<Point> = points.filter(Point::is_valid).take(room).collect();
            room -= points.len();
            (one.name, Segment { stride: one.stride, points })
        };
        let named = points.into_iter().filter(|one| check_name(&one.name).is_ok()).take(NAMES_MAX);
        let points: Vec<(String, Segment)> =
            named.map(segment).filter(|(_, segment)| !segment.points.is_empty()).collect();
        let (run, refused) = (task.generation, refused.cloned());
        if self.tasks.curves.add(Batch { job: task.job_id, run, rank, points, refused }) > 0 {
            self.alert(
                "points of metrics were dropped because the metric store cannot be written fast enough; they are sent again when \
                 workers connect again",
            );
        }
    }

    /// Lets a worker forget a task that has ended, now or when its points are stored.
    pub(crate) fn send_forget(&mut self, job: JobId, generation: u32, node: NodeId) {
        let task = TaskId { job_id: job.0, generation };
        if self.tasks.curves.may_forget(node, task, self.clock.now()) {
            self.send(node, to_worker::Message::Forget(ForgetTask { task: Some(task) }));
        }
    }

    /// Lets workers forget the tasks whose points are stored by now.
    pub(crate) fn release_stored(&mut self) {
        let now = self.now();
        while let Some((node, task)) = self.tasks.curves.pop_stored(now) {
            self.send(node, to_worker::Message::Forget(ForgetTask { task: Some(task) }));
        }
    }

    /// Whether a job is to fail because a metric is NaN or infinite.
    pub(crate) fn fails_by_nan(&self, job: JobId) -> bool {
        let is_noted = self.log.state.reasons.get(&job.0).is_some_and(|reason| reason.ends_with(ON_NAN));
        is_noted && self.spec(job).is_some_and(|spec| spec.on_nan() == OnNan::NanFail)
    }

    /// Acts on metrics of a job that are NaN or infinite, as its owner wants it.
    pub(crate) fn look_at_numbers(&mut self, job: JobId) {
        let Some(progress) = self.tasks.progress(job) else { return };
        let Some(remark) = progress.not_finite() else { return };
        let on_nan = self.spec(job).map_or(OnNan::NanIgnore, |spec| spec.on_nan());
        let is_running = self.engine.state().job(job).phase == Phase::Running;
        if on_nan == OnNan::NanIgnore || !is_running || self.log.state.reasons.contains_key(&job.0) {
            return;
        }
        let how = if on_nan == OnNan::NanFail { "fails" } else { "is stopped" };
        let reason = format!("{remark}: the job {how} {ON_NAN}");
        self.note(Record::JobNoted { job: job.0, reason });
        if on_nan == OnNan::NanStop {
            return self.engine_command(Command::CancelJob(job));
        }
        self.stop_tasks(job);
    }
}

impl Progress {
    /// Takes the latest values of metrics.
    pub(crate) fn take_metrics(&mut self, metrics: BTreeMap<String, f64>) {
        for (name, value) in metrics {
            let has_room = self.metrics.len() < NAMES_MAX || self.metrics.contains_key(&name);
            if has_room && check_name(&name).is_ok() {
                self.metrics.insert(name, Number(value));
            }
        }
        let not_finite = self.metrics.iter().find(|(_, number)| !number.0.is_finite());
        match not_finite {
            Some((name, _)) if self.not_finite.as_ref().is_some_and(|(known, _)| known == name) => {}
            Some((name, _)) => self.not_finite = Some((name.clone(), self.iterations)),
            None => self.not_finite = None,
        }
    }

    /// The metric that is not a finite number, in words.
    fn not_finite(&self) -> Option<String> {
        let (name, step) = self.not_finite.as_ref()?;
        let number = self.metrics.get(name)?;
        Some(format!("metric {name} is {number} at iteration {step}"))
    }

    /// What is to be known about the metrics.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let refused = self.refused.as_ref().map(|refused| {
            format!(
                "metric {} and perhaps others are not stored: a job has at most {NAMES_MAX} metrics, with names of 1 to 64 bytes \
                 without control characters",
                refused.example
            )
        });
        self.not_finite().into_iter().chain(refused).collect()
    }
}
