//! What changes, as it changes: one feed for all who watch.
//!
//! The feed reads events that are durable from the journal, over a connection of its own, and asks the dispatcher for the jobs
//! and nodes that they are about, at most a few times a second and only while clients watch. A client that cannot keep up misses
//! something, is told so, and asks for everything again.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use wharf_core::JobId;
use wharf_proto::tonic::{Code, Status};

use super::Site;
use super::api::numbered;
use super::login::Who;
use super::refused::Refused;
use super::rows::{self, JobRow, NodeRow};
use crate::auth::public_reason;
use crate::dispatcher::Dispatcher;
use crate::dispatcher::head_metrics::Meter;
use crate::journal::Reader;
use crate::journal::record::Record;
use crate::query::views;
use crate::rpc::service::Shared;

/// At least so long between two messages; and how often figures that are not events are checked.
const APART: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_secs(1);
/// Messages that may wait for one who watches.
const BEHIND_MAX: usize = 32;
const WATCHERS_MAX: usize = 256;
/// Events that are told at once; where there are more, everything is asked for again.
const EVENTS_MAX: u32 = 2000;
const JOBS_MAX: usize = 2000;
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// All who watch.
pub(super) struct Hub {
    messages: broadcast::Sender<Arc<str>>,
}

impl Hub {
    /// A hub, and what keeps it going.
    pub(super) fn new(cluster: Shared, meter: &Meter) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (messages, _) = broadcast::channel(BEHIND_MAX);
        let feed = Feed {
            cluster,
            messages: messages.clone(),
            committed: meter.committed(),
            last: 0,
            told: BTreeMap::new(),
            nodes: Vec::new(),
        };
        (Self { messages }, feed.run())
    }
}

/// What has been told, so that only what is different is told again.
struct Feed {
    cluster: Shared,
    messages: broadcast::Sender<Arc<str>>,
    committed: watch::Receiver<i64>,
    /// The last event that was told.
    last: i64,
    /// How far jobs had come.
    told: BTreeMap<u32, f64>,
    nodes: Vec<NodeRow>,
}

/// What the dispatcher answers to the feed.
#[derive(Default)]
struct Changes {
    jobs: Vec<JobRow>,
    progress: Vec<Value>,
    iterations: BTreeMap<u32, f64>,
    nodes: Vec<NodeRow>,
    now_s: f64,
}

const RELOAD: &str = r#"{"reload":true}"#;

impl Feed {
    async fn run(mut self) {
        let mut was_watched = false;
        loop {
            // Whichever comes first; if there is no writer any more, the head has ended.
            if let Ok(Err(_)) = timeout(LOOK, self.committed.changed()).await {
                return;
            }
            if self.messages.receiver_count() == 0 {
                was_watched = false;
                continue;
            }
            if !was_watched {
                // Those who begin to watch ask for everything else themselves.
                self.last = *self.committed.borrow_and_update();
                was_watched = true;
            }
            match self.changes().await {
                Ok(Some(text)) => drop(self.messages.send(text.into())),
                Ok(None) => {}
                Err(status) if status.code() == Code::Unavailable => return,
                // What could not be read is not told in parts.
                Err(_) => drop(self.messages.send(RELOAD.into())),
            }
            sleep(APART).await;
        }
    }

    /// What has changed since the last message.
    async fn changes(&mut self) -> Result<Option<String>, Status> {
        let (path, epoch_unix_s) =
            self.cluster.ask(|head| (head.log.journal.path().to_owned(), head.clock.epoch_unix_s())).await?;
        let (last, events) = (self.last, read(path, self.last).await?);
        self.last = events.last().map_or(last, |(sequence, ..)| *sequence);
        let (mut jobs, mut has_nodes) = (BTreeSet::new(), false);
        for (_, _, record) in &events {
            if let Ok(record) = serde_json::from_str::<Record>(record) {
                jobs.extend(record.jobs());
                has_nodes |= record.jobs().is_empty();
            }
        }
        if events.len() >= EVENTS_MAX as usize || jobs.len() > JOBS_MAX {
            // From here on; what was skipped is part of everything.
            self.last = *self.committed.borrow_and_update();
            return Ok(Some(RELOAD.to_owned()));
        }
        let told = self.told.clone();
        let changes = self.cluster.ask(move |head| changes(head, &jobs, &told)).await?;
        self.told = changes.iterations;
        let is_changed = |node: &&NodeRow| self.nodes.get(node.index) != Some(node);
        let nodes: Vec<&NodeRow> = changes.nodes.iter().filter(is_changed).collect();
        if events.is_empty() && changes.progress.is_empty() && nodes.is_empty() && !has_nodes {
            return Ok(None);
        }
        let events: Vec<Value> = events.iter().map(|line| numbered(line, epoch_unix_s)).collect();
        let text = serde_json::to_string(&json!({
            "now": rows::short(epoch_unix_s + changes.now_s),
            "events": events, "jobs": changes.jobs, "progress": changes.progress, "nodes": nodes,
        }));
        self.nodes = changes.nodes;
        text.map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}

async fn read(path: PathBuf, after: i64) -> Result<Vec<(i64, f64, String)>, Status> {
    let read = move || Reader::open(&path)?.between(after, i64::MAX, false, EVENTS_MAX);
    let read =
        tokio::task::spawn_blocking(read).await.map_err(|_| Status::unavailable("the head is stopping"))?;
    read.map_err(|error| Status::internal(error.to_string()))
}

/// Jobs that something has happened to, how far running ones have come, and all nodes.
fn changes(head: &Dispatcher, jobs: &BTreeSet<u32>, told: &BTreeMap<u32, f64>) -> Changes {
    let is_known = |job: &&u32| head.engine.state().has_job(JobId(**job));
    let row = |&job: &u32| {
        let mut summary = views::summary(head, JobId(job));
        // All watchers get the same rows; a job's own page has the reason for its owner.
        if public_reason(&summary) != summary.reason {
            summary.reason.clear();
        }
        JobRow::from(summary)
    };
    let rows = jobs.iter().filter(is_known).map(row).collect();
    let iterations: BTreeMap<u32, f64> =
        head.tasks.reporting().map(|(job, progress)| (job.0, progress.iterations)).collect();
    let is_new = |(job, progress): &(JobId, &crate::tasks::progress::Progress)| {
        told.get(&job.0) != Some(&progress.iterations) && !jobs.contains(&job.0)
    };
    let progress = head.tasks.reporting().filter(is_new).map(|(job, progress)| {
        json!({ "id": job.0, "done": rows::short(progress.iterations), "metrics": progress.metrics })
    });
    Changes {
        jobs: rows,
        progress: progress.collect(),
        iterations,
        nodes: rows::nodes(views::nodes(head, true)),
        now_s: head.now().seconds(),
    }
}

/// Everything that changes, until the token is no good any more.
pub(super) async fn stream(who: Who, State(site): State<Arc<Site>>) -> Result<Response, Refused> {
    if site.hub.messages.receiver_count() >= WATCHERS_MAX {
        return Err(Status::resource_exhausted("too many clients watch this head").into());
    }
    let mut messages = site.hub.messages.subscribe();
    let (sender, receiver) = mpsc::channel::<Result<Event, Infallible>>(1);
    // Marks for clients the point from which the stream is complete.
    let began = Event::default().data(r#"{"began":true}"#);
    // There is room for one.
    let _ = sender.try_send(Ok(began));
    tokio::spawn(async move {
        loop {
            let message = tokio::select! {
                message = messages.recv() => message,
                () = sender.closed() => return,
            };
            let text = match message {
                Ok(text) => text,
                Err(RecvError::Lagged(_)) => RELOAD.into(),
                Err(RecvError::Closed) => return,
            };
            if sender.send(Ok(Event::default().data(&*text))).await.is_err() {
                return;
            }
        }
    });
    let events = Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    Ok(site.access.bound(&who.identity, events.into_response()))
}
