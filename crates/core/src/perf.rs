//! How fast a job runs, as the engine and the policies ask for it. The crate `wharf-perf` answers.

use crate::cluster::NodeShare;
use crate::job::JobSpec;
use crate::topology::Topology;

/// Predicts the speed of a job where it is placed.
pub trait PerfModel: Send + Sync {
    /// Seconds per iteration of `job` on `placement`, sharing devices with `neighbours`.
    fn iteration_s(
        &self,
        topology: &Topology,
        job: &JobSpec,
        placement: &[NodeShare],
        neighbours: &[&JobSpec],
    ) -> f64;

    /// Seconds between the launch of `job` and its first iteration (start, or restore from a checkpoint).
    fn restart_s(&self, job: &JobSpec) -> f64;

    /// Seconds between the checkpoints that all jobs make; `None` where each tells of its own.
    fn checkpoint_interval_s(&self) -> Option<f64> {
        None
    }
}
