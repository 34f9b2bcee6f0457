//! Equal parts: of everything for each job (`isolated`), or for pairs that were drawn at random (`gandiva`).

use std::collections::{BTreeMap, BTreeSet};

use super::super::error::GavelError;
use super::super::keys::{Members, NO_JOB, singles};
use super::super::random::Random;
use super::super::workload::Workload;
use super::{Rule, Shares, Snapshot};

/// Each job has an equal part of every type.
pub(super) struct Isolated;

impl Rule for Isolated {
    fn allocate(&mut self, snapshot: &Snapshot<'_>, shares: &mut Shares) -> Result<(), GavelError> {
        let width = snapshot.workload.width();
        for (&job, row) in snapshot.jobs.iter().zip(shares.singles.chunks_exact_mut(width)) {
            equal_part(snapshot.workload, snapshot.jobs.len(), snapshot.gang(job), row);
        }
        Ok(())
    }
}

/// One of `count` equal parts of the cluster, as shares of a gang's time; its sum is 1 at most.
pub(super) fn equal_part(workload: &Workload<'_>, count: usize, gang: u32, row: &mut [f64]) {
    for (share, &capacity) in row.iter_mut().zip(&workload.capacities) {
        *share = f64::from(capacity) / count as f64 / f64::from(gang);
    }
    let sum = row.iter().fold(0.0, |sum, share| sum + share).max(1.0);
    row.iter_mut().for_each(|share| *share /= sum);
}

/// Jobs are paired at random once there are more of them than devices; a pair that is too slow is parted again.
pub(super) struct Gandiva {
    random: Random,
    /// The pair, or the job alone, that each job is in.
    combinations: BTreeMap<u32, Members>,
}

impl Gandiva {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), combinations: BTreeMap::new() }
    }

    /// Parts pairs whose member is gone or which do not pay. Who is alone is always free to be paired.
    fn part(&mut self, snapshot: &Snapshot<'_>) {
        let is_live = |job: &u32| snapshot.jobs.binary_search(job).is_ok();
        self.combinations.retain(|_, members| {
            members[1] != NO_JOB
                && singles(members).iter().all(is_live)
                && gain(snapshot.workload, members) >= 1.0
        });
    }

    /// Draws pairs among those who are in none.
    fn pair(&mut self, snapshot: &Snapshot<'_>) {
        let is_free = |job: &u32| !self.combinations.contains_key(job);
        let mut free: Vec<u32> = snapshot.jobs.iter().copied().filter(is_free).collect();
        for _ in 0..free.len() {
            if free.len() < 2 {
                break;
            }
            let [first, second] = self.random.pair(free.len()).map(|place| free[place]);
            if snapshot.gang(first) != snapshot.gang(second) {
                continue;
            }
            free.retain(|&job| job != first && job != second);
            let members = [first.min(second), first.max(second)];
            self.combinations.insert(first, members);
            self.combinations.insert(second, members);
        }
        for job in free {
            self.combinations.insert(job, [job, NO_JOB]);
        }
    }
}

impl Rule for Gandiva {
    fn allocate(&mut self, snapshot: &Snapshot<'_>, shares: &mut Shares) -> Result<(), GavelError> {
        if snapshot.jobs.is_empty() {
            return Ok(());
        }
        let workload = snapshot.workload;
        self.part(snapshot);
        let wanted: u64 = snapshot.jobs.iter().map(|&job| u64::from(snapshot.gang(job))).sum();
        if wanted <= workload.workers.len() as u64 {
            return Isolated.allocate(snapshot, shares);
        }
        self.pair(snapshot);
        let chosen: BTreeSet<Members> = self.combinations.values().copied().collect();
        let width = workload.width();
        for members in &chosen {
            let mut row = vec![0.0; width];
            equal_part(workload, chosen.len(), snapshot.gang(members[0]), &mut row);
            if members[1] == NO_JOB {
                if let Ok(place) = snapshot.jobs.binary_search(&members[0]) {
                    shares.singles[place * width..(place + 1) * width].copy_from_slice(&row);
                }
            } else {
                shares.pairs.insert(*members, row);
            }
        }
        Ok(())
    }
}

/// What two jobs reach together on all types, each relative to itself alone; nothing where one of them stands still.
fn gain(workload: &Workload<'_>, members: &Members) -> f64 {
    let [first, second] = members.map(|job| workload.jobs[job as usize].class);
    let mut gain = 0.0;
    for (device_type, beside) in workload.speeds_beside(first, second).iter().enumerate() {
        for (&job, speed) in members.iter().zip(beside) {
            if *speed <= 0.0 {
                return 0.0;
            }
            gain += speed / workload.speeds(job)[device_type];
        }
    }
    gain
}
