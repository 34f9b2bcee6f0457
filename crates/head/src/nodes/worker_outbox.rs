//! The messages that wait for a worker: as many as may, so that one that does not read costs the head bounded memory.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::sync::mpsc;
use tokio_stream::Stream;
use wharf_proto::ToWorkerBatch;
use wharf_proto::tonic::Status;

/// Batches that may wait for one worker. A worker that is further behind is disconnected; it connects again and reports its tasks.
const BACKLOG_MAX: usize = 10_000;

/// Why a batch was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotSent {
    /// The worker does not read.
    Behind,
    /// The connection is gone.
    Closed,
}

/// The head's side of a worker's stream.
#[derive(Clone, Debug)]
pub(crate) struct Outlet {
    sender: mpsc::UnboundedSender<ToWorkerBatch>,
    backlog: Arc<AtomicUsize>,
}

/// The stream itself.
pub(crate) struct Outflow {
    receiver: mpsc::UnboundedReceiver<ToWorkerBatch>,
    backlog: Arc<AtomicUsize>,
}

/// Both sides of a stream to a worker.
pub(crate) fn outlet() -> (Outlet, Outflow) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let backlog = Arc::new(AtomicUsize::new(0));
    (Outlet { sender, backlog: backlog.clone() }, Outflow { receiver, backlog })
}

impl Outlet {
    /// Queues messages.
    pub(crate) fn send(&self, batch: ToWorkerBatch) -> Result<(), NotSent> {
        if self.backlog.fetch_add(1, Ordering::Relaxed) >= BACKLOG_MAX {
            self.backlog.fetch_sub(1, Ordering::Relaxed);
            return Err(NotSent::Behind);
        }
        self.sender.send(batch).map_err(|_| NotSent::Closed)
    }
}

impl Stream for Outflow {
    type Item = Result<ToWorkerBatch, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let batch = std::task::ready!(self.receiver.poll_recv(context));
        if batch.is_some() {
            self.backlog.fetch_sub(1, Ordering::Relaxed);
        }
        Poll::Ready(batch.map(Ok))
    }
}

#[cfg(test)]
impl Outflow {
    /// Whether the head has ended the stream, and all of it was read.
    pub(crate) fn is_over(&self) -> bool {
        self.receiver.is_closed() && self.receiver.is_empty()
    }

    /// The next batch, where one waits.
    pub(crate) fn try_recv(&mut self) -> Option<ToWorkerBatch> {
        let batch = self.receiver.try_recv().ok()?;
        self.backlog.fetch_sub(1, Ordering::Relaxed);
        Some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_that_does_not_read_is_found_out() {
        let (outlet, mut outflow) = outlet();
        (0..BACKLOG_MAX).for_each(|_| assert_eq!(outlet.send(ToWorkerBatch::default()), Ok(())));
        assert_eq!(outlet.send(ToWorkerBatch::default()), Err(NotSent::Behind));
        assert!(outflow.try_recv().is_some());
        assert_eq!(outlet.send(ToWorkerBatch::default()), Ok(()));
        drop(outflow);
        assert!(outlet.send(ToWorkerBatch::default()).is_err());
    }
}
