//! Waiting jobs by what decides whether they fit: the gang, and how a job and its neighbours slow each other down.
//!
//! Of jobs that are alike in that, the one with the least to do comes first, and where that finds no place none of the others does:
//! a job with more work left may stop fewer jobs, and gains less by sharing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wharf_core::{JobId, JobSpec};

use crate::priority::Key;
use crate::priority::classes::Gangs;

/// Equal for jobs that are slowed down alike: gang, model, batch size, parts of an iteration that its stages take.
type Likeness = (usize, Option<Arc<str>>, Option<u32>, Option<[u64; 3]>);

/// Waiting jobs that are alike.
#[derive(Debug)]
struct List {
    gang: usize,
    waiting: BTreeSet<(Key, JobId)>,
    /// The first job found no place in this decision.
    is_blocked: bool,
}

/// All waiting jobs.
#[derive(Debug, Default)]
pub(super) struct Queue {
    gangs: Gangs,
    known: BTreeMap<Likeness, usize>,
    lists: Vec<List>,
    places: BTreeMap<JobId, (usize, Key)>,
}

impl Queue {
    /// Puts a job among the waiting ones, or to another place among them.
    pub(super) fn wait(&mut self, job: JobId, spec: &JobSpec, key: Key) {
        self.remove(job);
        let part = |stage_ms: f64| (stage_ms / spec.iteration_ms).to_bits();
        let stages =
            spec.stages.map(|stages| [stages.data_ms, stages.compute_ms, stages.network_ms].map(part));
        let gang = self.gangs.index(&spec.gang);
        let likeness = (gang, spec.model.clone(), spec.batch_size, stages);
        let next = self.lists.len();
        let list = *self.known.entry(likeness).or_insert(next);
        if list == next {
            self.lists.push(List { gang, waiting: BTreeSet::new(), is_blocked: false });
        }
        self.lists[list].waiting.insert((key, job));
        self.places.insert(job, (list, key));
    }

    pub(super) fn remove(&mut self, job: JobId) {
        if let Some((list, key)) = self.places.remove(&job) {
            self.lists[list].waiting.remove(&(key, job));
        }
    }

    /// The first waiting job of all lists that are not blocked, and the number of its gang.
    pub(super) fn first_open(&self) -> Option<(usize, JobId)> {
        let open = self.lists.iter().filter(|list| !list.is_blocked);
        let first =
            open.filter_map(|list| list.waiting.first().map(|&(key, job)| (key, job, list.gang))).min();
        first.map(|(_, job, gang)| (gang, job))
    }

    /// A waiting job finds no place in this decision, and with it all that are alike.
    pub(super) fn block(&mut self, job: JobId) {
        if let Some(&(list, _)) = self.places.get(&job) {
            self.lists[list].is_blocked = true;
        }
    }

    pub(super) fn unblock(&mut self) {
        self.lists.iter_mut().for_each(|list| list.is_blocked = false);
    }

    /// The first job that is alike and how many of them go before this one; `None` where it is the first.
    pub(super) fn ahead(&self, job: JobId) -> Option<(JobId, u32)> {
        let &(list, key) = self.places.get(&job)?;
        let waiting = &self.lists[list].waiting;
        let &(_, first) = waiting.first()?;
        (first != job).then(|| (first, waiting.range(..(key, job)).count() as u32))
    }
}
