//! The supervisor's loop: one thread that waits for requests, ends of children, progress and time.

use std::fs::Permissions;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::table::Table;
use super::trainers::Trainers;
use super::{note, process};
use crate::error::SupervisorError;
use crate::supervisor::protocol::{
    Event, Hello, PROTOCOL, Request, progress_socket, supervisor_socket, write_line,
};

/// A supervisor without tasks and without a worker ends after this long.
const IDLE_PATIENCE: Duration = Duration::from_secs(180);

pub(super) struct Supervisor {
    listener: UnixListener,
    trainers: Trainers,
    /// A byte comes with each signal that a child has ended.
    children: UnixStream,
    worker: Option<Connection>,
    table: Table,
    idle_since: Instant,
    /// When the worker left; none while it is there, or when its tasks were stopped since.
    alone_since: Option<Instant>,
    quit: bool,
}

struct Connection {
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// What there is to do.
#[derive(Default)]
struct Ready {
    listener: bool,
    worker: bool,
}

impl Supervisor {
    pub(super) fn bind(state_dir: &Path, table: Table) -> Result<Self, SupervisorError> {
        let listener = bind_at(&supervisor_socket(state_dir), |path| {
            let listener = UnixListener::bind(path)?;
            std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        })?;
        let progress = bind_at(&progress_socket(state_dir), |path| {
            let socket = UnixDatagram::bind(path)?;
            // For tasks of other users, where there are any; who speaks is known by the task's word.
            std::fs::set_permissions(path, Permissions::from_mode(0o666))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        })?;
        let children = watch_children()
            .map_err(|source| SupervisorError::System { what: "watch the ends of children", source })?;
        let idle_since = Instant::now();
        let trainers = Trainers::new(progress);
        Ok(Self {
            listener,
            trainers,
            children,
            worker: None,
            table,
            idle_since,
            alone_since: Some(idle_since),
            quit: false,
        })
    }

    pub(super) fn serve(&mut self) -> Result<(), SupervisorError> {
        loop {
            let ready = self
                .wait()
                .map_err(|source| SupervisorError::System { what: "wait for requests", source })?;
            self.collect_children();
            if ready.worker {
                self.read_requests();
            }
            if ready.listener {
                self.accept();
            }
            self.fence(Instant::now());
            self.table.tick(Instant::now());
            self.tell_events();
            if self.is_over() {
                self.table.close();
                return Ok(());
            }
        }
    }

    fn wait(&self) -> io::Result<Ready> {
        let now = Instant::now();
        let idle_end = self.worker.is_none().then_some(self.idle_since + IDLE_PATIENCE);
        let until = [self.table.next_look(now), idle_end, self.fenced_at()].into_iter().flatten().min();
        let timeout = until.map_or(PollTimeout::NONE, |until| {
            // Rounded up, so that what is waited for is due then.
            let ms = until.saturating_duration_since(now).as_micros().div_ceil(1000);
            PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX)
        });
        let mut watched = vec![
            PollFd::new(self.children.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.trainers.socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.listener.as_fd(), PollFlags::POLLIN),
        ];
        if let Some(worker) = &self.worker {
            let mut wanted = PollFlags::POLLIN;
            wanted.set(PollFlags::POLLOUT, !worker.output.is_empty());
            watched.push(PollFd::new(worker.stream.as_fd(), wanted));
        }
        match poll(&mut watched, timeout) {
            Ok(_) => (),
            Err(nix::errno::Errno::EINTR) => return Ok(Ready::default()),
            Err(errno) => return Err(errno.into()),
        }
        let is_ready = |index: usize| watched.get(index).is_some_and(|fd| fd.any().unwrap_or(true));
        Ok(Ready { listener: is_ready(2), worker: is_ready(3) })
    }

    /// When the tasks are stopped if no worker comes.
    fn fenced_at(&self) -> Option<Instant> {
        self.alone_since?.checked_add(self.table.fence().after()?)
    }

    /// Stops the tasks of a worker that has been gone for too long: the head does not hear of them either.
    fn fence(&mut self, now: Instant) {
        if self.fenced_at().is_some_and(|at| at <= now) {
            self.alone_since = None;
            self.table.cut_off(now);
        }
    }

    fn worker_gone(&mut self) {
        self.worker = None;
        self.idle_since = Instant::now();
        self.alone_since = Some(self.idle_since);
    }

    /// Takes children that have ended, and what they said before they did.
    fn collect_children(&mut self) {
        let mut bytes = [0; 512];
        while matches!((&self.children).read(&mut bytes), Ok(count) if count == bytes.len()) {}
        let reaped = process::reap();
        // After the reaping, so that the last word of a task comes before its end.
        self.read_progress();
        self.table.on_reaped(reaped, Instant::now());
    }

    fn read_progress(&mut self) {
        while let Some((steps, from)) = self.trainers.receive() {
            for step in steps {
                if let Some(word) = self.table.on_step(&step, Instant::now()) {
                    self.trainers.answer(&step, &from, word);
                }
            }
        }
    }

    /// A new worker has come; the old one is dead, but what it asked for last counts.
    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            self.read_requests();
            if let Err(error) = stream.set_nonblocking(true) {
                note(format_args!("cannot take a worker's connection: {error}"));
                continue;
            }
            // The greeting tells all of it.
            self.table.take_events();
            let mut worker = Connection { stream, input: Vec::new(), output: Vec::new() };
            let pid = std::process::id();
            let (tasks, fence) = (self.table.report(), self.table.fence());
            let hello = Hello { protocol: PROTOCOL, pid, tasks, fence };
            worker.tell(&Event::Hello(hello));
            self.worker = Some(worker);
            self.alone_since = None;
            self.quit = false;
        }
    }

    fn read_requests(&mut self) {
        let Some(worker) = &mut self.worker else { return };
        let (requests, is_open) = worker.read();
        for request in requests {
            self.obey(request);
        }
        if !is_open {
            self.worker_gone();
        }
    }

    fn obey(&mut self, request: Request) {
        let now = Instant::now();
        match request {
            Request::Start(start) => self.table.start(*start, now),
            Request::Stop { task } => self.table.stop(task, now),
            Request::Kill { task } => self.table.kill(task, now),
            Request::Forget { task } => self.table.forget(task),
            Request::Locate { task } => self.table.locate(task),
            Request::Signal { task, signal, group } => self.table.signal(task, signal, group),
            Request::Renew { task, lease } => self.table.renew(task, lease),
            Request::Pace { task, pace } => self.table.set_pace(task, pace),
            Request::Fence(fence) => self.table.set_fence(fence),
            Request::CutOff => self.table.cut_off(now),
            Request::Quit => self.quit = true,
        }
    }

    fn tell_events(&mut self) {
        for (task, word) in self.table.take_words() {
            self.trainers.tell(task, &word);
        }
        let events = self.table.take_events();
        for event in &events {
            if let Event::Ended { task, .. } = event {
                self.trainers.forget(*task);
            }
        }
        let Some(worker) = &mut self.worker else { return };
        for event in &events {
            worker.tell(event);
        }
        if let Err(error) = worker.flush() {
            note(format_args!("the worker has disconnected: {error}"));
            self.worker_gone();
        }
    }

    fn is_over(&mut self) -> bool {
        if !self.table.is_idle() {
            self.idle_since = Instant::now();
            return false;
        }
        self.quit || (self.worker.is_none() && self.idle_since.elapsed() >= IDLE_PATIENCE)
    }
}

impl Connection {
    fn tell(&mut self, event: &Event) {
        if let Err(error) = write_line(&mut self.output, event) {
            note(format_args!("cannot report {event:?}: {error}"));
        }
    }

    /// Sends as much as the worker takes.
    fn flush(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// All whole requests that are there, and whether more may come.
    fn read(&mut self) -> (Vec<Request>, bool) {
        let mut chunk = [0; 65536];
        let is_open = loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => break false,
                Ok(count) => self.input.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break true,
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(_) => break false,
            }
        };
        let whole = self.input.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let rest = self.input.split_off(whole);
        let lines = std::mem::replace(&mut self.input, rest);
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let requests = lines.filter_map(|line| {
            serde_json::from_slice(line)
                .inspect_err(|error| note(format_args!("cannot parse a request: {error}")))
                .ok()
        });
        (requests.collect(), is_open)
    }
}

/// Binds where a dead predecessor may have left its socket.
fn bind_at<T>(path: &Path, bind: impl Fn(&Path) -> io::Result<T>) -> Result<T, SupervisorError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => bind(path),
    }
    .map_err(|source| SupervisorError::File { what: "bind the socket", path: path.to_owned(), source })
}

fn watch_children() -> io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    read.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(signal_hook::consts::SIGCHLD, write)?;
    Ok(read)
}
