//! What a run leaves behind. Reports are made from this and from nothing else.

mod measure;

use std::sync::Arc;

use wharf_core::{Chosen, JobId, JobSpec, NodeId, NodeShare, Reason, Reshape, Reshapes, Time};

pub use measure::{Measure, MeasureError};

/// The result of one simulated run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// One record per job of the trace, by job id.
    pub jobs: Vec<JobRecord>,
    /// Occupancy after each moment at which it changed; empty unless asked for.
    pub timeline: Vec<Sample>,
    /// Who ran where; empty unless asked for.
    pub spans: Vec<Span>,
    /// Events of the engine; under a reference's mechanism, the moments at which that checks the cluster.
    pub event_count: u64,
    /// Device-seconds held by running jobs.
    pub busy_device_s: f64,
    /// Devices in the cluster.
    pub device_count: u32,
    /// How metrics are to be defined.
    pub rules: MetricRules,
    /// What else was counted.
    pub tally: Tally,
    /// The jobs and the time that metrics are about; everything where `None`.
    pub measure: Option<Measure>,
    /// How arrivals filled the cluster, where the mechanism packs parts of devices and has no time.
    pub packing: Option<Packing>,
}

/// How arrivals filled a cluster. Element `k` of the curves is the mean over the arrivals up to which `k` percent of the cluster's devices
/// had been requested; `None` where there was no such arrival.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Packing {
    /// Jobs that arrived: those of the trace, without some or with copies, as the load requires.
    pub arrivals: u64,
    /// Those that were placed.
    pub placed: u64,
    /// Percentage of the cluster's devices that jobs held.
    pub allocation: Vec<Option<f64>>,
    /// Idle parts of devices that a typical job could not use, as a percentage of the cluster's devices.
    pub fragmentation: Vec<Option<f64>>,
    /// The same as a percentage of the idle parts.
    pub fragmentation_ratio: Vec<Option<f64>>,
}

impl Outcome {
    /// Restricts the metrics to a window; `jobs` are the specs by id.
    #[must_use]
    pub fn measured(mut self, measure: Measure, jobs: &[JobSpec]) -> Self {
        self.measure = Some(measure);
        self.tally.deadlines = self.deadlines(jobs);
        self
    }

    /// Whether a job counts in the metrics.
    pub fn counts(&self, job: &JobRecord) -> bool {
        self.rules.counts(job.job) && self.measure.is_none_or(|measure| measure.counts(job))
    }

    /// When the run was over: when the last job ended, or later, where jobs are left.
    pub fn over(&self) -> Option<Time> {
        let is_complete = self.jobs.iter().all(|job| job.end.is_some());
        let last_end = self.jobs.iter().filter_map(|job| job.end).max();
        if is_complete { last_end } else { last_end.max(self.tally.over) }
    }

    /// The time over which the use of devices is measured.
    pub fn observed(&self) -> Option<(Time, Time)> {
        let counted = || self.jobs.iter().filter(|job| self.counts(job));
        let over = self.over()?;
        match self.measure {
            None => Some((self.jobs.iter().map(|job| job.submit).min()?, over)),
            Some(Measure::Time { from, to }) => Some((from, to.min(over))),
            Some(Measure::Jobs { .. }) => {
                let end = counted().map(|job| job.end.unwrap_or(over)).max()?;
                Some((counted().map(|job| job.submit).min()?, end))
            }
        }
    }

    /// Device-seconds that jobs held within the observed time; a part of the run needs the timeline.
    pub fn observed_busy_s(&self) -> Option<f64> {
        if self.measure.is_none() {
            return Some(self.busy_device_s);
        }
        let (from, to) = self.observed()?;
        let ends = self.timeline.iter().skip(1).map(|sample| sample.time).chain([to]);
        let busy_s = self.timeline.iter().zip(ends).map(|(sample, end)| {
            let held_s = end.min(to).since(sample.time.max(from)).max(0.0);
            f64::from(sample.busy_devices) * held_s
        });
        (!self.timeline.is_empty()).then(|| busy_s.sum())
    }

    /// The outcome of those of the counted jobs that should be done by some time; `jobs` are by id.
    pub fn deadlines(&self, jobs: &[JobSpec]) -> Option<Deadlines> {
        let latest = |job: &JobRecord| job.end.unwrap_or(job.submit.plus(job.queue_s + job.run_s));
        let now = self.tally.over.or_else(|| self.jobs.iter().map(latest).max()).unwrap_or(Time::ZERO);
        let deadline = |job: JobId| jobs.get(job.index()).and_then(|spec| spec.deadline);
        let counted = self.jobs.iter().filter(|job| self.counts(job));
        Deadlines::count(counted.map(|job| (deadline(job.job), job.end)), now)
    }
}

/// What a mechanism counts beside jobs; nothing where it has no such thing.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Tally {
    /// When the run was over, where that is not when the last job was done: a run that is cut off after so many rounds.
    pub over: Option<Time>,
    /// Rounds.
    pub rounds: u64,
    /// Times that a job was put onto devices that it did not hold, its first start included.
    pub reschedules: u64,
    /// Times that a job kept all its devices from one round to the next.
    pub lease_extensions: u64,
    /// Jobs that ran in one round and were not done at the next.
    pub lease_chances: u64,
    /// What the devices cost while jobs held them, where there are prices.
    pub cost: Option<f64>,
    /// Decisions that were made by a simpler rule, because a solver gave no answer.
    pub solver_fallbacks: u64,
    /// Times that a job was started on other devices than the last time.
    pub reshapes: Reshapes,
    /// Jobs that should be done by some time, and whether they were; none where no job states this.
    pub deadlines: Option<Deadlines>,
    /// Jobs that were done by their deadline, where the mechanism counts them.
    pub deadlines_met: u64,
    /// Samples per second of all running jobs together, where that is known.
    pub throughput: Option<Throughput>,
}

/// The outcome of jobs that should be done by some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Deadlines {
    /// Done in time.
    pub met: u64,
    /// Done later, or not done though the time has come.
    pub missed: u64,
}

impl Deadlines {
    /// Counts jobs, each with its deadline and when it was done; `now` is the present. `None` where none has a deadline.
    pub fn count(jobs: impl IntoIterator<Item = (Option<Time>, Option<Time>)>, now: Time) -> Option<Self> {
        let mut counts = None;
        for (deadline, end) in jobs {
            let Some(deadline) = deadline else { continue };
            let counts: &mut Self = counts.get_or_insert_default();
            match end {
                Some(end) if end <= deadline => counts.met += 1,
                Some(_) => counts.missed += 1,
                None => counts.missed += u64::from(now > deadline),
            }
        }
        counts
    }
}

/// Samples per second of the whole cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// The mean over all rounds, or over the whole time where there are none.
    pub average: f64,
    /// The most in a round, or at any moment.
    pub peak: f64,
}

/// Whose definitions the metrics follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricRules {
    /// Wharf's own: makespan from first submission to last end, percentiles by linear interpolation.
    Wharf,
    /// Muri's `calc.py`: makespan is the last end, percentiles are `sorted[int(n * p)]`.
    Muri,
    /// Gavel's: makespan is the time at which the simulation has ended; devices count as in use from time 0 on.
    Gavel,
    /// Crius's: queueing time also counts jobs that are not done, but none that was dropped or never came; the rest is as with Wharf.
    Crius,
    /// Blox's: averages over tracked jobs only; the rest is as with Wharf.
    Blox {
        /// The first and the last job that count; all where `None`.
        track: Option<(JobId, JobId)>,
    },
}

impl MetricRules {
    /// Whether a job counts.
    pub fn counts(self, job: JobId) -> bool {
        match self {
            Self::Blox { track: Some((first, last)) } => (first..=last).contains(&job),
            _ => true,
        }
    }
}

/// One job's fate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobRecord {
    /// The job.
    pub job: JobId,
    /// The devices it asked for.
    pub devices: u32,
    /// When it was submitted.
    pub submit: Time,
    /// When it first ran.
    pub first_start: Option<Time>,
    /// When it was done.
    pub end: Option<Time>,
    /// Seconds submitted but not running.
    pub queue_s: f64,
    /// Seconds holding devices.
    pub run_s: f64,
    /// How often the scheduler stopped it before it was done, to give its devices to others or to move it.
    pub preemptions: u32,
    /// How often it was stopped because a node was lost.
    pub failures: u32,
}

impl JobRecord {
    /// The record of a job that nothing has happened to.
    pub fn new(job: JobId, spec: &JobSpec) -> Self {
        Self {
            job,
            devices: spec.gang.devices,
            submit: spec.submit,
            first_start: None,
            end: None,
            queue_s: 0.0,
            run_s: 0.0,
            preemptions: 0,
            failures: 0,
        }
    }

    /// Job completion time: submission to end.
    pub fn jct_s(&self) -> Option<f64> {
        self.end.map(|end| end.since(self.submit))
    }
}

/// Occupancy from this moment on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The moment.
    pub time: Time,
    /// Devices with at least one running job.
    pub busy_devices: u32,
    /// Jobs running.
    pub running: u32,
    /// Jobs waiting.
    pub waiting: u32,
}

/// A job on one node's devices for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// The job.
    pub job: JobId,
    /// Where it ran.
    pub share: NodeShare,
    /// From.
    pub start: Time,
    /// Until.
    pub end: Time,
}

/// What runs in a round, and what does not.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// Its number, from 0.
    pub index: u64,
    /// When it begins.
    pub time: Time,
    /// Jobs that run in it, in the order in which they were placed.
    pub running: Vec<RoundJob>,
    /// Jobs that wait.
    pub pending: Vec<JobId>,
}

/// A job in a round.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundJob {
    /// The job.
    pub job: JobId,
    /// The type of its devices.
    pub device_type: Arc<str>,
    /// How many it has.
    pub devices: u32,
    /// Where they are.
    pub nodes: Vec<NodeShare>,
    /// Iterations left when the round begins.
    pub remaining: f64,
    /// Jobs that share its devices.
    pub beside: Vec<JobId>,
}

/// Which part of its time each job, or each set of jobs that share devices, should spend on which type.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// When it was computed.
    pub time: Time,
    /// The types, in the order of the fractions.
    pub device_types: Vec<Arc<str>>,
    /// The jobs, each with a fraction for each type.
    pub fractions: Vec<(Vec<JobId>, Vec<f64>)>,
}

/// Receives a run's events as they happen, in order. All methods default to nothing.
pub trait Recorder {
    /// Whether `timeline` and `spans` of the outcome are wanted: they cost memory.
    fn wants_timeline(&self) -> bool {
        false
    }
    /// Whether everything that was to be seen has been seen: the run ends there.
    fn is_satisfied(&self) -> bool {
        false
    }
    /// Whether [`Recorder::round`] and [`Recorder::allocated`] are wanted: putting them together takes time.
    fn wants_rounds(&self) -> bool {
        false
    }
    /// A round begins.
    fn round(&mut self, _round: &Round) {}
    /// Shares of time were computed.
    fn allocated(&mut self, _allocation: &Allocation) {}
    /// A job entered the system.
    fn submitted(&mut self, _time: Time, _job: JobId) {}
    /// A job began to run; a `group` of more than one shares the devices in lockstep.
    fn started(&mut self, _time: Time, _job: JobId, _placement: &[NodeShare], _group: &[JobId]) {}
    /// A job is about to begin on other devices than it had last, which were those `before`; some of them went `to` another job.
    fn reshaped(
        &mut self,
        _time: Time,
        _job: JobId,
        _reshape: Reshape,
        _before: &[NodeShare],
        _to: Option<JobId>,
    ) {
    }
    /// A running job was chosen to make room for another; that it was stopped is told next.
    fn gave_way(&mut self, _time: Time, _job: JobId, _to: Option<JobId>, _chosen: Chosen) {}
    /// The scheduler stopped a running job before its end.
    fn preempted(&mut self, _time: Time, _job: JobId) {}
    /// A running job was stopped because a node was lost; a recorder that does not distinguish treats it as preempted.
    fn interrupted(&mut self, time: Time, job: JobId) {
        self.preempted(time, job);
    }
    /// A job whose wait reasons are wanted, where the mechanism has any.
    fn explained(&self) -> Option<JobId> {
        None
    }
    /// That job waits for this reason now.
    fn waits(&mut self, _time: Time, _job: JobId, _reason: &Reason) {}
    /// A job was done.
    fn finished(&mut self, _time: Time, _job: JobId) {}
    /// A node cannot be used any more.
    fn node_lost(&mut self, _time: Time, _node: NodeId) {}
    /// A lost node can be used again.
    fn node_returned(&mut self, _time: Time, _node: NodeId) {}
}

/// Records nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRecorder;

impl Recorder for NoRecorder {}

/// Records nothing itself, but lets the outcome have its `timeline` and `spans`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimelineOnly;

impl Recorder for TimelineOnly {
    fn wants_timeline(&self) -> bool {
        true
    }
}
