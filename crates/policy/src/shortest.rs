//! Shortest first: SJF, SRTF and SRSF.

use wharf_core::{JobId, View};

use crate::priority::{Key, Rank};

/// Orders jobs by how long their owners say they take; what runs, runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sjf;

impl Rank for Sjf {
    fn key(&self, view: &View<'_>, job: JobId) -> Key {
        Key::of(view.spec(job).declared_s())
    }
}

/// Orders jobs by remaining time (SRTF), or by remaining time × devices (SRSF), and preempts.
#[derive(Clone, Copy, Debug)]
pub struct ShortestRemaining {
    /// Whether time is weighted with the size of the gang.
    pub by_service: bool,
    /// How many times longer a running job must take than a waiting one before it has to make room. Every
    /// preemption costs a restart, and its victim may find victims of its own: 1 is the textbook's order.
    pub preempt_ratio: f64,
}

impl ShortestRemaining {
    fn weight(self, devices: u32) -> f64 {
        if self.by_service { f64::from(devices) } else { 1.0 }
    }
}

impl Rank for ShortestRemaining {
    fn key(&self, view: &View<'_>, job: JobId) -> Key {
        // The time until it is done if it runs from now on: a waiting job has to be started first, and a running one may not be
        // through with that yet.
        let left_s = match view.finish(job) {
            Some(finish) => finish.since(view.now),
            None => {
                let restart_s = view.perf().restart_s(view.spec(job));
                view.remaining_s(job).map_or(f64::MAX, |left_s| left_s + restart_s)
            }
        };
        Key::of_seconds(left_s * self.weight(view.spec(job).gang.devices))
    }

    fn slope(&self, devices: u32) -> f64 {
        -self.weight(devices)
    }

    fn may_preempt(&self, waiting: Key, running: Key) -> bool {
        running.value > waiting.value * self.preempt_ratio
    }
}
