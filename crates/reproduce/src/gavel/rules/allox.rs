//! AlloX (EuroSys'20): jobs go to devices so that the sum of completion times is least, and stay there.

use wharf_solver::assignment::Queues;

use super::super::error::GavelError;
use super::{Rule, Shares, Snapshot};

/// Least sum of completion times, for jobs of one device.
pub(super) struct AlloX {
    alpha: f64,
    /// The type that jobs were given.
    given: Vec<(u32, usize)>,
}

impl AlloX {
    pub(super) fn new(alpha: f64) -> Self {
        Self { alpha, given: Vec::new() }
    }
}

impl Rule for AlloX {
    fn allocate(&mut self, snapshot: &Snapshot<'_>, shares: &mut Shares) -> Result<(), GavelError> {
        if snapshot.jobs.is_empty() {
            return Ok(());
        }
        let workload = snapshot.workload;
        let width = workload.width();
        self.given.retain(|(job, _)| snapshot.jobs.binary_search(job).is_ok());
        let mut free: Vec<usize> = workload.capacities.iter().map(|&capacity| capacity as usize).collect();
        let mut is_given = vec![false; workload.jobs.len()];
        for &(job, device_type) in &self.given {
            free[device_type] -= 1;
            is_given[job as usize] = true;
        }
        let mut waiting: Vec<u32> =
            snapshot.jobs.iter().copied().filter(|&job| !is_given[job as usize]).collect();
        // The oldest first; jobs that came together keep their order.
        waiting.sort_by(|&a, &b| snapshot.waited_s(b).total_cmp(&snapshot.waited_s(a)));
        let looked_at = (self.alpha * waiting.len() as f64) as usize;
        waiting.truncate(looked_at.max(free.iter().sum()));
        let remaining: Vec<f64> = waiting.iter().map(|&job| snapshot.remaining(job)).collect();
        let waits: Vec<f64> = waiting.iter().map(|&job| snapshot.waited_s(job)).collect();
        let speeds: Vec<f64> = waiting.iter().flat_map(|&job| workload.speeds(job).iter().copied()).collect();
        let queues = Queues { remaining: &remaining, waits: &waits, speeds: &speeds, machines: &free };
        // On each device the one that delays most others, itself included, goes first.
        let mut first: Vec<Option<(usize, u32, usize)>> = vec![None; free.iter().sum()];
        for (&job, place) in waiting.iter().zip(queues.exact()) {
            if let Some(place) = place
                && first[place.machine].is_none_or(|(position, ..)| position < place.position)
            {
                first[place.machine] = Some((place.position, job, place.device_type));
            }
        }
        self.given.extend(first.into_iter().flatten().map(|(_, job, device_type)| (job, device_type)));
        for &(job, device_type) in &self.given {
            if let Ok(place) = snapshot.jobs.binary_search(&job) {
                shares.singles[place * width + device_type] = 1.0;
            }
        }
        Ok(())
    }
}
