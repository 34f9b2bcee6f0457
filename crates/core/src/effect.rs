//! What comes in from outside, and what the outside must do.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::accounts::Accounts;
use crate::cluster::NodeSpec;
use crate::ids::{JobId, NodeId};
use crate::job::JobSpec;
use crate::state::{Phase, State};
use crate::time::Time;

/// Something that the outside wants or tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// A node joins the cluster.
    AddNode(NodeSpec),
    /// A node is there as another machine: jobs on it are lost where its devices are others.
    ReplaceNode(NodeId, NodeSpec),
    /// A node cannot be reached any more.
    LoseNode(NodeId),
    /// A lost node is there again.
    ReturnNode(NodeId),
    /// A node gets no new jobs.
    CordonNode(NodeId),
    /// A node gets no new jobs, and those on it have to go elsewhere.
    DrainNode(NodeId),
    /// A cordoned or drained node may get jobs again.
    OpenNode(NodeId),
    /// A device does not work: its jobs have to go elsewhere.
    LoseDevice(NodeId, u32),
    /// A device works again.
    ReturnDevice(NodeId, u32),
    /// A user submits a job.
    SubmitJob(JobSpec),
    /// A user submits an array: jobs that differ by their indexes only.
    SubmitArray(JobSpec, Arc<[u32]>),
    /// Ids below this one are never given to jobs.
    SkipIds(JobId),
    /// A user does not want a job any more.
    CancelJob(JobId),
    /// A job has run as long as it may.
    ExpireJob(JobId),
    /// A waiting job must not start for now.
    HoldJob(JobId),
    /// A held job may start again.
    ReleaseJob(JobId),
    /// A job becomes more or less urgent.
    SetPriority {
        /// The job.
        job: JobId,
        /// Its priority from now on.
        priority: i32,
    },
    /// A job gives its devices back and waits again.
    RequeueJob(JobId),
    /// A job's processes run; iterations begin at `ready`.
    JobLaunched {
        /// The job.
        job: JobId,
        /// The placement that this is about.
        generation: u32,
        /// When iterations begin.
        ready: Time,
    },
    /// A running job saved its work.
    JobSaved {
        /// The job.
        job: JobId,
        /// The placement that this is about.
        generation: u32,
        /// Iterations that the checkpoint holds.
        done: f64,
    },
    /// A job gave its devices back.
    JobStopped {
        /// The job.
        job: JobId,
        /// The placement that this is about.
        generation: u32,
        /// Iterations that its last checkpoint holds.
        done: f64,
    },
    /// A job's processes ended by themselves.
    JobExited {
        /// The job.
        job: JobId,
        /// The placement that this is about.
        generation: u32,
        /// The exit code.
        code: i32,
    },
    /// A job's processes failed, and it is to be tried again.
    JobFailed {
        /// The job.
        job: JobId,
        /// The placement that this is about.
        generation: u32,
        /// Iterations that its last checkpoint holds.
        done: f64,
    },
}

/// Why a command had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ignored {
    /// It is about an older placement, or the job has ended.
    #[error("it is over, or has moved on")]
    Stale,
    /// There is no such job or node.
    #[error("there is no such job or node")]
    Unknown,
    /// The job is not in a phase in which that can be done.
    #[error("not possible in its present phase")]
    WrongPhase,
}

/// Something that the outside must do. It has no choice left to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Start a job's processes on its placement; answered by [`Command::JobLaunched`].
    Launch {
        /// The job.
        job: JobId,
        /// Which placement; a later one makes this stale.
        generation: u32,
    },
    /// Checkpoint and stop a job's processes; answered by [`Command::JobStopped`] (or [`Command::JobExited`], where
    /// the job was faster).
    Stop {
        /// The job.
        job: JobId,
        /// Which placement.
        generation: u32,
    },
}

/// Effects on their way out; no placement is launched twice.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    effects: Vec<Effect>,
    /// For each job, the latest generation whose launch was ordered.
    launched: Vec<u32>,
    /// Placed jobs that wait for what others still have beside devices.
    blocked: BTreeSet<JobId>,
}

impl Outbox {
    /// Orders the launch of a placed job, unless that was done or its devices are still held by others.
    pub(crate) fn launch_if_ready(&mut self, state: &State, job: JobId) {
        let (phase, generation) = (state.job(job).phase, state.job(job).generation);
        if self.launched.len() <= job.index() {
            self.launched.resize(state.next_job().index(), 0);
        }
        let launched = &mut self.launched[job.index()];
        if phase != Phase::Placed || *launched >= generation {
            return;
        }
        if !state.is_blocked(job) {
            *launched = generation;
            self.effects.push(Effect::Launch { job, generation });
        } else if waits_for_machine(state, job) {
            self.blocked.insert(job);
        }
    }

    /// Orders the launch of jobs that were kept from it by what others had beside devices, where these have given it back.
    pub(crate) fn launch_blocked(&mut self, state: &State) {
        for job in std::mem::take(&mut self.blocked) {
            self.launch_if_ready(state, job);
        }
    }

    /// Takes in jobs that were placed before.
    pub(crate) fn adopt(&mut self, state: &State) {
        let placed = state.jobs().filter(|(_, _, life)| life.phase == Phase::Placed).map(|(job, ..)| job);
        self.blocked.extend(placed.filter(|&job| waits_for_machine(state, job) && state.is_blocked(job)));
    }

    /// Orders the stop of a job's processes.
    pub(crate) fn stop(&mut self, job: JobId, generation: u32) {
        self.effects.push(Effect::Stop { job, generation });
    }

    pub(crate) fn drain(&mut self, into: &mut Vec<Effect>) {
        into.append(&mut self.effects);
    }
}

/// Whether a job may wait for anything but its own devices to be given back.
fn waits_for_machine(state: &State, job: JobId) -> bool {
    state.spec(job).gang.needs.is_some() || *state.leaving() != Accounts::default()
}
