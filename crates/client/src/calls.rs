//! The calls, one method each.

use std::error::Error as _;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio_stream::Stream;
use wharf_proto::cluster_client::ClusterClient;
use wharf_proto::tonic::{Response, Status, Streaming};
use wharf_proto::{
    ChangeJobsReply, ChangeJobsRequest, ChangeNodeRequest, Demand, ExecInput, ExecOutput, ExplainRequest,
    ExportRequest, Exported, GetDemandRequest, GetJobRequest, GetLimitsRequest, GetPolicyRequest, InfoReply,
    InfoRequest, JobDetail, JobFilter, JobMetrics, JobSpec, JobSummary, LimitsReply, ListDetailsRequest,
    ListJobsRequest, ListNodesRequest, LogChunk, LogsRequest, MetricsRequest, NodeSummary, PolicyChange,
    Refusal, Resubmission, SetLimitsRequest, SetPolicyRequest, SubmitRequest, UsageReply, UsageRequest,
    WaitRequest,
};

use crate::{Access, ClientError, Connection, Locator};

/// A list of a million jobs fits.
const REPLY_BYTES_MAX: usize = 1 << 30;

/// Jobs in a page of a list.
const PAGE: u32 = 1000;

/// How long an answer is asked for again where connections break, as they do while a head restarts.
const PATIENCE: Duration = Duration::from_secs(30);
/// Random bytes in the key of a request.
const KEY_BYTES: usize = 16;
/// The first pause before that, which doubles up to the last.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// A connection to a head. Clones share it.
#[derive(Clone)]
pub struct Client {
    inner: ClusterClient<Connection>,
}

impl Client {
    /// Connects to the head that serves in a state directory.
    ///
    /// # Errors
    /// [`ClientError`] if there is none, or it does not answer.
    pub async fn connect(home: &Path) -> Result<Self, ClientError> {
        Locator::of_home(home).connect().await
    }

    /// Connects to a head.
    ///
    /// # Errors
    /// [`ClientError`] where it does not answer.
    pub async fn connect_to(access: &Access) -> Result<Self, ClientError> {
        let inner = ClusterClient::new(access.connect().await?);
        Ok(Self { inner: inner.max_decoding_message_size(REPLY_BYTES_MAX) })
    }

    /// The reply to a request, which is sent again where the connection breaks before the reply arrives. Only for requests that may
    /// be repeated.
    async fn answer<T>(
        &self,
        ask: impl AsyncFn(ClusterClient<Connection>) -> Result<Response<T>, Status>,
    ) -> Result<T, ClientError> {
        let (mut pause, longest) = PAUSES;
        let mut paused = Duration::ZERO;
        loop {
            let asked = Instant::now();
            let status = match ask(self.inner.clone()).await {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(status) => status,
            };
            // An answer that was awaited for long: the connection has only just broken.
            if asked.elapsed() > PATIENCE {
                (pause, paused) = (PAUSES.0, Duration::ZERO);
            }
            // What a head itself refuses has no source.
            if status.source().is_none() || paused >= PATIENCE {
                return Err(status.into());
            }
            tokio::time::sleep(pause).await;
            paused += pause;
            pause = (pause * 2).min(longest);
        }
    }

    /// Submits jobs, once even where the request has to be sent again; they are durable when this returns their ids, in the order
    /// given.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn submit(&self, jobs: Vec<JobSpec>) -> Result<Vec<u32>, ClientError> {
        self.submit_once(jobs, None).await
    }

    /// Hands elements of an array in again, as they were submitted; `job_id` is its first job.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn resubmit(&self, job_id: u32, indexes: Vec<u32>) -> Result<Vec<u32>, ClientError> {
        self.submit_once(Vec::new(), Some(Resubmission { job_id, indexes })).await
    }

    async fn submit_once(
        &self,
        jobs: Vec<JobSpec>,
        again: Option<Resubmission>,
    ) -> Result<Vec<u32>, ClientError> {
        let key = wharf_tls::random_hex(KEY_BYTES)?;
        let request = SubmitRequest { jobs, key, again };
        Ok(self.answer(async |mut head| head.submit(request.clone()).await).await?.job_ids)
    }

    /// Jobs that match a filter, by id, requested page by page.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn list_jobs(&self, filter: ListJobsRequest) -> Result<Vec<JobSummary>, ClientError> {
        let mut request = ListJobsRequest { page_size: PAGE, ..filter };
        let mut jobs = Vec::new();
        loop {
            let page = self.answer(async |mut head| head.list_jobs(request.clone()).await).await?;
            let explained = page.jobs.iter().filter(|job| job.explanation.is_some()).count();
            request.explain_max = request.explain_max.saturating_sub(explained as u32);
            jobs.extend(page.jobs);
            let Some(next_id) = page.next_id else { return Ok(jobs) };
            request.from_id = next_id;
        }
    }

    /// One job with its history.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn get_job(&self, job_id: u32) -> Result<JobDetail, ClientError> {
        self.answer(async |mut head| head.get_job(GetJobRequest { job_id, typed: true }).await).await
    }

    /// Cancels, holds, releases, requeues or reprioritises jobs; states which were left as they are.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn change_jobs(&self, change: ChangeJobsRequest) -> Result<Vec<Refusal>, ClientError> {
        Ok(self.inner.clone().change_jobs(change).await?.into_inner().refused)
    }

    /// All nodes with their devices.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn list_nodes(&self) -> Result<Vec<NodeSummary>, ClientError> {
        Ok(self.answer(async |mut head| head.list_nodes(ListNodesRequest { all: false }).await).await?.nodes)
    }

    /// All nodes, those that are gone included.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn list_all_nodes(&self) -> Result<Vec<NodeSummary>, ClientError> {
        Ok(self.answer(async |mut head| head.list_nodes(ListNodesRequest { all: true }).await).await?.nodes)
    }

    /// What waiting jobs could use if there were more devices; jobs that are alike in one row.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn demand(&self) -> Result<Vec<Demand>, ClientError> {
        Ok(self.answer(async |mut head| head.get_demand(GetDemandRequest {}).await).await?.demands)
    }

    /// Lets another policy decide; returns who decided so far, the latest last.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn set_policy(&self, request: SetPolicyRequest) -> Result<Vec<PolicyChange>, ClientError> {
        Ok(self.inner.clone().set_policy(request).await?.into_inner().changes)
    }

    /// Who decides and decided before, the latest last.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn policies(&self) -> Result<Vec<PolicyChange>, ClientError> {
        Ok(self.answer(async |mut head| head.get_policy(GetPolicyRequest {}).await).await?.changes)
    }

    /// Replaces the limits in force by those of a TOML document.
    ///
    /// # Errors
    /// [`ClientError`], as for every call, and where the document cannot be used.
    pub async fn set_limits(&self, text: String, dry_run: bool) -> Result<LimitsReply, ClientError> {
        Ok(self.inner.clone().set_limits(SetLimitsRequest { text, dry_run }).await?.into_inner())
    }

    /// The limits in force and how far they are used; of one user, or of all where none is named.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn limits(&self, user: &str) -> Result<LimitsReply, ClientError> {
        let request = GetLimitsRequest { user: user.to_owned() };
        self.answer(async |mut head| head.get_limits(request.clone()).await).await
    }

    /// Everything that a simulation needs, with at most so many jobs that have ended.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn export(&self, past_max: u32) -> Result<Exported, ClientError> {
        self.answer(async |mut head| head.export(ExportRequest { past_max, typed: true }).await).await
    }

    /// Cordons, drains or resumes a node.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn change_node(&self, change: ChangeNodeRequest) -> Result<(), ClientError> {
        self.inner.clone().change_node(change).await?;
        Ok(())
    }

    /// Changes all jobs that match the request's filter, at one moment, or only states which those are.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn change_matching(&self, request: ChangeJobsRequest) -> Result<ChangeJobsReply, ClientError> {
        Ok(self.inner.clone().change_jobs(request).await?.into_inner())
    }

    /// Jobs that match, with their histories, as they come.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn list_details(&self, filter: JobFilter) -> Result<Streaming<JobDetail>, ClientError> {
        let request =
            ListDetailsRequest { filter: Some(filter), typed: true, ..ListDetailsRequest::default() };
        Ok(self.inner.clone().list_details(request).await?.into_inner())
    }

    /// Jobs that match without their histories, by id, as they come: of some ids and of all elements of some arrays, or of all. The spec of
    /// an array is with its first job only.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn list_in_brief(
        &self,
        job_ids: Vec<u32>,
        filter: JobFilter,
    ) -> Result<Streaming<JobDetail>, ClientError> {
        let request = ListDetailsRequest { filter: Some(filter), job_ids, brief: true, typed: true };
        Ok(self.inner.clone().list_details(request).await?.into_inner())
    }

    /// The stored history of jobs' metrics.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn metrics(&self, request: MetricsRequest) -> Result<Streaming<JobMetrics>, ClientError> {
        Ok(self.inner.clone().get_metrics(request).await?.into_inner())
    }

    /// Who used what.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn usage(&self, request: UsageRequest) -> Result<UsageReply, ClientError> {
        self.answer(async |mut head| head.usage(request).await).await
    }

    /// Why a job is where it is.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn explain(&self, job_id: u32) -> Result<String, ClientError> {
        Ok(self.answer(async |mut head| head.explain(ExplainRequest { job_id }).await).await?.reason)
    }

    /// Why a job cannot start on the present nodes, whatever other jobs do; none where it can.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn obstacle(&self, job_id: u32) -> Result<Option<String>, ClientError> {
        let told = self.answer(async |mut head| head.explain(ExplainRequest { job_id }).await).await?;
        Ok(told.is_unplaceable.then_some(told.reason))
    }

    /// A job's output.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn logs(&self, request: LogsRequest) -> Result<Output, ClientError> {
        Ok(Output(self.inner.clone().logs(request).await?.into_inner()))
    }

    /// Returns when a job has ended.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn wait(&self, job_id: u32) -> Result<JobSummary, ClientError> {
        Ok(self
            .answer(async |mut head| head.wait(WaitRequest { job_id }).await)
            .await?
            .summary
            .unwrap_or_default())
    }

    /// What the head is and does.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn info(&self) -> Result<InfoReply, ClientError> {
        self.answer(async |mut head| head.info(InfoRequest {}).await).await
    }

    /// A command beside a running task: its input goes in, its output comes out.
    ///
    /// # Errors
    /// [`ClientError`], as for every call.
    pub async fn exec(
        &self,
        input: impl Stream<Item = ExecInput> + Send + 'static,
    ) -> Result<Streaming<ExecOutput>, ClientError> {
        Ok(self.inner.clone().exec(input).await?.into_inner())
    }
}

/// A job's output as it comes.
#[derive(Debug)]
pub struct Output(Streaming<LogChunk>);

impl Output {
    /// The next part; `None` at the end.
    ///
    /// # Errors
    /// [`ClientError`] where the head went away before the end.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        Ok(self.0.message().await?.map(|chunk| chunk.data))
    }
}
