//! `wharf exec`: a command beside a running task, its input and output here.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::sync::{Mutex, PoisonError};

use nix::sys::termios::{self, SetArg, Termios};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use wharf_client::Client;
use wharf_proto::tonic::Streaming;
use wharf_proto::{ExecInput, ExecOpen, ExecOutput, TerminalSize, exec_input, exec_output};

use super::connect::{refused, with};
use super::jobs::id_of;
use crate::args::{ExecArgs, ExecSessionArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::interrupt;

/// Where this is no terminal.
const SIZE_UNKNOWN: TerminalSize = TerminalSize { rows: 24, columns: 80 };
const CHUNK_BYTES: usize = 16 * 1024;
/// Pieces of input that wait for the network.
const INPUT_PIECES: usize = 4;

/// Runs a command in a job and ends with its exit code.
pub(in crate::commands) fn exec(args: &ExecArgs) -> Result<Exit, CliError> {
    with(&args.home, async |client| {
        let job_id = id_of(client, args.job).await?;
        let command = args.command.clone();
        let open = ExecOpen { job_id, rank: args.rank, command, ..ExecOpen::default() };
        session(client, open, args.pty).await
    })
}

/// Runs a command in a task, with a terminal if that is wanted, its input and output here.
pub(in crate::commands) async fn session(
    client: &Client,
    open: ExecOpen,
    is_pty: bool,
) -> Result<Exit, CliError> {
    let (inputs, stream) = mpsc::channel(INPUT_PIECES);
    let open = ExecOpen { terminal: is_pty.then(size), ..open };
    // The channel is new: there is room.
    let _ = inputs.send(message(exec_input::Message::Open(open))).await;
    let output = client.exec(ReceiverStream::new(stream)).await?;
    let _raw = if is_pty { Raw::enter()? } else { None };
    read_input(inputs.clone());
    if is_pty {
        let changes = signal(SignalKind::window_change());
        let mut changes = changes.map_err(|error| {
            CliError::new(ErrorKind::Internal, "cannot watch the terminal's size").caused_by(error)
        })?;
        tokio::spawn(async move {
            while changes.recv().await.is_some() {
                if inputs.send(message(exec_input::Message::Size(size()))).await.is_err() {
                    return;
                }
            }
        });
    }
    show(output).await
}

/// Becomes a command in a task; returns only where that is not possible.
pub(in crate::commands) fn exec_session(args: &ExecSessionArgs) -> Exit {
    let task = wharf_worker::SessionTask {
        pid: args.task,
        start_time: args.start_time,
        uid: args.uid,
        gid: args.gid,
        cgroups: args.cgroup.clone(),
        denied_devices: args.denied_device.clone(),
    };
    Exit::Passed(match &args.keep {
        Some(path) => wharf_worker::keyed_session_main(&task, path),
        None => wharf_worker::exec_session_main(&task, args.terminal, &args.command),
    })
}

fn message(message: exec_input::Message) -> ExecInput {
    ExecInput { message: Some(message) }
}

fn size() -> TerminalSize {
    match terminal_size::terminal_size() {
        Some((width, height)) => TerminalSize { rows: height.0.into(), columns: width.0.into() },
        None => SIZE_UNKNOWN,
    }
}

/// Reads standard input on a detached thread: a read cannot be cancelled.
fn read_input(inputs: mpsc::Sender<ExecInput>) {
    std::thread::spawn(move || {
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut stdin = io::stdin().lock();
        loop {
            let next = match stdin.read(&mut chunk) {
                Ok(count) if count > 0 => exec_input::Message::Data(chunk[..count].to_vec()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Input that cannot be read has ended.
                Ok(_) | Err(_) => exec_input::Message::End(true),
            };
            let is_last = matches!(next, exec_input::Message::End(_));
            if inputs.blocking_send(message(next)).is_err() || is_last {
                return;
            }
        }
    });
}

async fn show(mut output: Streaming<ExecOutput>) -> Result<Exit, CliError> {
    while let Some(said) = output.message().await.map_err(refused)? {
        match said.message {
            Some(exec_output::Message::Stdout(data)) => {
                let mut out = io::stdout();
                out.write_all(&data).and_then(|()| out.flush()).map_err(CliError::stdout)?;
            }
            // Standard error may be closed.
            Some(exec_output::Message::Stderr(data)) => drop(io::stderr().write_all(&data)),
            Some(exec_output::Message::ExitCode(code)) => {
                return Ok(Exit::Passed(u8::try_from(code & 0xff).unwrap_or(1)));
            }
            Some(exec_output::Message::Error(error)) => return Err(CliError::input(error)),
            Some(exec_output::Message::InputTaken(_)) | None => (),
        }
    }
    // Where a token is revoked, the end of the stream can overtake its reason.
    Err(CliError::input("the head closed the connection before the command ended")
        .hint("the token may have been revoked or have expired"))
}

/// How the terminal was before it was made raw.
static SAVED: Mutex<Option<Termios>> = Mutex::new(None);

/// A terminal that hands on every key, until this is dropped or the process ends in whatever way.
struct Raw;

impl Raw {
    /// Makes standard input raw; none where it is no terminal.
    fn enter() -> Result<Option<Self>, CliError> {
        if !io::stdin().is_terminal() {
            return Ok(None);
        }
        let failed = |errno: nix::Error| {
            CliError::new(ErrorKind::Internal, "cannot use this terminal").caused_by(io::Error::from(errno))
        };
        let saved = termios::tcgetattr(io::stdin()).map_err(failed)?;
        let mut raw = saved.clone();
        termios::cfmakeraw(&mut raw);
        *SAVED.lock().unwrap_or_else(PoisonError::into_inner) = Some(saved);
        interrupt::at_end(restore);
        termios::tcsetattr(io::stdin(), SetArg::TCSANOW, &raw).map_err(failed)?;
        Ok(Some(Self))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    if let Some(saved) = SAVED.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // A terminal that is gone needs nothing.
        let _ = termios::tcsetattr(io::stdin(), SetArg::TCSADRAIN, &saved);
    }
}
