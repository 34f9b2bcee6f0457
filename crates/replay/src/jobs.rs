//! Rows of a trace as jobs of a cluster.

use wharf_core::{JobSpec, Needs, Time};
use wharf_proto::{Gang, JobSpec as WireSpec, Stages};

use crate::ReplayError;

/// Grace period in seconds: the workers' own trainer saves one number.
const GRACE_S: f64 = 10.0;

/// Checks that a head can store the request of a row.
///
/// # Errors
/// [`ReplayError::Request`] where it is not whole devices with CPUs and memory for each.
pub fn check_request(job: &JobSpec) -> Result<(), ReplayError> {
    let is_stored = |needs: &Needs| needs.groups.is_empty() && needs.request.is_per_device();
    match job.gang.needs.as_deref() {
        Some(needs) if !is_stored(needs) => Err(ReplayError::Request { job: job.name.to_string() }),
        _ => Ok(()),
    }
}

/// A row as a job that trains for as long as the performance model says. `began_s` is the trace's beginning in
/// seconds since the Unix epoch.
pub fn paced(job: &JobSpec, began_s: f64) -> WireSpec {
    let needs = job.gang.needs.as_deref().cloned().unwrap_or_default();
    WireSpec {
        name: job.name.to_string(),
        user: job.user.as_deref().unwrap_or_default().to_owned(),
        gang: Some(Gang {
            devices: job.gang.devices,
            devices_min: job.gang.devices_min,
            devices_max: job.gang.devices_max,
            device_types: job.gang.device_types.iter().map(ToString::to_string).collect(),
            nodes: needs.nodes.unwrap_or(0),
            ..Gang::default()
        }),
        pool: needs.pool.as_deref().unwrap_or_default().to_owned(),
        cpus: needs.request.task.cpus(),
        memory_mib: needs.request.task.memory_mib,
        iterations: job.iterations,
        iteration_ms: job.iteration_ms,
        duration_s: job.duration_s.unwrap_or(0.0),
        model: job.model.as_deref().unwrap_or_default().to_owned(),
        batch_size: job.batch_size.unwrap_or(0),
        priority: job.priority,
        weight: job.weight,
        stages: job.stages.map(|stages| Stages {
            data_ms: stages.data_ms,
            compute_ms: stages.compute_ms,
            network_ms: stages.network_ms,
        }),
        deadline_s: job.deadline.map_or(0.0, |deadline| began_s + deadline.seconds()),
        grace_s: GRACE_S,
        paced: true,
        ..WireSpec::default()
    }
}

/// Jobs that are submitted at the same moment, in the trace's order.
pub fn arrivals(jobs: &[JobSpec]) -> impl Iterator<Item = (Time, &[JobSpec])> {
    jobs.chunk_by(|a, b| a.submit == b.submit).map(|together| (together[0].submit, together))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wharf_core::{Amounts, Request};

    use super::*;

    #[test]
    fn request_beyond_whole_devices_is_refused() {
        let job = |request: Request, groups: Vec<wharf_core::Gang>| {
            let needs = Needs { request, groups, ..Needs::default() };
            let gang = wharf_core::Gang { needs: Some(Arc::new(needs)), ..wharf_core::Gang::fixed(1) };
            JobSpec { gang, ..JobSpec::new("a", Time::ZERO, 1, 10.0, 100.0) }
        };
        let per_device = || Request::per_device(4, 1024);
        assert!(check_request(&JobSpec::new("a", Time::ZERO, 1, 10.0, 100.0)).is_ok());
        assert!(check_request(&job(per_device(), Vec::new())).is_ok());
        let fractional = Amounts { cpu_milli: 500, ..Amounts::default() };
        for (job, what) in [
            (job(Request { device_milli: 500, ..per_device() }, Vec::new()), "a part of a device"),
            (job(Request { task: fractional, ..per_device() }, Vec::new()), "half a CPU"),
            (job(Request { licences: vec![("l".into(), 1)], ..per_device() }, Vec::new()), "a licence"),
            (job(Request { is_exclusive: true, ..per_device() }, Vec::new()), "a whole node"),
            (job(Request::tasks(2, Amounts::new(1, 0)), Vec::new()), "tasks without devices"),
            (job(per_device(), vec![wharf_core::Gang::fixed(1)]), "two groups"),
        ] {
            assert!(check_request(&job).is_err(), "{what}");
        }
    }

    #[test]
    fn arrivals_keep_the_order_and_join_what_comes_together() {
        let job = |name: &str, at: f64| JobSpec::new(name, Time::from_seconds(at), 1, 10.0, 100.0);
        let jobs = [job("a", 0.0), job("b", 0.0), job("c", 2.5)];
        let told: Vec<(f64, Vec<&str>)> = arrivals(&jobs)
            .map(|(at, jobs)| (at.seconds(), jobs.iter().map(|job| &*job.name).collect()))
            .collect();
        assert_eq!(told, [(0.0, vec!["a", "b"]), (2.5, vec!["c"])]);
        assert_eq!(arrivals(&[]).count(), 0);
    }

    #[test]
    fn a_row_becomes_a_job_without_a_command() {
        let mut job = JobSpec::new("a", Time::ZERO, 4, 10.0, 100.0);
        job.deadline = Some(Time::from_seconds(30.0));
        let spec = paced(&job, 1000.0);
        assert_eq!(wharf_job::check::check(&spec), Ok(()));
        assert!(spec.paced && spec.command.is_empty());
        assert_eq!((spec.iterations, spec.iteration_ms, spec.deadline_s), (10.0, 100.0, 1030.0));
    }
}
