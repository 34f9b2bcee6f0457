//! Commands beside a running task: the head sits between client and worker, and passes on what they say.
//!
//! None of it is the dispatcher's business but the question where the task is: bytes that flow must not hold up decisions.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, mpsc};
use wharf_core::{JobId, Phase};
use wharf_proto::tonic::{Status, Streaming};
use wharf_proto::{
    ExecInput, ExecOpen, ExecOutput, FromExec, FromWorker, TaskId, ToExec, ToWorker, ToWorkerBatch,
    exec_input, exec_output, from_worker, to_worker,
};

use crate::dispatcher::Dispatcher;
use crate::nodes::worker_outbox::Outlet;

/// Bytes of input that may be on their way to a command.
const WINDOW_BYTES: usize = 1024 * 1024;
/// Bytes from one command that may wait for its client: a worker that keeps to its window never has so many under way.
const WAITING_MAX: usize = 4 * WINDOW_BYTES;
/// Pieces of output that wait for the client; with the worker's window this bounds the memory.
const OUTPUT_PIECES: usize = 16;

/// Where a task is.
pub(crate) struct TaskPlace {
    task: TaskId,
    /// The worker's connection.
    worker: u64,
    sender: Outlet,
    /// Who the job is of.
    user: String,
}

/// Finds a job's task of that rank, which has to run, in that placement where one is given.
pub(crate) fn place(
    dispatcher: &Dispatcher,
    job: JobId,
    rank: u32,
    generation: Option<u32>,
) -> Result<TaskPlace, Status> {
    let refused = |reason: String| Err(Status::failed_precondition(reason));
    let life = dispatcher.engine.state().job(job);
    if generation.is_some_and(|generation| generation != life.generation) {
        return refused(format!("job {} has been placed again since this token was made", job.0));
    }
    match life.phase {
        Phase::Running => {}
        Phase::Placed => return Err(Status::unavailable(format!("job {} is starting", job.0))),
        _ => return refused(format!("job {} does not run", job.0)),
    }
    let Some((node, task)) = dispatcher.task_of(job, rank as usize) else {
        return refused(format!("job {} has no task of rank {rank}", job.0));
    };
    let Some(session) = dispatcher.nodes.connections.session(node) else {
        return Err(Status::unavailable("the task's node is unreachable; the task continues"));
    };
    let user = dispatcher.spec(job).map(|spec| spec.user.clone()).unwrap_or_default();
    Ok(TaskPlace { task, worker: session.id, sender: session.sender.clone(), user })
}

/// The commands that run, and who hears of them.
#[derive(Default)]
pub(crate) struct Routes {
    next: AtomicU64,
    open: Mutex<HashMap<u64, Route>>,
}

struct Route {
    /// Only this worker may speak for it.
    worker: u64,
    /// As much as the window has room for.
    sender: mpsc::UnboundedSender<FromExec>,
    /// Bytes that wait for the client.
    waiting: Arc<AtomicUsize>,
}

/// What a message counts for; one without output counts for something, too.
fn size(said: &FromExec) -> usize {
    let output = said.output.as_ref().and_then(|output| output.message.as_ref());
    let bytes = match output {
        Some(exec_output::Message::Stdout(data) | exec_output::Message::Stderr(data)) => data.len(),
        _ => 0,
    };
    bytes.max(1)
}

impl Route {
    /// Passes on a message, unless the worker sends more than its window allows.
    fn pass(&self, said: FromExec) -> bool {
        let size = size(&said);
        if self.waiting.fetch_add(size, Ordering::Relaxed) + size > WAITING_MAX {
            return false;
        }
        // A client that is gone closes its session itself.
        let _ = self.sender.send(said);
        true
    }
}

impl Routes {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Route>> {
        // A panic while the lock is held leaves the data consistent.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what concerns commands out of a worker's messages.
    pub(crate) fn take(&self, worker: u64, messages: &mut Vec<FromWorker>) {
        let is_exec =
            |message: &mut FromWorker| matches!(message.message, Some(from_worker::Message::Exec(_)));
        for message in messages.extract_if(.., is_exec) {
            let Some(from_worker::Message::Exec(said)) = message.message else { continue };
            let (session, mut open) = (said.session, self.open());
            let route = open.get(&session).filter(|route| route.worker == worker);
            if route.is_some_and(|route| !route.pass(said)) {
                // Without its route the client's stream ends.
                open.remove(&session);
            }
        }
    }

    /// A worker's connection is gone, and its commands with it.
    pub(crate) fn lose(&self, worker: u64) {
        self.open().retain(|_, route| route.worker != worker);
    }

    /// Begins a command and serves it until it has ended.
    pub(crate) fn begin(
        self: &Arc<Self>,
        place: TaskPlace,
        open: ExecOpen,
        input: Streaming<ExecInput>,
    ) -> mpsc::Receiver<Result<ExecOutput, Status>> {
        let session = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, said) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let route = Route { worker: place.worker, sender, waiting: waiting.clone() };
        self.open().insert(session, route);
        let (client, output) = mpsc::channel(OUTPUT_PIECES);
        let worker = Worker { session, place, is_kept: !open.key.is_empty() };
        let routes = self.clone();
        tokio::spawn(async move {
            worker
                .send(ToExec { input: Some(message(exec_input::Message::Open(open))), ..ToExec::default() });
            let window = Semaphore::new(WINDOW_BYTES);
            tokio::select! {
                () = to_client(&worker, (said, &waiting), &client, &window) => (),
                () = to_worker(&worker, input, &window) => (),
                () = client.closed() => (),
            }
            routes.open().remove(&session);
            worker.send(ToExec { close: true, ..ToExec::default() });
        });
        output
    }
}

/// The worker's side of one command.
struct Worker {
    session: u64,
    place: TaskPlace,
    /// The command outlives the connection, and its client states when it has ended.
    is_kept: bool,
}

impl Worker {
    fn send(&self, message: ToExec) {
        let (session, user) = (self.session, self.place.user.clone());
        let message = ToExec { session, task: Some(self.place.task), user, ..message };
        let message = ToWorker { message: Some(to_worker::Message::Exec(message)) };
        // A worker that is gone is noticed by its own connection.
        let _ = self.place.sender.send(ToWorkerBatch { messages: vec![message], mark: None });
    }
}

fn message(message: exec_input::Message) -> ExecInput {
    ExecInput { message: Some(message) }
}

/// Passes on what the command says, until it has ended.
async fn to_client(
    worker: &Worker,
    (mut said, waiting): (mpsc::UnboundedReceiver<FromExec>, &AtomicUsize),
    client: &mpsc::Sender<Result<ExecOutput, Status>>,
    window: &Semaphore,
) {
    while let Some(said) = said.recv().await {
        waiting.fetch_sub(size(&said), Ordering::Relaxed);
        let room = WINDOW_BYTES.saturating_sub(window.available_permits());
        window.add_permits(usize::try_from(said.taken).unwrap_or(room).min(room));
        let Some(output) = said.output else { continue };
        let (bytes, is_last) = match &output.message {
            Some(exec_output::Message::Stdout(data) | exec_output::Message::Stderr(data)) => {
                (data.len(), false)
            }
            Some(exec_output::Message::ExitCode(_)) => (0, !worker.is_kept),
            Some(exec_output::Message::Error(_)) => (0, true),
            Some(exec_output::Message::InputTaken(_)) | None => (0, false),
        };
        if client.send(Ok(output)).await.is_err() || is_last {
            return;
        }
        worker.send(ToExec { taken: bytes as u64, ..ToExec::default() });
    }
    // The client may be gone, too.
    let text = if worker.is_kept {
        "the worker is unreachable; the command continues"
    } else {
        "the worker is gone, and the command with it"
    };
    let _ = client.send(Err(Status::unavailable(text))).await;
}

/// Passes on what the client says, until it is gone. The end of its stream is the end of the input only.
async fn to_worker(worker: &Worker, mut input: Streaming<ExecInput>, window: &Semaphore) {
    loop {
        let said = match input.message().await {
            Ok(Some(said)) => said,
            Ok(None) => break,
            Err(_) => return,
        };
        if let Some(exec_input::Message::Data(data)) = &said.message {
            let bytes = u32::try_from(data.len().min(WINDOW_BYTES)).unwrap_or(u32::MAX);
            match window.acquire_many(bytes).await {
                Ok(permits) => permits.forget(),
                Err(_) => return,
            }
        }
        let is_over = matches!(&said.message, Some(exec_input::Message::Taken(taken)) if taken.is_over);
        worker.send(ToExec { input: Some(said), ..ToExec::default() });
        if is_over {
            return;
        }
    }
    if !worker.is_kept {
        worker.send(ToExec { input: Some(message(exec_input::Message::End(true))), ..ToExec::default() });
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_that_sends_more_than_its_window_loses_the_command() {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let routes = Routes::default();
        routes.open().insert(7, Route { worker: 1, sender, waiting: Arc::default() });
        let output = |bytes: usize| FromWorker {
            message: Some(from_worker::Message::Exec(FromExec {
                session: 7,
                output: Some(ExecOutput { message: Some(exec_output::Message::Stdout(vec![0; bytes])) }),
                ..FromExec::default()
            })),
        };
        routes.take(2, &mut vec![output(10)]);
        assert!(receiver.try_recv().is_err(), "messages of another worker are ignored");
        routes.take(1, &mut vec![output(WINDOW_BYTES), output(10)]);
        assert_eq!(receiver.len(), 2);
        routes.take(1, &mut vec![output(WAITING_MAX)]);
        assert!(routes.open().is_empty());
    }
}
