//! The gRPC services: requests become inputs of the dispatcher, and wait for its replies.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;

use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use wharf_core::{Command, JobId, NodeId};
use wharf_proto::cluster_server::Cluster;
use wharf_proto::tonic::{Request, Response, Status, Streaming};
use wharf_proto::workers_server::Workers;
use wharf_proto::{
    ChangeJobsReply, ChangeJobsRequest, ChangeNodeReply, ChangeNodeRequest, ExecInput, ExecOutput,
    ExplainReply, ExplainRequest, FromWorkerBatch, GetJobRequest, InfoReply, InfoRequest, JobDetail, JobSpec,
    ListJobsReply, ListJobsRequest, ListNodesReply, ListNodesRequest, LogChunk, LogsRequest, SubmitReply,
    SubmitRequest, ToWorkerBatch, WaitReply, WaitRequest, from_worker,
};

use crate::dispatcher::{Dispatcher, Input};
use crate::views;

/// A door to the dispatcher.
pub(crate) struct Service {
    inputs: Sender<Input>,
    sessions: AtomicU64,
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
    pub(crate) fn new(inputs: Sender<Input>) -> Self {
        Self { inputs, sessions: AtomicU64::new(0) }
    }

    fn send(&self, input: Input) -> Result<(), Status> {
        self.inputs.send(input).map_err(|_| stopped())
    }

    /// Asks the dispatcher something.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Dispatcher) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let (sender, receiver) = oneshot::channel();
        self.send(Input::Ask(Box::new(move |dispatcher| drop(sender.send(question(dispatcher))))))?;
        receiver.await.map_err(|_| stopped())
    }

    /// The id of a job that exists.
    async fn known(&self, job_id: u32) -> Result<JobId, Status> {
        let job = JobId(job_id);
        let is_known = self.ask(move |dispatcher| job < dispatcher.engine.state().next_job()).await?;
        if is_known { Ok(job) } else { Err(Status::not_found(format!("there is no job {job_id}"))) }
    }
}

fn stopped() -> Status {
    Status::unavailable("the head is stopping")
}

/// Whether a submitted job makes sense.
fn check(spec: &JobSpec) -> Result<(), Status> {
    if spec.command.is_empty() {
        return Err(Status::invalid_argument(format!("job `{}` has no command", spec.name)));
    }
    let gang = spec.gang.clone().unwrap_or_default();
    if gang.devices_min > gang.devices_max || gang.devices_max > 0 && gang.devices > gang.devices_max {
        return Err(Status::invalid_argument(format!("job `{}` asks for an impossible gang", spec.name)));
    }
    let finite = [spec.time_limit_s, spec.grace_s, spec.iterations, spec.iteration_ms];
    if finite.iter().any(|value| !value.is_finite() || *value < 0.0) {
        return Err(Status::invalid_argument(format!("job `{}` has a number that is no length", spec.name)));
    }
    Ok(())
}

#[wharf_proto::tonic::async_trait]
impl Cluster for Shared {
    async fn submit(&self, request: Request<SubmitRequest>) -> Result<Response<SubmitReply>, Status> {
        let specs = request.into_inner().jobs;
        specs.iter().try_for_each(check)?;
        let (reply, receiver) = oneshot::channel();
        self.send(Input::Submit { specs, reply })?;
        let job_ids = receiver.await.map_err(|_| stopped())?.map_err(Status::failed_precondition)?;
        Ok(Response::new(SubmitReply { job_ids }))
    }

    async fn list_jobs(&self, request: Request<ListJobsRequest>) -> Result<Response<ListJobsReply>, Status> {
        let filter = request.into_inner();
        let jobs = self.ask(move |dispatcher| views::jobs(dispatcher, &filter)).await?;
        Ok(Response::new(ListJobsReply { jobs }))
    }

    async fn get_job(&self, request: Request<GetJobRequest>) -> Result<Response<JobDetail>, Status> {
        let job = self.known(request.into_inner().job_id).await?;
        let detail = self.ask(move |dispatcher| views::detail(dispatcher, job)).await?;
        detail.map(Response::new).map_err(|error| Status::internal(error.to_string()))
    }

    async fn change_jobs(
        &self,
        request: Request<ChangeJobsRequest>,
    ) -> Result<Response<ChangeJobsReply>, Status> {
        let request = request.into_inner();
        let (reply, receiver) = oneshot::channel();
        self.send(Input::Change { request, reply })?;
        let refused = receiver.await.map_err(|_| stopped())?;
        Ok(Response::new(ChangeJobsReply { refused }))
    }

    async fn list_nodes(&self, _: Request<ListNodesRequest>) -> Result<Response<ListNodesReply>, Status> {
        let nodes = self.ask(views::nodes).await?;
        Ok(Response::new(ListNodesReply { nodes }))
    }

    async fn change_node(
        &self,
        request: Request<ChangeNodeRequest>,
    ) -> Result<Response<ChangeNodeReply>, Status> {
        let request = request.into_inner();
        let name = request.node.clone();
        let node = self.ask(move |dispatcher| views::node_named(dispatcher, &name)).await?;
        let node = node.ok_or_else(|| Status::not_found(format!("there is no node `{}`", request.node)))?;
        self.change_node_health(node, request).await?;
        Ok(Response::new(ChangeNodeReply {}))
    }

    async fn explain(&self, request: Request<ExplainRequest>) -> Result<Response<ExplainReply>, Status> {
        let job = self.known(request.into_inner().job_id).await?;
        let reason = self.ask(move |dispatcher| views::explain(dispatcher, job)).await?;
        Ok(Response::new(ExplainReply { reason }))
    }

    type LogsStream = Outgoing<LogChunk>;

    async fn logs(&self, request: Request<LogsRequest>) -> Result<Response<Self::LogsStream>, Status> {
        let request = request.into_inner();
        let job = self.known(request.job_id).await?;
        let (sender, receiver) = mpsc::unbounded_channel();
        self.send(Input::ReadOutput { job, rank: request.rank as usize, follow: request.follow, sender })?;
        let chunks = UnboundedReceiverStream::new(receiver).map(|data| Ok(LogChunk { data }));
        Ok(Response::new(Box::pin(chunks)))
    }

    async fn wait(&self, request: Request<WaitRequest>) -> Result<Response<WaitReply>, Status> {
        let job = self.known(request.into_inner().job_id).await?;
        let (reply, receiver) = oneshot::channel();
        self.send(Input::Wait { job, reply })?;
        receiver.await.map_err(|_| stopped())?;
        let summary = self.ask(move |dispatcher| views::summary(dispatcher, job)).await?;
        Ok(Response::new(WaitReply { summary: Some(summary) }))
    }

    type ExecStream = Outgoing<ExecOutput>;

    async fn exec(&self, _: Request<Streaming<ExecInput>>) -> Result<Response<Self::ExecStream>, Status> {
        Err(Status::unimplemented("commands beside a task are not possible yet"))
    }

    async fn info(&self, _: Request<InfoRequest>) -> Result<Response<InfoReply>, Status> {
        Ok(Response::new(self.ask(views::info).await?))
    }
}

impl Service {
    async fn change_node_health(&self, node: NodeId, request: ChangeNodeRequest) -> Result<(), Status> {
        use wharf_proto::change_node_request::Change;
        let (command, reason) = match request.change() {
            Change::Cordon => (Command::CordonNode(node), request.reason),
            Change::Drain => (Command::DrainNode(node), request.reason),
            Change::Resume => (Command::OpenNode(node), String::new()),
        };
        let (reply, receiver) = oneshot::channel();
        self.send(Input::ChangeNode { command, node, reason, reply })?;
        let result = receiver.await.map_err(|_| stopped())?;
        result.map_err(|ignored| Status::failed_precondition(ignored.to_string()))
    }
}

#[wharf_proto::tonic::async_trait]
impl Workers for Shared {
    type AttachStream = Outgoing<ToWorkerBatch>;

    async fn attach(
        &self,
        request: Request<Streaming<FromWorkerBatch>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let mut incoming = request.into_inner();
        let mut first = incoming.message().await?.unwrap_or_default().messages.into_iter();
        let Some(from_worker::Message::Register(register)) = first.next().and_then(|first| first.message)
        else {
            return Err(Status::invalid_argument("the first message must register the worker"));
        };
        if register.node.is_empty() || register.devices == 0 {
            return Err(Status::invalid_argument("a worker needs a name and at least one device"));
        }
        let session = self.sessions.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::unbounded_channel();
        self.send(Input::Attach { register, session, sender })?;
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            let mut messages = Vec::from_iter(first);
            loop {
                if !messages.is_empty() && inputs.send(Input::FromWorker { session, messages }).is_err() {
                    return;
                }
                match incoming.message().await {
                    Ok(Some(batch)) => messages = batch.messages,
                    Ok(None) | Err(_) => break,
                }
            }
            // Where the dispatcher is gone there is nobody to tell.
            let _ = inputs.send(Input::Detach { session });
        });
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(receiver).map(Ok))))
    }
}
