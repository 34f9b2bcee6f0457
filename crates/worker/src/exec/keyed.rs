//! The process that keeps a command with a key: through the absence of its client, of the head and of the worker's agent.
//!
//! It is the command's parent, holds what the command has said until the client has it, and ends with the task at the latest.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use wharf_proto::{
    ExecOpen, ExecOutput, ExecTaken, FromExec, FromWorker, ToExec, exec_input, exec_output, from_worker,
};

use super::Message;
use super::command::Spawned;
use super::relay::{read_frame, write_frame};
use super::session::SessionTask;
use crate::descriptors::close_inherited;
use crate::error::with_causes;
use crate::processes::start_time;

/// How often it looks whether the task is there.
const LOOK: Duration = Duration::from_secs(1);
/// Number of checks within which the client must send the command.
const LOOKS_FIRST: u32 = 30;
const CHUNK_BYTES: usize = 32 * 1024;
/// What the command says on its way here; its window bounds the bytes.
const PIECES: usize = 16;
const CODE_FAILED: u8 = 1;

/// Keeps one command in a task, for the client that connects to the socket on standard input; `path`
/// is where that is bound. Returns the exit code.
pub fn keyed_session_main(task: &SessionTask, path: &Path) -> u8 {
    close_inherited(None);
    let done = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .and_then(|runtime| runtime.block_on(keep(task)));
    // A leftover does no harm: keys are used once.
    let _ = std::fs::remove_file(path);
    if done.is_ok() { 0 } else { CODE_FAILED }
}

fn listener() -> io::Result<UnixListener> {
    let own = nix::unistd::dup(io::stdin())?;
    let listener = std::os::unix::net::UnixListener::from(own);
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

async fn keep(task: &SessionTask) -> io::Result<()> {
    let listener = listener()?;
    // An open pidfd refers to that process even if its number is reused.
    let process = File::open(format!("/proc/{}/stat", task.pid))?;
    if start_time(task.pid.cast_signed()) != Some(task.start_time) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let (heard_sender, mut heard) = mpsc::unbounded_channel();
    let (said_sender, mut said) = mpsc::channel(PIECES);
    let mut kept = Kept::new(task.clone(), said_sender);
    let mut look = tokio::time::interval(LOOK);
    let (mut looks, mut lines) = (0, 0);
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                lines += 1;
                kept.line = Some(Line::open(accepted?.0, lines, &heard_sender));
                kept.is_open = false;
            }
            Some((line, message)) = heard.recv() => {
                if line == lines && kept.obey(message) {
                    break;
                }
            }
            Some(message) = said.recv() => kept.hear(message),
            _ = look.tick() => {
                looks += 1;
                let is_idle = kept.serving.is_none() && looks > LOOKS_FIRST;
                if is_idle || process.read_at(&mut [0; 1], 0).is_err() {
                    break;
                }
            }
        }
        kept.tell();
    }
    kept.end(&mut said).await;
    Ok(())
}

/// A connection of the agent.
struct Line {
    /// It is written by a task: the agent's pace is not this process'.
    sender: mpsc::UnboundedSender<FromExec>,
    writing: JoinHandle<()>,
}

impl Line {
    /// None is heard when it is closed: the next one will come.
    fn open(stream: UnixStream, line: u32, heard: &mpsc::UnboundedSender<(u32, ToExec)>) -> Self {
        let (mut read, mut write) = stream.into_split();
        let heard = heard.clone();
        let reading = tokio::spawn(async move {
            while let Ok(message) = read_frame::<ToExec>(&mut read).await {
                if heard.send((line, message)).is_err() {
                    return;
                }
            }
        });
        let (sender, mut frames) = mpsc::unbounded_channel::<FromExec>();
        let writing = tokio::spawn(async move {
            while let Some(frame) = frames.recv().await {
                if write_frame(&mut write, &frame).await.is_err() {
                    break;
                }
            }
            reading.abort();
        });
        Self { sender, writing }
    }

    fn tell(&self, message: exec_output::Message, taken: u64) {
        let output = Some(ExecOutput { message: Some(message) });
        // A line that is closed is told nothing; the next one will be.
        let _ = self.sender.send(FromExec { output, taken, ..FromExec::default() });
    }
}

/// What was said and is not known to have reached the client.
#[derive(Default)]
struct Said {
    data: Vec<u8>,
    /// How much of it all was before.
    first: u64,
    /// How much of it all the present line was told.
    told: u64,
}

impl Said {
    /// The client has so much of it all. Returns how many bytes are not needed any more.
    fn advance(&mut self, taken: u64) -> u64 {
        let count = taken.saturating_sub(self.first).min(self.data.len() as u64);
        self.data.drain(..count as usize);
        self.first += count;
        self.told = self.told.max(self.first);
        count
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let rest = self.data.get((self.told - self.first) as usize..)?;
        let chunk = rest[..rest.len().min(CHUNK_BYTES)].to_vec();
        self.told += chunk.len() as u64;
        (!chunk.is_empty()).then_some(chunk)
    }
}

struct Kept {
    task: SessionTask,
    line: Option<Line>,
    /// The present line has said what the client has.
    is_open: bool,
    messages: Option<mpsc::UnboundedSender<Message>>,
    output: mpsc::Sender<FromWorker>,
    serving: Option<JoinHandle<()>>,
    stdout: Said,
    stderr: Said,
    input_taken: u64,
    /// How it ended, and whether the present line was told.
    end: Option<exec_output::Message>,
    is_end_told: bool,
}

impl Kept {
    fn new(task: SessionTask, output: mpsc::Sender<FromWorker>) -> Self {
        Self {
            task,
            line: None,
            is_open: false,
            messages: None,
            output,
            serving: None,
            stdout: Said::default(),
            stderr: Said::default(),
            input_taken: 0,
            end: None,
            is_end_told: false,
        }
    }

    /// Does what the agent says; returns whether that is to end.
    fn obey(&mut self, message: ToExec) -> bool {
        if message.close {
            return true;
        }
        if message.signal > 0 {
            self.pass(Message::Signal(message.signal));
        }
        match message.input.and_then(|input| input.message) {
            Some(exec_input::Message::Open(open)) => {
                self.open(&open);
                false
            }
            Some(exec_input::Message::Taken(taken)) => {
                self.advance(taken);
                taken.is_over
            }
            Some(input) => {
                self.pass(Message::Input(input));
                false
            }
            None => false,
        }
    }

    /// The first one starts the command, further ones continue with it.
    fn open(&mut self, open: &ExecOpen) {
        if self.serving.is_none() && self.end.is_none() {
            match Spawned::start(None, &self.task, open) {
                Ok(spawned) => {
                    let (sender, messages) = mpsc::unbounded_channel();
                    self.messages = Some(sender);
                    self.serving = Some(tokio::spawn(spawned.serve(0, messages, self.output.clone())));
                }
                Err(error) => self.end = Some(exec_output::Message::Error(with_causes(&error))),
            }
        }
        self.advance(open.taken.unwrap_or_default());
        self.stdout.told = self.stdout.first;
        self.stderr.told = self.stderr.first;
        (self.is_open, self.is_end_told) = (true, false);
        if let Some(line) = self.line.as_ref().filter(|_| self.serving.is_some()) {
            line.tell(exec_output::Message::InputTaken(self.input_taken), 0);
        }
    }

    fn pass(&self, message: Message) {
        if let Some(messages) = &self.messages {
            // One that has ended needs no more.
            let _ = messages.send(message);
        }
    }

    fn advance(&mut self, taken: ExecTaken) {
        let freed = self.stdout.advance(taken.stdout) + self.stderr.advance(taken.stderr);
        if freed > 0 {
            self.pass(Message::Taken(freed));
        }
    }

    /// Takes what the command says.
    fn hear(&mut self, message: FromWorker) {
        let Some(from_worker::Message::Exec(said)) = message.message else { return };
        if said.taken > 0 {
            self.input_taken += said.taken;
            if let Some(line) = &self.line {
                line.tell(exec_output::Message::InputTaken(self.input_taken), said.taken);
            }
        }
        match said.output.and_then(|output| output.message) {
            Some(exec_output::Message::Stdout(data)) => self.stdout.data.extend_from_slice(&data),
            Some(exec_output::Message::Stderr(data)) => self.stderr.data.extend_from_slice(&data),
            end @ Some(exec_output::Message::ExitCode(_) | exec_output::Message::Error(_)) => self.end = end,
            Some(exec_output::Message::InputTaken(_)) | None => {}
        }
    }

    /// Tells the present line what it has not been told.
    fn tell(&mut self) {
        let Some(line) = self.line.as_ref().filter(|_| self.is_open) else { return };
        while let Some(chunk) = self.stdout.next() {
            line.tell(exec_output::Message::Stdout(chunk), 0);
        }
        while let Some(chunk) = self.stderr.next() {
            line.tell(exec_output::Message::Stderr(chunk), 0);
        }
        if let Some(end) = self.end.clone().filter(|_| !self.is_end_told) {
            line.tell(end, 0);
            self.is_end_told = true;
        }
    }

    /// Ends the command, and informs connected clients.
    async fn end(mut self, said: &mut mpsc::Receiver<FromWorker>) {
        self.messages = None;
        if let Some(mut serving) = self.serving.take() {
            loop {
                tokio::select! {
                    Some(message) = said.recv() => self.hear(message),
                    // All that it said is in the channel then.
                    _ = &mut serving => break,
                }
            }
        }
        while let Ok(message) = said.try_recv() {
            self.hear(message);
        }
        self.tell();
        if let Some(line) = self.line.take() {
            drop(line.sender);
            // An agent that does not read is not waited for.
            let _ = tokio::time::timeout(LOOK, line.writing).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn received_output_is_dropped_and_the_rest_is_sent_again() {
        let mut said = Said::default();
        said.data.extend_from_slice(b"0123456789");
        assert_eq!(said.next().as_deref(), Some(&b"0123456789"[..]));
        assert_eq!(said.next(), None);
        assert_eq!((said.advance(4), said.advance(4), said.advance(2)), (4, 0, 0));
        said.told = said.first;
        assert_eq!(said.next().as_deref(), Some(&b"456789"[..]), "to the next line");
        said.data.extend_from_slice(b"ab");
        assert_eq!(said.next().as_deref(), Some(&b"ab"[..]));
        assert_eq!(said.advance(99), 8, "no more than there was");
    }
}
