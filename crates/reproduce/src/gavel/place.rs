//! Which devices the chosen get: those that they had, as far as these are free; the rest in the order of servers.

use std::cmp::Reverse;

use super::keys::{Keys, Members, NO_JOB};
use super::workload::Workload;

/// A key with its devices.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Assignment {
    /// Its number, or none where it is gone.
    pub key: u32,
    pub members: Members,
    pub device_type: usize,
    /// Whether it had the same in the round before.
    pub is_kept: bool,
    /// Empty once they were handed on to the next round.
    pub workers: Vec<u32>,
}

/// The devices in force.
#[derive(Debug, Default)]
pub(super) struct Placement {
    /// In the order in which they were given out.
    pub current: Vec<Assignment>,
    /// Where each key was in the round before.
    place: Vec<u32>,
    taken: Vec<bool>,
}

/// The place of a key that has kept its devices.
const KEPT: u32 = NO_JOB - 1;

impl Placement {
    pub(super) fn new(worker_count: usize) -> Self {
        Self { taken: vec![false; worker_count], ..Self::default() }
    }

    /// Keys have new numbers; those that are gone have none.
    pub(super) fn renumber(&mut self, moved: &[u32]) {
        for assignment in self.current.iter_mut().filter(|assignment| assignment.key != NO_JOB) {
            assignment.key = moved[assignment.key as usize];
        }
    }

    /// Gives out the devices of each type in that order, and returns what was in force before and was not kept.
    pub(super) fn assign(
        &mut self,
        workload: &Workload<'_>,
        keys: &Keys,
        order: &[usize],
        chosen: &mut [Vec<u32>],
    ) -> Vec<Assignment> {
        let mut before = std::mem::take(&mut self.current);
        self.place.clear();
        self.place.resize(keys.len(), NO_JOB);
        for (index, old) in before.iter().enumerate().filter(|(_, old)| old.key != NO_JOB) {
            self.place[old.key as usize] = index as u32;
        }
        self.taken.fill(false);
        for &device_type in order {
            // Large gangs first; the sort is stable.
            chosen[device_type].sort_by_key(|&key| Reverse(keys.gang[key as usize]));
            let mut next = workload.first_worker[device_type];
            for group in chosen[device_type].chunk_by(|a, b| keys.gang[*a as usize] == keys.gang[*b as usize])
            {
                self.keep(&mut before, group, device_type);
                self.fill(keys, group, device_type, &mut next);
            }
        }
        before.retain(|old| !old.workers.is_empty());
        before
    }

    /// Lets those keep their devices who had them on this type, where no other job has taken one of them.
    fn keep(&mut self, before: &mut [Assignment], group: &[u32], device_type: usize) {
        for &key in group {
            let place = self.place[key as usize] as usize;
            let Some(old) = before.get_mut(place).filter(|old| old.device_type == device_type) else {
                continue;
            };
            if old.workers.iter().any(|&worker| self.taken[worker as usize]) {
                continue;
            }
            old.workers.iter().for_each(|&worker| self.taken[worker as usize] = true);
            self.place[key as usize] = KEPT;
            let workers = std::mem::take(&mut old.workers);
            self.current.push(Assignment { key, members: old.members, device_type, is_kept: true, workers });
        }
    }

    /// Gives devices to the others, from a place that only moves forward. Who has no share yet gets none.
    fn fill(&mut self, keys: &Keys, group: &[u32], device_type: usize, next: &mut u32) {
        for &key in group {
            if !keys.is_shared[key as usize] || self.place[key as usize] == KEPT {
                continue;
            }
            let gang = keys.gang[key as usize] as usize;
            let mut workers = Vec::with_capacity(gang);
            while workers.len() < gang {
                if !std::mem::replace(&mut self.taken[*next as usize], true) {
                    workers.push(*next);
                }
                *next += 1;
            }
            let members = keys.members[key as usize];
            self.current.push(Assignment { key, members, device_type, is_kept: false, workers });
        }
    }
}
