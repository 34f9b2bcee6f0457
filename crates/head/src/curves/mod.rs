//! The metric store: the history of jobs' metrics, in a file of its own beside the journal.
//!
//! A thread of its own writes it behind a bounded queue, so that it never holds up the dispatcher. What cannot be queued or written is
//! dropped and reported; workers send all points of their tasks again whenever they register. A worker keeps the points of a task that is
//! over until they are stored (see [`CurveIntake`]).

mod intake;
mod table;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio::sync::oneshot;
use wharf_proto::JobMetrics;

pub(crate) use intake::{CurveIntake, refused_metrics};
pub(crate) use table::Batch;

use crate::dispatcher::clock::unix_s;
use crate::jobs::secrets::private_file;

/// The store's file in the state directory.
pub(crate) const FILE: &str = "metrics.sqlite";

/// Points that may wait to be written.
const QUEUE_POINTS_MAX: usize = 1 << 18;
/// How long points wait for others, to be written together.
const GATHER: Duration = Duration::from_millis(200);
/// Points that are written together.
const TOGETHER_MAX: usize = 20_000;
/// How long the store waits before it tries to write again.
const RETRY: Duration = Duration::from_secs(1);
/// How often old jobs are removed.
const REMOVAL: Duration = Duration::from_secs(3600);
/// Bytes of the store; beyond, the metrics of the jobs that were longest over are removed.
const BYTES_MAX: u64 = 4 << 30;
/// Jobs that are removed at once where there are too many bytes.
const REMOVED_AT_ONCE: u32 = 100;
/// How long a question waits for points that are on their way.
const FLUSH_PATIENCE: Duration = Duration::from_secs(2);

/// Hears of what goes wrong.
pub(crate) type Warn = Arc<dyn Fn(&str) + Send + Sync>;

enum Message {
    Points(Batch, u64),
    Flush(oneshot::Sender<()>),
    Stop,
}

/// What the thread and its clients both know.
#[derive(Default)]
struct Shared {
    /// Points in the queue.
    queued: AtomicUsize,
    /// The last ticket whose points are stored.
    stored: AtomicU64,
    /// Points that were dropped because the queue was full.
    dropped: AtomicU64,
}

/// Stored metrics that cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CurveReadError {
    #[error(transparent)]
    Thread(#[from] tokio::task::JoinError),
    #[error("cannot read the metric store")]
    Store(#[from] rusqlite::Error),
}

/// A handle to the store.
#[derive(Clone)]
pub(crate) struct CurveStore {
    sender: Sender<Message>,
    shared: Arc<Shared>,
    path: Arc<PathBuf>,
    tickets: Arc<AtomicU64>,
}

/// The thread that writes the store.
pub(crate) struct Writing {
    sender: Sender<Message>,
    thread: JoinHandle<()>,
}

impl Writing {
    /// Waits until everything is written.
    pub(crate) fn stop(self) {
        // A thread that is gone has nothing to write; its panic was reported by itself.
        let _ = self.sender.send(Message::Stop);
        let _ = self.thread.join();
    }
}

impl CurveStore {
    /// Starts the thread that writes the store in a state directory. Points older than so many seconds are removed.
    pub(crate) fn start(state_dir: &Path, history_s: f64, warn: Warn) -> std::io::Result<(Self, Writing)> {
        let path = state_dir.join(FILE);
        let (sender, receiver) = mpsc::channel();
        let shared = Arc::new(Shared::default());
        let writer = Writer { path: path.clone(), history_s, warn, shared: shared.clone(), connection: None };
        let thread =
            std::thread::Builder::new().name("metrics".to_owned()).spawn(move || writer.run(&receiver))?;
        let writing = Writing { sender: sender.clone(), thread };
        Ok((Self { sender, shared, path: Arc::new(path), tickets: Arc::default() }, writing))
    }

    /// Queues points; `None` where they were dropped. They are stored when [`Self::is_stored`] is true of the ticket.
    pub(crate) fn add(&self, batch: Batch) -> Option<u64> {
        let count = batch.count().max(1);
        if self.shared.queued.fetch_add(count, Ordering::Relaxed) + count > QUEUE_POINTS_MAX {
            self.shared.queued.fetch_sub(count, Ordering::Relaxed);
            self.shared.dropped.fetch_add(count as u64, Ordering::Relaxed);
            return None;
        }
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed) + 1;
        self.sender.send(Message::Points(batch, ticket)).ok().map(|()| ticket)
    }

    /// Whether the points of a ticket are stored.
    pub(crate) fn is_stored(&self, ticket: u64) -> bool {
        self.shared.stored.load(Ordering::Acquire) >= ticket
    }

    /// Points that were dropped since the last call.
    pub(crate) fn take_dropped(&self) -> u64 {
        self.shared.dropped.swap(0, Ordering::Relaxed)
    }

    /// The stored metrics of jobs, in their order; jobs without any have none.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub(crate) async fn read(
        &self,
        jobs: Vec<u32>,
        names: Vec<String>,
    ) -> Result<Vec<JobMetrics>, CurveReadError> {
        let (reply, flushed) = oneshot::channel();
        if self.sender.send(Message::Flush(reply)).is_ok() {
            // What is not written by then is not shown yet.
            let _ = tokio::time::timeout(FLUSH_PATIENCE, flushed).await;
        }
        let path = self.path.clone();
        let read = move || -> rusqlite::Result<Vec<JobMetrics>> {
            if !path.exists() {
                return Ok(jobs
                    .into_iter()
                    .map(|job_id| JobMetrics { job_id, ..JobMetrics::default() })
                    .collect());
            }
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(path.as_path(), flags)?;
            connection.busy_timeout(FLUSH_PATIENCE)?;
            jobs.into_iter().map(|job| table::read(&connection, job, &names)).collect()
        };
        Ok(tokio::task::spawn_blocking(read).await??)
    }
}

struct Writer {
    path: PathBuf,
    history_s: f64,
    warn: Warn,
    shared: Arc<Shared>,
    connection: Option<Connection>,
}

/// What is to be written.
#[derive(Default)]
struct Pending {
    batches: Vec<Batch>,
    count: usize,
    ticket: u64,
    flushes: Vec<oneshot::Sender<()>>,
    is_last: bool,
}

impl Pending {
    fn take(&mut self, message: Message) {
        match message {
            Message::Points(batch, ticket) => {
                self.count += batch.count().max(1);
                self.ticket = self.ticket.max(ticket);
                self.batches.push(batch);
            }
            Message::Flush(flush) => self.flushes.push(flush),
            Message::Stop => self.is_last = true,
        }
    }

    /// Takes what comes within a moment of the first message; a question does not wait.
    fn gather(&mut self, first: Message, messages: &Receiver<Message>) {
        self.take(first);
        let until = Instant::now() + GATHER;
        while self.count < TOGETHER_MAX && self.flushes.is_empty() && !self.is_last {
            match messages.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(message) => self.take(message),
                Err(_) => break,
            }
        }
        // All that was sent before a question.
        while let Ok(message) = messages.try_recv() {
            self.take(message);
        }
    }
}

impl Writer {
    fn run(mut self, messages: &Receiver<Message>) {
        let mut pending = Pending::default();
        let mut is_failing = false;
        let mut removal = Instant::now();
        self.remove_old();
        loop {
            let wait = if pending.batches.is_empty() { REMOVAL } else { RETRY };
            match messages.recv_timeout(wait) {
                Ok(first) => pending.gather(first, messages),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => pending.is_last = true,
            }
            if !pending.batches.is_empty() {
                let written = self.write(&pending.batches);
                match (&written, is_failing) {
                    (Err(error), false) => (self.warn)(&format!(
                        "cannot write the metric store {}: {error}; it is tried again",
                        self.path.display()
                    )),
                    (Ok(()), true) => (self.warn)("the metric store can be written again"),
                    _ => {}
                }
                is_failing = written.is_err();
                if written.is_ok() || self.is_permanent(&written) {
                    self.shared.queued.fetch_sub(pending.count, Ordering::Relaxed);
                    self.shared.stored.fetch_max(pending.ticket, Ordering::Release);
                    (pending.count, pending.batches) = (0, Vec::new());
                }
            }
            for flush in pending.flushes.drain(..) {
                // The client may have disconnected.
                let _ = flush.send(());
            }
            if pending.is_last {
                return;
            }
            if removal.elapsed() >= REMOVAL {
                removal = Instant::now();
                self.remove_old();
            }
        }
    }

    fn connection(&mut self) -> rusqlite::Result<&mut Connection> {
        if self.connection.is_none() {
            private_file(&self.path)
                .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
            self.connection = Some(table::open(&self.path)?);
        }
        self.connection.as_mut().ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    fn write(&mut self, batches: &[Batch]) -> rusqlite::Result<()> {
        let transaction = self.connection()?.transaction()?;
        batches.iter().try_for_each(|batch| table::add(&transaction, batch))?;
        transaction.commit()
    }

    /// Whether trying again does not help: the points are dropped, and a damaged file is moved away.
    fn is_permanent(&mut self, written: &rusqlite::Result<()>) -> bool {
        let Err(error) = written else { return false };
        self.connection = None;
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                let aside = self.path.with_extension(format!("damaged-{:.0}", unix_s()));
                let moved = std::fs::rename(&self.path, &aside);
                for beside in ["sqlite-wal", "sqlite-shm"] {
                    // Without its file it is of no use; mostly there is none.
                    let _ = std::fs::remove_file(self.path.with_extension(beside));
                }
                match moved {
                    Ok(()) => {
                        (self.warn)(&format!("the damaged metric store was moved to {}", aside.display()))
                    }
                    Err(error) => (self.warn)(&format!("cannot move the damaged metric store: {error}")),
                }
                false
            }
            Some(
                ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied,
            ) => false,
            Some(_) => true,
            None => false,
        }
    }

    /// Removes metrics of jobs that are long over, and the oldest where there are too many.
    fn remove_old(&mut self) {
        if !self.path.exists() {
            return;
        }
        let before_s = unix_s() - self.history_s;
        let remove = |connection: &mut Connection| -> rusqlite::Result<()> {
            let transaction = connection.transaction()?;
            table::remove_before(&transaction, before_s)?;
            while table::used_bytes(&transaction)? > BYTES_MAX
                && table::remove_oldest(&transaction, REMOVED_AT_ONCE)? > 0
            {}
            transaction.commit()
        };
        if let Err(error) = self.connection().and_then(remove) {
            self.connection = None;
            (self.warn)(&format!("cannot remove old metrics: {error}"));
        }
    }
}

#[cfg(test)]
mod tests;
