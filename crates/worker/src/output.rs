//! Sends a task's output to the head, from an offset on and as it grows.

use std::io::{self, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use nix::fcntl::OFlag;
use tokio::fs::{File, OpenOptions};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::sync::{mpsc, watch};
use wharf_proto::{FromWorker, TaskOutput, from_worker};

use crate::keeper::files::is_owned;

const CHUNK_BYTES_MAX: usize = 64 * 1024;
/// How often a file is looked at that is followed.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(100);

/// What is to be sent.
pub(crate) struct Wanted {
    pub(crate) request: u64,
    pub(crate) path: PathBuf,
    pub(crate) offset: u64,
    pub(crate) follow: bool,
    /// Whether the task has ended; closed when it was forgotten.
    pub(crate) ended: watch::Receiver<bool>,
}

/// Sends all that is wanted, then says that nothing will follow.
pub(crate) async fn send(wanted: Wanted, output: mpsc::Sender<FromWorker>) {
    let request = wanted.request;
    // Output that cannot be read ends like output that is not there: the task's own end says what happened to it.
    let _ = copy(wanted, &output).await;
    let _ = output.send(message(request, Vec::new(), true)).await;
}

async fn copy(mut wanted: Wanted, output: &mpsc::Sender<FromWorker>) -> io::Result<()> {
    let mut file: Option<File> = None;
    loop {
        // Asked before reading: what was written before the end is read then.
        let is_last = !wanted.follow || *wanted.ended.borrow() || wanted.ended.has_changed().is_err();
        if file.is_none() {
            file = open(&wanted).await?;
        }
        if let Some(file) = &mut file {
            while let Some(data) = chunk(file).await? {
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

/// The file at its offset; none if it is not there yet, or is nothing that keeps what is written to it, or somebody else's: a
/// job may have put a link in its place.
async fn open(wanted: &Wanted) -> io::Result<Option<File>> {
    // Without waiting for somebody at the other end of a pipe.
    let opened =
        OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&wanted.path).await;
    let mut file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    if !is_owned(&wanted.path, &file.metadata().await?)? {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(wanted.offset)).await?;
    Ok(Some(file))
}

async fn chunk(file: &mut File) -> io::Result<Option<Vec<u8>>> {
    let mut data = Vec::with_capacity(CHUNK_BYTES_MAX);
    let count = file.read_buf(&mut data).await?;
    Ok((count > 0).then_some(data))
}

fn message(request: u64, data: Vec<u8>, end: bool) -> FromWorker {
    FromWorker { message: Some(from_worker::Message::Output(TaskOutput { request, data, end })) }
}
