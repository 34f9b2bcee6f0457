//! Jobs come in, and people change their minds about them.

use std::ops::Range;
use std::sync::Arc;

use wharf_core::{Command, Ignored, JobId, JobSpec, Needs, NodeId, Phase, Time};
use wharf_proto::change_jobs_request::Change;
use wharf_proto::dependency::Kind;
use wharf_proto::{ChangeJobsRequest, Dependency, JobSpec as WireSpec, Refusal};

use crate::dispatcher::Dispatcher;
use crate::gates::{Edge, Gate, Verdict};
use crate::record::Record;
use crate::wire;

impl Dispatcher {
    /// Takes jobs in, all or none, and returns their ids.
    pub(crate) fn submit_all(&mut self, mut specs: Vec<WireSpec>) -> Result<Vec<u32>, String> {
        specs.iter_mut().try_for_each(|spec| self.fill_in(spec))?;
        let is_everywhere = |spec: &WireSpec| spec.gang.as_ref().is_some_and(|gang| gang.every_node);
        if specs.iter().any(|spec| is_everywhere(spec) && self.nodes_of_pool(&spec.pool).is_empty()) {
            return Err("a job for every node needs a node that is up in its pool".to_owned());
        }
        let mut ids = Vec::new();
        for spec in specs {
            if is_everywhere(&spec) {
                for node in self.nodes_of_pool(&spec.pool) {
                    ids.extend(self.submit(spec.clone(), Some(node)));
                }
            } else {
                ids.extend(self.submit(spec, None));
            }
        }
        Ok(ids)
    }

    /// Names of the nodes of a pool that can be given jobs; of all where the pool is not named.
    fn nodes_of_pool(&self, pool: &str) -> Vec<Arc<str>> {
        let state = self.engine.state();
        let nodes = state.topology().nodes().iter().enumerate();
        nodes
            .filter(|(index, _)| state.schedule().is_up(NodeId::from_index(*index)))
            .filter(|(_, node)| pool.is_empty() || *node.spec.pool == *pool)
            .map(|(_, node)| node.spec.name.clone())
            .collect()
    }

    fn submit(&mut self, mut spec: WireSpec, node: Option<Arc<str>>) -> Range<u32> {
        let core = wire::to_core(&spec, self.now(), self.epoch_unix_s);
        let topology = self.engine.state().topology();
        let mut core = wire::with_known_speed(core, &spec, topology, self.engine.perf());
        if node.is_some() {
            let needs = core.gang.needs.as_deref().cloned().unwrap_or_default();
            core.gang.needs = Some(Arc::new(Needs { node, ..needs }));
        }
        let first = self.engine.state().next_job();
        // Reckoned before the new jobs exist: none waits for itself.
        let edges = self.edges(&spec.dependencies, &core, first);
        // The event of the submission has the indexes: what an element runs does not repeat them all.
        let indexes = std::mem::take(&mut spec.array);
        if indexes.is_empty() {
            self.engine_command(Command::SubmitJob(core));
        } else {
            let count = indexes.len() as u32;
            self.kept.arrays.insert(first.0, count);
            self.array_live.insert(first.0, count);
            self.engine_command(Command::SubmitArray(core, indexes.as_slice().into()));
        }
        self.journal.keep_spec(&spec);
        self.kept.book(first.0, &spec.account);
        let jobs = first.0..self.engine.state().next_job().0;
        self.specs.insert(first.0, Arc::new(spec));
        self.gate(jobs.clone(), edges);
        jobs.clone().for_each(|job| self.keep(JobId(job)));
        jobs
    }

    /// Holds new jobs that must not start yet, and lets go of those that may.
    fn gate(&mut self, jobs: Range<u32>, edges: Vec<Edge>) {
        let Some(spec) = self.specs.get(&jobs.start) else { return };
        let (is_held, is_any, limit) = (spec.held, spec.any_dependency, spec.array_limit);
        let begin = Time::try_new(spec.begin_s - self.epoch_unix_s).filter(|begin| *begin > self.now());
        let correlated: Vec<Dependency> =
            spec.dependencies.iter().copied().filter(|one| one.kind() == Kind::AfterCorr).collect();
        if is_held {
            jobs.clone().for_each(|job| self.want_hold(job));
        }
        let waits = begin.is_some() || limit > 0;
        if is_held || waits || !edges.is_empty() || !correlated.is_empty() {
            jobs.clone().for_each(|job| self.engine_command(Command::HoldJob(JobId(job))));
        }
        if let Some(begin) = begin {
            jobs.clone().for_each(|job| self.wait_until(JobId(job), begin));
        }
        if correlated.is_empty() {
            self.add_gate(Gate { jobs: jobs.clone(), edges, is_any });
        } else {
            for job in jobs.clone() {
                let mut edges = edges.clone();
                edges.extend(correlated.iter().map(|one| self.counterpart(one.job_id, job)));
                self.add_gate(Gate { jobs: job..job + 1, edges, is_any });
            }
        }
        if waits {
            jobs.for_each(|job| self.let_go(JobId(job)));
        }
    }

    fn add_gate(&mut self, gate: Gate) {
        if gate.edges.is_empty() {
            return;
        }
        let state = self.engine.state();
        let life_of = |job: u32| (JobId(job) < state.next_job()).then(|| state.job(JobId(job)));
        let verdict = self.gates.add(&gate, life_of);
        self.open(&gate, verdict);
    }

    /// What a job depends on, as single jobs.
    fn edges(&self, dependencies: &[Dependency], spec: &JobSpec, before: JobId) -> Vec<Edge> {
        let mut edges = Vec::new();
        for dependency in dependencies {
            let kind = dependency.kind();
            match kind {
                Kind::AfterCorr => {}
                Kind::Singleton => {
                    let state = self.engine.state();
                    let same = state.jobs().filter(|(job, other, life)| {
                        *job < before
                            && !life.is_ended()
                            && other.name == spec.name
                            && other.user == spec.user
                    });
                    edges.extend(same.map(|(job, _, _)| Edge { kind, job: job.0 }));
                }
                Kind::After | Kind::AfterOk | Kind::AfterNotOk | Kind::AfterAny => {
                    let all = match dependency.array_index {
                        Some(index) => self.element(dependency.job_id, index).into_iter().collect(),
                        None => self.whole(dependency.job_id).collect::<Vec<u32>>(),
                    };
                    // A job that does not exist is one that can never end.
                    let missing = all.is_empty().then_some(u32::MAX);
                    edges.extend(all.into_iter().chain(missing).map(|job| Edge { kind, job }));
                }
            }
        }
        edges
    }

    /// A job, or all elements of the array that begins with it.
    pub(crate) fn whole(&self, job: u32) -> Range<u32> {
        job..job.saturating_add(self.kept.arrays.get(&job).copied().unwrap_or(1))
    }

    /// The element of an array with this index.
    fn element(&self, array: u32, index: u32) -> Option<u32> {
        let state = self.engine.state();
        let is_it = |job: &u32| {
            let id = JobId(*job);
            id < state.next_job()
                && state.spec(id).array.as_ref().is_some_and(|element| element.index == index)
        };
        self.whole(array).find(is_it)
    }

    /// The element of another array that has the same index.
    fn counterpart(&self, array: u32, job: u32) -> Edge {
        let index = self.engine.state().spec(JobId(job)).array.as_ref().map(|element| element.index);
        let other = index.and_then(|index| self.element(array, index));
        Edge { kind: Kind::AfterCorr, job: other.unwrap_or(u32::MAX) }
    }

    /// Lets jobs go, or cancels them where they can never start.
    fn open(&mut self, gate: &Gate, verdict: Verdict) {
        for job in gate.jobs.clone() {
            match verdict {
                Verdict::Impossible if self.stays_if_impossible(JobId(job)) => {
                    self.batches.strand(JobId(job))
                }
                Verdict::Impossible => self.engine_command(Command::CancelJob(JobId(job))),
                Verdict::Met => {
                    self.wait_after(JobId(job));
                    self.let_go(JobId(job));
                }
                Verdict::Open => {}
            }
        }
    }

    /// A job started or ended: others may have waited for that.
    pub(crate) fn open_gates(&mut self, job: JobId) {
        let judged = self.gates.judged(job, self.engine.state().job(job));
        for (gate, verdict) in judged {
            self.open(&gate, verdict);
        }
    }

    /// After a restart: held jobs wait for the same others again.
    pub(crate) fn gate_again(&mut self, held: &[JobId]) {
        for &job in held {
            let Some(spec) = self.spec(job).cloned() else { continue };
            let core = self.engine.state().spec(job).clone();
            let first = JobId(self.kept.first_of(job.0));
            let mut edges = self.edges(&spec.dependencies, &core, first);
            let correlated = spec.dependencies.iter().filter(|one| one.kind() == Kind::AfterCorr);
            edges.extend(correlated.map(|one| self.counterpart(one.job_id, job.0)));
            self.add_gate(Gate { jobs: job.0..job.0 + 1, edges, is_any: spec.any_dependency });
            if spec.array_limit > 0 {
                self.let_go(job);
            }
        }
    }

    /// Drops what a job runs once nobody can ask for it any more.
    pub(crate) fn forget_spec(&mut self, job: JobId) {
        let first = self.kept.first_of(job.0);
        match self.array_live.get_mut(&first) {
            Some(left) if *left > 1 => *left -= 1,
            _ => {
                self.array_live.remove(&first);
                self.specs.remove(&first);
            }
        }
    }

    /// Does what a person wants of jobs and tells which could not be changed.
    pub(crate) fn change_jobs(&mut self, request: &ChangeJobsRequest) -> Vec<Refusal> {
        let mut refused = Vec::new();
        for &job_id in &request.job_ids {
            let jobs =
                if request.elements_only { job_id..job_id.saturating_add(1) } else { self.whole(job_id) };
            let is_array = jobs.len() > 1;
            for job in jobs {
                if let Some(reason) = self.forbids(JobId(job), request) {
                    refused.push(Refusal { job_id: job, reason });
                    continue;
                }
                match self.change_job(JobId(job), request) {
                    // Of an array, those that are over stay as they are.
                    Err(Ignored::Stale | Ignored::WrongPhase) if is_array => {}
                    Err(ignored) => refused.push(Refusal { job_id: job, reason: ignored.to_string() }),
                    Ok(()) => {}
                }
            }
        }
        refused
    }

    fn change_job(&mut self, job: JobId, request: &ChangeJobsRequest) -> Result<(), Ignored> {
        if job >= self.engine.state().next_job() {
            return Err(Ignored::Unknown);
        }
        match request.change() {
            Change::Cancel => self.command(Command::CancelJob(job)),
            Change::Requeue => self.command(Command::RequeueJob(job)),
            Change::Priority => self.command(Command::SetPriority { job, priority: request.priority }),
            Change::Hold => {
                self.command(Command::HoldJob(job))?;
                self.want_hold(job.0);
                self.fill_up(job);
                Ok(())
            }
            Change::Release => self.release(job),
            Change::Signal => self.signal(job, request),
            Change::Begin => self.begin_at(job, request.begin_s),
            Change::Keep | Change::TimeLimit | Change::Rename | Change::Step => self.amend(job, request),
        }
    }

    fn want_hold(&mut self, job: u32) {
        if self.kept.holds.insert(job) {
            self.journal.note(self.now(), Record::HoldWanted { job });
        }
    }

    /// Nobody holds the job any more; it may still wait for others.
    fn release(&mut self, job: JobId) -> Result<(), Ignored> {
        if self.engine.state().job(job).phase != Phase::Held {
            return Err(Ignored::WrongPhase);
        }
        if self.kept.holds.remove(&job.0) {
            self.journal.note(self.now(), Record::HoldLifted { job: job.0 });
        }
        // One that waits after a failure has waited enough; one that has not begun yet begins when it is to.
        if self.engine.state().job(job).first_start.is_some() {
            self.kept.delays.remove(&job.0);
        }
        self.let_go(job);
        Ok(())
    }
}
