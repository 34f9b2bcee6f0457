//! Least attained service first: LAS, and Tiresias, which discretises it.

use wharf_core::{JobId, Knowledge, Time, View};

use crate::priority::{Key, Rank, TOLERANCE_S};

/// Orders jobs by the device-seconds they have had. A waiting job takes over once it is a quantum behind.
#[derive(Clone, Copy, Debug)]
pub struct Las {
    /// Device-seconds by which a running job must be ahead of a waiting one to be preempted for it.
    pub quantum_s: f64,
}

fn service_s(view: &View<'_>, job: JobId) -> f64 {
    view.attained_s(job) * f64::from(view.spec(job).gang.devices)
}

impl Rank for Las {
    fn knowledge(&self) -> Knowledge {
        Knowledge::Attained
    }

    fn key(&self, view: &View<'_>, job: JobId) -> Key {
        Key::of_seconds(service_s(view, job))
    }

    fn slope(&self, devices: u32) -> f64 {
        f64::from(devices)
    }

    fn may_preempt(&self, waiting: Key, running: Key) -> bool {
        running.exact - waiting.exact >= self.quantum_s - TOLERANCE_S
    }

    fn victim_from(&self, waiting: Key) -> Option<f64> {
        Some(waiting.exact + self.quantum_s)
    }
}

/// Discretised two-dimensional LAS: a few queues by attained device-seconds, first come first served in each.
#[derive(Clone, Debug)]
pub struct Tiresias {
    /// Device-seconds at which a job leaves each queue but the last; ascending.
    pub limits_s: Vec<f64>,
    /// Whether service counts devices, or seconds alone.
    pub by_devices: bool,
}

impl Tiresias {
    fn service_s(&self, view: &View<'_>, job: JobId) -> f64 {
        if self.by_devices { service_s(view, job) } else { view.attained_s(job) }
    }

    fn level(&self, service_s: f64) -> usize {
        self.limits_s.partition_point(|&limit| limit <= service_s + TOLERANCE_S)
    }
}

impl Rank for Tiresias {
    fn knowledge(&self) -> Knowledge {
        Knowledge::Attained
    }

    fn key(&self, view: &View<'_>, job: JobId) -> Key {
        let level = self.level(self.service_s(view, job)) as u32;
        Key::in_level(level, view.spec(job).submit.seconds())
    }

    fn next_jump(&self, view: &View<'_>, job: JobId) -> Option<Time> {
        let service_s = self.service_s(view, job);
        let limit = self.limits_s.get(self.level(service_s))?;
        let devices = if self.by_devices { f64::from(view.spec(job).gang.devices) } else { 1.0 };
        Some(view.now.plus((limit - service_s) / devices))
    }

    fn may_preempt(&self, waiting: Key, running: Key) -> bool {
        waiting.level < running.level
    }
}
