//! Processes: starting a task, signalling its group, and collecting children that have ended.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, User};
use tokio::net::TcpSocket;

use super::cgroup::TaskCgroup;
use super::files::Files;
use super::stage::{Act, Login, Stage};
use crate::container::{self, Direct};
use crate::protocol::{Process, Start, Step};
use crate::task::Exit;

/// As shells have it.
pub(super) const CODE_NOT_FOUND: u8 = 127;
pub(super) const CODE_NOT_EXECUTABLE: u8 = 126;
const CODE_SIGNAL_BASE: i32 = 128;

/// The processes of a step that were started, and why one was not.
#[derive(Debug, Default)]
pub(crate) struct Spawned {
    pub(crate) groups: Vec<Pid>,
    pub(crate) failed: Option<Exit>,
}

/// Starts the processes of a step, each as the leader of a process group of its own.
pub(super) fn spawn(state_dir: &Path, start: &Start, step: &Step, cgroup: Option<&TaskCgroup>) -> Spawned {
    let mut spawned = Spawned::default();
    spawned.failed = spawn_into(&mut spawned.groups, state_dir, start, step, cgroup).err();
    spawned
}

fn spawn_into(
    groups: &mut Vec<Pid>,
    state_dir: &Path,
    start: &Start,
    step: &Step,
    cgroup: Option<&TaskCgroup>,
) -> Result<(), Exit> {
    let port = hold_port(start, step)?;
    let mut stage = if start.is_staged() { Some(stage(start, cgroup)?) } else { None };
    let user = stage.as_mut().and_then(|stage| stage.user.as_mut());
    let files = Files::open(state_dir, start, step, user)?;
    for process in &step.processes {
        if let Some(stage) = &mut stage {
            stage.container.clone_from(&process.container);
        }
        let contained = if start.confinement.is_none() { contained(start, process) } else { None };
        let (command, _variables) = match (&stage, contained) {
            (_, Some(Direct { command, variables })) => (command, Some(variables)),
            (None, None) => (direct(start, process)?, None),
            (Some(stage), None) => (staged(state_dir, stage, process, port.as_ref())?, None),
        };
        groups.push(launch(command, start, process, &files)?);
        // Once is enough for all.
        if let Some(login) = stage.as_mut().and_then(|stage| stage.user.as_mut()) {
            login.header.clear();
        }
    }
    Ok(())
}

/// What the task's processes do before they are its own.
fn stage(start: &Start, cgroup: Option<&TaskCgroup>) -> Result<Stage, Exit> {
    let asked = &start.confinement;
    Ok(Stage {
        task: start.task,
        cgroups: cgroup.map(TaskCgroup::entrances).unwrap_or_default(),
        limits: asked.limits.clone(),
        user: asked.user.as_deref().map(|name| login(start, name)).transpose()?,
        workdir: start.workdir.clone(),
        container: None,
        act: Act::Run,
    })
}

/// How a task's containers are removed that outlive its processes; none where it has no such.
pub(super) fn closing(start: &Start) -> Option<Box<Stage>> {
    let container = Some(Box::new(start.engine()?.clone()));
    // A user that this node does not have runs nothing either.
    let stage = stage(start, None).ok()?;
    Some(Box::new(Stage { container, limits: Vec::new(), act: Act::Close, ..stage }))
}

/// Starts what removes a task's containers when its processes are gone. It says what goes wrong in the keeper's log.
pub(super) fn spawn_closing(state_dir: &Path, stage: &Stage) -> Result<Pid, Exit> {
    let nothing = Process { command: vec!["close".to_owned()], ..Process::default() };
    let mut command = staged(state_dir, stage, &nothing, None)?;
    let spawned = command.stdout(Stdio::null()).process_group(0).spawn();
    let child = spawned.map_err(|error| failure(&error, format_args!("remove its containers")))?;
    i32::try_from(child.id()).map(Pid::from_raw).map_err(|error| Exit::lost(error.to_string()))
}

/// The port that the task's first step will listen at, so that nobody else takes it before the task runs.
///
/// It is bound but nobody listens, so that a task that is quick can have it already.
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
            "port {}, the task's MASTER_PORT, cannot be had on this node: {error}",
            start.port
        ))
    })
}

/// Who a task runs as, and what is to be done as them.
fn login(start: &Start, name: &str) -> Result<Login, Exit> {
    let failed = |what: String| Exit::unlaunched(CODE_NOT_EXECUTABLE.into(), what);
    let user = User::from_name(name)
        .map_err(|errno| failed(format!("cannot look up the user '{name}': {errno}")))?
        .ok_or_else(|| failed(format!("this node has no user '{name}'")))?;
    let below = |path: &Path| {
        if path.as_os_str().is_empty() { PathBuf::new() } else { start.workdir.join(path) }
    };
    Ok(Login {
        name: user.name,
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
        home: user.dir,
        shell: user.shell,
        output: below(&start.output),
        error_output: below(&start.error_output),
        checkpoint_dir: start.checkpoint_dir.clone(),
        header: String::new(),
        files: start.files,
    })
}

pub(super) fn failure(error: &io::Error, what: std::fmt::Arguments<'_>) -> Exit {
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
    Some(direct)
}

/// This very program, which prepares itself and then becomes the command.
fn staged(
    state_dir: &Path,
    stage: &Stage,
    process: &Process,
    port: Option<&TcpSocket>,
) -> Result<Command, Exit> {
    let failed = |error: &io::Error| failure(error, format_args!("prepare the task"));
    let told = serde_json::to_string(stage).map_err(|error| failed(&error.into()))?;
    // Also where its file was replaced since.
    let mut command = Command::new("/proc/self/exe");
    command.arg("keeper").arg("--state-dir").arg(state_dir).arg("--stage").arg(told).arg("--");
    command.args(&process.command).current_dir("/");
    stage.dress(&mut command);
    // The stage has no use for its input: it carries the port until the command runs.
    command.stdin(match port {
        Some(port) => Stdio::from(port.as_fd().try_clone_to_owned().map_err(|error| failed(&error))?),
        None => Stdio::null(),
    });
    Ok(command)
}

/// The child is collected by [`reap`], as all are.
fn launch(mut command: Command, start: &Start, process: &Process, files: &Files) -> Result<Pid, Exit> {
    let mut spawn = || {
        let error_output = files.error_output.as_ref().unwrap_or(&files.output);
        let child = command
            .envs(&start.env)
            .envs(&process.env)
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

/// Signals all of a process group; false if there is nobody in it.
pub(crate) fn signal_group(group: Pid, signal: Option<Signal>) -> bool {
    // Any other error means that somebody is there.
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
