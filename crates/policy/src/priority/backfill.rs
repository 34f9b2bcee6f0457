//! What may start while the first job does not fit.

use wharf_core::{Decision, JobId, Time, View};

use super::{Priority, Rank};

/// What may start while the first job does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backfill {
    /// Nothing: strict order.
    Off,
    /// Whatever fits.
    Greedy,
    /// What does not delay the first job: it has ended by the time enough devices are free for it, or it uses
    /// devices that will be left over then (EASY).
    Easy {
        /// How many waiting jobs are looked at.
        depth: usize,
    },
}

/// When the first job can start, and how many devices it leaves over then.
struct Shadow {
    time: Time,
    spare: u32,
}

impl<R: Rank> Priority<R> {
    /// Starts later jobs that do not delay `head`. Devices are counted, not placed, in this forecast.
    pub(super) fn backfill_around(&mut self, decision: &mut Decision<'_>, head: JobId, depth: usize) {
        let mut shadow = self.shadow(&decision.view(), head);
        for job in self.in_order(depth) {
            if job == head {
                continue;
            }
            let view = decision.view();
            let devices = view.spec(job).gang.devices;
            let is_short = view.remaining_s(job).is_some_and(|left| {
                view.now.plus(left + view.perf().restart_s(view.spec(job))) <= shadow.time
            });
            let is_harmless = is_short || devices <= shadow.spare;
            if is_harmless && self.start_on_free(decision, job) && !is_short {
                shadow.spare -= devices;
            }
        }
    }

    fn shadow(&self, view: &View<'_>, head: JobId) -> Shadow {
        let needed = view.spec(head).gang.devices;
        let mut free = view.schedule().free_count();
        let mut ends: Vec<(Time, JobId)> = self
            .classes
            .running_jobs()
            .into_iter()
            .filter_map(|job| Some((view.finish(job)?, job)))
            .collect();
        ends.sort_unstable();
        for (time, job) in ends {
            free += view.spec(job).gang.devices;
            if free >= needed {
                return Shadow { time, spare: free - needed };
            }
        }
        Shadow { time: Time::FAR, spare: free.saturating_sub(needed) }
    }

    /// The first waiting jobs across all classes.
    fn in_order(&self, depth: usize) -> Vec<JobId> {
        let mut jobs: Vec<_> =
            self.classes.iter().flat_map(|class| class.waiting.iter().take(depth).copied()).collect();
        jobs.sort_unstable();
        jobs.truncate(depth);
        jobs.into_iter().map(|(_, job)| job).collect()
    }
}
