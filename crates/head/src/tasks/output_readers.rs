//! People who read the output of tasks, also while its worker comes and goes.
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

/// Bytes that wait for one reader before the worker is requested to stop. What it has sent by then still comes, and is not kept.
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

    /// Whether the worker has to be asked again; says so once.
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

/// All who read, by the number of their request; and those who have enough for now.
#[derive(Default)]
pub(crate) struct Readers {
    all: BTreeMap<u64, Reader>,
    paused: Vec<Reader>,
    last: u64,
}

impl Dispatcher {
    /// Adds a reader. Without a node that can answer there is none.
    pub(crate) fn read_output(&mut self, job: JobId, rank: usize, generation: u32, follow: bool, pipe: Pipe) {
        let latest = self.task_of(job, rank);
        let is_latest = |(_, task): &(NodeId, TaskId)| generation == 0 || task.generation == generation;
        let found = latest.filter(is_latest).or_else(|| self.earlier_task(job, rank, generation));
        let Some((node, task)) = found else { return };
        if self.engine.state().schedule().is_there(node) {
            self.begin_reading(Reader { node, task, follow, offset: 0, pipe });
        }
    }

    /// The node and the name of a task of an earlier run, as far as the journal goes back.
    fn earlier_task(&self, job: JobId, rank: usize, generation: u32) -> Option<(NodeId, TaskId)> {
        let history = self.journal.history(job.0, self.kept.first_of(job.0)).ok()?;
        let node = history.iter().find_map(|(_, record)| match serde_json::from_str(record).ok()? {
            Record::JobPlaced { generation: placed, shares, .. } if placed == generation => {
                shares.get(rank).map(|(node, _)| NodeId(*node))
            }
            _ => None,
        })?;
        Some((node, TaskId { job_id: job.0, generation }))
    }

    /// Asks from where a reader is, under a new number: what still comes under an older one is not wanted any more.
    fn begin_reading(&mut self, reader: Reader) {
        self.readers.last += 1;
        let request = self.readers.last;
        let (node, wish) = (reader.node, reader.wish(request, false));
        self.readers.all.insert(request, reader);
        if self.sessions.contains_key(&node) {
            self.send(node, wish);
        }
    }

    /// Output from a node, for a reader of one of its tasks.
    pub(crate) fn on_output(&mut self, node: NodeId, output: TaskOutput) {
        let of_node = |reader: &&mut Reader| reader.node == node;
        let Some(reader) = self.readers.all.get_mut(&output.request).filter(of_node) else { return };
        let bytes = output.data.len();
        reader.offset += bytes as u64;
        let backlog = reader.pipe.flow.add(bytes);
        let is_gone = bytes > 0 && reader.pipe.sender.send(output.data).is_err();
        if output.end || is_gone || backlog > WINDOW {
            self.end_or_pause(output.request, output.end || is_gone);
        }
    }

    fn end_or_pause(&mut self, request: u64, is_over: bool) {
        let Some(reader) = self.readers.all.remove(&request) else { return };
        let (node, stop) = (reader.node, reader.wish(request, true));
        if self.sessions.contains_key(&node) {
            self.send(node, stop);
        }
        if is_over {
            return;
        }
        reader.pipe.flow.is_paused.store(true, Ordering::SeqCst);
        // Everything may have been taken just before that was said.
        match reader.pipe.flow.is_due() {
            true => self.begin_reading(reader),
            false => {
                // Who goes away while it is paused never asks for more.
                self.readers.paused.retain(|reader| !reader.is_gone());
                self.readers.paused.push(reader);
            }
        }
    }

    /// A reader has room again.
    pub(crate) fn go_on_reading(&mut self, flow: &Arc<Flow>) {
        let place = self.readers.paused.iter().position(|reader| Arc::ptr_eq(&reader.pipe.flow, flow));
        if let Some(place) = place {
            let reader = self.readers.paused.swap_remove(place);
            self.begin_reading(reader);
        }
    }

    /// A worker has come, perhaps in the place of one that was asked before: it goes on where that one ended.
    pub(crate) fn read_on(&mut self, node: NodeId) {
        self.readers.all.retain(|_, reader| !reader.is_gone());
        self.readers.paused.retain(|reader| !reader.is_gone());
        let here = self.readers.all.iter().filter(|(_, reader)| reader.node == node);
        let wishes: Vec<to_worker::Message> =
            here.map(|(&request, reader)| reader.wish(request, false)).collect();
        for wish in wishes {
            self.send(node, wish);
        }
    }

    /// A node does not come back: its readers are not kept.
    pub(crate) fn end_reading(&mut self, node: NodeId) {
        self.readers.all.retain(|_, reader| reader.node != node);
        self.readers.paused.retain(|reader| reader.node != node);
    }
}
