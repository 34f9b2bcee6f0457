//! One task of a step: a command in a task of the job that continues while the head, the worker's agent or the network is away.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::grammar::filename::Names;
use crate::grammar::{Request, signal};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use wharf_client::{Access, Client, ClientError, Locator};
use wharf_proto::{ExecInput, ExecOpen, ExecTaken, exec_input, exec_output};

use super::{CommandError, Console};

/// Messages that wait for the network.
const INPUT_PIECES: usize = 4;
/// Bytes of input that the command has not taken; less than the head's window, so that sending never waits for the command.
const INPUT_WINDOW_BYTES: usize = 256 * 1024;
/// The command may be so far ahead of what it knows that is here, and four times that before it has to wait.
const TELL_BYTES: u64 = 256 * 1024;
/// Between attempts to reach the command again.
const RETRY: Duration = Duration::from_millis(100);
const CODE_SIGNAL_BASE: i32 = 128;
const KEY_BYTES: usize = 16;

/// A unique name for a command.
pub(super) fn key() -> Result<String, CommandError> {
    wharf_tls::random_hex(KEY_BYTES).map_err(|error| CommandError::Client(error.into()))
}

type Sink = Arc<Mutex<Box<dyn std::io::Write + Send>>>;

/// Where what a task says goes.
#[derive(Clone)]
pub(super) struct Output {
    stdout: Sink,
    stderr: Sink,
    is_labelled: bool,
}

/// The files of a step: tasks whose names are equal share one.
pub(super) struct Files<'a> {
    request: &'a Request,
    folder: &'a str,
    open: BTreeMap<String, Sink>,
    own: [Sink; 2],
}

impl Output {
    /// This process' own.
    pub(super) fn own() -> Self {
        let sink = |out: Box<dyn std::io::Write + Send>| Arc::new(Mutex::new(out));
        let (stdout, stderr) = (sink(Box::new(std::io::stdout())), sink(Box::new(std::io::stderr())));
        Self { stdout, stderr, is_labelled: false }
    }
}

impl<'a> Files<'a> {
    pub(super) fn new(request: &'a Request, folder: &'a str) -> Self {
        let sink = |out: Box<dyn std::io::Write + Send>| Arc::new(Mutex::new(out));
        let own = [sink(Box::new(std::io::stdout())), sink(Box::new(std::io::stderr()))];
        Self { request, folder, open: BTreeMap::new(), own }
    }

    /// Where a task writes, by what patterns mean for it.
    pub(super) fn of_task(&mut self, names: &Names<'_>) -> Result<Output, CommandError> {
        let stdout = self.sink("output", names)?;
        // What is said of the output alone is said of both.
        let stderr = match self.sink("error", names)? {
            None if self.request.has("output") => stdout.clone(),
            stderr => stderr,
        };
        let [own_stdout, own_stderr] = &self.own;
        Ok(Output {
            stdout: stdout.unwrap_or_else(|| own_stdout.clone()),
            stderr: stderr.unwrap_or_else(|| own_stderr.clone()),
            is_labelled: self.request.has("label"),
        })
    }

    /// None: where `srun` itself writes.
    fn sink(&mut self, option: &str, names: &Names<'_>) -> Result<Option<Sink>, CommandError> {
        let path = match self.request.get(option) {
            None | Some("all") => return Ok(None),
            Some("none") => "/dev/null".to_owned(),
            // The number of the only task that is heard.
            Some(number) if number.parse::<u32>().is_ok() => {
                if names.task.map(|task| task.rank) == number.parse().ok() {
                    return Ok(None);
                }
                "/dev/null".to_owned()
            }
            Some(pattern) => crate::grammar::joined(self.folder, &names.expand(pattern)),
        };
        if let Some(known) = self.open.get(&path) {
            return Ok(Some(known.clone()));
        }
        let is_added = self.request.appends();
        let mut how = std::fs::OpenOptions::new();
        let file = how.create(true).write(true).append(is_added).truncate(!is_added).open(&path);
        let file = file.map_err(|error| CommandError::failed(format!("Unable to open {path}: {error}")))?;
        let sink: Sink = Arc::new(Mutex::new(Box::new(file)));
        self.open.insert(path, sink.clone());
        Ok(Some(sink))
    }
}

/// How the head is reached.
pub(super) enum Reach {
    /// As clients do.
    Located(Locator),
    /// As a task of a job does.
    Direct(Access),
}

impl Reach {
    /// Connects to the head; waits for it where it is away.
    async fn connect(&self) -> Result<Client, ClientError> {
        let access = match self {
            Self::Located(locator) => return locator.connect_patiently(|| ()).await,
            Self::Direct(access) => access,
        };
        loop {
            match Client::connect_to(access).await {
                Err(error) if error.is_absence() => tokio::time::sleep(RETRY).await,
                connected => return connected,
            }
        }
    }
}

/// One task of a step.
pub(super) struct Task {
    pub(super) reach: Arc<Reach>,
    pub(super) console: Arc<dyn Console>,
    /// Whose messages these are.
    pub(super) command: &'static str,
    pub(super) rank: u32,
    pub(super) node: String,
    pub(super) output: Output,
    /// What to open, with a key.
    pub(super) open: ExecOpen,
}

/// What is between the client and its command.
#[derive(Default)]
struct Progress {
    taken: ExecTaken,
    /// Of what was taken, this was told.
    told: u64,
    /// The command is known to run.
    is_known: bool,
    /// Input that the command has not taken, and how much it has.
    input: VecDeque<u8>,
    input_taken: u64,
    is_input_over: bool,
    /// Beginnings of lines, of output with labels.
    pending: [Vec<u8>; 2],
}

/// Why one line to the command ended.
enum Ended {
    Code(i32),
    Failed(String),
    /// The connection is lost; the command continues.
    Away,
}

impl Task {
    /// Runs it to its end: passes on what it says, and returns its exit code.
    pub(super) async fn run(
        self,
        mut next: Option<Client>,
        mut input: mpsc::Receiver<Vec<u8>>,
        mut stop: watch::Receiver<i32>,
    ) -> i32 {
        let mut progress = Progress::default();
        let code = loop {
            let connected = match next.take() {
                Some(client) => Ok(client),
                None => self.reach.connect().await,
            };
            let ended = match connected {
                Ok(client) => self.attend(&client, &mut progress, &mut input, &mut stop).await,
                Err(error) => Ended::Failed(error.to_string()),
            };
            match ended {
                Ended::Code(code) => break code,
                Ended::Failed(error) => {
                    self.console.note(&format!(
                        "{}: error: {}: task {}: {error}",
                        self.command, self.node, self.rank
                    ));
                    break 1;
                }
                Ended::Away if *stop.borrow() > 0 => break CODE_SIGNAL_BASE + *stop.borrow(),
                Ended::Away => tokio::time::sleep(RETRY).await,
            }
        };
        for (index, rest) in progress.pending.iter().enumerate().filter(|(_, rest)| !rest.is_empty()) {
            self.write(index, rest);
        }
        let how = match code {
            0 => return 0,
            _ if code > CODE_SIGNAL_BASE && code < CODE_SIGNAL_BASE + 64 => {
                signal::said(code - CODE_SIGNAL_BASE)
            }
            _ => format!("Exited with exit code {code}"),
        };
        self.console.note(&format!("{}: error: {}: task {}: {how}", self.command, self.node, self.rank));
        code
    }

    /// Opens a line to the command, or to the one that runs already, and serves both ends until the line is closed.
    async fn attend(
        &self,
        client: &Client,
        progress: &mut Progress,
        input: &mut mpsc::Receiver<Vec<u8>>,
        stop: &mut watch::Receiver<i32>,
    ) -> Ended {
        let (sender, stream) = mpsc::channel(INPUT_PIECES);
        let (taken, is_known) = (Some(progress.taken), progress.is_known);
        let open = ExecOpen { taken, is_known, ..self.open.clone() };
        let line = Line(sender);
        line.tell(exec_input::Message::Open(open)).await;
        let mut said = match client.exec(ReceiverStream::new(stream)).await {
            Ok(said) => said,
            Err(error) if error.is_away() => return Ended::Away,
            Err(error) => return Ended::Failed(error.to_string()),
        };
        let mut is_open = false;
        loop {
            let has_room = is_open && !progress.is_input_over && progress.input.len() < INPUT_WINDOW_BYTES;
            tokio::select! {
                message = said.message() => match message.map(|message| message.map(|said| said.message)) {
                    Ok(Some(Some(exec_output::Message::ExitCode(code)))) => {
                        line.finish(progress, &mut said).await;
                        return Ended::Code(code);
                    }
                    Ok(Some(Some(exec_output::Message::Error(error)))) => return Ended::Failed(error),
                    Ok(Some(message)) => self.hear(message, progress, &line, &mut is_open).await,
                    Ok(None) | Err(_) => return Ended::Away,
                },
                data = input.recv(), if has_room => match data {
                    Some(data) => {
                        progress.input.extend(&data);
                        line.tell(exec_input::Message::Data(data)).await;
                    }
                    None => {
                        progress.is_input_over = true;
                        line.tell(exec_input::Message::End(true)).await;
                    }
                },
                Ok(signal) = stopped(stop) => {
                    line.finish(progress, &mut said).await;
                    return Ended::Code(CODE_SIGNAL_BASE + signal);
                }
            }
        }
    }

    async fn hear(
        &self,
        message: Option<exec_output::Message>,
        progress: &mut Progress,
        line: &Line,
        is_open: &mut bool,
    ) {
        match message {
            Some(exec_output::Message::Stdout(data)) => {
                self.pass(0, &data, &mut progress.pending);
                progress.taken.stdout += data.len() as u64;
            }
            Some(exec_output::Message::Stderr(data)) => {
                self.pass(1, &data, &mut progress.pending);
                progress.taken.stderr += data.len() as u64;
            }
            Some(exec_output::Message::InputTaken(count)) => {
                progress.is_known = true;
                let newly = usize::try_from(count.saturating_sub(progress.input_taken)).unwrap_or(usize::MAX);
                progress.input.drain(..newly.min(progress.input.len()));
                progress.input_taken = count;
                if !*is_open {
                    *is_open = true;
                    // What was on its way when the line before was closed.
                    let rest: Vec<u8> = progress.input.iter().copied().collect();
                    if !rest.is_empty() {
                        line.tell(exec_input::Message::Data(rest)).await;
                    }
                    if progress.is_input_over {
                        line.tell(exec_input::Message::End(true)).await;
                    }
                }
            }
            _ => {}
        }
        let all = progress.taken.stdout + progress.taken.stderr;
        if all - progress.told >= TELL_BYTES {
            progress.told = all;
            line.tell(exec_input::Message::Taken(progress.taken)).await;
        }
    }

    /// With labels, whole lines only.
    fn pass(&self, index: usize, data: &[u8], pending: &mut [Vec<u8>; 2]) {
        if !self.output.is_labelled {
            return self.write_raw(index, data);
        }
        pending[index].extend_from_slice(data);
        while let Some(end) = pending[index].iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending[index].drain(..=end).collect();
            self.write(index, &line);
        }
    }

    fn write(&self, index: usize, line: &[u8]) {
        let label = if self.output.is_labelled { format!("{}: ", self.rank) } else { String::new() };
        self.write_raw(index, &[label.as_bytes(), line].concat());
    }

    fn write_raw(&self, index: usize, data: &[u8]) {
        let out = if index == 0 { &self.output.stdout } else { &self.output.stderr };
        let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
        // Without a reader, the command continues.
        let _ = out.write_all(data).and_then(|()| out.flush());
    }
}

/// Waits until the step is to be stopped.
async fn stopped(stop: &mut watch::Receiver<i32>) -> Result<i32, watch::error::RecvError> {
    Ok(*stop.wait_for(|signal| *signal > 0).await?)
}

/// Our end of one line to the command.
struct Line(mpsc::Sender<ExecInput>);

impl Line {
    async fn tell(&self, message: exec_input::Message) {
        // A line that is closed is noticed where it is read.
        let _ = self.0.send(ExecInput { message: Some(message) }).await;
    }

    /// Releases the command, and waits for the confirmation.
    async fn finish(
        &self,
        progress: &Progress,
        said: &mut wharf_proto::tonic::Streaming<wharf_proto::ExecOutput>,
    ) {
        self.tell(exec_input::Message::Taken(ExecTaken { is_over: true, ..progress.taken })).await;
        // Whatever is still said is not needed.
        while let Ok(Some(_)) = said.message().await {}
    }
}
