//! The gRPC services: requests become inputs of the dispatcher, and wait for its replies.

mod changes;
mod listing;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::{ReceiverStream, UnboundedReceiverStream};
use tokio_stream::{Stream, StreamExt as _};
use wharf_core::JobId;
use wharf_proto::cluster_server::Cluster;
use wharf_proto::tonic::{Request, Response, Status, Streaming};
use wharf_proto::workers_server::Workers;
use wharf_proto::{
    ChangeJobsReply, ChangeJobsRequest, ChangeNodeReply, ChangeNodeRequest, DemandReply, ExecInput,
    ExecOutput, ExplainReply, ExplainRequest, ExportRequest, Exported, FromWorkerBatch, GetDemandRequest,
    GetJobRequest, GetLimitsRequest, GetPolicyRequest, InfoReply, InfoRequest, JobDetail, JobMetrics,
    LimitsReply, ListDetailsRequest, ListJobsReply, ListJobsRequest, ListNodesReply, ListNodesRequest,
    LogChunk, LogsRequest, MetricsRequest, PolicyReply, Secrets, SetLimitsRequest, SetPolicyRequest,
    SubmitReply, SubmitRequest, ToWorkerBatch, UsageReply, UsageRequest, WaitReply, WaitRequest, exec_input,
    from_worker,
};

use crate::auth::audit::{Subject, job_objects};
use crate::auth::{Access, Identity, Scope};
use crate::dispatcher::incident;
use crate::dispatcher::queue::{NotQueued, Sender};
use crate::dispatcher::request_error::with_cause;
use crate::dispatcher::{Dispatcher, Input};
use crate::jobs::amendments;
use crate::jobs::secrets::Vault;
use crate::journal::Reader;
use crate::nodes::worker_outbox::outlet;
use crate::nodes::{deregistration, registration};
use crate::policy::active_policy::PolicyChoice;
use crate::query::live;
use crate::query::usage;
use crate::query::views;
use crate::rpc::network::Network;
use crate::tasks::exec_sessions;
use crate::tasks::output_readers;

/// Jobs whose histories are read at once, and how many may wait for who asked.
const DETAILS_PAGE: usize = 100;
const DETAILS_AHEAD: usize = 1000;

/// Jobs whose metrics are read at once, and how many may wait for the client.
const METRICS_PAGE: usize = 16;
const METRICS_AHEAD: usize = 16;

/// A door to the dispatcher.
pub(crate) struct Service {
    inputs: Sender,
    sessions: AtomicU64,
    execs: Arc<exec_sessions::Routes>,
    access: Arc<Access>,
    terms: Terms,
    vault: Vault,
}

/// What an admin permits on this head.
pub(crate) struct Terms {
    /// Jobs of root are accepted although the head serves several users.
    pub(crate) allow_root: bool,
    /// Networks that webhooks may target although they are not public.
    pub(crate) webhook_allow: Vec<Network>,
    /// The highest priority that a user may give to a job.
    pub(crate) user_priority: i32,
}

/// The same door for both services.
pub(crate) struct Shared(pub(crate) Arc<Service>);

impl std::ops::Deref for Shared {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.0
    }
}

type Outgoing<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Service {
    pub(crate) fn new(inputs: Sender, access: Arc<Access>, terms: Terms, vault: Vault) -> Self {
        Self { inputs, sessions: AtomicU64::new(0), execs: Arc::default(), access, terms, vault }
    }

    fn send(&self, input: Input) -> Result<(), Status> {
        self.inputs.try_send(input).map_err(|not_queued| match not_queued {
            NotQueued::Stopped => stopped(),
            NotQueued::Full => Status::resource_exhausted(format!(
                "{} requests are queued, the head's limit max_queue; try again later",
                self.inputs.length()
            )),
        })
    }

    /// Asks the dispatcher something.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Dispatcher) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let (sender, receiver) = oneshot::channel();
        let ask = move |dispatcher: &Dispatcher| drop(sender.send(incident::catch(|| question(dispatcher))));
        self.send(Input::Ask(Box::new(ask)))?;
        receiver.await.map_err(|_| stopped())?.map_err(|incident| Status::internal(incident.to_string()))
    }

    /// The id of a job that exists.
    async fn known(&self, job_id: u32) -> Result<JobId, Status> {
        let job = JobId(job_id);
        let is_known = self.ask(move |dispatcher| dispatcher.engine.state().has_job(job)).await?;
        if is_known { Ok(job) } else { Err(Status::not_found(format!("there is no job {job_id}"))) }
    }

    /// Whose a job is; `None` where there is no such job.
    async fn owner(&self, job: JobId) -> Result<Option<String>, Status> {
        self.ask(move |dispatcher| views::owner(dispatcher, job)).await
    }
}

/// Carries out a change also where its client goes away meanwhile: it is made, so it is recorded.
async fn to_its_end<T: Send + 'static>(
    change: impl Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<T, Status> {
    tokio::spawn(change).await.map_err(|error| Status::internal(error.to_string()))?
}

/// A detail with the form of the history that its client reads: events, or texts of JSON for older clients.
fn with_history(mut detail: JobDetail, is_typed: bool) -> JobDetail {
    for entry in &mut detail.history {
        if is_typed && entry.event.is_some() {
            entry.what.clear();
        } else {
            entry.event = None;
        }
    }
    detail
}

fn stopped() -> Status {
    Status::unavailable("the head is stopping")
}

#[wharf_proto::tonic::async_trait]
impl Cluster for Shared {
    async fn submit(&self, request: Request<SubmitRequest>) -> Result<Response<SubmitReply>, Status> {
        let identity = Identity::of(&request)?;
        let (head, mut request) = (self.0.clone(), request.into_inner());
        for secrets in request.jobs.iter_mut().filter_map(|job| job.secrets.as_mut()) {
            *secrets = Secrets { values: std::mem::take(&mut secrets.values), ..Secrets::default() };
        }
        if let Some(again) = request.again.take() {
            if !request.jobs.is_empty() {
                return Err(Status::invalid_argument("a request can retry jobs or elements, not both"));
            }
            request.jobs.push(head.submitted_before(&identity, again).await?);
        }
        let submitted = to_its_end(async move {
            let submitted = head.submit_as(&identity, request).await;
            let objects = job_objects(submitted.iter().flatten().copied());
            head.access.audit.record(Subject::Jobs, &identity, "submit", objects, &submitted);
            submitted
        });
        submitted.await.map(|job_ids| Response::new(SubmitReply { job_ids }))
    }

    async fn list_jobs(&self, request: Request<ListJobsRequest>) -> Result<Response<ListJobsReply>, Status> {
        let identity = Identity::of(&request)?;
        self.list_jobs_as(identity, request.into_inner()).await.map(Response::new)
    }

    async fn get_job(&self, request: Request<GetJobRequest>) -> Result<Response<JobDetail>, Status> {
        let identity = Identity::of(&request)?;
        let GetJobRequest { job_id, typed } = request.into_inner();
        let job = self.known(job_id).await?;
        let detail = self.ask(move |dispatcher| views::detail(dispatcher, job)).await?;
        let detail = detail.map(|detail| with_history(identity.redact(detail), typed));
        detail.map(Response::new).map_err(|error| Status::internal(error.to_string()))
    }

    async fn change_jobs(
        &self,
        request: Request<ChangeJobsRequest>,
    ) -> Result<Response<ChangeJobsReply>, Status> {
        let identity = Identity::of(&request)?;
        let request = request.into_inner();
        let (change, named, is_trial) = (request.change(), request.job_ids.clone(), request.dry_run);
        let head = self.0.clone();
        let changed = to_its_end(async move {
            let changed = head.change_jobs_as(&identity, request).await;
            if !is_trial && amendments::is_by_people(change) {
                head.record_change(&identity, change, &named, &changed);
            }
            changed
        });
        changed.await.map(Response::new)
    }

    async fn list_nodes(
        &self,
        request: Request<ListNodesRequest>,
    ) -> Result<Response<ListNodesReply>, Status> {
        let all = request.into_inner().all;
        let nodes = self.ask(move |dispatcher| views::nodes(dispatcher, all)).await?;
        Ok(Response::new(ListNodesReply { nodes }))
    }

    async fn change_node(
        &self,
        request: Request<ChangeNodeRequest>,
    ) -> Result<Response<ChangeNodeReply>, Status> {
        let identity = Identity::of(&request)?;
        let request = request.into_inner();
        let action = format!("node-{}", request.change().as_str_name().to_lowercase());
        let objects = vec![format!("node {}", request.node.escape_debug())];
        let head = self.0.clone();
        let changed = to_its_end(async move {
            let changed = head.change_node_health(request).await;
            head.access.audit.record(Subject::Access, &identity, &action, objects, &changed);
            changed
        });
        changed.await.map(|()| Response::new(ChangeNodeReply {}))
    }

    async fn explain(&self, request: Request<ExplainRequest>) -> Result<Response<ExplainReply>, Status> {
        let identity = Identity::of(&request)?;
        let job = self.known(request.into_inner().job_id).await?;
        let explain = move |dispatcher: &Dispatcher| ExplainReply {
            reason: views::explain_to(dispatcher, job, &identity),
            is_unplaceable: views::is_unplaceable(dispatcher, job),
        };
        Ok(Response::new(self.ask(explain).await?))
    }

    type LogsStream = Outgoing<LogChunk>;

    async fn logs(&self, request: Request<LogsRequest>) -> Result<Response<Self::LogsStream>, Status> {
        let identity = Identity::of(&request)?;
        let request = request.into_inner();
        let job = self.known(request.job_id).await?;
        identity.must_read(request.job_id, &self.owner(job).await?.unwrap_or_default())?;
        let (pipe, receiver, flow) = output_readers::pipe();
        let LogsRequest { rank, follow, generation, .. } = request;
        self.send(Input::ReadOutput { job, rank: rank as usize, generation, follow, pipe })?;
        let head = Shared(self.0.clone());
        let chunks = UnboundedReceiverStream::new(receiver).map(move |data| {
            if flow.taken(data.len()) {
                head.inputs.force(Input::ReadOn { flow: flow.clone() }).map_err(|_| stopped())?;
            }
            Ok(LogChunk { data })
        });
        Ok(Response::new(Box::pin(chunks)))
    }

    async fn wait(&self, request: Request<WaitRequest>) -> Result<Response<WaitReply>, Status> {
        let identity = Identity::of(&request)?;
        let job = self.known(request.into_inner().job_id).await?;
        let (reply, receiver) = oneshot::channel();
        self.send(Input::Wait { job, reply })?;
        receiver.await.map_err(|_| stopped())?;
        let summary = self.ask(move |dispatcher| views::summary(dispatcher, job)).await?;
        Ok(Response::new(WaitReply { summary: Some(identity.redact_summary(summary)) }))
    }

    type ExecStream = Outgoing<ExecOutput>;

    async fn exec(
        &self,
        request: Request<Streaming<ExecInput>>,
    ) -> Result<Response<Self::ExecStream>, Status> {
        let identity = Identity::of(&request)?;
        let mut input = request.into_inner();
        let first = input.message().await?.and_then(|first| first.message);
        let Some(exec_input::Message::Open(open)) = first else {
            return Err(Status::invalid_argument("the first message must contain the command"));
        };
        let place = self.exec_place(&identity, open.job_id, open.rank).await;
        self.access.audit.record(Subject::Jobs, &identity, "exec", job_objects([open.job_id]), &place);
        let output = self.execs.begin(place?, open, input);
        Ok(Response::new(Box::pin(ReceiverStream::new(output))))
    }

    async fn usage(&self, request: Request<UsageRequest>) -> Result<Response<UsageReply>, Status> {
        let request = request.into_inner();
        let place = |dispatcher: &Dispatcher| {
            (
                dispatcher.log.journal.path().to_owned(),
                dispatcher.now().seconds(),
                dispatcher.clock.epoch_unix_s(),
            )
        };
        let (path, now_s, epoch_unix_s) = self.ask(place).await?;
        let reckon = move || usage::usage(&Reader::open(&path)?, &request, now_s, epoch_unix_s);
        let reckoned = tokio::task::spawn_blocking(reckon).await.map_err(|_| stopped())?;
        reckoned.map(Response::new).map_err(|error| Status::internal(error.to_string()))
    }

    type ListDetailsStream = Outgoing<JobDetail>;

    async fn list_details(
        &self,
        request: Request<ListDetailsRequest>,
    ) -> Result<Response<Self::ListDetailsStream>, Status> {
        let identity = Identity::of(&request)?;
        let ListDetailsRequest { filter, job_ids, brief, typed } = request.into_inner();
        let is_named = !job_ids.is_empty();
        let job_ids = self.ask(move |dispatcher| views::jobs_of(dispatcher, &job_ids)).await?;
        let found = if is_named && job_ids.is_empty() {
            Vec::new()
        } else {
            self.search(ListJobsRequest { filter, job_ids, ..ListJobsRequest::default() }).await?
        };
        let (sender, receiver) = mpsc::channel(DETAILS_AHEAD);
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            for page in found.chunks(DETAILS_PAGE) {
                let page = page.to_vec();
                let (reply, details) = oneshot::channel();
                // A page at a time, so that the dispatcher is never busy with it for long.
                let question =
                    move |dispatcher: &Dispatcher| drop(reply.send(views::details(dispatcher, &page, brief)));
                if inputs.send(Input::Ask(Box::new(question))).await.is_err() {
                    return;
                }
                let details = match details.await {
                    Ok(Ok(details)) => details,
                    Ok(Err(error)) => {
                        return drop(sender.send(Err(Status::internal(error.to_string()))).await);
                    }
                    Err(_) => return drop(sender.send(Err(stopped())).await),
                };
                for detail in details {
                    // The client may have gone.
                    let detail = with_history(identity.redact(detail), typed);
                    if sender.send(Ok(detail)).await.is_err() {
                        return;
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn info(&self, request: Request<InfoRequest>) -> Result<Response<InfoReply>, Status> {
        let identity = Identity::of(&request)?;
        let mut info = self.ask(views::info).await?;
        if identity.scope < Scope::Administer {
            info.alerts.clear();
        }
        Ok(Response::new(identity.sign(info)))
    }

    async fn set_policy(&self, request: Request<SetPolicyRequest>) -> Result<Response<PolicyReply>, Status> {
        let identity = Identity::of(&request)?;
        let SetPolicyRequest { policy, settings } = request.into_inner();
        let objects = vec![format!("policy {}", policy.escape_debug())];
        let choice = PolicyChoice { name: policy, settings: settings.into_iter().collect() };
        let (reply, receiver) = oneshot::channel();
        self.send(Input::SetPolicy { choice, by: identity.user.clone(), reply })?;
        let head = self.0.clone();
        let set = to_its_end(async move {
            let set = receiver
                .await
                .map_err(|_| stopped())?
                .map_err(|error| Status::invalid_argument(with_cause(&error)));
            head.access.audit.record(Subject::Access, &identity, "policy-set", objects, &set);
            set
        });
        set.await?;
        self.policies().await
    }

    async fn set_limits(&self, request: Request<SetLimitsRequest>) -> Result<Response<LimitsReply>, Status> {
        let identity = Identity::of(&request)?;
        let SetLimitsRequest { text, dry_run } = request.into_inner();
        let document = text.clone();
        let blocked = self.ask(move |dispatcher| dispatcher.blocked_by(&document)).await?;
        let blocked = blocked.map_err(|error| Status::invalid_argument(error.to_string()))?;
        if !dry_run {
            let (reply, receiver) = oneshot::channel();
            self.send(Input::SetLimits { text, by: identity.user.clone(), reply })?;
            let head = self.0.clone();
            let set = to_its_end(async move {
                let set = receiver
                    .await
                    .map_err(|_| stopped())?
                    .map_err(|error| Status::invalid_argument(with_cause(&error)));
                head.access.audit.record(Subject::Access, &identity, "limits-set", Vec::new(), &set);
                set
            });
            set.await?;
        }
        let limits = self.ask(|dispatcher| dispatcher.limits("")).await?;
        Ok(Response::new(LimitsReply { blocked, ..limits }))
    }

    async fn get_limits(&self, request: Request<GetLimitsRequest>) -> Result<Response<LimitsReply>, Status> {
        let user = request.into_inner().user;
        Ok(Response::new(self.ask(move |dispatcher| dispatcher.limits(&user)).await?))
    }

    async fn export(&self, request: Request<ExportRequest>) -> Result<Response<Exported>, Status> {
        let ExportRequest { past_max, typed } = request.into_inner();
        let exported = self.ask(move |dispatcher| live::export(dispatcher, past_max as usize, typed)).await?;
        exported.map(Response::new).map_err(|error| Status::internal(error.to_string()))
    }

    async fn get_demand(&self, _: Request<GetDemandRequest>) -> Result<Response<DemandReply>, Status> {
        let demands = self.ask(deregistration::demands).await?;
        Ok(Response::new(DemandReply { demands }))
    }

    type GetMetricsStream = Outgoing<JobMetrics>;

    async fn get_metrics(
        &self,
        request: Request<MetricsRequest>,
    ) -> Result<Response<Self::GetMetricsStream>, Status> {
        let MetricsRequest { job_ids, names, elements_only } = request.into_inner();
        let found = self.ask(move |dispatcher| {
            let jobs = views::named_jobs(dispatcher, &job_ids, elements_only)?;
            Ok((jobs, dispatcher.tasks.curves.store().cloned()))
        });
        let (jobs, store) =
            found.await?.map_err(|job: u32| Status::not_found(format!("there is no job {job}")))?;
        let Some(store) = store else { return Err(Status::unavailable("this head stores no metrics")) };
        let (sender, receiver) = mpsc::channel(METRICS_AHEAD);
        tokio::spawn(async move {
            for page in jobs.chunks(METRICS_PAGE) {
                let found = store.read(page.to_vec(), names.clone()).await;
                let found = found.map_err(|error| Status::internal(with_cause(&error)));
                let (found, failed) =
                    found.map_or_else(|status| (vec![], Some(status)), |found| (found, None));
                for one in found.into_iter().map(Ok).chain(failed.map(Err)) {
                    // The client may have gone.
                    if sender.send(one).await.is_err() {
                        return;
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn get_policy(&self, _: Request<GetPolicyRequest>) -> Result<Response<PolicyReply>, Status> {
        self.policies().await
    }
}

impl Service {
    async fn policies(&self) -> Result<Response<PolicyReply>, Status> {
        let reply = self.ask(views::policies).await?;
        reply.map(Response::new).map_err(|error| Status::internal(error.to_string()))
    }
}

#[wharf_proto::tonic::async_trait]
impl Workers for Shared {
    type AttachStream = Outgoing<ToWorkerBatch>;

    async fn attach(
        &self,
        request: Request<Streaming<FromWorkerBatch>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let identity = Identity::of(&request)?;
        let mut incoming = request.into_inner();
        let mut first = incoming.message().await?.unwrap_or_default().messages.into_iter();
        let Some(from_worker::Message::Register(register)) = first.next().and_then(|first| first.message)
        else {
            return Err(Status::invalid_argument("the first message must register the worker"));
        };
        registration::check(&register).map_err(|error| Status::invalid_argument(error.to_string()))?;
        let is_its_node = identity.must_be_node(&register.node);
        let objects = vec![format!("node {}", register.node.escape_debug())];
        self.access.audit.record(Subject::Access, &identity, "attach", objects, &is_its_node);
        is_its_node?;
        let session = self.sessions.fetch_add(1, Ordering::Relaxed);
        let (sender, outflow) = outlet();
        self.inputs
            .send(Input::Attach { register: *register, session, sender })
            .await
            .map_err(|_| stopped())?;
        let (inputs, execs) = (self.inputs.clone(), self.execs.clone());
        tokio::spawn(async move {
            let mut messages = Vec::from_iter(first);
            loop {
                execs.take(session, &mut messages);
                let is_empty = messages.is_empty();
                let message = Input::FromWorker { session, messages };
                if !is_empty && inputs.send(message).await.is_err() {
                    return;
                }
                match incoming.message().await {
                    Ok(Some(batch)) => messages = batch.messages,
                    Ok(None) | Err(_) => break,
                }
            }
            execs.lose(session);
            // If the dispatcher has ended, there is no receiver.
            let _ = inputs.force(Input::Detach { session });
        });
        Ok(Response::new(Box::pin(outflow)))
    }
}
