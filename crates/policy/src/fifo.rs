//! First in, first out.

use wharf_core::{JobId, JobSpec, Knowledge, View};

use crate::priority::{Key, Rank};

/// Orders jobs by submission; urgent ones first where priorities differ.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo {
    /// Seconds of waiting that make up for one level of priority; `None`: no waiting does.
    pub age_s: Option<f64>,
}

impl Fifo {
    pub(crate) fn key_of(self, spec: &JobSpec) -> Key {
        let submit_s = spec.submit.seconds();
        match self.age_s {
            // All jobs age alike, so that their order stands still: an urgent job is as good as one submitted earlier.
            Some(age_s) => Key::of(submit_s - f64::from(spec.priority) * age_s),
            None => Key::in_level(i32::MAX.abs_diff(spec.priority), submit_s),
        }
    }
}

impl Rank for Fifo {
    fn knowledge(&self) -> Knowledge {
        Knowledge::Attained
    }

    fn key(&self, view: &View<'_>, job: JobId) -> Key {
        self.key_of(view.spec(job))
    }
}

#[cfg(test)]
mod tests {
    use wharf_core::Time;

    use super::*;

    fn job(submit_s: f64, priority: i32) -> JobSpec {
        JobSpec { priority, ..JobSpec::new("j", Time::from_seconds(submit_s), 1, 1.0, 1.0) }
    }

    #[test]
    fn waiting_makes_up_for_priority_where_jobs_age() {
        let (old, urgent) = (job(0.0, 0), job(250.0, 2));
        for (age_s, is_urgent_first) in [(None, true), (Some(100.0), false), (Some(200.0), true)] {
            let fifo = Fifo { age_s };
            assert_eq!(fifo.key_of(&urgent) < fifo.key_of(&old), is_urgent_first, "{age_s:?}");
        }
    }
}
