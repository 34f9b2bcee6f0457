//! Sends a task's output to the head, from an offset on and as it grows.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::sync::{mpsc, watch};
use wharf_proto::{FromWorker, TaskOutput, from_worker};

use crate::disk::read_output;
use crate::supervisor::Stage;
use crate::supervisor::files::{foreign_owner, open_to_read};

const CHUNK_BYTES_MAX: usize = 64 * 1024;
/// How often a file is checked that is followed.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(100);

/// What is to be sent.
pub(crate) struct Wanted {
    pub(crate) request: u64,
    pub(crate) path: PathBuf,
    pub(crate) offset: u64,
    pub(crate) follow: bool,
    /// Whether the task has ended; closed when it was forgotten.
    pub(crate) ended: watch::Receiver<bool>,
    /// The worker's state directory.
    pub(crate) state_dir: PathBuf,
    /// The program that has the subcommand `supervisor`; without one, this very program.
    pub(crate) program: Option<PathBuf>,
}

/// Sends all that is wanted, then states that nothing will follow.
pub(crate) async fn send(wanted: Wanted, output: mpsc::Sender<FromWorker>) {
    let request = wanted.request;
    // Output that cannot be read ends like output that is not there: the task's own end states what happened to it.
    let _ = copy(wanted, &output).await;
    let _ = output.send(message(request, Vec::new(), true)).await;
}

async fn copy(mut wanted: Wanted, output: &mpsc::Sender<FromWorker>) -> io::Result<()> {
    let mut file: Option<Arc<File>> = None;
    loop {
        // Asked before reading: what was written before the end is read then.
        let is_last = !wanted.follow || *wanted.ended.borrow() || wanted.ended.has_changed().is_err();
        if file.is_none() {
            match foreign_owner(&wanted.path) {
                Ok(Some(uid)) => return copy_as(uid, wanted, output).await,
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => file = open_to_read(&wanted.path)?.map(Arc::new),
            }
        }
        if let Some(file) = &file {
            while let Some(data) = chunk(file, &mut wanted.offset).await? {
                if output.send(message(wanted.request, data, false)).await.is_err() {
                    return Ok(());
                }
            }
        }
        if is_last {
            return Ok(());
        }
        // The end is told at once; growth is noticed in time.
        let _ = tokio::time::timeout(FOLLOW_INTERVAL, wanted.ended.changed()).await;
    }
}

/// Has a process of a user's read the file that the task of this user has named: only that user's rights may reach it.
async fn copy_as(uid: u32, mut wanted: Wanted, output: &mpsc::Sender<FromWorker>) -> io::Result<()> {
    let path = std::fs::read_link(&wanted.path)?;
    let program = wanted.program.clone().map_or_else(std::env::current_exe, Ok)?;
    loop {
        // Asked before reading: what was written before the end is read then.
        let is_last = !wanted.follow || *wanted.ended.borrow() || wanted.ended.has_changed().is_err();
        let Some(stage) = Stage::reading(path.clone(), uid, wanted.offset, !is_last) else { return Ok(()) };
        let mut command = tokio::process::Command::from(stage.to_command(&program, &wanted.state_dir)?);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let Some(mut reading) = child.stdout.take() else { return Ok(()) };
        loop {
            let mut data = Vec::with_capacity(CHUNK_BYTES_MAX);
            tokio::select! {
                count = reading.read_buf(&mut data) => match count? {
                    0 => return Ok(()),
                    count => wanted.offset += count as u64,
                },
                // The rest is read by another process, which ends with the file.
                _ = wanted.ended.changed(), if !is_last => break,
            }
            if output.send(message(wanted.request, data, false)).await.is_err() {
                return Ok(());
            }
        }
    }
}

async fn chunk(file: &Arc<File>, offset: &mut u64) -> io::Result<Option<Vec<u8>>> {
    let (file, mut at) = (file.clone(), *offset);
    let read = move || read_output(&file, &mut at, CHUNK_BYTES_MAX).map(|data| (data, at));
    let (data, at) = tokio::task::spawn_blocking(read).await.map_err(io::Error::other)??;
    *offset = at;
    Ok((!data.is_empty()).then_some(data))
}

fn message(request: u64, data: Vec<u8>, end: bool) -> FromWorker {
    FromWorker { message: Some(from_worker::Message::Output(TaskOutput { request, data, end })) }
}
