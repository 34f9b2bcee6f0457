//! How fast a job runs, as the engine and the policies ask for it. The crate `wharf-perf` answers.

use crate::cluster::NodeShare;
use crate::ids::DeviceTypeId;
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

    /// Iterations per second of `job` on `devices` devices of one type, on as few nodes as hold them, sharing those devices
    /// with `neighbours`; 0 where it cannot run there.
    ///
    /// A policy asks this to choose a type before it knows the devices. Without a profile all types are alike.
    fn speed(
        &self,
        _topology: &Topology,
        job: &JobSpec,
        _device_type: DeviceTypeId,
        _devices: u32,
        _neighbours: &[&JobSpec],
    ) -> f64 {
        1000.0 / job.iteration_ms
    }

    /// What an hour of one device of a type costs, where that is known.
    fn price_per_h(&self, _topology: &Topology, _device_type: DeviceTypeId) -> Option<f64> {
        None
    }

    /// Seconds between the launch of `job` and its first iteration (start, or restore from a checkpoint).
    fn restart_s(&self, job: &JobSpec) -> f64;

    /// Seconds between the checkpoints that all jobs make; `None` where each tells of its own.
    fn checkpoint_interval_s(&self) -> Option<f64> {
        None
    }
}
