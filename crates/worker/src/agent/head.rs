//! The stream to the head: opened, opened again when it breaks, never given up unless the head says no.

use std::io;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use wharf_proto::tonic::{Code, Request, Status};
use wharf_proto::workers_client::WorkersClient;
use wharf_proto::{FromWorker, FromWorkerBatch, HeadMark, from_worker, to_worker};

use super::transport::Door;
use crate::WorkerConfig;
use crate::error::WorkerError;
use crate::supervisor::protocol::Fence;

const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(3);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ATTACH_TIMEOUT: Duration = Duration::from_secs(30);
/// A head whose machine has lost power states nothing: this finds out.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// How long nothing was heard of the head when that has found it out: one period of waiting, one of asking.
pub(crate) const SILENCE: Duration = Duration::from_secs(2 * KEEPALIVE.as_secs());
/// How long the news that tasks have started waits for other news: short tasks have ended by then, and half as many
/// messages do.
const START_PATIENCE: Duration = Duration::from_millis(4);
/// Messages that are sent as one.
const BATCH_MAX: usize = 256;
/// Chunks of output that wait for the network; with their size this bounds the memory.
const OUTPUT_CHUNKS: usize = 16;

/// What comes from the head's side.
#[derive(Debug)]
pub(crate) enum HeadEvent {
    /// A stream is being opened: the first message has to be sent now.
    Opening(Outbound),
    Message(Box<to_worker::Message>),
    /// How far the head's durable state goes.
    Mark(HeadMark),
    /// The certificate was renewed, or why not.
    Renewal(Result<(), String>),
    /// The stream has ended or could not be opened.
    Away {
        reason: String,
        retry_in: Duration,
        last_contact: Contact,
    },
    /// The head does not want this worker.
    Refused {
        reason: String,
    },
}

/// When the head's machine was heard of last, as the end of a stream tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contact {
    /// Just now: the stream was closed, or the machine states that no head listens there.
    Now,
    /// The stream broke, perhaps because the head was not heard of for [`SILENCE`].
    Broken,
    /// Not since it was away last.
    NotSince,
}

/// Where messages to the head go.
#[derive(Clone, Debug)]
pub(crate) struct Outbound {
    /// Few and small, and never held up: a worker that waits for a head that waits for it would wait forever.
    control: mpsc::UnboundedSender<FromWorker>,
    /// Held up as the network has it.
    pub(crate) output: mpsc::Sender<FromWorker>,
}

impl Outbound {
    /// Sends a message; if the stream is broken it is lost, which is made up for at the next registration.
    pub(crate) fn send(&self, message: from_worker::Message) {
        let _ = self.control.send(FromWorker { message: Some(message) });
    }
}

/// Begins to connect to the head, for as long as the returned task is not aborted.
pub(crate) fn connect(
    config: &WorkerConfig,
    fence: Fence,
) -> Result<(JoinHandle<()>, mpsc::Receiver<HeadEvent>), WorkerError> {
    let door = Door::new(config, |endpoint| {
        endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE)
            .keep_alive_while_idle(true)
    })?;
    let (events, receiver) = mpsc::channel(256);
    let link = Link { door, events, backoff: BACKOFF_FIRST, fence, welcomed: false, is_attached: false };
    Ok((tokio::spawn(link.run()), receiver))
}

struct Link {
    door: Door,
    events: mpsc::Sender<HeadEvent>,
    backoff: Duration,
    fence: Fence,
    /// This head has accepted this worker before: a refusal may be a passing mistake, and tasks run.
    welcomed: bool,
    /// The present stream is one that the head has taken.
    is_attached: bool,
}

impl Link {
    async fn run(mut self) {
        loop {
            self.is_attached = false;
            let (reason, last_contact) = match self.attach().await {
                Ok(()) => ("the head closed the stream".to_owned(), Contact::Now),
                Err(status) if is_refusal(&status) && !self.welcomed => {
                    let _ = self.events.send(HeadEvent::Refused { reason: status.message().into() }).await;
                    return;
                }
                Err(status) if is_from_live_machine(&status) => (reason(&status), Contact::Now),
                Err(status) if self.is_attached => (reason(&status), Contact::Broken),
                Err(status) => (reason(&status), Contact::NotSince),
            };
            let retry_in = self.backoff;
            if self.events.send(HeadEvent::Away { reason, retry_in, last_contact }).await.is_err() {
                return;
            }
            tokio::time::sleep(retry_in).await;
            self.backoff = (self.backoff * 2).min(self.backoff_max());
        }
    }

    /// So short that a machine without a head is asked several times before tasks are stopped.
    fn backoff_max(&self) -> Duration {
        self.fence.after().map_or(BACKOFF_MAX, |after| (after / 4).clamp(BACKOFF_FIRST, BACKOFF_MAX))
    }

    /// Opens one stream and passes on what comes, until it ends.
    async fn attach(&mut self) -> Result<(), Status> {
        let (channel, bearer) = self.door.open().await?;
        let (control, control_stream) = mpsc::unbounded_channel();
        let (output, output_stream) = mpsc::channel(OUTPUT_CHUNKS);
        let (batches, batch_stream) = mpsc::channel(1);
        tokio::spawn(pack(control_stream, batches));
        let output_stream = ReceiverStream::new(output_stream);
        let output_stream = output_stream.map(|message| FromWorkerBatch { messages: vec![message] });
        let messages = ReceiverStream::new(batch_stream).merge(output_stream);
        let closed = |_| Status::cancelled("the worker ends");
        self.events.send(HeadEvent::Opening(Outbound { control, output })).await.map_err(closed)?;
        let mut request = Request::new(messages);
        if let Some(bearer) = bearer {
            request.metadata_mut().insert("authorization", bearer);
        }
        let mut client = WorkersClient::new(channel);
        let mut inbound = tokio::time::timeout(ATTACH_TIMEOUT, client.attach(request))
            .await
            .map_err(|_| Status::deadline_exceeded("the head does not answer"))??
            .into_inner();
        loop {
            let batch = tokio::select! {
                batch = inbound.message() => batch?,
                () = self.door.renewal_due() => {
                    let renewed = self.door.renew().await.map_err(|status| reason(&status));
                    self.events.send(HeadEvent::Renewal(renewed)).await.map_err(closed)?;
                    continue;
                }
            };
            let Some(batch) = batch else { return Ok(()) };
            if let Some(mark) = batch.mark {
                self.events.send(HeadEvent::Mark(mark)).await.map_err(closed)?;
            }
            for message in batch.messages.into_iter().filter_map(|envelope| envelope.message) {
                if let to_worker::Message::Welcome(welcome) = &message {
                    self.fence = Fence::new(welcome.fence_after_s, welcome.fence_grace_s);
                    (self.welcomed, self.is_attached) = (true, true);
                    self.backoff = BACKOFF_FIRST;
                }
                self.events.send(HeadEvent::Message(Box::new(message))).await.map_err(closed)?;
            }
        }
    }
}

/// Sends together what has gathered while the last batch was on its way.
async fn pack(mut messages: mpsc::UnboundedReceiver<FromWorker>, batches: mpsc::Sender<FromWorkerBatch>) {
    loop {
        let mut batch = Vec::new();
        if messages.recv_many(&mut batch, BATCH_MAX).await == 0 {
            return;
        }
        let is_start = |one: &FromWorker| matches!(one.message, Some(from_worker::Message::Started(_)));
        if batch.iter().all(is_start) {
            // Where nothing comes in time they go alone.
            let _ = tokio::time::timeout(START_PATIENCE, messages.recv_many(&mut batch, BATCH_MAX)).await;
        }
        if batches.send(FromWorkerBatch { messages: batch }).await.is_err() {
            return;
        }
    }
}

/// Whether trying again will not help.
fn is_refusal(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unauthenticated
            | Code::PermissionDenied
            | Code::InvalidArgument
            | Code::AlreadyExists
            | Code::Unimplemented
    )
}

/// Whether the head's machine itself states that no head is there.
fn is_from_live_machine(status: &Status) -> bool {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset);
        }
        source = error.source();
    }
    false
}

/// A status in words, with what lies below it: the status of a failed connection says little itself.
fn reason(status: &Status) -> String {
    let mut reason = status.message().to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        let text = error.to_string();
        if !reason.contains(&text) {
            reason = format!("{reason}: {text}");
        }
        source = error.source();
    }
    reason
}
