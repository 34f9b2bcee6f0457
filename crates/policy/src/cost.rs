//! What it costs to stop a running job.

use wharf_core::{Chosen, JobId, View};

use crate::priority::Key;

/// What it costs to stop a running job: smaller is better to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cost {
    priority: i32,
    /// Device-seconds of work that no checkpoint holds.
    unsaved: Key,
    devices: u32,
}

impl Cost {
    pub(crate) fn of(view: &View<'_>, job: JobId) -> Self {
        let spec = view.spec(job);
        let unsaved = Key::of(view.unsaved_s(job) * f64::from(spec.gang.devices));
        Self { priority: spec.priority, unsaved, devices: spec.gang.devices }
    }

    /// What it costs to stop several jobs: as urgent as the most urgent, and the sums of the rest.
    pub(crate) fn of_all(view: &View<'_>, jobs: &[JobId]) -> Self {
        let none = Self { priority: i32::MIN, unsaved: Key::of(0.0), devices: 0 };
        jobs.iter().map(|&job| Self::of(view, job)).fold(none, |sum, one| Self {
            priority: sum.priority.max(one.priority),
            unsaved: Key::of(sum.unsaved.value + one.unsaved.value),
            devices: sum.devices + one.devices,
        })
    }

    /// Why a job with this cost was chosen, and not the cheapest other one.
    pub(crate) fn chosen_over(self, other: Option<Self>) -> Chosen {
        match other {
            Some(other) if self.priority < other.priority => Chosen::LowestPriority,
            Some(other) if self.priority == other.priority && self.unsaved < other.unsaved => {
                Chosen::LeastUnsavedWork
            }
            Some(other)
                if (self.priority, self.unsaved) == (other.priority, other.unsaved)
                    && self.devices < other.devices =>
            {
                Chosen::FewestDevices
            }
            _ => Chosen::LastInOrder,
        }
    }
}
