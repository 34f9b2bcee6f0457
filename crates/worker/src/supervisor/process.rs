//! Processes: starting a task, signalling its group, and collecting children that have ended.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, User, getegid, geteuid};
use tokio::net::TcpSocket;

use super::cgroup::TaskCgroup;
use super::files::Files;
use super::stage::{Login, Stage};
use crate::container::{self, Direct};
use crate::supervisor::protocol::{Account, Process, Start, Step};
use crate::task::Exit;

/// As shells have it.
pub(super) const CODE_NOT_FOUND: u8 = 127;
pub(super) const CODE_NOT_EXECUTABLE: u8 = 126;
const CODE_SIGNAL_BASE: i32 = 128;

/// Variables of the worker's own session that are wrong for any other user.
const SESSION_VARIABLES: &[&str] = &["DBUS_SESSION_BUS_ADDRESS", "MAIL", "SUDO_USER"];
const SESSION_PREFIX: &str = "XDG_";

/// What a task's processes are started with.
#[derive(Clone, Copy)]
pub(super) struct Spawning<'a> {
    pub(super) state_dir: &'a Path,
    pub(super) start: &'a Start,
    /// The user, where it is not the worker's own.
    pub(super) login: Option<&'a Login>,
    pub(super) cgroup: Option<&'a TaskCgroup>,
}

/// The processes of a step that were started, and why one was not.
#[derive(Debug, Default)]
pub(crate) struct Spawned {
    pub(crate) groups: Vec<Pid>,
    pub(crate) failed: Option<Exit>,
}

/// Starts the processes of a step, each as the leader of a process group of its own.
pub(super) fn spawn(spawning: Spawning<'_>, step: &Step) -> Spawned {
    let mut spawned = Spawned::default();
    spawned.failed = spawn_into(&mut spawned.groups, spawning, step).err();
    spawned
}

fn spawn_into(groups: &mut Vec<Pid>, spawning: Spawning<'_>, step: &Step) -> Result<(), Exit> {
    let Spawning { state_dir, start, .. } = spawning;
    let port = hold_port(start, step)?;
    let mut stage = spawning.is_staged().then(|| spawning.stage());
    if let Some(stage) = &mut stage {
        stage.port = port.as_ref().map(inherited).transpose()?;
    }
    let user = stage.as_mut().and_then(|stage| stage.user.as_mut());
    let files = Files::open(state_dir, start, step, user)?;
    for process in &step.processes {
        let contained = if start.confinement.is_none() { contained(start, process) } else { None };
        let is_direct = stage.is_none() || contained.is_some();
        let (command, _variables) = match (&mut stage, contained) {
            (_, Some(Direct { command, variables })) => (command, Some(variables)),
            (None, None) => (direct(start, process)?, None),
            (Some(stage), None) => {
                stage.container.clone_from(&process.container);
                stage.command.clone_from(&process.command);
                stage.env = spawning.environment(process);
                (staged(state_dir, stage)?, None)
            }
        };
        let group = launch(command, start, process, &files)?;
        groups.push(group);
        if let (true, Some(cgroup)) = (is_direct, spawning.cgroup) {
            cgroup.add(group);
        }
        // Once is enough for all.
        if let Some(login) = stage.as_mut().and_then(|stage| stage.user.as_mut()) {
            login.header.clear();
        }
    }
    Ok(())
}

impl Spawning<'_> {
    /// Whether processes have to prepare themselves.
    pub(super) fn is_staged(&self) -> bool {
        !self.start.confinement.is_none() || self.start.is_contained()
    }

    /// What the task's processes do before they are its own.
    fn stage(&self) -> Stage {
        let asked = &self.start.confinement;
        Stage {
            cgroups: self.cgroup.map(TaskCgroup::entrances).unwrap_or_default(),
            limits: asked.limits.clone(),
            max_limits: asked.max_limits.clone(),
            denied_devices: asked.denied_devices.clone(),
            ..Stage::new(self.start.task, self.login.cloned(), self.start.workdir.clone())
        }
    }

    /// The whole environment of a process: the supervisor's own, which holds nothing secret, and the task's.
    fn environment(&self, process: &Process) -> BTreeMap<String, String> {
        let own = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let is_of_session =
            |name: &str| SESSION_VARIABLES.contains(&name) || name.starts_with(SESSION_PREFIX);
        let fits = |name: &str| self.login.is_none() || !is_of_session(name);
        let own = own.filter(|(name, _)| fits(name));
        let task = self.start.env.iter().chain(&process.env);
        own.chain(task.map(|(name, value)| (name.clone(), value.clone()))).collect()
    }

    /// How a task's containers are removed that outlive its processes; none where it has no such.
    pub(super) fn closing(&self) -> Option<Box<Stage>> {
        let container = Some(Box::new(self.start.engine()?.clone()));
        Some(Box::new(Stage { container, ..self.stage() }.to_closing()))
    }
}

/// Lets the next process that is started inherit the port.
fn inherited(port: &TcpSocket) -> Result<i32, Exit> {
    fcntl(port, FcntlArg::F_SETFD(FdFlag::empty()))
        .map_err(|errno| Exit::lost(format!("cannot pass on the task's port: {errno}")))?;
    Ok(port.as_raw_fd())
}

/// Starts what removes a task's containers when its processes are gone. It states what goes wrong in the supervisor's log.
pub(super) fn spawn_closing(state_dir: &Path, stage: &Stage) -> Result<Pid, Exit> {
    let failed = |error: io::Error| failure(&error, format_args!("remove its containers"));
    let mut command = stage.to_closing_command(Path::new(OWN_PROGRAM), state_dir).map_err(failed)?;
    let child = command.stdout(Stdio::null()).process_group(0).spawn().map_err(failed)?;
    i32::try_from(child.id()).map(Pid::from_raw).map_err(|error| Exit::lost(error.to_string()))
}

/// The port that the task's first step will listen at, so that no other process takes it before the task runs.
///
/// It is bound without a listener, so that a quick task can use it already.
fn hold_port(start: &Start, step: &Step) -> Result<Option<TcpSocket>, Exit> {
    if start.port == 0 || start.steps.first() != Some(step) {
        return Ok(None);
    }
    let hold = || {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv4Addr::UNSPECIFIED, start.port).into())?;
        Ok(socket)
    };
    hold().map(Some).map_err(|error: io::Error| {
        Exit::lost(format!(
            "port {}, the task's MASTER_PORT, is not available on this node: {error}",
            start.port
        ))
    })
}

/// The user that a task runs as, where it is not the worker's own.
pub(super) fn login(start: &Start) -> Result<Option<Login>, Exit> {
    let Some(name) = &start.confinement.user else { return Ok(None) };
    let failed = |what: String| Exit::unlaunched(CODE_NOT_EXECUTABLE.into(), what);
    let user = User::from_name(name)
        .map_err(|errno| failed(format!("cannot look up the user '{name}': {errno}")))?
        .ok_or_else(|| failed(format!("this node has no user '{name}'")))?;
    let below = |path: &Path| {
        if path.as_os_str().is_empty() { PathBuf::new() } else { start.workdir.join(path) }
    };
    Ok(Some(Login {
        output: below(&start.output),
        error_output: below(&start.error_output),
        checkpoint_dir: start.checkpoint_dir.clone(),
        checkpoint_setup: start.checkpoint_setup.clone(),
        files: start.files,
        ..Login::of(user)
    }))
}

/// The account that a task's processes run as.
pub(super) fn account(login: Option<&Login>) -> Account {
    match login {
        Some(login) => Account { uid: login.uid, gid: login.gid },
        None => Account { uid: geteuid().as_raw(), gid: getegid().as_raw() },
    }
}

pub(super) fn failure(error: &io::Error, what: std::fmt::Arguments<'_>) -> Exit {
    if error.kind() == io::ErrorKind::StorageFull {
        return Exit::disk_full(format!("cannot {what}: {error}"));
    }
    let code = if error.kind() == io::ErrorKind::NotFound { CODE_NOT_FOUND } else { CODE_NOT_EXECUTABLE };
    Exit::unlaunched(code.into(), format!("cannot {what}: {error}"))
}

/// The command as it is.
fn direct(start: &Start, process: &Process) -> Result<Command, Exit> {
    let Some((program, arguments)) = process.command.split_first() else {
        return Err(Exit::unlaunched(CODE_NOT_FOUND.into(), "the command is empty"));
    };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&start.workdir).stdin(Stdio::null());
    command.envs(&start.env).envs(&process.env);
    Ok(command)
}

/// A process in a container that is one spawn, as one without is; none where it has none, or one that has to be prepared.
fn contained(start: &Start, process: &Process) -> Option<Direct> {
    let value = |name: &str| {
        let told = process.env.get(name).or_else(|| start.env.get(name)).cloned();
        told.or_else(|| std::env::var(name).ok())
    };
    let mut direct = container::direct(process.container.as_ref()?, &process.command, &value)?;
    direct.command.current_dir(&start.workdir).stdin(Stdio::null());
    direct.command.envs(&start.env).envs(&process.env);
    Some(direct)
}

/// This very program, also where its file was replaced since.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// This very program, which prepares itself and then becomes the command.
fn staged(state_dir: &Path, stage: &Stage) -> Result<Command, Exit> {
    let command = stage.to_command(Path::new(OWN_PROGRAM), state_dir);
    command.map_err(|error| failure(&error, format_args!("prepare the task")))
}

/// The child is collected by [`reap`], as all are.
fn launch(mut command: Command, start: &Start, process: &Process, files: &Files) -> Result<Pid, Exit> {
    let mut spawn = || {
        let error_output = files.error_output.as_ref().unwrap_or(&files.output);
        let child = command
            .stdout(files.output.try_clone()?)
            .stderr(error_output.try_clone()?)
            .process_group(0)
            .spawn()?;
        i32::try_from(child.id()).map(Pid::from_raw).map_err(io::Error::other)
    };
    spawn().map_err(|error| {
        if start.workdir.is_dir() {
            let program = process.command.first().map_or("", String::as_str);
            failure(&error, format_args!("start '{program}'"))
        } else {
            failure(&error, format_args!("enter the working directory {}", start.workdir.display()))
        }
    })
}

/// Signals all of a process group; false if it is empty.
pub(crate) fn signal_group(group: Pid, signal: Option<Signal>) -> bool {
    // Any other error means that a process exists.
    killpg(group, signal) != Err(Errno::ESRCH)
}

/// The signal that a task asks to be stopped with.
pub(crate) fn stop_signal(number: i32) -> Signal {
    Signal::try_from(number).unwrap_or(Signal::SIGTERM)
}

/// Children that have ended.
#[derive(Debug, Default)]
pub(crate) struct Reaped {
    pub(crate) ended: Vec<(Pid, Exit)>,
    /// There was one more whose name was not told, because a real-time signal ended it and nix has no name for that.
    pub(crate) nameless: bool,
}

/// Collects all children that have ended since the last time, adopted orphans included.
pub(crate) fn reap() -> Reaped {
    let mut reaped = Reaped::default();
    loop {
        match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => reaped.ended.push((pid, Exit::code(code))),
            Ok(WaitStatus::Signaled(pid, signal, _)) => {
                let exit = Exit::code(CODE_SIGNAL_BASE + signal as i32);
                reaped.ended.push((pid, Exit { signal: signal as i32, ..exit }));
            }
            Err(Errno::EINVAL) => reaped.nameless = true,
            Ok(WaitStatus::StillAlive) => return reaped,
            Ok(_) | Err(Errno::EINTR) => (),
            Err(_) => return reaped,
        }
    }
}

/// Whether there is such a process, zombies included.
pub(crate) fn exists(pid: Pid) -> bool {
    nix::sys::signal::kill(pid, None) != Err(Errno::ESRCH)
}
