//! Clients that read the output of tasks, also while its worker disconnects and comes back.
//!
//! *Invariant: the head buffers at most a window per slow reader*: beyond that the worker is requested to stop,
//! and asked again, from where it was, when most of the window has been read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use wharf_core::{JobId, NodeId};
use wharf_proto::{SendOutput, TaskId, TaskOutput, to_worker};

use crate::dispatcher::Dispatcher;
use crate::journal::record::Record;
use crate::tasks::Tasks;

/// Bytes that wait for one reader before the worker is requested to stop. What it has sent by then still arrives, and is dropped.
const WINDOW: usize = 1 << 20;

/// What has been sent to a reader and not been taken.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    backlog: AtomicUsize,
    /// The worker was requested to stop.
    is_paused: AtomicBool,
}

impl Flow {
    fn add(&self, bytes: usize) -> usize {
        self.backlog.fetch_add(bytes, Ordering::SeqCst) + bytes
    }

    /// Whether the worker has to be asked again; true once.
    fn is_due(&self) -> bool {
        self.backlog.load(Ordering::SeqCst) < WINDOW / 2 && self.is_paused.swap(false, Ordering::SeqCst)
    }

    /// A reader has taken so many bytes: whether the worker has to be asked again.
    pub(crate) fn taken(&self, bytes: usize) -> bool {
        self.backlog.fetch_sub(bytes, Ordering::SeqCst);
        self.is_due()
    }
}

/// The head's end of a reader's stream.
#[derive(Debug)]
pub(crate) struct Pipe {
    sender: UnboundedSender<Vec<u8>>,
    flow: Arc<Flow>,
}

/// Both ends.
pub(crate) fn pipe() -> (Pipe, UnboundedReceiver<Vec<u8>>, Arc<Flow>) {
    let (sender, receiver) = unbounded_channel();
    let flow = Arc::new(Flow::default());
    (Pipe { sender, flow: flow.clone() }, receiver, flow)
}

/// A reader.
struct Reader {
    node: NodeId,
    task: TaskId,
    follow: bool,
    /// How much of it has been read.
    offset: u64,
    pipe: Pipe,
}

impl Reader {
    fn wish(&self, request: u64, stop: bool) -> to_worker::Message {
        to_worker::Message::SendOutput(SendOutput {
            request,
            task: Some(self.task),
            offset: self.offset,
            follow: self.follow,
            stop,
        })
    }

    fn is_gone(&self) -> bool {
        self.pipe.sender.is_closed()
    }
}

/// Readers by the number of their request, and those whose window is full.
#[derive(Default)]
pub(super) struct Readers {
    all: BTreeMap<u64, Reader>,
    paused: Vec<Reader>,
    last: u64,
}

/// A request to a worker.
type Wish = (NodeId, to_worker::Message);

impl Readers {
    /// Requests output from where a reader is, under a new number: what still comes under an older one is dropped.
    fn begin(&mut self, reader: Reader) -> Wish {
        self.last += 1;
        let wish = (reader.node, reader.wish(self.last, false));
        self.all.insert(self.last, reader);
        wish
    }

    /// Passes output of a node on to the reader of one of its tasks.
    fn pass(&mut self, node: NodeId, output: TaskOutput) -> Vec<Wish> {
        let of_node = |reader: &&mut Reader| reader.node == node;
        let Some(reader) = self.all.get_mut(&output.request).filter(of_node) else { return Vec::new() };
        let bytes = output.data.len();
        reader.offset += bytes as u64;
        let backlog = reader.pipe.flow.add(bytes);
        let is_gone = bytes > 0 && reader.pipe.sender.send(output.data).is_err();
        if output.end || is_gone || backlog > WINDOW {
            self.end_or_pause(output.request, output.end || is_gone)
        } else {
            Vec::new()
        }
    }

    fn end_or_pause(&mut self, request: u64, is_over: bool) -> Vec<Wish> {
        let Some(reader) = self.all.remove(&request) else { return Vec::new() };
        let mut wishes = vec![(reader.node, reader.wish(request, true))];
        if is_over {
            return wishes;
        }
        reader.pipe.flow.is_paused.store(true, Ordering::SeqCst);
        // Everything may have been taken just before that was stored.
        if reader.pipe.flow.is_due() {
            wishes.push(self.begin(reader));
        } else {
            // A client that disconnects while it is paused never asks for more.
            self.paused.retain(|reader| !reader.is_gone());
            self.paused.push(reader);
        }
        wishes
    }

    /// A reader has capacity again.
    fn unpause(&mut self, flow: &Arc<Flow>) -> Option<Wish> {
        let paused = self.paused.iter().position(|reader| Arc::ptr_eq(&reader.pipe.flow, flow))?;
        let reader = self.paused.swap_remove(paused);
        Some(self.begin(reader))
    }

    /// A worker has connected, perhaps in place of one that was asked before: it continues where that one ended.
    fn resume(&mut self, node: NodeId) -> Vec<Wish> {
        self.all.retain(|_, reader| !reader.is_gone());
        self.paused.retain(|reader| !reader.is_gone());
        let here = self.all.iter().filter(|(_, reader)| reader.node == node);
        here.map(|(&request, reader)| (node, reader.wish(request, false))).collect()
    }
}

impl Tasks {
    /// A node does not come back: its readers are dropped.
    pub(crate) fn end_reading(&mut self, node: NodeId) {
        self.readers.all.retain(|_, reader| reader.node != node);
        self.readers.paused.retain(|reader| reader.node != node);
    }
}

impl Dispatcher {
    /// Adds a reader. Without a node that can answer there is none.
    pub(crate) fn read_output(&mut self, job: JobId, rank: usize, generation: u32, follow: bool, pipe: Pipe) {
        let latest = self.task_of(job, rank);
        let is_latest = |(_, task): &(NodeId, TaskId)| generation == 0 || task.generation == generation;
        let found = latest.filter(is_latest).or_else(|| self.earlier_task(job, rank, generation));
        let Some((node, task)) = found else { return };
        if self.engine.state().schedule().is_there(node) {
            let wish = self.tasks.readers.begin(Reader { node, task, follow, offset: 0, pipe });
            self.request_output([wish]);
        }
    }

    /// The node and the name of a task of an earlier run, as far as the journal goes back.
    fn earlier_task(&self, job: JobId, rank: usize, generation: u32) -> Option<(NodeId, TaskId)> {
        let history = self.log.journal.history(job.0, self.log.state.first_of(job.0)).ok()?;
        let node = history.iter().find_map(|(_, record)| match serde_json::from_str(record).ok()? {
            Record::JobPlaced { generation: placed, shares, .. } if placed == generation => {
                shares.get(rank).map(|(node, _)| NodeId(*node))
            }
            _ => None,
        })?;
        Some((node, TaskId { job_id: job.0, generation }))
    }

    /// Output from a node, for a reader of one of its tasks.
    pub(crate) fn on_output(&mut self, node: NodeId, output: TaskOutput) {
        let wishes = self.tasks.readers.pass(node, output);
        self.request_output(wishes);
    }

    /// A reader has capacity again.
    pub(crate) fn continue_reading(&mut self, flow: &Arc<Flow>) {
        let wish = self.tasks.readers.unpause(flow);
        self.request_output(wish);
    }

    /// A worker has connected: it continues where the one before it ended.
    pub(crate) fn resume_reading(&mut self, node: NodeId) {
        let wishes = self.tasks.readers.resume(node);
        self.request_output(wishes);
    }

    /// Sends requests to the workers that are connected.
    fn request_output(&mut self, wishes: impl IntoIterator<Item = Wish>) {
        for (node, wish) in wishes {
            if self.nodes.connections.is_connected(node) {
                self.send(node, wish);
            }
        }
    }
}
