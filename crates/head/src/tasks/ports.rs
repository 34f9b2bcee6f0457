//! Ports for the rendezvous of gangs: one for each job that runs, and never the same for two.

use std::collections::{BTreeMap, BTreeSet};

use wharf_core::JobId;

/// Below the range from which Linux gives ports to outgoing connections, and below the blocks that Ray clusters of jobs take, so
/// that none is taken by accident; above where a Ray that is not ours begins.
const FIRST: u16 = 12_000;
const LAST: u16 = 19_999;

/// Which job has which port. Several workers can be on one machine, so a port is one job's in the whole cluster.
pub(crate) struct Ports {
    next: u16,
    taken: BTreeSet<u16>,
    by_job: BTreeMap<JobId, u16>,
}

impl Default for Ports {
    /// Heads on one machine begin at different ports: none of them knows the ports of another.
    fn default() -> Self {
        let apart = std::process::id().wrapping_mul(97) % u32::from(LAST - FIRST + 1);
        Self::from(FIRST + u16::try_from(apart).unwrap_or_default())
    }
}

impl Ports {
    /// None given, and this one the first that will be.
    fn from(next: u16) -> Self {
        Self { next, taken: BTreeSet::new(), by_job: BTreeMap::new() }
    }

    /// A port for a job that starts: the one that was free the longest, 0 where all are taken.
    pub(crate) fn take(&mut self, job: JobId) -> u16 {
        self.give_back(job);
        let from_next = (self.next..=LAST).chain(FIRST..self.next);
        let Some(port) = from_next.into_iter().find(|port| !self.taken.contains(port)) else { return 0 };
        self.next = if port == LAST { FIRST } else { port + 1 };
        self.taken.insert(port);
        self.by_job.insert(job, port);
        port
    }

    /// The port of a job that runs; 0 where it has none.
    pub(crate) fn of(&self, job: JobId) -> u16 {
        self.by_job.get(&job).copied().unwrap_or(0)
    }

    pub(crate) fn give_back(&mut self, job: JobId) {
        if let Some(port) = self.by_job.remove(&job) {
            self.taken.remove(&port);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_unique_and_come_back_last() {
        let mut ports = Ports::from(FIRST);
        let all: BTreeSet<u16> = (0..=LAST - FIRST).map(|job| ports.take(JobId(u32::from(job)))).collect();
        assert_eq!(all.len(), usize::from(LAST - FIRST) + 1);
        assert_eq!(ports.take(JobId(99_999)), 0, "all are taken");
        ports.give_back(JobId(7));
        assert_eq!(ports.take(JobId(99_999)), FIRST + 7);
        assert_eq!(ports.of(JobId(99_999)), FIRST + 7);
    }
}
