//! How many elements of an array may be released at once, for arrays with a limit.

use std::collections::{BTreeMap, BTreeSet};

use wharf_core::Event;

/// Arrays with a limit, by first job, with their elements that are released and live.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    arrays: BTreeMap<u32, Room>,
}

#[derive(Debug)]
struct Room {
    limit: usize,
    released: BTreeSet<u32>,
    held: BTreeSet<u32>,
}

impl Rooms {
    /// Adds an array that is not there yet; one without a limit has no room to keep.
    pub(crate) fn add(&mut self, first: u32, limit: u32) {
        if limit > 0 {
            let room = || Room { limit: limit as usize, released: BTreeSet::new(), held: BTreeSet::new() };
            self.arrays.entry(first).or_insert_with(room);
        }
    }

    /// Whether the array that begins with this job allows one more element.
    pub(crate) fn has_room(&self, first: u32) -> bool {
        self.arrays.get(&first).is_none_or(|room| room.released.len() < room.limit)
    }

    /// The held elements after this one.
    pub(crate) fn next_held(&self, first: u32, after: Option<u32>) -> Option<u32> {
        let from = after.map_or(0, |job| job.saturating_add(1));
        self.arrays.get(&first)?.held.range(from..).next().copied()
    }

    /// An element is held from now on.
    pub(crate) fn hold(&mut self, first: u32, job: u32) {
        if let Some(room) = self.arrays.get_mut(&first) {
            room.released.remove(&job);
            room.held.insert(job);
        }
    }

    /// An element may start from now on.
    pub(crate) fn release(&mut self, first: u32, job: u32) {
        if let Some(room) = self.arrays.get_mut(&first) {
            room.held.remove(&job);
            room.released.insert(job);
        }
    }

    /// An element is over.
    fn end(&mut self, first: u32, job: u32) {
        if let Some(room) = self.arrays.get_mut(&first) {
            room.held.remove(&job);
            room.released.remove(&job);
            if room.held.is_empty() && room.released.is_empty() {
                self.arrays.remove(&first);
            }
        }
    }

    /// Follows the engine.
    pub(crate) fn note(&mut self, event: &Event, first_of: impl Fn(u32) -> u32) {
        if self.arrays.is_empty() {
            return;
        }
        match *event {
            Event::JobHeld { job } => self.hold(first_of(job.0), job.0),
            Event::JobReleased { job } => self.release(first_of(job.0), job.0),
            Event::JobEnded { job, .. } => self.end(first_of(job.0), job.0),
            _ => {}
        }
    }
}
