//! How fast a job runs, as the engine and the policies ask for it. The crate `wharf-perf` answers.

use crate::cluster::NodeShare;
use crate::ids::DeviceTypeId;
use crate::job::JobSpec;
use crate::topology::Topology;

/// A parallel plan: how a model is divided among the devices of a gang. The product of the three is their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Plan {
    /// Pipeline stages.
    pub stages: u32,
    /// Copies of each stage that work on different samples.
    pub data: u32,
    /// Devices that one copy of a stage is divided among.
    pub tensor: u32,
}

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

    /// How a job is best divided among so many devices of a type, where the profile knows.
    fn plan(
        &self,
        _topology: &Topology,
        _job: &JobSpec,
        _device_type: DeviceTypeId,
        _devices: u32,
    ) -> Option<Plan> {
        None
    }

    /// As [`PerfModel::speed`] of a job by itself whose gang is divided by samples only, without pipeline stages and without
    /// divided layers, so that each device must hold a whole copy of the model: 0 where that does not fit. The speed under
    /// its best plan if plans are not distinguished.
    fn data_parallel_speed(
        &self,
        topology: &Topology,
        job: &JobSpec,
        device_type: DeviceTypeId,
        devices: u32,
    ) -> f64 {
        self.speed(topology, job, device_type, devices, &[])
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
