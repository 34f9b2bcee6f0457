//! The queue in front of the dispatcher: bounded for users, back-pressure for workers.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvError, RecvTimeoutError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use crate::dispatcher::Input;

/// An input, and its place in the queue until it is taken out.
type Waiting = (Input, Option<OwnedSemaphorePermit>);

/// Why an input was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotQueued {
    /// As many inputs wait as may.
    Full,
    /// The dispatcher is gone.
    Stopped,
}

/// The side that puts inputs in.
#[derive(Clone)]
pub(crate) struct Sender {
    inputs: mpsc::Sender<Waiting>,
    places: Arc<Semaphore>,
    length: usize,
}

/// The side that takes inputs out.
pub(crate) struct Receiver(mpsc::Receiver<Waiting>);

/// A queue in which at most `length` inputs wait.
pub(crate) fn queue(length: usize) -> (Sender, Receiver) {
    let (inputs, receiver) = mpsc::channel();
    let length = length.clamp(1, Semaphore::MAX_PERMITS);
    (Sender { inputs, places: Arc::new(Semaphore::new(length)), length }, Receiver(receiver))
}

impl Sender {
    /// The most inputs that may wait.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Queues a request, unless the queue is full.
    pub(crate) fn try_send(&self, input: Input) -> Result<(), NotQueued> {
        let place = self.places.clone().try_acquire_owned().map_err(|error| match error {
            TryAcquireError::NoPermits => NotQueued::Full,
            TryAcquireError::Closed => NotQueued::Stopped,
        })?;
        self.inputs.send((input, Some(place))).map_err(|_| NotQueued::Stopped)
    }

    /// Queues an input as soon as there is room: the sender has to wait.
    pub(crate) async fn send(&self, input: Input) -> Result<(), NotQueued> {
        let place = self.places.clone().acquire_owned().await.map_err(|_| NotQueued::Stopped)?;
        self.inputs.send((input, Some(place))).map_err(|_| NotQueued::Stopped)
    }

    /// Queues an input that must not be lost or wait, and of which each peer causes a bounded number.
    pub(crate) fn force(&self, input: Input) -> Result<(), NotQueued> {
        self.inputs.send((input, None)).map_err(|_| NotQueued::Stopped)
    }
}

impl Receiver {
    /// The next input; waits for it.
    pub(crate) fn recv(&self) -> Result<Input, RecvError> {
        self.0.recv().map(|(input, _)| input)
    }

    /// The next input; waits for it so long.
    pub(crate) fn recv_timeout(&self, timeout: Duration) -> Result<Input, RecvTimeoutError> {
        self.0.recv_timeout(timeout).map(|(input, _)| input)
    }

    /// The inputs that wait.
    pub(crate) fn try_iter(&self) -> impl Iterator<Item = Input> {
        self.0.try_iter().map(|(input, _)| input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_queue_refuses_requests_and_takes_what_must_not_be_lost() {
        let (sender, receiver) = queue(2);
        assert_eq!([(); 3].map(|()| sender.try_send(Input::Stop)), [Ok(()), Ok(()), Err(NotQueued::Full)]);
        assert_eq!(sender.force(Input::Stop), Ok(()));
        assert!(receiver.recv().is_ok(), "taking one out makes room");
        assert_eq!(sender.try_send(Input::Stop), Ok(()));
        assert_eq!(receiver.try_iter().count(), 3);
        drop(receiver);
        assert_eq!(sender.try_send(Input::Stop), Err(NotQueued::Stopped));
    }

    #[tokio::test]
    async fn worker_waits_while_the_queue_is_full() {
        let (sender, receiver) = queue(1);
        sender.try_send(Input::Stop).unwrap();
        let waiting = tokio::spawn(async move { sender.send(Input::Stop).await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        assert!(receiver.recv().is_ok());
        assert_eq!(waiting.await.unwrap(), Ok(()));
    }
}
