//! Jobs that are not over: what they run, and whose they are.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use wharf_proto::JobSpec as WireSpec;

/// Live jobs by array and user.
#[derive(Default)]
pub(super) struct LiveJobs {
    /// What live jobs run, by the first job of their array or their own.
    specs: BTreeMap<u32, Arc<WireSpec>>,
    /// How many elements of arrays are not over, by first job.
    elements: BTreeMap<u32, u32>,
    ids: BTreeSet<u32>,
    by_user: BTreeMap<Arc<str>, BTreeSet<u32>>,
}

impl LiveJobs {
    /// What live jobs run, as the journal has it; [`Self::restore`] adds the jobs.
    pub(super) fn new(specs: BTreeMap<u32, Arc<WireSpec>>) -> Self {
        Self { specs, ..Self::default() }
    }

    /// Adds submitted jobs with consecutive ids.
    pub(super) fn add(&mut self, jobs: Range<u32>, is_array: bool, spec: WireSpec) {
        if is_array {
            self.elements.insert(jobs.start, jobs.len() as u32);
        }
        self.ids.extend(jobs.clone());
        self.by_user.entry(spec.user.as_str().into()).or_default().extend(jobs.clone());
        self.specs.insert(jobs.start, Arc::new(spec));
    }

    /// Adds a job of the journal. `first` is the first job of its array, or itself.
    pub(super) fn restore(&mut self, job: u32, first: u32, is_array: bool, user: Arc<str>) {
        self.ids.insert(job);
        self.by_user.entry(user).or_default().insert(job);
        if is_array {
            *self.elements.entry(first).or_default() += 1;
        }
    }

    /// Removes a job that has ended. Returns whether its array has no live element any more.
    pub(super) fn remove(&mut self, job: u32, first: u32, user: Option<&str>) -> bool {
        self.ids.remove(&job);
        if let Some(user) = user
            && let Some(jobs) = self.by_user.get_mut(user)
        {
            jobs.remove(&job);
            if jobs.is_empty() {
                self.by_user.remove(user);
            }
        }
        if let Some(left) = self.elements.get_mut(&first).filter(|left| **left > 1) {
            *left -= 1;
            return false;
        }
        self.elements.remove(&first);
        self.specs.remove(&first);
        true
    }

    /// What a job runs, by the first job of its array or its own.
    pub(super) fn spec(&self, first: u32) -> Option<&Arc<WireSpec>> {
        self.specs.get(&first)
    }

    /// Live jobs, by id.
    pub(super) fn ids(&self) -> &BTreeSet<u32> {
        &self.ids
    }

    /// Live jobs of a user.
    pub(super) fn of_user(&self, user: &str) -> &BTreeSet<u32> {
        static NONE: BTreeSet<u32> = BTreeSet::new();
        self.by_user.get(user).unwrap_or(&NONE)
    }
}
