//! Commands that run in a task for a client of the head.
//!
//! Bytes flow within a window in both directions: who sends waits until the other end has taken them. A client that does not read
//! holds up its own command and nothing else.

mod command;
mod error;
mod keyed;
mod namespaces;
mod relay;
mod session;

use std::collections::HashMap;

use tokio::sync::mpsc;
use wharf_proto::{
    ExecOpen, ExecOutput, FromExec, FromWorker, SignalTask, ToExec, exec_input, exec_output, from_worker,
};

use crate::WorkerConfig;
use crate::error::with_causes;
use crate::supervisor::protocol::TaskProcess;
use crate::task::TaskKey;
use command::Spawned;
use error::ExecError;
pub use keyed::keyed_session_main;
use relay::Relay;
pub use session::{SessionTask, exec_session_main};

/// Where what a command says goes.
type Output = mpsc::Sender<FromWorker>;

/// What a session is told.
enum Message {
    Input(exec_input::Message),
    /// So many bytes of output were taken.
    Taken(u64),
    Signal(i32),
    /// The client is gone; that of a command with a key may come back.
    Gone,
    /// A command with a key ends, whether its client is there or not.
    End,
}

/// All commands that were asked for and are not over.
#[derive(Default)]
pub(crate) struct Sessions {
    open: HashMap<u64, Session>,
}

struct Session {
    task: TaskKey,
    /// Which step of the job it is of, where it is of one.
    step: Option<u32>,
    /// Its command outlives the connection.
    is_kept: bool,
    /// The session ends where this is dropped.
    messages: mpsc::UnboundedSender<Message>,
    /// Until it is known where the task is.
    waiting: Option<Waiting>,
}

struct Waiting {
    open: ExecOpen,
    messages: mpsc::UnboundedReceiver<Message>,
    output: Output,
}

impl Sessions {
    /// Takes a message. Returns the task whose process has to be known to continue.
    pub(crate) fn on_message(&mut self, message: ToExec, output: &Output) -> Option<TaskKey> {
        // Those that ended by themselves.
        self.open.retain(|_, session| !session.messages.is_closed());
        if message.close {
            match self.open.get(&message.session) {
                Some(session) if session.is_kept => self.pass(message.session, Message::Gone),
                _ => drop(self.open.remove(&message.session)),
            }
            return None;
        }
        if message.taken > 0 {
            self.pass(message.session, Message::Taken(message.taken));
        }
        match message.input?.message? {
            exec_input::Message::Open(open) => {
                let task: TaskKey = message.task?.into();
                let (sender, messages) = mpsc::unbounded_channel();
                let (step, is_kept) = (open.step, !open.key.is_empty());
                let waiting = Some(Waiting { open, messages, output: output.clone() });
                self.open.insert(message.session, Session { task, step, is_kept, messages: sender, waiting });
                Some(task)
            }
            input => {
                self.pass(message.session, Message::Input(input));
                None
            }
        }
    }

    fn pass(&self, session: u64, message: Message) {
        if let Some(session) = self.open.get(&session) {
            // One that has ended needs no more.
            let _ = session.messages.send(message);
        }
    }

    /// Starts what waits for the place of a task: its process, if it has one.
    pub(crate) fn located(&mut self, config: &WorkerConfig, task: TaskKey, process: Option<&TaskProcess>) {
        for (&id, session) in self.open.iter_mut().filter(|(_, session)| session.task == task) {
            let Some(waiting) = session.waiting.take() else { continue };
            let Waiting { open, messages, output } = waiting;
            let process = process.ok_or(ExecError::NoTask);
            let program = config.supervisor_program.as_deref();
            let started = process.and_then(SessionTask::new).and_then(|beside| match open.key.as_str() {
                "" => {
                    let spawned = Spawned::start(program, &beside, &open)?;
                    Ok(tokio::spawn(spawned.serve(id, messages, output.clone())))
                }
                _ => {
                    let relay = Relay::open(config, task, &beside, &open)?;
                    Ok(tokio::spawn(relay.serve(id, open, messages, output.clone())))
                }
            });
            match started {
                Ok(serving) => drop(serving),
                Err(error) => {
                    let message = from_exec(id, Some(exec_output::Message::Error(with_causes(&error))), 0);
                    drop(tokio::spawn(async move { output.send(message).await }));
                }
            }
        }
    }

    /// Tasks whose places are waited for.
    pub(crate) fn waiting(&self) -> Vec<TaskKey> {
        self.open.values().filter(|session| session.waiting.is_some()).map(|session| session.task).collect()
    }

    /// Sends a signal to the commands in a task, or to those of one step.
    pub(crate) fn signal(&self, task: TaskKey, wanted: &SignalTask) {
        let is_meant = |session: &&Session| {
            session.task == task && (wanted.step.is_none() || session.step == wanted.step)
        };
        for session in self.open.values().filter(is_meant) {
            // One that has ended needs none.
            let _ = session.messages.send(Message::Signal(wanted.signal));
        }
    }

    /// A task has ended: its devices will be another's, and nothing may stay beside it.
    pub(crate) fn end_task(&mut self, task: TaskKey) {
        for session in self.open.values().filter(|session| session.task == task && session.is_kept) {
            // One that has ended needs no more.
            let _ = session.messages.send(Message::End);
        }
        self.open.retain(|_, session| session.task != task);
    }

    /// The client has disconnected. Commands with a key wait for their clients.
    pub(crate) fn end_all(&mut self) {
        self.open.clear();
    }
}

fn from_exec(session: u64, output: Option<exec_output::Message>, taken: u64) -> FromWorker {
    let output = output.map(|message| ExecOutput { message: Some(message) });
    FromWorker { message: Some(from_worker::Message::Exec(FromExec { session, output, taken })) }
}
