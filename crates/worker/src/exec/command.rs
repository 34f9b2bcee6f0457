//! One command in a task: its process, what it reads and what it says.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use wharf_proto::{ExecOpen, TerminalSize, exec_input, exec_output};

use super::error::ExecError;
use super::session::{OVER, SessionTask, WORKDIR};
use super::{Message, Output, from_exec};

/// Bytes of output that may be on their way.
const WINDOW_BYTES: usize = 1024 * 1024;
const CHUNK_BYTES: usize = 32 * 1024;
/// What a terminal takes as the end of its input.
const END_OF_INPUT: u8 = 4;
/// How long a command may take to end once its client is gone.
const GRACE: Duration = Duration::from_secs(2);
/// How long something that escaped may hold the output open without saying anything.
const LINGER: Duration = Duration::from_millis(500);
const CODE_SIGNAL_BASE: i32 = 128;

/// How the client is told what was read.
type Wrap = fn(Vec<u8>) -> exec_output::Message;

/// A command that was started.
pub(super) struct Spawned {
    child: Child,
    group: Pid,
    reads: Vec<(Read, Wrap)>,
    write: Write,
    terminal: Option<OwnedFd>,
}

enum Read {
    Stdout(ChildStdout),
    Stderr(ChildStderr),
    Terminal(pipe::Receiver),
}

enum Write {
    Stdin(ChildStdin),
    Terminal(pipe::Sender),
    Closed,
}

impl Spawned {
    /// Starts it through `program`, or through this one.
    pub(super) fn start(
        program: Option<&Path>,
        task: &SessionTask,
        open: &ExecOpen,
    ) -> Result<Self, ExecError> {
        if open.command.is_empty() && open.terminal.is_none() {
            return Err(ExecError::NoCommand);
        }
        spawn(program, task, open).map_err(ExecError::Start)
    }

    /// Serves the client until the command has ended, or the client is gone.
    pub(super) async fn serve(
        mut self,
        session: u64,
        mut messages: mpsc::UnboundedReceiver<Message>,
        output: Output,
    ) {
        let window = Arc::new(Semaphore::new(WINDOW_BYTES));
        let over = watch::Sender::new(false);
        let mut readers = JoinSet::new();
        for (read, wrap) in std::mem::take(&mut self.reads) {
            let reader = Reader { read, wrap, window: window.clone(), over: over.subscribe() };
            readers.spawn(reader.copy(session, output.clone()));
        }
        let (input, inputs) = mpsc::unbounded_channel();
        let write = std::mem::replace(&mut self.write, Write::Closed);
        let writer = tokio::spawn(copy_input(session, write, inputs, output.clone()));
        let (mut input, mut code) = (Some(input), None);
        let code = loop {
            tokio::select! {
                status = self.child.wait(), if code.is_none() => {
                    code = Some(exit_code(status));
                    // As with a task: what it leaves behind does not stay.
                    let _ = killpg(self.group, Signal::SIGKILL);
                    over.send_replace(true);
                }
                reader = readers.join_next(), if code.is_some() => {
                    // None when all has been said.
                    if reader.is_none() {
                        break code.unwrap_or_default();
                    }
                }
                message = messages.recv() => match message {
                    None => {
                        readers.abort_all();
                        break self.hang_up().await;
                    }
                    Some(message) => self.obey(message, &mut input, &window),
                },
            }
        };
        writer.abort();
        // A client that is gone does not hear it; one whose task is gone does.
        let _ = output.send(from_exec(session, Some(exec_output::Message::ExitCode(code)), 0)).await;
    }

    fn obey(&self, message: Message, input: &mut Option<mpsc::UnboundedSender<Vec<u8>>>, window: &Semaphore) {
        match message {
            Message::Input(exec_input::Message::Data(data)) => {
                if let Some(input) = input {
                    // One that reads no more needs no more.
                    let _ = input.send(data);
                }
            }
            Message::Input(exec_input::Message::End(_)) => *input = None,
            Message::Input(exec_input::Message::Size(size)) => self.resize(size),
            Message::Input(exec_input::Message::Open(_) | exec_input::Message::Taken(_)) => (),
            Message::Signal(signal) => {
                if let Ok(signal) = Signal::try_from(signal) {
                    // One that has just ended needs none.
                    let _ = killpg(self.group, signal);
                }
            }
            // Of commands with a key, which others see to.
            Message::Gone | Message::End => (),
            Message::Taken(bytes) => {
                let room = WINDOW_BYTES.saturating_sub(window.available_permits());
                window.add_permits(usize::try_from(bytes).unwrap_or(room).min(room));
            }
        }
    }

    fn resize(&self, size: TerminalSize) {
        if let Some(terminal) = &self.terminal {
            // A terminal that is gone has no size.
            let _ = set_size(terminal, size);
        }
    }

    /// Ends the command as if its terminal had been closed, and kills what does not hear.
    async fn hang_up(&mut self) -> i32 {
        let _ = killpg(self.group, Signal::SIGHUP);
        let _ = tokio::time::timeout(GRACE, self.child.wait()).await;
        let _ = killpg(self.group, Signal::SIGKILL);
        exit_code(self.child.wait().await)
    }
}

fn spawn(program: Option<&Path>, task: &SessionTask, open: &ExecOpen) -> io::Result<Spawned> {
    let program = program.map_or_else(std::env::current_exe, |program| Ok(program.to_owned()))?;
    let mut command = Command::new(program);
    command.arg("exec-session").args(task.options());
    // The process begins with the worker's rights: it has nothing of an environment but what it reads itself.
    command.env_clear();
    // Not as arguments, which are world-readable.
    command.envs(open.env.iter().map(|(name, value)| (format!("{OVER}{name}"), value)));
    if !open.workdir.is_empty() {
        command.env(WORKDIR, &open.workdir);
    }
    let terminal = match open.terminal {
        Some(size) => {
            let (master, slave) = open_terminal(size)?;
            command.arg("--terminal");
            command.stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave);
            Some(master)
        }
        None => {
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
            None
        }
    };
    command.arg("--").args(&open.command);
    let mut child = command.spawn()?;
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    let group = id.map(Pid::from_raw).ok_or_else(|| io::Error::other("it has no process"))?;
    let mut reads: Vec<(Read, Wrap)> = Vec::new();
    let mut write = Write::Closed;
    if let Some(terminal) = &terminal {
        // Not pipes, but read and written like them.
        let receiver = pipe::Receiver::from_owned_fd_unchecked(terminal.try_clone()?)?;
        reads.push((Read::Terminal(receiver), exec_output::Message::Stdout));
        write = Write::Terminal(pipe::Sender::from_owned_fd_unchecked(terminal.try_clone()?)?);
    }
    if let Some(stdout) = child.stdout.take() {
        reads.push((Read::Stdout(stdout), exec_output::Message::Stdout));
    }
    if let Some(stderr) = child.stderr.take() {
        reads.push((Read::Stderr(stderr), exec_output::Message::Stderr));
    }
    if let Some(stdin) = child.stdin.take() {
        write = Write::Stdin(stdin);
    }
    Ok(Spawned { child, group, reads, write, terminal })
}

/// A new terminal: our end, and the command's.
fn open_terminal(size: TerminalSize) -> io::Result<(OwnedFd, File)> {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let master = nix::pty::posix_openpt(flags)?;
    nix::pty::grantpt(&master)?;
    nix::pty::unlockpt(&master)?;
    let name = nix::pty::ptsname_r(&master)?;
    let no_control = OFlag::O_NOCTTY.bits();
    let slave = File::options().read(true).write(true).custom_flags(no_control).open(name)?;
    let master = OwnedFd::from(master);
    set_size(&master, size)?;
    Ok((master, slave))
}

fn set_size(master: &OwnedFd, size: TerminalSize) -> io::Result<()> {
    let cells = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
    let size = rustix::termios::Winsize {
        ws_row: cells(size.rows),
        ws_col: cells(size.columns),
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(rustix::termios::tcsetwinsize(master, size)?)
}

fn exit_code(status: io::Result<std::process::ExitStatus>) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    match status {
        Ok(status) => status.code().unwrap_or_else(|| CODE_SIGNAL_BASE + status.signal().unwrap_or_default()),
        // Already reaped: its exit code is lost.
        Err(_) => -1,
    }
}

struct Reader {
    read: Read,
    wrap: Wrap,
    window: Arc<Semaphore>,
    /// Whether the command has ended.
    over: watch::Receiver<bool>,
}

impl Reader {
    /// Sends all output until there are no writers left.
    async fn copy(mut self, session: u64, output: Output) {
        while let Some(data) = self.chunk().await {
            let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
            match self.window.acquire_many(bytes).await {
                Ok(permits) => permits.forget(),
                Err(_) => return,
            }
            if output.send(from_exec(session, Some((self.wrap)(data)), 0)).await.is_err() {
                return;
            }
        }
    }

    async fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut data = Vec::with_capacity(CHUNK_BYTES);
        let count = loop {
            if *self.over.borrow_and_update() {
                break tokio::time::timeout(LINGER, self.read.some(&mut data)).await.ok()?;
            }
            tokio::select! {
                count = self.read.some(&mut data) => break count,
                Ok(()) = self.over.changed() => (),
            }
        };
        // The other end of a terminal that is gone reads as an error.
        count.is_ok_and(|count| count > 0).then_some(data)
    }
}

impl Read {
    async fn some(&mut self, data: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Self::Stdout(stdout) => stdout.read_buf(data).await,
            Self::Stderr(stderr) => stderr.read_buf(data).await,
            Self::Terminal(terminal) => terminal.read_buf(data).await,
        }
    }
}

impl Write {
    async fn all(&mut self, data: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdin(stdin) => stdin.write_all(data).await,
            Self::Terminal(terminal) => terminal.write_all(data).await,
            Self::Closed => Ok(()),
        }
    }
}

/// Hands on the input, states how much of it was taken, and closes it at its end.
async fn copy_input(
    session: u64,
    mut write: Write,
    mut inputs: mpsc::UnboundedReceiver<Vec<u8>>,
    output: Output,
) {
    while let Some(data) = inputs.recv().await {
        if write.all(&data).await.is_err() {
            // It reads no more: the rest is taken and thrown away, or its client would wait forever.
            write = Write::Closed;
        }
        if output.send(from_exec(session, None, data.len() as u64)).await.is_err() {
            return;
        }
    }
    if matches!(write, Write::Terminal(_)) {
        // A terminal has no end, only a character that means it.
        let _ = write.all(&[END_OF_INPUT]).await;
    }
}
