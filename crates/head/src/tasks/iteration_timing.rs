//! How long iterations take, as trainers report: the input of profiles.

use wharf_core::{JobId, NodeShare, Time};

use crate::dispatcher::Dispatcher;
use crate::journal::record::Record;

/// Reports of fewer iterations, or over less time, measure when they were sent rather than the speed of a job.
const ITERATIONS_MIN: f64 = 3.0;
const SPAN_MIN_S: f64 = 1.0;

/// Reports of one run. The first is where counting begins: what was before it, such as compiling, is no iteration.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timing {
    first: Option<(Time, f64)>,
    last: Option<(Time, f64)>,
}

impl Timing {
    /// Adds a report of a trainer. Of several ranks the one that is ahead counts.
    pub(crate) fn told(&mut self, now: Time, iterations: f64) {
        let ahead = self.last.or(self.first).map_or(0.0, |(_, before)| before);
        if self.first.is_none() {
            self.first = Some((now, iterations));
        } else if iterations > ahead {
            self.last = Some((now, iterations));
        }
    }

    /// Iterations, and the seconds that they took together.
    fn measured(&self) -> Option<(f64, f64)> {
        let ((from, before), (to, after)) = (self.first?, self.last?);
        let (iterations, span_s) = (after - before, to.since(from));
        (iterations >= ITERATIONS_MIN && span_s >= SPAN_MIN_S).then_some((iterations, span_s))
    }
}

impl Dispatcher {
    /// Journals how long the iterations of a run took, and on which devices, where its model is known.
    pub(crate) fn note_timing(&mut self, job: JobId, placement: &[NodeShare]) {
        let state = self.engine.state();
        let Some((iterations, span_s)) =
            self.tasks.progress(job).and_then(|progress| progress.timing.measured())
        else {
            return;
        };
        let Some(device_type) =
            state.topology().type_of(placement).filter(|_| state.spec(job).model.is_some())
        else {
            return;
        };
        let record = Record::JobTimed {
            job: job.0,
            device_type: state.topology().types()[device_type.index()].to_string(),
            devices: placement.iter().map(|share| share.devices.len()).sum(),
            nodes: placement.len() as u32,
            plan: self.log.state.plans.get(&job.0).copied(),
            iterations,
            span_s,
        };
        self.note(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_begins_with_the_first_report() {
        let at = Time::from_seconds;
        let mut timing = Timing::default();
        for (time_s, iterations) in [(100.0, 2.0), (101.0, 4.0), (101.1, 4.0), (104.0, 10.0), (104.5, 9.0)] {
            timing.told(at(time_s), iterations);
        }
        assert_eq!(timing.measured(), Some((8.0, 4.0)), "a rank that is behind tells nothing new");
        let mut short = Timing::default();
        for (time_s, iterations) in [(0.0, 1.0), (0.4, 100.0)] {
            short.told(at(time_s), iterations);
        }
        assert_eq!(short.measured(), None, "too short to tell");
        assert_eq!(Timing::default().measured(), None);
    }
}
