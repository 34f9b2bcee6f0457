//! The agent's end of a command with a key: it passes on what the client and the process that keeps the command say.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::Instant;
use wharf_proto::{ExecInput, ExecOpen, FromExec, FromWorker, ToExec, exec_input, exec_output, from_worker};

use super::error::ExecError;
use super::session::SessionTask;
use super::{Message, Output, from_exec};
use crate::WorkerConfig;
use crate::task::TaskKey;

/// How long a client whose head is there may take to come back.
const RETURN: Duration = Duration::from_secs(10);
/// Far more than a window's worth.
const FRAME_BYTES_MAX: u32 = 64 << 20;
const KEY_DIGITS: usize = 32;

/// A line to the process that keeps a command.
pub(super) struct Relay {
    stream: UnixStream,
}

impl Relay {
    /// Reaches the process that keeps the command, or starts it.
    pub(super) fn open(
        config: &WorkerConfig,
        task: TaskKey,
        beside: &SessionTask,
        open: &ExecOpen,
    ) -> Result<Self, ExecError> {
        if open.key.len() != KEY_DIGITS || !open.key.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(ExecError::Key { digits: KEY_DIGITS });
        }
        let folder = config.state_dir.join("steps");
        let start =
            |listener, path: &Path| start(config.supervisor_program.as_deref(), beside, listener, path);
        let reached = reach(&folder, &format!("{task}-{}", open.key), (!open.is_known).then_some(start));
        let stream = reached.map_err(ExecError::Unreachable)?;
        Ok(Self { stream })
    }

    /// Passes on what both sides say, until one of them is gone.
    pub(super) async fn serve(
        self,
        session: u64,
        open: ExecOpen,
        mut messages: mpsc::UnboundedReceiver<Message>,
        output: Output,
    ) {
        let lost = |error: &io::Error| {
            from_exec(session, Some(exec_output::Message::Error(format!("it is lost: {error}"))), 0)
        };
        let stream = self.stream.set_nonblocking(true);
        let (mut from_kept, mut to_kept) =
            match stream.and_then(|()| tokio::net::UnixStream::from_std(self.stream)) {
                Ok(stream) => stream.into_split(),
                // A client that is gone does not hear it.
                Err(error) => return drop(output.send(lost(&error)).await),
            };
        let (frames, mut said) = mpsc::channel(1);
        let reading = tokio::spawn(async move {
            while let Ok(frame) = read_frame::<FromExec>(&mut from_kept).await {
                if frames.send(frame).await.is_err() {
                    return;
                }
            }
        });
        let mut next = Some(input(exec_input::Message::Open(open)));
        let mut end = None;
        loop {
            if let Some(frame) = next.take()
                && write_frame(&mut to_kept, &frame).await.is_err()
            {
                break;
            }
            tokio::select! {
                frame = said.recv() => {
                    let Some(frame) = frame else { break };
                    let message = from_worker::Message::Exec(FromExec { session, ..frame });
                    if output.send(FromWorker { message: Some(message) }).await.is_err() {
                        break;
                    }
                }
                message = messages.recv() => match message {
                    // The head is away, or the agent ends: the command waits.
                    None => break,
                    Some(Message::Input(message)) => next = Some(input(message)),
                    Some(Message::Signal(signal)) => next = Some(ToExec { signal, ..ToExec::default() }),
                    // What the client has is told from end to end.
                    Some(Message::Taken(_)) => {}
                    Some(Message::Gone) => end = Some(Instant::now() + RETURN),
                    Some(Message::End) => next = Some(ToExec { close: true, ..ToExec::default() }),
                },
                () = crate::agent::at(end) => {
                    end = None;
                    next = Some(ToExec { close: true, ..ToExec::default() });
                }
            }
        }
        reading.abort();
    }
}

fn input(message: exec_input::Message) -> ToExec {
    ToExec { input: Some(ExecInput { message: Some(message) }), ..ToExec::default() }
}

/// Connects to the socket of that name; if there is no listener, lets `start` create one, if permitted.
fn reach(
    folder: &Path,
    name: &str,
    start: Option<impl FnOnce(UnixListener, &Path) -> io::Result<()>>,
) -> io::Result<UnixStream> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let opened = File::open(folder)?;
    // Names of sockets are short; that of an open folder is.
    let short = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd())).join(name);
    if let Ok(stream) = UnixStream::connect(&short) {
        return Ok(stream);
    }
    let start = start.ok_or_else(|| io::Error::other("its process has ended, and the command with it"))?;
    let path = folder.join(name);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&short)?;
    start(listener, &path)?;
    UnixStream::connect(&short)
}

/// Starts what keeps the command: in a session of its own, because it outlives this process.
fn start(program: Option<&Path>, task: &SessionTask, listener: UnixListener, path: &Path) -> io::Result<()> {
    let program = program.map_or_else(std::env::current_exe, |program| Ok(program.to_owned()))?;
    let mut command = Command::new(program);
    command.arg("exec-session").args(task.options()).arg("--keep").arg(path).env_clear();
    command.stdin(OwnedFd::from(listener)).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn()?;
    // While this process is there it collects what is left of the other.
    std::thread::Builder::new().name("kept".to_owned()).spawn(move || child.wait()).map(drop)
}

/// Reads one message after its length.
pub(super) async fn read_frame<M: wharf_proto::prost::Message + Default>(
    from: &mut (impl AsyncRead + Unpin),
) -> io::Result<M> {
    let length = from.read_u32_le().await?;
    if length > FRAME_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length as usize];
    from.read_exact(&mut bytes).await?;
    M::decode(bytes.as_slice()).map_err(io::Error::other)
}

/// Writes one message after its length.
pub(super) async fn write_frame<M: wharf_proto::prost::Message>(
    to: &mut (impl AsyncWrite + Unpin),
    message: &M,
) -> io::Result<()> {
    let mut bytes = (message.encoded_len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&message.encode_to_vec());
    to.write_all(&bytes).await
}
