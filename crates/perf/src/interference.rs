//! Two processes on one device, each unaware of the other.

use wharf_core::JobSpec;

/// What context switches and cache misses cost as soon as there is a neighbour.
const SWITCHING: f64 = 1.05;

/// The share of its iteration for which a job keeps the device busy; all of it where its stages are not known.
fn device_share(job: &JobSpec) -> f64 {
    match job.stages {
        Some(stages) if job.iteration_ms > 0.0 => (stages.compute_ms / job.iteration_ms).clamp(0.05, 1.0),
        _ => 1.0,
    }
}

/// How many times longer an iteration of `job` takes beside `neighbours`: as long as the device has idle time to give,
/// only switching costs; beyond that all are slowed alike.
pub fn slowdown(job: &JobSpec, neighbours: &[&JobSpec]) -> f64 {
    if neighbours.is_empty() {
        return 1.0;
    }
    let demand: f64 = device_share(job) + neighbours.iter().map(|other| device_share(other)).sum::<f64>();
    SWITCHING * demand.max(1.0)
}

#[cfg(test)]
mod tests {
    use wharf_core::{StageTimes, Time};

    use super::*;

    fn job(compute_ms: f64) -> JobSpec {
        let stages = StageTimes { data_ms: 100.0 - compute_ms, compute_ms, network_ms: 0.0 };
        JobSpec { stages: Some(stages), ..JobSpec::new("j", Time::ZERO, 1, 1.0, 100.0) }
    }

    #[test]
    fn slowdown_begins_where_the_device_is_full() {
        for (own, other, expected) in
            [(30.0, 40.0, 1.05), (80.0, 70.0, 1.05 * 1.5), (100.0, 100.0, 1.05 * 2.0)]
        {
            assert!((slowdown(&job(own), &[&job(other)]) - expected).abs() < 1e-12, "{own} beside {other}");
        }
        assert_eq!(slowdown(&job(50.0), &[]), 1.0);
    }
}
