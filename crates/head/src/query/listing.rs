//! Lists of jobs, made in steps, so that a list of many jobs never occupies the dispatcher for long.

use std::collections::BTreeSet;

use wharf_core::JobId;
use wharf_proto::{JobPhase, JobSummary, ListJobsRequest};

use crate::dispatcher::Dispatcher;
use crate::query::job_filter::matches;
use crate::query::views;

/// Jobs that one step compares with the filter, and those that it describes.
pub(crate) const EXAMINED_MAX: usize = 5000;
pub(crate) const DESCRIBED_MAX: usize = 500;
/// Waiting jobs that one request can have explained.
pub(crate) const EXPLAINED_MAX: usize = 100;

/// A search for jobs, by id.
pub(crate) struct Search {
    request: ListJobsRequest,
    /// The id that the next step begins with; `None`: the search is complete.
    next: Option<u32>,
    /// Jobs that were compared with the filter.
    pub(crate) examined: usize,
}

impl Search {
    pub(crate) fn new(mut request: ListJobsRequest) -> Self {
        request.job_ids.sort_unstable();
        request.job_ids.dedup();
        Self { next: Some(request.from_id), request, examined: 0 }
    }

    /// The id that the next step begins with; `None`: the search is complete.
    pub(crate) fn next_id(&self) -> Option<u32> {
        self.next
    }

    /// Finds the next jobs, `most` at most.
    pub(crate) fn step(&mut self, dispatcher: &Dispatcher, most: usize) -> Vec<JobId> {
        let Some(from) = self.next else { return Vec::new() };
        let mut candidates = self.candidates(dispatcher, from).take(EXAMINED_MAX + 1);
        let mut found = Vec::new();
        let mut examined = 0;
        let next = loop {
            let Some(id) = candidates.next() else { break None };
            if examined == EXAMINED_MAX || found.len() == most {
                break Some(id);
            }
            examined += 1;
            if self.is_wanted(dispatcher, JobId(id)) {
                found.push(JobId(id));
            }
        };
        drop(candidates);
        self.next = next;
        self.examined += examined;
        found
    }

    /// Ids from one on, in order: those of the request, of live jobs, or of all.
    fn candidates<'a>(&'a self, dispatcher: &'a Dispatcher, from: u32) -> Box<dyn Iterator<Item = u32> + 'a> {
        let filter = self.request.filter.as_ref();
        if !self.request.job_ids.is_empty() {
            let begin = self.request.job_ids.partition_point(|&id| id < from);
            return Box::new(self.request.job_ids[begin..].iter().copied());
        }
        if self.request.live_only || filter.is_some_and(|filter| filter.live_only) {
            return Box::new(dispatcher.jobs.live().range(from..).copied());
        }
        Box::new(from..dispatcher.engine.state().next_job().0)
    }

    fn is_wanted(&self, dispatcher: &Dispatcher, job: JobId) -> bool {
        let ListJobsRequest { live_only, user, filter, .. } = &self.request;
        let state = dispatcher.engine.state();
        state.has_job(job)
            && (!live_only || !state.job(job).is_ended())
            && (user.is_empty() || state.spec(job).user.as_deref() == Some(user))
            && filter.as_ref().is_none_or(|filter| matches(dispatcher, filter, job))
    }
}

/// A page of a list of jobs.
pub(crate) struct Page {
    pub(crate) search: Search,
    room: usize,
    pub(crate) jobs: Vec<JobSummary>,
}

impl Page {
    pub(crate) fn new(request: ListJobsRequest) -> Self {
        let room = if request.page_size == 0 { usize::MAX } else { request.page_size as usize };
        Self { search: Search::new(request), room, jobs: Vec::new() }
    }

    /// Describes the next jobs; returns whether the page is complete.
    pub(crate) fn step(&mut self, dispatcher: &Dispatcher) -> bool {
        let most = DESCRIBED_MAX.min(self.room - self.jobs.len());
        let found = self.search.step(dispatcher, most);
        self.jobs.extend(found.into_iter().map(|job| views::summary(dispatcher, job)));
        self.search.next.is_none() || self.jobs.len() == self.room
    }
}

/// The positions of the first waiting jobs; of the elements of one array that wait alike the first only, as one reason holds for all.
pub(crate) fn to_explain(jobs: &[JobSummary], most: u32) -> Vec<usize> {
    let waits = |job: &JobSummary| matches!(job.phase(), JobPhase::Waiting | JobPhase::Held);
    let mut arrays = BTreeSet::new();
    let mut is_new =
        |job: &JobSummary| job.array_index.is_none() || arrays.insert((job.array_job, job.phase));
    let chosen = jobs.iter().enumerate().filter(|(_, job)| waits(job) && is_new(job)).map(|(index, _)| index);
    chosen.take(EXPLAINED_MAX.min(most as usize)).collect()
}
