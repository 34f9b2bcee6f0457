//! How many elements of an array may be released at once, for arrays with a limit.

use std::collections::{BTreeMap, BTreeSet};

use wharf_core::Event;

/// Arrays with a limit, by first job.
#[derive(Debug, Default)]
pub(crate) struct ArrayLimits {
    arrays: BTreeMap<u32, ArrayLimit>,
}

#[derive(Debug)]
struct ArrayLimit {
    limit: usize,
    /// Live elements that may run.
    released: BTreeSet<u32>,
    /// Elements that wait for the limit alone.
    waiting: BTreeSet<u32>,
}

impl ArrayLimits {
    /// Adds an array that is not there yet; one without a limit is not stored.
    pub(crate) fn add(&mut self, first: u32, limit: u32) {
        if limit > 0 {
            let limited =
                || ArrayLimit { limit: limit as usize, released: BTreeSet::new(), waiting: BTreeSet::new() };
            self.arrays.entry(first).or_insert_with(limited);
        }
    }

    /// Removes an array of which no element is live.
    pub(crate) fn remove(&mut self, first: u32) {
        self.arrays.remove(&first);
    }

    /// Whether the array that begins with this job allows one more element.
    pub(crate) fn allows_more(&self, first: u32) -> bool {
        self.arrays.get(&first).is_none_or(|array| array.released.len() < array.limit)
    }

    /// An element waits for the limit, and for nothing else.
    pub(crate) fn wait(&mut self, first: u32, job: u32) {
        if let Some(array) = self.arrays.get_mut(&first) {
            array.waiting.insert(job);
        }
    }

    /// Takes out the next element that waits for the limit, where the limit allows it.
    pub(crate) fn next(&mut self, first: u32) -> Option<u32> {
        let array = self.arrays.get_mut(&first).filter(|array| array.released.len() < array.limit)?;
        array.waiting.pop_first()
    }

    /// An element may start from now on.
    pub(crate) fn release(&mut self, first: u32, job: u32) {
        if let Some(array) = self.arrays.get_mut(&first) {
            array.waiting.remove(&job);
            array.released.insert(job);
        }
    }

    /// An element is held for another reason, or over.
    fn leave(&mut self, first: u32, job: u32) {
        if let Some(array) = self.arrays.get_mut(&first) {
            array.waiting.remove(&job);
            array.released.remove(&job);
        }
    }

    /// Follows the engine.
    pub(crate) fn note(&mut self, event: &Event, first_of: impl Fn(u32) -> u32) {
        if self.arrays.is_empty() {
            return;
        }
        match *event {
            Event::JobHeld { job } | Event::JobEnded { job, .. } => self.leave(first_of(job.0), job.0),
            Event::JobReleased { job } => self.release(first_of(job.0), job.0),
            _ => {}
        }
    }
}
