//! Jobs: submission, changes, dependencies, failures and what the head stores of them.

pub(crate) mod accepted_requests;
pub(crate) mod amendments;
pub(crate) mod array_limits;
pub(crate) mod batch;
pub(crate) mod checkpoints;
pub(crate) mod dependencies;
pub(crate) mod failures;
mod live_jobs;
pub(crate) mod names;
pub(crate) mod ray;
pub(crate) mod request_limits;
pub(crate) mod secrets;
pub(crate) mod submit;
pub(crate) mod time_limits;
pub(crate) mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use tokio::sync::oneshot;
use wharf_core::{JobId, Time};
use wharf_proto::JobSpec as WireSpec;

use array_limits::ArrayLimits;
use batch::Batches;
use checkpoints::CheckpointSettings;
use dependencies::OpenDependencies;
use live_jobs::LiveJobs;
use request_limits::Caps;
use secrets::Vault;
use time_limits::{Delays, FruitlessRuns, TimeLimits};

/// Live jobs: what they run, and what they wait for.
pub(crate) struct Jobs {
    pub(crate) caps: Caps,
    pub(crate) checkpoints: CheckpointSettings,
    /// Follows the engine's events.
    pub(crate) array_limits: ArrayLimits,
    pub(crate) time_limits: TimeLimits,
    pub(crate) fruitless_runs: FruitlessRuns,
    vault: Vault,
    live: LiveJobs,
    dependencies: OpenDependencies,
    batches: Batches,
    delays: Delays,
    /// Clients that wait for the ends of jobs.
    waiters: BTreeMap<JobId, Vec<oneshot::Sender<()>>>,
}

impl Jobs {
    pub(crate) fn new(caps: Caps, checkpoints: CheckpointSettings, vault: Vault) -> Self {
        Self {
            caps,
            checkpoints,
            array_limits: ArrayLimits::default(),
            time_limits: TimeLimits::default(),
            fruitless_runs: FruitlessRuns::default(),
            vault,
            live: LiveJobs::default(),
            dependencies: OpenDependencies::default(),
            batches: Batches::default(),
            delays: Delays::default(),
            waiters: BTreeMap::new(),
        }
    }

    /// Takes over what live jobs run from a replayed journal. Clients that wait for jobs stay.
    pub(crate) fn load(&mut self, specs: BTreeMap<u32, Arc<WireSpec>>) {
        self.live = LiveJobs::new(specs);
        self.array_limits = ArrayLimits::default();
        self.dependencies = OpenDependencies::default();
        self.batches = Batches::default();
        self.delays = Delays::default();
        self.time_limits.reset();
    }

    /// Adds a live job of the journal. `first` is the first job of its array, or itself.
    pub(crate) fn restore(&mut self, job: JobId, first: u32, is_array: bool, is_held: bool, user: Arc<str>) {
        self.live.restore(job.0, first, is_array, user);
        self.array_limits.add(first, self.live.spec(first).map_or(0, |spec| spec.array_limit));
        if !is_held {
            self.array_limits.release(first, job.0);
        }
    }

    /// Adds submitted jobs with consecutive ids.
    fn add(&mut self, jobs: Range<u32>, is_array: bool, spec: WireSpec) {
        self.array_limits.add(jobs.start, spec.array_limit);
        self.live.add(jobs, is_array, spec);
    }

    /// A job has ended: it has no lease and no time limit any more.
    pub(crate) fn end_run(&mut self, job: JobId) {
        self.time_limits.remove(job);
        self.fruitless_runs.remove(job);
        self.batches.end(job);
    }

    /// Removes a job that has ended. `first` is the first job of its array, or itself.
    pub(crate) fn end(&mut self, job: JobId, first: u32, user: Option<&str>) {
        if self.live.remove(job.0, first, user) {
            self.array_limits.remove(first);
        }
    }

    /// What a job runs, by the first job of its array or its own.
    pub(crate) fn spec(&self, first: u32) -> Option<&Arc<WireSpec>> {
        self.live.spec(first)
    }

    /// Live jobs, by id.
    pub(crate) fn live(&self) -> &BTreeSet<u32> {
        self.live.ids()
    }

    /// Live jobs of a user.
    pub(crate) fn live_of(&self, user: &str) -> &BTreeSet<u32> {
        self.live.of_user(user)
    }

    /// Jobs and array elements that a held job waits for.
    pub(crate) fn dependencies_of(&self, job: JobId) -> &[dependencies::Edge] {
        self.dependencies.of(job).map_or(&[], |group| &group.edges)
    }

    /// How many dependencies on single jobs the jobs of a user have.
    pub(crate) fn edges_of(&self, user: &str) -> u64 {
        self.dependencies.edges_of(user)
    }

    /// The secrets of a job, opened.
    pub(crate) fn secrets(&self, spec: &WireSpec) -> Result<BTreeMap<String, String>, secrets::SecretsError> {
        self.vault.open(spec)
    }

    /// Adds a client that waits for the end of a job.
    pub(crate) fn add_waiter(&mut self, job: JobId, waiter: oneshot::Sender<()>) {
        self.waiters.entry(job).or_default().push(waiter);
    }

    /// Takes out the clients that wait for the end of a job.
    pub(crate) fn take_waiters(&mut self, job: JobId) -> Vec<oneshot::Sender<()>> {
        self.waiters.remove(&job).unwrap_or_default()
    }

    /// Jobs whose ends clients wait for.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = JobId> {
        self.waiters.keys().copied()
    }

    /// When something of a job is due by itself.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let due = [self.time_limits.next_due(), self.delays.next_due(), self.batches.next_due()];
        due.into_iter().flatten().min()
    }
}
