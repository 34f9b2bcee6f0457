//! Jobs in the order of their arrival: on any type (`fifo`), on the fastest that is free (`fifo-perf`), and beside a job
//! that runs already (`fifo-packed`).

use std::collections::VecDeque;

use super::super::error::GavelError;
use super::super::keys::{Members, NO_JOB};
use super::super::random::Random;
use super::super::settings::{Settings, Sight};
use super::{Rule, Shares, Snapshot};

/// First in, first out.
pub(super) struct Fifo {
    sight: Sight,
    random: Random,
    packing_threshold: f64,
    /// Who has which type; kept between calls by `fifo` only.
    assigned: Vec<(Members, usize)>,
}

impl Fifo {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            sight: settings.policy.sight,
            random: Random::new(settings.seed),
            packing_threshold: settings.packing_threshold,
            assigned: Vec::new(),
        }
    }

    /// Lets the first of the queue have what a job that is gone had, if it fits, and counts what is free.
    fn replace(&mut self, snapshot: &Snapshot<'_>, queue: &mut VecDeque<u32>, free: &mut [i64]) {
        let mut assigned = std::mem::take(&mut self.assigned);
        assigned.sort_by_key(|(members, _)| members[0]);
        for (members, device_type) in assigned {
            if snapshot.jobs.binary_search(&members[0]).is_ok() {
                free[device_type] -= i64::from(snapshot.gang(members[0]));
                self.assigned.push((members, device_type));
                continue;
            }
            let Some(&next) = queue.front() else { continue };
            let gang = i64::from(snapshot.gang(next));
            if gang <= free[device_type] && snapshot.workload.speeds(next)[device_type] > 0.0 {
                queue.pop_front();
                free[device_type] -= gang;
                self.assigned.push(([next, NO_JOB], device_type));
            }
        }
    }

    /// Gives types to the queue until its first does not fit. That one is passed over for this time.
    fn assign(&mut self, snapshot: &Snapshot<'_>, queue: &mut VecDeque<u32>, free: &mut [i64]) {
        let mut types: Vec<usize> = (0..free.len()).filter(|&index| free[index] > 0).collect();
        while !types.is_empty()
            && let Some(job) = queue.pop_front()
        {
            let gang = i64::from(snapshot.gang(job));
            let speeds = snapshot.workload.speeds(job);
            let fitting: Vec<usize> = (0..types.len()).filter(|&place| free[types[place]] >= gang).collect();
            let Some(&first) = fitting.first() else { break };
            let (device_type, place) = if self.sight == Sight::Blind {
                // As published: the draw states which type is given up, while it is always the last that is given.
                let drawn = self.random.below(fitting.len() as u32);
                (types[types.len() - 1], fitting[drawn])
            } else {
                let faster = |best: usize, place: usize| {
                    if speeds[types[place]] > speeds[types[best]] { place } else { best }
                };
                let best = fitting.iter().fold(first, |best, &place| faster(best, place));
                (types[best], best)
            };
            if speeds[device_type] > 0.0 {
                self.assigned.push(([job, NO_JOB], device_type));
                free[device_type] -= gang;
                if free[device_type] == 0 {
                    types.remove(place);
                }
            }
        }
    }

    /// Puts the queue beside jobs that run alone, each where it gains most, until one gains too little.
    fn pack(&mut self, snapshot: &Snapshot<'_>, queue: &mut VecDeque<u32>) {
        while let Some(job) = queue.pop_front() {
            let mut most = self.packing_threshold;
            let mut best = None;
            for (place, (members, device_type)) in self.assigned.iter().enumerate() {
                if members[1] != NO_JOB || snapshot.gang(members[0]) != snapshot.gang(job) {
                    continue;
                }
                let gain = gain(snapshot, members[0], job, *device_type);
                if gain > most {
                    most = gain;
                    best = Some(place);
                }
            }
            let Some(place) = best else { break };
            let (members, device_type) = self.assigned.remove(place);
            self.assigned.push(([members[0].min(job), members[0].max(job)], device_type));
        }
    }
}

impl Rule for Fifo {
    fn allocate(&mut self, snapshot: &Snapshot<'_>, shares: &mut Shares) -> Result<(), GavelError> {
        let workload = snapshot.workload;
        let mut free: Vec<i64> = workload.capacities.iter().map(|&capacity| i64::from(capacity)).collect();
        if self.sight != Sight::Blind {
            self.assigned.clear();
        }
        let mut has_type = vec![false; workload.jobs.len()];
        self.assigned.iter().for_each(|(members, _)| has_type[members[0] as usize] = true);
        let mut queue: VecDeque<u32> =
            snapshot.jobs.iter().copied().filter(|&job| !has_type[job as usize]).collect();
        self.replace(snapshot, &mut queue, &mut free);
        self.assign(snapshot, &mut queue, &mut free);
        if self.sight == Sight::Packed {
            self.pack(snapshot, &mut queue);
        }
        let width = workload.width();
        for (members, device_type) in &self.assigned {
            if members[1] != NO_JOB {
                let mut row = vec![0.0; width];
                row[*device_type] = 1.0;
                shares.pairs.insert(*members, row);
            } else if let Ok(place) = snapshot.jobs.binary_search(&members[0]) {
                shares.singles[place * width + device_type] = 1.0;
            }
        }
        Ok(())
    }
}

/// What two jobs reach together on a type, each relative to itself alone.
fn gain(snapshot: &Snapshot<'_>, scheduled: u32, job: u32, device_type: usize) -> f64 {
    let workload = snapshot.workload;
    let members = [scheduled.min(job), scheduled.max(job)];
    let [first, second] = members.map(|job| workload.jobs[job as usize].class);
    let beside = workload.speeds_beside(first, second)[device_type];
    let mut gain = 0.0;
    for (job, speed) in members.into_iter().zip(beside) {
        if speed > 0.0 {
            gain += speed / workload.speeds(job)[device_type];
        }
    }
    gain
}
