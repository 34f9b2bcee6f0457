//! What decisions see and change: the table, the jobs and the queues.

use std::sync::Arc;

use super::job::{Job, Quota};
use super::numbers::rounded;
use super::query::{INFEASIBLE, Lookup, Mode, NEVER_S, Question};
use super::site::{Kind, Shape, Site};
use super::table::{Owner, Table};

/// What tuning a job for new devices costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// Seconds per device.
    pub per_device_s: f64,
    /// Most seconds.
    pub most_s: f64,
}

impl Tuning {
    /// Seconds for so many devices.
    pub fn cost_s(self, devices: u32) -> f64 {
        (self.per_device_s * f64::from(devices)).min(self.most_s)
    }
}

/// Defects of the published simulator that are corrected, one by one, to see what each is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fixes {
    /// What a job has done stays done, whatever its speed is later.
    pub progress: bool,
    /// Tuning costs progress, all of it.
    pub overhead: bool,
    /// Gains count once.
    pub gains: bool,
    /// A plan must leave every job where it can run.
    pub feasibility: bool,
    /// Waiting jobs are tried in every round.
    pub retry: bool,
}

/// What decisions can be asked to do otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Decides by what jobs are billed by.
    pub sched_with_opt: bool,
    /// Otherwise by data parallelism alone.
    pub force_dp: bool,
    /// A data-parallel copy must fit a device.
    pub checks_memory: bool,
    /// Deadlines count.
    pub has_deadlines: bool,
    /// What is not done as published.
    pub fixes: Fixes,
    /// Seconds of a round.
    pub round_s: f64,
    /// Most devices of a job.
    pub devices_max: u32,
    /// What tuning costs with a pruned search space.
    pub pruned: Tuning,
    /// What it costs without.
    pub unpruned: Tuning,
    /// Levels of the downgrade search; by the number of running jobs where `None`.
    pub depth: Option<u32>,
    /// Rounds of rearranging in one search.
    pub local_budget: u32,
    /// Rounds of rearranging in one pass.
    pub global_budget: u32,
    /// Times that waiting jobs are gone through in one pass.
    pub restarts_max: u32,
    /// Upgrades in one pass.
    pub upgrades_max: u32,
    /// Migrations in one pass.
    pub migrations_max: u32,
}

impl Default for Options {
    /// The published numbers.
    fn default() -> Self {
        Self {
            sched_with_opt: false,
            force_dp: true,
            checks_memory: true,
            has_deadlines: false,
            fixes: Fixes::default(),
            round_s: 300.0,
            devices_max: 16,
            pruned: Tuning { per_device_s: 10.0, most_s: 40.0 },
            unpruned: Tuning { per_device_s: 150.0, most_s: 600.0 },
            depth: None,
            local_budget: 256,
            global_budget: 4096,
            restarts_max: 100,
            upgrades_max: 10,
            migrations_max: 4096,
        }
    }
}

/// The outcome of a job that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tried {
    /// It has devices.
    Runs,
    /// It waits.
    Waits,
    /// It waits, and so do all behind it that ask for its type.
    Blocks,
}

impl Tried {
    /// Runs, or blocks.
    pub(super) const fn or_blocks(is_seated: bool) -> Self {
        if is_seated { Self::Runs } else { Self::Blocks }
    }

    /// Runs, or waits.
    pub(super) const fn or_waits(is_seated: bool) -> Self {
        if is_seated { Self::Runs } else { Self::Waits }
    }
}

/// Everything that decisions see. Jobs are known by their place in `jobs`.
#[derive(Clone, Debug)]
pub struct World {
    /// Who has which device.
    pub table: Table,
    /// All jobs that ever came.
    pub jobs: Vec<Job>,
    /// Jobs that run, in the order in which they were started.
    pub running: Vec<u32>,
    /// Jobs that wait, in the order in which they came.
    pub pending: Vec<u32>,
    /// Jobs that came since the last decision.
    pub submitted: Vec<u32>,
    /// Jobs that are profiled before they are submitted, and those that came and wait for it.
    pub profiling: Vec<u32>,
    /// Jobs that ended since the last decision; they still own their devices and are in no queue.
    pub ended: Vec<u32>,
    /// Now.
    pub timer: f64,
    /// The request.
    pub options: Options,
    /// How fast jobs run.
    pub lookup: Lookup,
}

impl World {
    /// Idle machines, no jobs.
    pub fn new(site: Arc<Site>, lookup: Lookup, options: Options) -> Self {
        Self {
            table: Table::new(site),
            jobs: Vec::new(),
            running: Vec::new(),
            pending: Vec::new(),
            submitted: Vec::new(),
            profiling: Vec::new(),
            ended: Vec::new(),
            timer: 0.0,
            options,
            lookup,
        }
    }

    /// The machines.
    pub fn site(&self) -> &Site {
        self.table.site()
    }

    /// A job.
    #[inline]
    pub fn job(&self, job: u32) -> &Job {
        &self.jobs[job as usize]
    }

    /// A job, to change it.
    #[inline]
    pub fn job_mut(&mut self, job: u32) -> &mut Job {
        &mut self.jobs[job as usize]
    }

    /// What decisions go by; with `force_opt` memory does not count.
    pub fn question(&self, force_opt: bool) -> Question {
        let is_dp = self.options.force_dp && !self.options.sched_with_opt;
        Question {
            mode: if is_dp { Mode::DataParallel } else { Mode::Best },
            checks_memory: self.options.checks_memory && !force_opt,
        }
    }

    /// Samples per second of a job on these devices; 0 or less where it cannot run.
    #[inline]
    pub fn ask(&self, question: Question, job: u32, kind: Kind, shape: Shape) -> f64 {
        self.lookup.throughput(self.job(job).workload, question, kind, shape)
    }

    /// As decisions see it; memory does not count where they go by what jobs are billed by.
    pub fn throughput(&self, job: u32, kind: Kind, shape: Shape) -> f64 {
        self.ask(self.question(self.options.sched_with_opt), job, kind, shape)
    }

    /// Whether a job can run, whatever the memory, where `force_opt` states this; where deadlines count, in time too.
    pub fn is_feasible(&self, job: u32, kind: Kind, shape: Shape, force_opt: bool) -> bool {
        let is_late = self.options.has_deadlines && !self.meets_deadline(job, kind, shape);
        !is_late && self.ask(self.question(force_opt), job, kind, shape) > 0.0
    }

    /// Seconds of an iteration, to three decimals.
    pub fn iteration_s(&self, question: Question, job: u32, kind: Kind, shape: Shape) -> f64 {
        let throughput = self.ask(question, job, kind, shape);
        if throughput > 0.0 { rounded(self.job(job).batch / throughput) } else { NEVER_S }
    }

    /// How much more throughput a job has on new devices than on those before, in the published currency: where it could not run
    /// before, everything is worth it; where it cannot run now, nothing.
    pub fn gain(&self, job: u32, new: (Kind, Shape), before: Option<(Kind, Shape)>) -> f64 {
        if self.options.has_deadlines && !self.meets_deadline(job, new.0, new.1) {
            return INFEASIBLE;
        }
        let throughput = self.throughput(job, new.0, new.1);
        if throughput <= 0.0 {
            return INFEASIBLE;
        }
        let Some((kind, shape)) = before else { return throughput };
        let before = self.throughput(job, kind, shape);
        if before <= 0.0 { throughput - INFEASIBLE } else { throughput - before }
    }

    /// Whether a job that runs on these devices from the next round on is done in time, by the accounting of a pruned search.
    pub fn meets_deadline(&self, job: u32, kind: Kind, shape: Shape) -> bool {
        let state = self.job(job);
        let is_new = self.timer - state.submitted_s <= self.options.round_s;
        // By the devices that it has, not by those that it would have.
        let overhead_s = if is_new { self.options.pruned.cost_s(state.quota.devices) } else { state.debt_s };
        let iteration_s = self.iteration_s(Question::BILLED, job, kind, shape);
        iteration_s < NEVER_S && self.is_in_time(job, overhead_s, iteration_s)
    }

    /// Whether what is left of a job, at this pace and after this overhead, fits before its deadline.
    pub fn is_in_time(&self, job: u32, overhead_s: f64, iteration_s: f64) -> bool {
        let state = self.job(job);
        let left_s = (state.remaining * iteration_s).trunc();
        self.timer + overhead_s + self.options.round_s + left_s <= state.deadline_s
    }

    /// Places a job on the emptiest nodes of a type in its best locality, and where `is_relaxed` in ever worse ones. Its quota then
    /// states how it lies.
    pub fn place(&mut self, job: u32, kind: Kind, devices: u32, force_opt: bool, is_relaxed: bool) -> bool {
        let mut nodes = Vec::new();
        let asked = Quota { kind, devices, shape: self.site().best(kind, devices) };
        let Some(shape) = self.find(&self.table, job, asked, force_opt, is_relaxed, &mut nodes) else {
            return false;
        };
        self.job_mut(job).quota = Quota::new(kind, shape);
        self.table.place(Owner::job(job), devices, &nodes)
    }

    /// The emptiest nodes of a table on which a job can lie as it asks, or where `is_relaxed` in a worse locality.
    pub fn find(
        &self,
        table: &Table,
        job: u32,
        asked: Quota,
        force_opt: bool,
        is_relaxed: bool,
        nodes: &mut Vec<u32>,
    ) -> Option<Shape> {
        let mut shape = asked.shape;
        if self.is_feasible(job, asked.kind, shape, force_opt) && table.emptiest(asked.kind, shape, nodes) {
            return Some(shape);
        }
        // Where it cannot run in its best locality it may still in the next.
        while let Some(worse) = shape.halved().filter(|_| is_relaxed) {
            shape = worse;
            if !self.is_feasible(job, asked.kind, shape, force_opt) {
                return None;
            }
            if table.emptiest(asked.kind, shape, nodes) {
                return Some(shape);
            }
        }
        None
    }

    /// Makes a job's quota what the table says.
    pub fn refresh(&mut self, job: u32) {
        let kind = self.job(job).quota.kind;
        let mut shares = Vec::new();
        self.table.shares_in(Owner::job(job), kind, &mut shares);
        if let Some(&(_, per_host)) = shares.first() {
            self.job_mut(job).quota = Quota::new(kind, Shape { hosts: shares.len() as u32, per_host });
        }
    }

    /// Tries waiting jobs in order, but none behind one that blocks its type.
    pub(super) fn retry(&mut self, mut attempt: impl FnMut(&mut Self, u32) -> Tried) {
        let mut blocked: Vec<Kind> = Vec::new();
        let mut waiting = Vec::new();
        for job in std::mem::take(&mut self.pending) {
            let kind = self.job(job).asked.kind;
            let tried = if blocked.contains(&kind) { Tried::Waits } else { attempt(self, job) };
            match tried {
                Tried::Runs => {
                    self.running.push(job);
                    continue;
                }
                Tried::Blocks => blocked.push(kind),
                Tried::Waits => {}
            }
            waiting.push(job);
        }
        self.pending = waiting;
    }

    /// Tries jobs that came, in order: those that are not seated wait.
    pub(super) fn take_in(&mut self, mut seat: impl FnMut(&mut Self, u32) -> Tried) {
        for job in std::mem::take(&mut self.submitted) {
            match seat(self, job) {
                Tried::Runs => self.running.push(job),
                Tried::Waits | Tried::Blocks => self.pending.push(job),
            }
        }
    }

    /// Drops jobs that came and cannot run on any type in their best locality, whatever the memory: without a word, as published.
    pub(super) fn drop_impossible(&mut self) {
        let mut submitted = std::mem::take(&mut self.submitted);
        submitted.retain(|&job| {
            let devices = self.job(job).asked.devices;
            let runs_on = |kind| self.is_feasible(job, kind, self.site().best(kind, devices), true);
            self.site().kinds().any(runs_on)
        });
        self.submitted = submitted;
    }

    /// Takes their devices from all jobs that ended.
    pub fn release_ended(&mut self) {
        for index in 0..self.ended.len() {
            let job = self.ended[index];
            let kind = self.job(job).quota.kind;
            self.table.release_of(Owner::job(job), kind);
        }
    }

    /// Marks waiting jobs whose deadline has passed.
    pub fn mark_timed_out(&mut self) {
        for &job in &self.pending {
            let state = &mut self.jobs[job as usize];
            state.is_timed_out |= state.deadline_s <= self.timer;
        }
    }
}
