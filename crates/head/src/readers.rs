//! People who read the output of tasks, also while its worker comes and goes.

use std::collections::BTreeMap;

use tokio::sync::mpsc::UnboundedSender;
use wharf_core::{JobId, NodeId};
use wharf_proto::{SendOutput, TaskId, TaskOutput, to_worker};

use crate::dispatcher::Dispatcher;

/// Somebody who reads.
struct Reader {
    node: NodeId,
    task: TaskId,
    follow: bool,
    /// How much of it has been read.
    offset: u64,
    sender: UnboundedSender<Vec<u8>>,
}

impl Reader {
    fn wish(&self, request: u64) -> to_worker::Message {
        to_worker::Message::SendOutput(SendOutput {
            request,
            task: Some(self.task),
            offset: self.offset,
            follow: self.follow,
            stop: false,
        })
    }
}

/// All who read, by the number of their request.
#[derive(Default)]
pub(crate) struct Readers {
    all: BTreeMap<u64, Reader>,
    last: u64,
}

impl Dispatcher {
    /// Somebody wants to read. Without a node that can be expected to answer there is nothing.
    pub(crate) fn read_output(
        &mut self,
        job: JobId,
        rank: usize,
        follow: bool,
        sender: UnboundedSender<Vec<u8>>,
    ) {
        let Some((node, task)) = self.task_of(job, rank) else { return };
        if !self.engine.state().schedule().is_there(node) {
            return;
        }
        self.readers.last += 1;
        let request = self.readers.last;
        let reader = Reader { node, task, follow, offset: 0, sender };
        let wish = reader.wish(request);
        self.readers.all.insert(request, reader);
        if self.sessions.contains_key(&node) {
            self.send(node, wish);
        }
    }

    pub(crate) fn on_output(&mut self, output: TaskOutput) {
        let Some(reader) = self.readers.all.get_mut(&output.request) else { return };
        reader.offset += output.data.len() as u64;
        let is_gone = !output.data.is_empty() && reader.sender.send(output.data).is_err();
        if is_gone || output.end {
            self.readers.all.remove(&output.request);
        }
    }

    /// A worker has come, perhaps in the place of one that was asked before: it goes on where that one ended.
    pub(crate) fn read_on(&mut self, node: NodeId) {
        self.readers.all.retain(|_, reader| !reader.sender.is_closed());
        let here = self.readers.all.iter().filter(|(_, reader)| reader.node == node);
        let wishes: Vec<to_worker::Message> = here.map(|(&request, reader)| reader.wish(request)).collect();
        for wish in wishes {
            self.send(node, wish);
        }
    }

    /// A node does not come back: nobody waits for what it had to say.
    pub(crate) fn end_reading(&mut self, node: NodeId) {
        self.readers.all.retain(|_, reader| reader.node != node);
    }
}
