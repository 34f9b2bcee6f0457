//! The jobs of a trace in the units and order that the published code works with.

use wharf_core::JobSpec;
use wharf_perf::Stages;

use super::cluster::Shape;
use super::error::MuriError;
use super::numbers::Numbers;
use super::settings::{Policy, Settings};

/// Relative distance within which two times are one event.
const SAME_EVENT: f64 = 1e-9;

/// What never changes about a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub submit: f64,
    pub devices: u32,
    /// Position of `devices` in [`Workload::sizes`].
    pub size: usize,
    pub iterations: f64,
    /// Seconds per iteration alone, overhead included.
    pub iteration_s: f64,
    /// Seconds of no progress that each event costs it while it runs.
    pub restart_s: f64,
    /// The length that the trace states.
    pub declared_s: f64,
    pub stages: Stages,
    pub is_guaranteed: bool,
}

/// Jobs that arrive at one event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub time: f64,
    /// Range in [`Workload::order`].
    pub start: usize,
    pub end: usize,
}

/// A prepared trace.
#[derive(Debug)]
pub(super) struct Workload {
    pub jobs: Vec<Job>,
    /// Distinct gang sizes, largest first.
    pub sizes: Vec<u32>,
    /// Job indexes by submission; ties keep the trace's order.
    pub order: Vec<u32>,
    pub batches: Vec<Batch>,
}

impl Workload {
    pub(super) fn new(
        specs: &[JobSpec],
        shape: &Shape,
        settings: &Settings,
        numbers: &Numbers,
    ) -> Result<Self, MuriError> {
        let mut sizes: Vec<u32> = specs.iter().map(|spec| spec.gang.devices).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes.dedup();
        let mut jobs = Vec::with_capacity(specs.len());
        for spec in specs {
            check(spec, shape, settings.policy)?;
            let devices = spec.gang.devices;
            jobs.push(Job {
                submit: spec.submit.seconds(),
                devices,
                size: sizes.partition_point(|&size| size > devices),
                iterations: spec.iterations,
                iteration_s: spec.iteration_ms * numbers.iteration_overhead.solo / 1000.0,
                restart_s: numbers.restart.seconds(devices, spec.model.as_deref()),
                declared_s: spec.declared_s(),
                stages: spec.stages.map(Stages::from).unwrap_or_default(),
                is_guaranteed: spec.priority >= 0,
            });
        }
        let mut order: Vec<u32> = (0..jobs.len() as u32).collect();
        order.sort_by(|&a, &b| jobs[a as usize].submit.total_cmp(&jobs[b as usize].submit));
        let batches = batches(&jobs, &order);
        Ok(Self { jobs, sizes, order, batches })
    }
}

fn check(spec: &JobSpec, shape: &Shape, policy: Policy) -> Result<(), MuriError> {
    let job = || spec.name.to_string();
    let devices = spec.gang.devices;
    if devices == 0 {
        return Err(MuriError::NoGang { job: job() });
    }
    let fits = match policy {
        Policy::Tiresias => devices <= shape.devices(),
        _ => shape.can_hold(devices),
    };
    if !fits {
        return Err(MuriError::TooLarge { job: job(), devices });
    }
    let length = spec.iterations * spec.iteration_ms;
    if !(spec.iterations >= 0.0 && spec.iteration_ms > 0.0 && length.is_finite()) {
        let (iterations, iteration_ms) = (spec.iterations, spec.iteration_ms);
        return Err(MuriError::NoLength { job: job(), iterations, iteration_ms });
    }
    if policy.needs_stages() {
        let usable = spec.stages.is_some_and(|stages| {
            let stages = [stages.data_ms, stages.compute_ms, stages.network_ms];
            stages.iter().all(|stage| stage.is_finite() && *stage >= 0.0)
                && stages.iter().any(|&stage| stage > 0.0)
        });
        if !usable {
            return Err(MuriError::NoStages { job: job(), policy: policy.name() });
        }
    }
    Ok(())
}

/// Joins arrivals that are close enough to be one event.
fn batches(jobs: &[Job], order: &[u32]) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for (index, &job) in order.iter().enumerate() {
        let time = jobs[job as usize].submit;
        // Times only grow, so that none before the last batch can be close where that one is not.
        match batches.last_mut() {
            Some(last) if is_close(last.time, time, SAME_EVENT, 0.0) => last.end = index + 1,
            _ => batches.push(Batch { time, start: index, end: index + 1 }),
        }
    }
    batches
}

/// Whether two finite numbers are within a relative or an absolute distance.
pub(super) fn is_close(a: f64, b: f64, relative: f64, absolute: f64) -> bool {
    a == b || (a - b).abs() <= (relative * a.abs().max(b.abs())).max(absolute)
}
