//! What a task's process does before it is the task's, where something about it has to be changed from within: its cgroup, its
//! user, its limits. The supervisor runs its own program for that; a task that asks for none of it is spawned without.
//!
//! A stage begins with the worker's rights. *Invariant: nothing that a job's user chooses takes effect before the switch to that
//! user.* It starts with a fixed environment and fixed arguments; the [`Stage`], with the job's command and environment in it, is
//! read from standard input, and the environment is applied by the last exec. A container is prepared by another exec of this program,
//! as the job's user and with the job's environment.
//!
//! Errors are written to the task's refusal file, where the supervisor finds them, and to the task's log.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{OpenOptionsExt, fchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::unistd::{
    Gid, Uid, User, dup2_stderr, dup2_stdin, dup2_stdout, geteuid, initgroups, setgid, setuid,
};
use serde::{Deserialize, Serialize};

use super::process::{CODE_NOT_EXECUTABLE, CODE_NOT_FOUND};
use super::{device_nodes, files, limits, note};
use crate::checkpoints::{self, CheckpointSetup};
use crate::container::{self, Contained, Idle};
use crate::descriptors::{anonymous_file, close_inherited};
use crate::supervisor::protocol::{Limit, OpenMode, container_mark, node_mark, refusal_file};
use crate::task::TaskKey;

/// How often a file is read that is followed.
const READ_INTERVAL: Duration = Duration::from_millis(100);

/// The search path of a stage, whatever the worker's own is.
const STAGE_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What is to be done before the command runs, and the command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stage {
    pub(crate) task: TaskKey,
    /// The files to enter its cgroups by.
    pub(super) cgroups: Vec<PathBuf>,
    pub(super) limits: Vec<Limit>,
    /// The highest values that limits may have, as the site grants them.
    #[serde(default)]
    pub(super) max_limits: Vec<Limit>,
    /// The device nodes that it may not open.
    #[serde(default)]
    pub(super) denied_devices: Vec<PathBuf>,
    pub(super) user: Option<Login>,
    pub(super) workdir: PathBuf,
    /// What it runs in; none: on the node itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) container: Option<Box<Contained>>,
    #[serde(default)]
    pub(crate) act: Act,
    #[serde(default)]
    pub(super) command: Vec<String>,
    /// The whole environment of the command.
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    /// The descriptor of a port that is held until the command runs.
    #[serde(default)]
    pub(super) port: Option<RawFd>,
    /// The descriptor of the refusal file, where an earlier stage has opened it.
    #[serde(default)]
    pub(super) refusal: Option<RawFd>,
    /// Checkpoint directories to remove, and how long nothing in them must have changed; none: only empty ones are removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) released: Vec<(PathBuf, Option<Duration>)>,
}

impl Stage {
    /// The program that carries it out: `program`, which has the subcommand `supervisor`. It has a fixed environment and reads the stage
    /// from its standard input.
    pub(crate) fn to_command(&self, program: &Path, state_dir: &Path) -> io::Result<Command> {
        let mut command = Command::new(program);
        command.arg("supervisor").arg("--state-dir").arg(state_dir).arg("--stage").current_dir("/");
        command.env_clear().env("PATH", STAGE_PATH);
        command.stdin(anonymous_file(&serde_json::to_vec(self)?)?);
        Ok(command)
    }

    /// The stage that reads a file with the rights of a user; none of a user that this node does not have.
    pub(crate) fn reading(path: PathBuf, uid: u32, offset: u64, follow: bool) -> Option<Self> {
        let user = User::from_uid(Uid::from_raw(uid)).ok().flatten()?;
        let login = Login { output: path, ..Login::of(user) };
        let task = TaskKey { job: 0, generation: 0 };
        let stage = Self::new(task, Some(login), PathBuf::from("/"));
        Some(Self { act: Act::Read { offset, follow }, ..stage })
    }

    /// The stage that removes checkpoint directories with the rights of a user; none of a user that this node does not have.
    pub(crate) fn removing(user: &str, wanted: Vec<(PathBuf, Option<Duration>)>) -> Option<Self> {
        let user = User::from_name(user).ok().flatten()?;
        let task = TaskKey { job: 0, generation: 0 };
        let stage = Self::new(task, Some(Login::of(user)), PathBuf::from("/"));
        Some(Self { act: Act::RemoveCheckpoints, released: wanted, ..stage })
    }

    /// A stage that changes nothing but the user.
    pub(super) fn new(task: TaskKey, user: Option<Login>, workdir: PathBuf) -> Self {
        Self {
            task,
            cgroups: Vec::new(),
            limits: Vec::new(),
            max_limits: Vec::new(),
            denied_devices: Vec::new(),
            user,
            workdir,
            container: None,
            act: Act::Run,
            command: Vec::new(),
            env: BTreeMap::new(),
            port: None,
            refusal: None,
            released: Vec::new(),
        }
    }

    /// The stage that removes its containers when its processes are gone.
    pub(super) fn to_closing(&self) -> Self {
        let stage = Self::new(self.task, self.user.clone(), self.workdir.clone());
        Self { container: self.container.clone(), act: Act::Close, ..stage }
    }

    /// As [`Self::to_command`], for what is done about containers: their programs need the session of the task's user.
    pub(crate) fn to_closing_command(&self, program: &Path, state_dir: &Path) -> io::Result<Command> {
        let mut command = self.to_command(program, state_dir)?;
        if let Some(login) = &self.user {
            command.envs(login.session());
        }
        Ok(command)
    }
}

/// What is done as the task's user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Act {
    /// The command is run.
    #[default]
    Run,
    /// The command is run in its container, by a process that is the user's already.
    Enter,
    /// What is left of the task's containers is removed.
    Close,
    /// The node's container is removed after this idle time.
    Retire(Idle),
    /// A file is copied to standard output, from an offset on; one that is followed until this process is killed.
    Read { offset: u64, follow: bool },
    /// Checkpoint directories are removed; which of them are gone is written to standard output.
    RemoveCheckpoints,
}

/// Who the task runs as. Whatever is done with their files is done as them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Login {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) home: PathBuf,
    pub(super) shell: PathBuf,
    /// Empty: what the supervisor has opened.
    pub(super) output: PathBuf,
    pub(super) error_output: PathBuf,
    /// Empty: none.
    pub(super) checkpoint_dir: PathBuf,
    #[serde(default)]
    pub(super) checkpoint_setup: CheckpointSetup,
    /// Written to the output before all else.
    pub(super) header: String,
    /// How its files are opened.
    #[serde(default)]
    pub(super) files: OpenMode,
}

impl Login {
    /// A user without any files.
    pub(super) fn of(user: User) -> Self {
        Self {
            name: user.name,
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
            home: user.dir,
            shell: user.shell,
            output: PathBuf::new(),
            error_output: PathBuf::new(),
            checkpoint_dir: PathBuf::new(),
            checkpoint_setup: CheckpointSetup::default(),
            header: String::new(),
            files: OpenMode::default(),
        }
    }

    /// The variables of the user's session, instead of the worker's.
    pub(super) fn session(&self) -> [(&'static str, String); 4] {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        [
            ("HOME", text(&self.home)),
            ("SHELL", text(&self.shell)),
            ("USER", self.name.clone()),
            ("LOGNAME", self.name.clone()),
        ]
    }
}

/// Why a task's process did not become the task's.
struct Refusal {
    code: u8,
    text: String,
}

impl Refusal {
    fn new(text: impl ToString) -> Self {
        Self { code: CODE_NOT_EXECUTABLE, text: text.to_string() }
    }

    fn of<E: std::fmt::Display>(what: impl std::fmt::Display) -> impl FnOnce(E) -> Self {
        move |error| Self::new(format!("cannot {what}: {error}"))
    }
}

/// Becomes the task's process; returns an exit code only where that is impossible.
pub fn stage_main(state_dir: &Path) -> u8 {
    let mut text = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut text);
    let stage = read.and_then(|_| serde_json::from_slice::<Stage>(&text).map_err(io::Error::from));
    let stage = match stage {
        Ok(stage) => stage,
        Err(error) => {
            note(format_args!("malformed stage: {error}"));
            return CODE_NOT_EXECUTABLE;
        }
    };
    match stage.act {
        Act::Run => run(state_dir, stage),
        Act::Enter => enter(&stage),
        Act::Close | Act::Retire(_) => {
            close_inherited(None);
            close(&stage)
        }
        Act::Read { offset, follow } => {
            close_inherited(None);
            u8::from(copy_file(&stage, offset, follow).is_err())
        }
        Act::RemoveCheckpoints => {
            close_inherited(None);
            u8::from(remove_checkpoints(&stage).is_err())
        }
    }
}

/// Runs the command of a task.
fn run(state_dir: &Path, stage: Stage) -> u8 {
    close_inherited(stage.port);
    let path = refusal_file(state_dir, stage.task);
    // Opened while the state directory can be entered; closed when the command runs.
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    let refusal = become_task(state_dir, stage, file.as_ref().ok());
    report(file, &refusal)
}

/// Enters the container of a task as its user.
fn enter(stage: &Stage) -> u8 {
    let file = match stage.refusal {
        // A file of this user, which only this descriptor leads to.
        Some(number) => OpenOptions::new().append(true).open(format!("/proc/self/fd/{number}")),
        None => Err(io::ErrorKind::NotFound.into()),
    };
    if let Some(number) = stage.refusal {
        // It has just been opened, so that it can be closed.
        let _ = nix::unistd::close(number);
    }
    let Some(contained) = &stage.container else { return CODE_NOT_EXECUTABLE };
    let refusal = match null_input().map(|()| container::enter(contained, &stage.command)) {
        Ok(Ok(code)) => return code,
        Ok(Err(failed)) => Refusal { code: failed.code, text: failed.text },
        Err(refusal) => refusal,
    };
    report(file, &refusal)
}

/// Reports why there is no command, and returns the exit code.
fn report(file: io::Result<File>, refusal: &Refusal) -> u8 {
    if let Err(error) = file.and_then(|mut file| writeln!(file, "{}", refusal.text)) {
        note(format_args!("wharf: cannot write the refusal file: {error}"));
    }
    note(format_args!("wharf: {}", refusal.text));
    refusal.code
}

/// Copies a file to standard output with the rights of the task's user.
fn copy_file(stage: &Stage, offset: u64, follow: bool) -> io::Result<()> {
    let Some(login) = &stage.user else { return Ok(()) };
    switch(login)?;
    let mut file: Option<File> = None;
    let mut output = io::stdout().lock();
    loop {
        if file.is_none() {
            file = files::open_to_read(&login.output)?;
            file.as_mut().map_or(Ok(0), |file| file.seek(SeekFrom::Start(offset)))?;
        }
        if let Some(file) = &mut file {
            io::copy(file, &mut output)?;
            output.flush()?;
        }
        if !follow {
            return Ok(());
        }
        thread::park_timeout(READ_INTERVAL);
    }
}

/// Removes checkpoint directories with the rights of their user.
fn remove_checkpoints(stage: &Stage) -> io::Result<()> {
    let Some(login) = &stage.user else { return Ok(()) };
    switch(login)?;
    let removed = stage.released.iter().map(|(dir, keep)| checkpoints::is_removed(dir, *keep));
    serde_json::to_writer(io::stdout().lock(), &removed.collect::<Vec<bool>>())?;
    Ok(())
}

/// Removes what is left of a task, or of a node's container; the exit code is 0 where that is done.
fn close(stage: &Stage) -> u8 {
    let Some(contained) = &stage.container else { return 0 };
    let switched =
        stage.user.as_ref().map_or(Ok(()), |login| switch(login).map_err(|error| error.to_string()));
    let closed = switched.and_then(|()| match stage.act {
        Act::Retire(idle) => container::retire(contained, idle),
        Act::Run | Act::Enter | Act::Close | Act::Read { .. } | Act::RemoveCheckpoints => {
            container::clean(contained).map(|()| true)
        }
    });
    match closed {
        Ok(is_gone) => u8::from(!is_gone),
        Err(error) => {
            note(format_args!("{}: containers are left behind: {error}", stage.task));
            1
        }
    }
}

/// Becomes the command; returns why that is impossible.
fn become_task(state_dir: &Path, mut stage: Stage, refusal: Option<&File>) -> Refusal {
    let marked = stage.container.as_ref().map_or(Ok(()), |contained| mark(state_dir, &stage, contained));
    if let Err(error) = marked {
        return Refusal::of(format_args!("prepare {} for containers", state_dir.display()))(error);
    }
    if let Err(refusal) = prepare(&stage) {
        return refusal;
    }
    if let Some(login) = &stage.user {
        stage.env.extend(login.session().map(|(name, value)| (name.to_owned(), value)));
    }
    if let Some(port) = stage.port.take() {
        // Taken by the command from now on.
        let _ = nix::unistd::close(port);
    }
    if stage.container.is_some() {
        return become_container(state_dir, stage, refusal);
    }
    match stage.command.split_first() {
        Some((program, arguments)) => become_command(&stage, program, arguments),
        None => Refusal::new("the command is empty"),
    }
}

/// Becomes another process of this program, which prepares the container with the environment of the task.
fn become_container(state_dir: &Path, mut stage: Stage, refusal: Option<&File>) -> Refusal {
    let env = std::mem::take(&mut stage.env);
    let (login, act) = (stage.user.take(), Act::Enter);
    let failed = Refusal::of("hand over the container");
    let handed_over = || {
        if let Some(file) = refusal {
            // The next process reports there; the file states nothing but why this task has no command.
            if let Some(login) = &login {
                fchown(file, Some(login.uid), Some(login.gid))?;
            }
            fcntl(file, FcntlArg::F_SETFD(FdFlag::empty()))?;
        }
        let stage = Stage { act, refusal: refusal.map(AsRawFd::as_raw_fd), ..stage };
        stage.to_command(Path::new("/proc/self/exe"), state_dir)
    };
    match handed_over() {
        Ok(mut command) => {
            command.current_dir(".").env_clear().envs(env);
            failed(command.exec())
        }
        Err(error) => failed(error),
    }
}

/// What an earlier supervisor's task noted, if it has containers that may outlive it.
pub(super) fn marked(state_dir: &Path, task: TaskKey) -> Option<Box<Stage>> {
    serde_json::from_str(&std::fs::read_to_string(container_mark(state_dir, task)).ok()?).ok()
}

/// Notes what has to be removed should everything else fail.
fn mark(state_dir: &Path, stage: &Stage, contained: &Contained) -> io::Result<()> {
    let (uid, gid) = match &stage.user {
        Some(login) => (login.uid, login.gid),
        None => (geteuid().as_raw(), nix::unistd::getegid().as_raw()),
    };
    container::before_switch(contained, uid, gid)?;
    if !contained.runtime.is_engine() && !contained.spec.per_node {
        return Ok(());
    }
    let closing = stage.to_closing();
    let text = serde_json::to_string(&closing)?;
    std::fs::write(container_mark(state_dir, stage.task), &text)?;
    if contained.spec.per_node {
        std::fs::write(node_mark(state_dir, &contained.spec.name), &text)?;
    }
    Ok(())
}

fn become_command(stage: &Stage, program: &str, arguments: &[String]) -> Refusal {
    let mut command = Command::new(program);
    let error = command.args(arguments).env_clear().envs(&stage.env).exec();
    let mut refusal = Refusal::of(format_args!("start '{program}'"))(&error);
    if error.kind() == io::ErrorKind::NotFound {
        refusal.code = CODE_NOT_FOUND;
    }
    refusal
}

fn prepare(stage: &Stage) -> Result<(), Refusal> {
    for file in &stage.cgroups {
        // Zero is the writing process.
        std::fs::write(file, "0")
            .map_err(Refusal::of(format_args!("enter the cgroup {}", file.display())))?;
    }
    device_nodes::deny(&stage.denied_devices).map_err(Refusal::of("restrict access to devices"))?;
    if let Some(login) = &stage.user {
        // What the site grants; what the job asks for is applied with the rights of its user.
        limits::grant(&stage.max_limits).map_err(Refusal::new)?;
        switch(login).map_err(Refusal::of(format_args!("become the user {}", login.name)))?;
    }
    limits::apply(&stage.limits).map_err(Refusal::new)?;
    std::env::set_current_dir(&stage.workdir)
        .map_err(Refusal::of(format_args!("enter the working directory {}", stage.workdir.display())))?;
    if let Some(login) = &stage.user {
        open_files(login)?;
    }
    null_input()
}

/// Until then standard input is the stage.
fn null_input() -> Result<(), Refusal> {
    File::open("/dev/null")
        .and_then(|null| Ok(dup2_stdin(null)?))
        .map_err(Refusal::of("close the standard input"))
}

fn switch(login: &Login) -> io::Result<()> {
    let name = std::ffi::CString::new(login.name.as_bytes())?;
    let gid = Gid::from_raw(login.gid);
    initgroups(&name, gid)?;
    setgid(gid)?;
    Ok(setuid(Uid::from_raw(login.uid))?)
}

/// Opens as the user what only the user's rights may reach.
fn open_files(login: &Login) -> Result<(), Refusal> {
    let open = |path: &Path| {
        files::open(path, login.files)
            .map_err(Refusal::of(format_args!("open the output {}", path.display())))
    };
    let failed = |errno: nix::errno::Errno| Refusal::new(format!("cannot set up the output: {errno}"));
    if !login.output.as_os_str().is_empty() {
        let mut output = open(&login.output)?;
        output.write_all(login.header.as_bytes()).map_err(Refusal::of("write the output"))?;
        dup2_stdout(&output).map_err(failed)?;
        dup2_stderr(&output).map_err(failed)?;
    }
    if !login.error_output.as_os_str().is_empty() {
        dup2_stderr(open(&login.error_output)?).map_err(failed)?;
    }
    let folder = &login.checkpoint_dir;
    if !folder.as_os_str().is_empty() {
        login
            .checkpoint_setup
            .create(folder, Path::new("."))
            .map_err(Refusal::of(format_args!("create the checkpoint directory {}", folder.display())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn to_command_has_nothing_of_the_job_in_arguments_and_environment() {
        let task = TaskKey { job: 7, generation: 1 };
        let stage = Stage {
            command: vec!["train".into(), "--password=hunter2".into()],
            env: [("LD_PRELOAD".to_owned(), "/evil.so".to_owned())].into(),
            ..Stage::new(task, None, PathBuf::from("/data/ann"))
        };
        let command = stage.to_command(Path::new("/proc/self/exe"), Path::new("/s")).unwrap();
        let words: Vec<&OsStr> = command.get_args().collect();
        assert_eq!(words, ["supervisor", "--state-dir", "/s", "--stage"]);
        let variables: Vec<&OsStr> = command.get_envs().map(|(name, _)| name).collect();
        assert_eq!(variables, ["PATH"]);
    }
}
