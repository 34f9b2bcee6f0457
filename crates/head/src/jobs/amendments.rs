//! Changes of submitted jobs: time limit, name, steps, and leases.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use wharf_core::{Command, Ignored, JobId, Phase, Time};
use wharf_job::check::{CheckError, Problem, check_label, wrong};
use wharf_policy::governor::Refused;
use wharf_proto::change_jobs_request::Change;
use wharf_proto::{ChangeJobsRequest, Refusal, StepSummary};

use crate::dispatcher::Dispatcher;
use crate::journal::record::Record;

/// Maximum number of stored steps of one run.
const STEPS_MAX: usize = 1000;

/// What is different about a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Amended {
    /// 0: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) time_limit_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Of its present or last run, by their numbers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) steps: BTreeMap<u32, StepRecord>,
}

/// A step of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StepRecord {
    name: String,
    nodes: Vec<String>,
    tasks: u32,
    start_s: f64,
    end_s: f64,
    exit_code: i32,
    signal: i32,
}

impl StepRecord {
    fn of(step: &StepSummary) -> Self {
        Self {
            name: step.name.clone(),
            nodes: step.nodes.clone(),
            tasks: step.tasks,
            start_s: step.start_s,
            end_s: step.end_s,
            exit_code: step.exit_code,
            signal: step.signal,
        }
    }

    fn to_wire(&self, id: u32) -> StepSummary {
        StepSummary {
            id,
            name: self.name.clone(),
            nodes: self.nodes.clone(),
            tasks: self.tasks,
            start_s: self.start_s,
            end_s: self.end_s,
            exit_code: self.exit_code,
            signal: self.signal,
        }
    }
}

impl Amended {
    /// Puts what is newly different over what was.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.time_limit_s = other.time_limit_s.or(self.time_limit_s);
        if let Some(name) = &other.name {
            self.name = Some(name.clone());
        }
        self.steps.extend(other.steps.clone());
        while self.steps.len() > STEPS_MAX {
            self.steps.pop_first();
        }
    }

    pub(crate) fn steps(&self) -> Vec<StepSummary> {
        self.steps.iter().map(|(&id, step)| step.to_wire(id)).collect()
    }
}

/// Whether what a request wants of jobs makes sense by itself.
pub(crate) fn check_change(request: &ChangeJobsRequest) -> Result<(), CheckError> {
    match request.change() {
        Change::TimeLimit if !(request.time_limit_s.is_finite() && request.time_limit_s >= 0.0) => {
            wrong("time_limit_s", Problem::NotAnAmount(request.time_limit_s.to_string()))
        }
        Change::Rename if request.name.is_empty() => wrong("name", Problem::Empty),
        Change::Rename => check_label("name", &request.name),
        Change::Step => {
            let Some(step) = &request.step else { return wrong("step", Problem::Empty) };
            check_label("step.name", &step.name)?;
            step.nodes.iter().try_for_each(|node| check_label("step.nodes", node))
        }
        _ => Ok(()),
    }
}

/// What a change is called in histories and in the audit log.
pub(crate) fn change_name(change: Change) -> &'static str {
    match change {
        Change::Cancel => "cancel",
        Change::Hold => "hold",
        Change::Release => "release",
        Change::Requeue => "requeue",
        Change::Priority => "priority",
        Change::Signal => "signal",
        Change::Begin => "begin",
        Change::Keep => "keep",
        Change::TimeLimit => "time-limit",
        Change::Rename => "rename",
        Change::Step => "step",
    }
}

/// Whether a change is made by a user: programs report steps and renew leases many times a minute.
pub(crate) fn is_by_people(change: Change) -> bool {
    !matches!(change, Change::Keep | Change::Step)
}

impl Dispatcher {
    /// Journals which user changed jobs.
    pub(crate) fn note_change(&mut self, request: &ChangeJobsRequest, refused: &[Refusal], by: &str) {
        if by.is_empty() || !is_by_people(request.change()) {
            return;
        }
        let refused: BTreeSet<u32> = refused.iter().map(|refusal| refusal.job_id).collect();
        for &job in request.job_ids.iter().filter(|job| !refused.contains(job)) {
            if JobId(job) >= self.engine.state().next_job() {
                continue;
            }
            let (change, by) = (change_name(request.change()).to_owned(), by.to_owned());
            let is_array = !request.elements_only && self.log.state.whole(job).len() > 1;
            self.note(match is_array {
                true => Record::ArrayChanged { job, change, by },
                false => Record::JobChanged { job, change, by },
            });
        }
    }

    /// Changes what the engine does not know of a job.
    pub(crate) fn amend(&mut self, job: JobId, request: &ChangeJobsRequest) -> Result<(), Ignored> {
        let is_ended = self.engine.state().job(job).is_ended();
        let mut amended = Amended::default();
        match request.change() {
            Change::Step => {
                let step = request.step.as_ref();
                amended.steps = step.map(|step| (step.id, StepRecord::of(step))).into_iter().collect();
            }
            _ if is_ended => return Err(Ignored::Stale),
            Change::Keep => {
                self.renew_lease(job);
                return Ok(());
            }
            Change::TimeLimit => {
                let limit_s = self.allowed_limit_s(job, request.time_limit_s);
                amended.time_limit_s = Some(limit_s.map_err(|_| Ignored::WrongPhase)?);
            }
            Change::Rename => amended.name = Some(request.name.clone()),
            _ => return Err(Ignored::WrongPhase),
        }
        let is_limit = amended.time_limit_s.is_some();
        self.note(Record::JobAmended { job: job.0, amended });
        if is_limit && self.engine.state().job(job).phase == Phase::Running {
            self.jobs.time_limits.unwatch(job);
            self.jobs.batches.unwarn(job);
            self.watch_limits(&[job]);
        }
        Ok(())
    }

    /// A time limit as the job's pool allows it, or fills it in; why not, where it is too long.
    pub(crate) fn allowed_limit_s(&self, job: JobId, limit_s: f64) -> Result<f64, Refused> {
        let spec = self.engine.state().spec(job);
        let user = spec.user.as_deref().unwrap_or_default();
        let terms = self.policy.limits().terms(user, &spec.gang, (limit_s > 0.0).then_some(limit_s));
        Ok(terms?.time_limit_s.unwrap_or(0.0))
    }

    /// Why limits forbid a change; none where they do not.
    pub(crate) fn forbids(&self, job: JobId, request: &ChangeJobsRequest, is_user: bool) -> Option<String> {
        if job >= self.engine.state().next_job() {
            return None;
        }
        match request.change() {
            Change::TimeLimit => {
                let refused = self.allowed_limit_s(job, request.time_limit_s).err();
                refused.map(|refused| refused.to_string())
            }
            Change::Priority if is_user => {
                let present = self.engine.state().spec(job).priority;
                (request.priority > present).then(|| {
                    format!("permission denied: a user may lower a priority only, and it is {present}")
                })
            }
            _ => None,
        }
    }

    /// The time limit of a job's run; 0: none.
    pub(crate) fn time_limit_s(&self, job: JobId) -> f64 {
        let own = self.log.state.amended.get(&job.0).and_then(|amended| amended.time_limit_s);
        own.or_else(|| Some(self.spec(job)?.time_limit_s)).unwrap_or_default()
    }

    /// The name of a job.
    pub(crate) fn name_of(&self, job: JobId) -> &str {
        let own = self.log.state.amended.get(&job.0).and_then(|amended| amended.name.as_deref());
        own.unwrap_or_else(|| &self.engine.state().spec(job).name)
    }

    fn lease_s(&self, job: JobId) -> f64 {
        self.spec(job).and_then(|spec| spec.batch.as_ref()).map_or(0.0, |batch| batch.lease_s)
    }

    /// Renews the lease of a job, if it has one.
    pub(crate) fn renew_lease(&mut self, job: JobId) {
        let lease_s = self.lease_s(job);
        if lease_s > 0.0 {
            let until = self.now().plus(lease_s.min(1e9));
            self.jobs.batches.renew(job, until);
        }
    }

    /// After a restart, every holder gets the full time of its lease.
    pub(crate) fn renew_leases(&mut self) {
        let live = self.engine.state().jobs().filter(|(_, _, life)| !life.is_ended());
        let live: Vec<JobId> = live.map(|(job, _, _)| job).collect();
        live.into_iter().for_each(|job| self.renew_lease(job));
    }

    /// Cancels jobs whose leases have expired.
    pub(crate) fn expire_leases(&mut self, now: Time) {
        for job in self.jobs.batches.pop_expired(now) {
            if !self.engine.state().job(job).is_ended() {
                self.note(Record::JobNoted { job: job.0, reason: "its client is gone".to_owned() });
                self.engine_command(Command::CancelJob(job));
            }
        }
    }
}
