//! The agent's end of the line to its supervisor, which it starts where there is none.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use crate::WorkerConfig;
use crate::error::WorkerError;
use crate::supervisor::READY;
use crate::supervisor::protocol::{
    Event, Hello, PROTOCOL, Request, supervisor_log, supervisor_socket, write_line,
};

/// A supervisor answers within this time, unless something is very wrong.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often in a row a supervisor may end just when it is spoken to.
const ATTEMPTS: u32 = 5;

/// A connection to a supervisor.
pub(crate) struct Supervisor {
    requests: mpsc::UnboundedSender<Request>,
    events: mpsc::UnboundedReceiver<Event>,
}

impl Supervisor {
    /// Connects to the state directory's supervisor and starts one if there is none.
    pub(crate) async fn attach(config: &WorkerConfig) -> Result<(Self, Hello), WorkerError> {
        let log = supervisor_log(&config.state_dir);
        let failed = |what| move |source| WorkerError::Supervisor { what, log: log.clone(), source };
        let socket = supervisor_socket(&config.state_dir);
        for _ in 0..ATTEMPTS {
            let stream = match UnixStream::connect(&socket).await {
                Ok(stream) => stream,
                Err(_) => {
                    start(config).await.map_err(failed.clone()("start"))?;
                    UnixStream::connect(&socket).await.map_err(failed.clone()("take connections"))?
                }
            };
            if let Some(attached) = Self::greet(stream, &config.state_dir).await? {
                return Ok(attached);
            }
        }
        Err(failed("stay")(io::ErrorKind::UnexpectedEof.into()))
    }

    /// Connects to the state directory's supervisor, if there is one.
    pub(crate) async fn join(state_dir: &Path) -> Result<Option<(Self, Hello)>, WorkerError> {
        // While there is a listener; then there is no supervisor, and no task without one.
        while let Ok(stream) = UnixStream::connect(supervisor_socket(state_dir)).await {
            if let Some(joined) = Self::greet(stream, state_dir).await? {
                return Ok(Some(joined));
            }
        }
        Ok(None)
    }

    /// Waits for a supervisor's greeting; `None` where it has ended just before it would have given one.
    async fn greet(stream: UnixStream, state_dir: &Path) -> Result<Option<(Self, Hello)>, WorkerError> {
        let failed =
            |source| WorkerError::Supervisor { what: "answer", log: supervisor_log(state_dir), source };
        let (read, write) = stream.into_split();
        let mut read = BufReader::new(read);
        let hello = tokio::time::timeout(PATIENCE, greeting(&mut read))
            .await
            .unwrap_or_else(|elapsed| Err(elapsed.into()));
        let hello = match hello {
            Err(error) if has_ended(&error) => return Ok(None),
            hello => hello.map_err(failed)?,
        };
        if hello.protocol != PROTOCOL {
            return Err(WorkerError::SupervisorVersion {
                found: hello.protocol,
                wanted: PROTOCOL,
                pid: hello.pid,
            });
        }
        let (requests, to_write) = mpsc::unbounded_channel();
        let (to_read, events) = mpsc::unbounded_channel();
        tokio::spawn(write_requests(write, to_write));
        tokio::spawn(read_events(read, to_read));
        Ok(Some((Self { requests, events }, hello)))
    }

    /// Sends a request; if the supervisor has gone, the next event states this.
    pub(crate) fn ask(&self, request: Request) {
        let _ = self.requests.send(request);
    }

    /// The next thing that happened; none when the supervisor has gone.
    pub(crate) async fn event(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Asks it to end if nothing runs, and waits until it has heard that.
    pub(crate) async fn quit(mut self) {
        self.ask(Request::Quit);
        drop(self.requests);
        // It closes the line when it has ended, and also when it continues without us.
        let _ = tokio::time::timeout(PATIENCE, async { while self.events.recv().await.is_some() {} }).await;
    }
}

/// Whether the other side is gone, rather than wrong.
fn has_ended(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    )
}

async fn greeting(read: &mut BufReader<OwnedReadHalf>) -> io::Result<Hello> {
    let mut line = String::new();
    if read.read_line(&mut line).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    match serde_json::from_str(&line)? {
        Event::Hello(hello) => Ok(hello),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the first line is not a greeting")),
    }
}

async fn write_requests(mut write: OwnedWriteHalf, mut requests: mpsc::UnboundedReceiver<Request>) {
    let (mut batch, mut text) = (Vec::new(), Vec::new());
    while requests.recv_many(&mut batch, 256).await > 0 {
        text.clear();
        for request in batch.drain(..) {
            if write_line(&mut text, &request).is_err() {
                return;
            }
        }
        if write.write_all(&text).await.is_err() {
            return;
        }
    }
}

async fn read_events(mut read: BufReader<OwnedReadHalf>, events: mpsc::UnboundedSender<Event>) {
    let mut line = Vec::new();
    loop {
        line.clear();
        match read.read_until(b'\n', &mut line).await {
            Ok(count) if count > 0 => (),
            _ => return,
        }
        let Ok(event) = serde_json::from_slice(&line) else { return };
        if events.send(event).is_err() {
            return;
        }
    }
}

/// Starts a supervisor and returns when it can be connected to.
async fn start(config: &WorkerConfig) -> io::Result<()> {
    let program = match &config.supervisor_program {
        Some(program) => program.clone(),
        None => std::env::current_exe()?,
    };
    let mut child = spawn(&program, config)?;
    let Some(stdout) = child.stdout.take() else {
        return Err(io::Error::other("it has no standard output"));
    };
    // Waits for its end, so that no zombie is left of it. Not on the runtime, which would wait for it in turn.
    std::thread::spawn(move || child.wait());
    let stdout = tokio::process::ChildStdout::from_std(stdout)?;
    let mut line = String::new();
    let mut stdout = BufReader::new(stdout);
    tokio::time::timeout(PATIENCE, stdout.read_line(&mut line)).await??;
    if line.trim_end() == READY {
        return Ok(());
    }
    Err(io::Error::other("it ended immediately"))
}

fn spawn(program: &Path, config: &WorkerConfig) -> io::Result<Child> {
    let log: PathBuf = supervisor_log(&config.state_dir);
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(log)?;
    let mut command = Command::new(program);
    command.arg("supervisor").arg("--state-dir").arg(&config.state_dir);
    if config.lifetime.is_some() {
        command.arg("--through-signals");
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    // Tasks inherit the supervisor's environment, which therefore is not the worker's own.
    command.env_clear().envs(config.tasks.passed(std::env::vars_os(), &config.token));
    command.spawn()
}
