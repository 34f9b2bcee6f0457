//! Two processes on one device, each unaware of the other.

use wharf_core::JobSpec;

/// What context switches and cache misses cost as soon as there is a neighbour.
const SWITCHING: f64 = 1.05;

/// The shares of its iteration for which a job keeps storage and CPU, the device and the network busy; where its stages
/// are not known, the device all the time.
fn shares(job: &JobSpec) -> [f64; 3] {
    match job.stages {
        Some(stages) if job.iteration_ms > 0.0 => [stages.data_ms, stages.compute_ms, stages.network_ms]
            .map(|stage_ms| (stage_ms / job.iteration_ms).clamp(0.0, 1.0)),
        _ => [0.0, 1.0, 0.0],
    }
}

/// How many times longer an iteration of `job` takes beside `neighbours`: as long as every resource has idle time to give,
/// only switching costs; beyond that all are slowed alike, as much as the resource that is wanted most.
pub fn slowdown(job: &JobSpec, neighbours: &[&JobSpec]) -> f64 {
    if neighbours.is_empty() {
        return 1.0;
    }
    let mut demand = shares(job);
    for other in neighbours {
        for (sum, share) in demand.iter_mut().zip(shares(other)) {
            *sum += share;
        }
    }
    SWITCHING * demand.into_iter().fold(1.0, f64::max)
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
    fn slowdown_begins_where_a_resource_is_full() {
        for (own, other, expected) in [
            (30.0, 60.0, 1.05 * 1.1),
            (30.0, 70.0, 1.05),
            (80.0, 70.0, 1.05 * 1.5),
            (100.0, 100.0, 1.05 * 2.0),
            (0.0, 0.0, 1.05 * 2.0),
        ] {
            assert!((slowdown(&job(own), &[&job(other)]) - expected).abs() < 1e-12, "{own} beside {other}");
        }
        assert_eq!(slowdown(&job(50.0), &[]), 1.0);
    }
}
