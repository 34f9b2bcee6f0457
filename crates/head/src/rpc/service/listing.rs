//! Lists of jobs: several short steps of the dispatcher for each request.

use wharf_core::JobId;
use wharf_proto::tonic::Status;
use wharf_proto::{ListJobsReply, ListJobsRequest};

use super::Service;
use crate::auth::Identity;
use crate::query::listing::{Page, Search, to_explain};
use crate::query::views;

impl Service {
    /// A page of the jobs that match, with the wait reasons that the request asks for.
    pub(super) async fn list_jobs_as(
        &self,
        identity: Identity,
        request: ListJobsRequest,
    ) -> Result<ListJobsReply, Status> {
        let explain_max = request.explain_max;
        let mut page = Page::new(request);
        let mut is_complete = false;
        while !is_complete {
            (page, is_complete) = self
                .ask(move |dispatcher| {
                    let is_complete = page.step(dispatcher);
                    (page, is_complete)
                })
                .await?;
        }
        let Page { search, mut jobs, .. } = page;
        for index in to_explain(&jobs, explain_max) {
            let (job, identity) = (JobId(jobs[index].job_id), identity.clone());
            let explained = self.ask(move |dispatcher| views::explain_to(dispatcher, job, &identity)).await?;
            jobs[index].explanation = Some(explained);
        }
        let jobs = jobs.into_iter().map(|job| identity.redact_summary(job)).collect();
        Ok(ListJobsReply { jobs, next_id: search.next_id() })
    }

    /// All jobs that match, by id.
    pub(super) async fn search(&self, request: ListJobsRequest) -> Result<Vec<JobId>, Status> {
        let mut search = Search::new(request);
        let mut found = Vec::new();
        while search.next_id().is_some() {
            let some;
            (search, some) = self
                .ask(move |dispatcher| {
                    let some = search.step(dispatcher, usize::MAX);
                    (search, some)
                })
                .await?;
            found.extend(some);
        }
        Ok(found)
    }
}
