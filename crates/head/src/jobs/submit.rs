//! Submission and changes of jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use wharf_core::{Command, Ignored, JobId, Needs, NodeId, Phase};
use wharf_policy::governor::Refused;
use wharf_proto::change_jobs_request::Change;
use wharf_proto::dependency::Kind as DependencyKind;
use wharf_proto::{ChangeJobsRequest, Gang, JobSpec as WireSpec, Refusal};

use crate::dispatcher::Dispatcher;
use crate::jobs::accepted_requests::{AcceptedRequest, RequestKey};
use crate::jobs::dependencies::resolve::{Dependencies, DependencyError, Targets};
use crate::jobs::dependencies::{DependentJobs, Edge, Verdict};
use crate::jobs::request_limits::CapError;
use crate::jobs::wire;
use crate::journal::record::Record;

/// A job and the one node that it runs on, where there is one.
type Located = (WireSpec, Option<Arc<str>>);

/// A job or array that was checked and is ready to be submitted.
struct Admitted {
    spec: WireSpec,
    /// The one node that it runs on.
    node: Option<Arc<str>>,
    dependencies: Dependencies,
}

/// Jobs that are refused when they are submitted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum SubmitError {
    #[error(transparent)]
    Cap(#[from] CapError),
    #[error("job `{name}` is refused")]
    Dependency { name: String, source: DependencyError },
    #[error("job `{name}` is refused")]
    Limits { name: String, source: Refused },
    #[error(
        "a job for every node needs {devices} devices of each, but node {node} has {available}; ask for fewer, or for all with `gang: all`"
    )]
    NodeTooSmall { node: Arc<str>, devices: u32, available: u32 },
    #[error("a job for every node needs a node that is up in its pool")]
    NoNode,
}

impl Dispatcher {
    /// Submits jobs, all or none, and returns their ids. A repeated request returns the ids of the jobs that it submitted before.
    pub(crate) fn submit_once(
        &mut self,
        specs: Vec<WireSpec>,
        key: Option<RequestKey>,
    ) -> Result<Vec<u32>, SubmitError> {
        if let Some(ids) = key.as_ref().and_then(|key| self.log.state.accepted.jobs_of(key)) {
            return Ok(ids);
        }
        let ids = self.submit_all(specs)?;
        if let (Some(key), Some(&first)) = (key, ids.first()) {
            let request = AcceptedRequest { key, first, count: ids.len() as u32 };
            self.note(Record::RequestAccepted { request });
        }
        Ok(ids)
    }

    /// Submits jobs, all or none, and returns their ids.
    fn submit_all(&mut self, mut specs: Vec<WireSpec>) -> Result<Vec<u32>, SubmitError> {
        specs.iter_mut().try_for_each(|spec| self.fill_in(spec))?;
        let admitted = self.admit(specs)?;
        let ids: Vec<u32> = admitted.into_iter().flat_map(|one| self.submit(one)).collect();
        tracing::debug!(first = ids.first(), count = ids.len(), "jobs submitted");
        Ok(ids)
    }

    /// Checks everything about jobs that can be wrong, before the first of them is submitted.
    fn admit(&self, specs: Vec<WireSpec>) -> Result<Vec<Admitted>, SubmitError> {
        let mut jobs: Vec<Located> = Vec::new();
        for spec in specs {
            match spec.gang.as_ref().filter(|gang| gang.every_node) {
                Some(gang) => jobs.extend(self.on_every_node(&spec, gang)?),
                None => jobs.push((spec, None)),
            }
        }
        let size = |spec: &WireSpec| spec.array.len().max(1) as u64;
        let caps = &self.jobs.caps;
        caps.check_request_jobs(jobs.iter().map(|(spec, _)| size(spec)).sum(), "jobs and array elements")?;
        let mut users: BTreeMap<&str, u64> = BTreeMap::new();
        jobs.iter().for_each(|(spec, _)| *users.entry(&spec.user).or_default() += size(spec));
        for (user, count) in users {
            caps.check_user_jobs(user, count + self.jobs.live_of(user).len() as u64)?;
        }
        let mut targets = Targets::new(self.engine.state(), &self.log.state.arrays);
        let (mut resolved, mut edges) = (Vec::new(), 0);
        for (spec, _) in &jobs {
            let dependencies = targets
                .resolve(spec, u64::from(caps.request_jobs))
                .map_err(|source| SubmitError::Dependency { name: spec.name.clone(), source })?;
            edges += dependencies.edge_count(size(spec)) + self.singleton_edges(spec).len() as u64;
            caps.check_request_jobs(edges, "dependencies on single jobs")?;
            caps.check_user_edges(&spec.user, edges + self.jobs.edges_of(&spec.user))?;
            resolved.push(dependencies);
            targets.add(spec);
        }
        let admitted = jobs.into_iter().zip(resolved);
        Ok(admitted.map(|((spec, node), dependencies)| Admitted { spec, node, dependencies }).collect())
    }

    /// A job for each available node of its pool that its owner may use, with the gang's number of devices.
    fn on_every_node(&self, spec: &WireSpec, gang: &Gang) -> Result<Vec<Located>, SubmitError> {
        let state = self.engine.state();
        let access = state.access();
        let wanted = access.pool(&spec.pool);
        let nodes = state.topology().nodes().iter().enumerate();
        let nodes = nodes
            .filter(|(index, _)| state.schedule().is_up(NodeId::from_index(*index)))
            .map(|(_, node)| &node.spec)
            .filter(|node| wanted.is_empty() || access.pool(&node.pool) == wanted)
            .filter(|node| access.permits(&spec.user, &node.pool))
            .filter(|node| {
                gang.device_types.is_empty()
                    || gang.device_types.iter().any(|name| **name == *node.device_type)
            });
        let mut jobs = Vec::new();
        for node in nodes {
            let devices = if gang.every_device { node.devices.max(1) } else { gang.devices.max(1) };
            if devices > node.devices.max(1) {
                let (node, available) = (node.name.clone(), node.devices);
                return Err(SubmitError::NodeTooSmall { node, devices, available });
            }
            let own = WireSpec { gang: Some(Gang { devices, ..gang.clone() }), ..spec.clone() };
            jobs.push((own, Some(node.name.clone())));
        }
        if jobs.is_empty() {
            return Err(SubmitError::NoNode);
        }
        Ok(jobs)
    }

    fn submit(&mut self, admitted: Admitted) -> Range<u32> {
        let Admitted { mut spec, node, mut dependencies } = admitted;
        let core = wire::to_core(&spec, self.now(), self.clock.epoch_unix_s());
        let topology = self.engine.state().topology();
        let mut core = wire::with_known_speed(core, &spec, topology, self.engine.perf());
        if node.is_some() {
            let needs = core.gang.needs.as_deref().cloned().unwrap_or_default();
            core.gang.needs = Some(Arc::new(Needs { node, ..needs }));
        }
        let first = self.engine.state().next_job();
        // Before the new jobs exist: none waits for itself.
        dependencies.common.extend(self.singleton_edges(&spec));
        // The event of the submission has the indexes: what an element runs does not repeat them all.
        let indexes = std::mem::take(&mut spec.array);
        let is_array = !indexes.is_empty();
        if !is_array {
            self.engine_command(Command::SubmitJob(core));
        } else {
            let count = indexes.len() as u32;
            self.log.state.add_array(first.0, count);
            self.engine_command(Command::SubmitArray(core, indexes.as_slice().into()));
        }
        self.log.journal.keep_spec(&spec);
        self.log.state.book(first.0, &spec.account);
        let jobs = first.0..self.engine.state().next_job().0;
        self.jobs.add(jobs.clone(), is_array, spec);
        self.hold_new(jobs.clone(), dependencies);
        jobs.clone().for_each(|job| self.renew_lease(JobId(job)));
        jobs
    }

    /// The live jobs of the same owner and name, where a job is to run alone.
    fn singleton_edges(&self, spec: &WireSpec) -> Vec<Edge> {
        let kind = DependencyKind::Singleton;
        if !spec.dependencies.iter().any(|one| one.kind() == kind) {
            return Vec::new();
        }
        let state = self.engine.state();
        let same =
            self.jobs.live_of(&spec.user).iter().filter(|&&job| *state.spec(JobId(job)).name == *spec.name);
        same.map(|&job| Edge { kind, job }).collect()
    }

    /// Holds new jobs that must not start yet, and releases those that may.
    fn hold_new(&mut self, jobs: Range<u32>, dependencies: Dependencies) {
        let Some(spec) = self.jobs.spec(jobs.start) else { return };
        let (is_held, is_any, limit) = (spec.held, spec.any_dependency, spec.array_limit);
        let user = spec.user.clone();
        let begin = self.clock.future(spec.begin_s);
        if is_held {
            jobs.clone().for_each(|job| self.hold_by_user(job));
        }
        let waits = begin.is_some() || limit > 0;
        if is_held || waits || !dependencies.is_empty() {
            jobs.clone().for_each(|job| self.engine_command(Command::HoldJob(JobId(job))));
        }
        if let Some(begin) = begin {
            jobs.clone().for_each(|job| self.wait_until(JobId(job), begin));
        }
        for group in dependencies.into_groups(jobs.clone(), is_any, &user) {
            self.add_dependencies(&group);
        }
        if waits {
            jobs.for_each(|job| self.release_if_ready(JobId(job)));
        }
    }

    fn add_dependencies(&mut self, group: &DependentJobs) {
        if group.edges.is_empty() {
            return;
        }
        let state = self.engine.state();
        let life_of = |job: u32| state.has_job(JobId(job)).then(|| state.job(JobId(job)));
        let verdict = self.jobs.dependencies.add(group, life_of);
        self.open(group, verdict);
    }

    /// The indexes of the elements of the array that begins with a job.
    pub(crate) fn elements(&self, first: JobId) -> BTreeSet<u32> {
        let state = self.engine.state();
        let index = |job| state.spec(JobId(job)).array.as_ref().map(|element| element.index);
        self.log.state.whole(first.0).filter_map(index).collect()
    }

    /// Releases jobs, or cancels them where they can never start.
    fn open(&mut self, group: &DependentJobs, verdict: Verdict) {
        if verdict == Verdict::Open {
            return;
        }
        let until = self.after_delay(group.jobs.start).filter(|until| *until > self.now());
        for job in group.jobs.clone().map(JobId) {
            if self.engine.state().job(job).phase != Phase::Held {
                continue;
            }
            match verdict {
                Verdict::Impossible if self.stays_if_impossible(job) => self.jobs.batches.strand(job),
                Verdict::Impossible => self.engine_command(Command::CancelJob(job)),
                Verdict::Met | Verdict::Open => {
                    if let Some(until) = until {
                        self.wait_until(job, until);
                    }
                    self.release_if_ready(job);
                }
            }
        }
    }

    /// A job started or ended: others may have waited for that.
    pub(crate) fn resolve_dependents(&mut self, job: JobId) {
        let judged = self.jobs.dependencies.judged(job, self.engine.state().job(job));
        for (group, verdict) in judged {
            self.open(&group, verdict);
        }
    }

    /// After a restart: the held elements of an array, by id, wait for the same others again.
    pub(crate) fn restore_dependencies(&mut self, first: u32, jobs: &[u32]) {
        let Some(spec) = self.jobs.spec(first).cloned() else { return };
        let (Some(&start), Some(&end)) = (jobs.first(), jobs.last()) else { return };
        let mut targets = Targets::new(self.engine.state(), &self.log.state.arrays);
        let mut dependencies = targets.recorded(&spec, start..end + 1);
        let earlier = self.singleton_edges(&spec);
        dependencies.common.extend(earlier.into_iter().filter(|edge| edge.job < first));
        for group in dependencies.into_groups(start..end + 1, spec.any_dependency, &spec.user) {
            self.add_dependencies(&group);
        }
        if spec.array_limit > 0 {
            jobs.iter().for_each(|&job| self.release_if_ready(JobId(job)));
        }
    }

    /// Changes jobs and returns those that could not be changed.
    pub(crate) fn change_jobs(&mut self, request: &ChangeJobsRequest, is_user: bool) -> Vec<Refusal> {
        let mut refused = Vec::new();
        let wanted: BTreeSet<u32> = request.job_ids.iter().copied().collect();
        let jobs_of = |job_id: u32| {
            if request.elements_only {
                job_id..job_id.saturating_add(1)
            } else {
                self.log.state.whole(job_id)
            }
        };
        let count = wanted.iter().map(|&job_id| jobs_of(job_id).len() as u64).sum();
        if let Err(reason) = self.jobs.caps.check_request_jobs(count, "jobs and array elements") {
            let reason = reason.to_string();
            return wanted.into_iter().map(|job_id| Refusal { job_id, reason: reason.clone() }).collect();
        }
        for job_id in wanted {
            let jobs = if request.elements_only {
                job_id..job_id.saturating_add(1)
            } else {
                self.log.state.whole(job_id)
            };
            let is_array = jobs.len() > 1;
            for job in jobs {
                if let Some(reason) = self.forbids(JobId(job), request, is_user) {
                    refused.push(Refusal { job_id: job, reason });
                    continue;
                }
                match self.change_job(JobId(job), request) {
                    // Of an array, those that have ended stay as they are.
                    Err(Ignored::Stale | Ignored::WrongPhase) if is_array => {}
                    Err(ignored) => refused.push(Refusal { job_id: job, reason: ignored.to_string() }),
                    Ok(()) => {}
                }
            }
        }
        refused
    }

    fn change_job(&mut self, job: JobId, request: &ChangeJobsRequest) -> Result<(), Ignored> {
        if !self.engine.state().has_job(job) {
            return Err(Ignored::Unknown);
        }
        match request.change() {
            Change::Cancel => self.command(Command::CancelJob(job)),
            Change::Requeue => self.command(Command::RequeueJob(job)),
            Change::Priority => self.command(Command::SetPriority { job, priority: request.priority }),
            Change::Hold => {
                self.command(Command::HoldJob(job))?;
                self.hold_by_user(job.0);
                self.fill_array(job);
                Ok(())
            }
            Change::Release => self.release(job),
            Change::Signal => self.signal(job, request),
            Change::Begin => self.begin_at(job, request.begin_s),
            Change::Keep | Change::TimeLimit | Change::Rename | Change::Step => self.amend(job, request),
        }
    }

    fn hold_by_user(&mut self, job: u32) {
        if !self.log.state.holds.contains(&job) {
            self.note(Record::HoldWanted { job });
        }
    }

    /// Lifts a user's hold; the job may still wait for others.
    fn release(&mut self, job: JobId) -> Result<(), Ignored> {
        if self.engine.state().job(job).phase != Phase::Held {
            return Err(Ignored::WrongPhase);
        }
        if self.log.state.holds.contains(&job.0) {
            self.note(Record::HoldLifted { job: job.0 });
        }
        // One that waits after a failure has waited enough; one that has not begun yet begins when it is to.
        if self.engine.state().job(job).first_start.is_some() {
            self.log.state.end_delay(job);
        }
        self.release_if_ready(job);
        Ok(())
    }
}
