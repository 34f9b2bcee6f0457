//! Policies: who should have which part of their time on which type.

mod allox;
mod fifo;
mod interior;
mod makespan;
mod packed;
mod programs;
mod replay;
mod split;
mod value;

use std::collections::BTreeMap;

use super::error::GavelError;
use super::keys::Members;
use super::settings::{Goal, Settings};
use super::workload::Workload;

/// What a policy is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snapshot<'a> {
    pub now: f64,
    /// Jobs in the system, by number.
    pub jobs: &'a [u32],
    /// Steps that each job of the trace has done.
    pub done: &'a [f64],
    pub workload: &'a Workload<'a>,
}

impl Snapshot<'_> {
    pub(super) fn remaining(&self, job: u32) -> f64 {
        self.workload.jobs[job as usize].steps - self.done[job as usize]
    }

    /// Seconds since a job arrived.
    pub(super) fn waited_s(&self, job: u32) -> f64 {
        self.now - self.workload.jobs[job as usize].submit
    }

    pub(super) fn gang(&self, job: u32) -> u32 {
        self.workload.jobs[job as usize].gang
    }
}

/// What a policy answers: zeros where it states nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares {
    /// For each job in the system, a share of each type.
    pub singles: Vec<f64>,
    /// The same for pairs; what is not there is zero.
    pub pairs: BTreeMap<Members, Vec<f64>>,
}

impl Shares {
    /// Zeros for that many shares of jobs.
    pub(super) fn clear(&mut self, count: usize) {
        self.singles.clear();
        self.singles.resize(count, 0.0);
        self.pairs.clear();
    }
}

/// A policy. It is asked even when there are no jobs, because some forget then.
pub(super) trait Rule {
    /// Fills in the shares, which are all zero.
    ///
    /// # Errors
    /// What the policy cannot decide on.
    fn allocate(&mut self, snapshot: &Snapshot<'_>, shares: &mut Shares) -> Result<(), GavelError>;

    /// How often a simpler rule had to stand in.
    fn fallbacks(&self) -> u64 {
        0
    }
}

/// The policy that the settings name, or recorded allocations in its place.
///
/// # Errors
/// Allocations that cannot be read.
pub(super) fn build(settings: &Settings, workload: &Workload<'_>) -> Result<Box<dyn Rule>, GavelError> {
    if let Some(path) = &settings.allocations {
        return Ok(Box::new(replay::Replay::read(path, workload)?));
    }
    Ok(match settings.policy.goal {
        Goal::Fifo => Box::new(fifo::Fifo::new(settings)),
        Goal::Isolated => Box::new(split::Isolated),
        Goal::Gandiva => Box::new(split::Gandiva::new(settings.seed)),
        Goal::AlloX => Box::new(allox::AlloX::new(settings.alpha)),
        _ if settings.policy.is_packed() => Box::new(packed::Packed::new(settings)),
        _ => Box::new(programs::Programs::new(settings)),
    })
}
