//! What a task's process does before it is the task's, where something about it has to be changed from within: its cgroup, its
//! limits, its user. The keeper runs its own program for that; a task that asks for none of it is spawned without.
//!
//! What goes wrong is written to the task's refusal file, where the keeper finds it, and to the task's log.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::{Gid, Uid, dup2_stderr, dup2_stdin, dup2_stdout, geteuid, initgroups, setgid, setuid};
use serde::{Deserialize, Serialize};

use super::process::{CODE_NOT_EXECUTABLE, CODE_NOT_FOUND};
use super::{files, limits, note};
use crate::container::{self, Contained, Idle};
use crate::protocol::{Limit, Manner, container_mark, node_mark, refusal_file};
use crate::task::TaskKey;

/// What is to be done before the command runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stage {
    pub(crate) task: TaskKey,
    /// The `cgroup.procs` files to enter by.
    pub(super) cgroups: Vec<PathBuf>,
    pub(super) limits: Vec<Limit>,
    pub(super) user: Option<Login>,
    pub(super) workdir: PathBuf,
    /// What it runs in; none: on the node itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) container: Option<Box<Contained>>,
    #[serde(default)]
    pub(crate) act: Act,
}

impl Stage {
    /// Gives a process that works for a container the session of the task's user.
    pub(crate) fn dress(&self, command: &mut Command) {
        if let (Some(login), true) = (&self.user, self.container.is_some()) {
            login.dress(command);
        }
    }
}

/// What is done as the task's user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Act {
    /// The command is run.
    #[default]
    Run,
    /// What is left of the task's containers is removed.
    Close,
    /// The node's container is removed, if nobody has used it for so long.
    Retire(Idle),
}

/// Who the task runs as. Whatever is done with their files is done as them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Login {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) home: PathBuf,
    pub(super) shell: PathBuf,
    /// Empty: what the keeper has opened.
    pub(super) output: PathBuf,
    pub(super) error_output: PathBuf,
    /// Empty: none.
    pub(super) checkpoint_dir: PathBuf,
    /// Written to the output before all else.
    pub(super) header: String,
    /// How its files are opened.
    #[serde(default)]
    pub(super) files: Manner,
}

impl Login {
    /// Gives a process the user's own session, in the place of the worker's.
    pub(super) fn dress(&self, command: &mut Command) {
        command.env("HOME", &self.home).env("SHELL", &self.shell);
        command.env("USER", &self.name).env("LOGNAME", &self.name);
        for name in SESSION_VARIABLES {
            command.env_remove(name);
        }
    }
}

/// Variables of the worker's own session that are wrong for anybody else.
const SESSION_VARIABLES: &[&str] = &["XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "MAIL", "SUDO_USER"];

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
pub fn stage_main(state_dir: &Path, stage: &str, command: &[String]) -> u8 {
    let stage: Stage = match serde_json::from_str(stage) {
        Ok(stage) => stage,
        Err(error) => {
            note(format_args!("the stage is not understood: {error}"));
            return CODE_NOT_EXECUTABLE;
        }
    };
    if stage.act != Act::Run {
        return close(&stage);
    }
    let path = refusal_file(state_dir, stage.task);
    // Opened while the state directory can be entered; closed when the command runs.
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    let refusal = match become_task(state_dir, &stage, command) {
        Ok(code) => return code,
        Err(refusal) => refusal,
    };
    if let Err(error) = file.and_then(|mut file| writeln!(file, "{}", refusal.text)) {
        note(format_args!("wharf: the keeper cannot be told: {error}"));
    }
    note(format_args!("wharf: {}", refusal.text));
    refusal.code
}

/// Removes what is left of a task, or of a node's container; the exit code is 0 where that is done.
fn close(stage: &Stage) -> u8 {
    let Some(contained) = &stage.container else { return 0 };
    let switched =
        stage.user.as_ref().map_or(Ok(()), |login| switch(login).map_err(|error| error.to_string()));
    let closed = switched.and_then(|()| match stage.act {
        Act::Retire(idle) => container::retire(contained, idle),
        Act::Run | Act::Close => container::clean(contained).map(|()| true),
    });
    match closed {
        Ok(is_gone) => u8::from(!is_gone),
        Err(error) => {
            note(format_args!("{}: containers are left behind: {error}", stage.task));
            1
        }
    }
}

/// Becomes the command, or serves its container until its end: then with its exit code.
fn become_task(state_dir: &Path, stage: &Stage, command: &[String]) -> Result<u8, Refusal> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Refusal::new("the command is empty"));
    };
    if let Some(contained) = &stage.container {
        mark(state_dir, stage, contained)
            .map_err(Refusal::of(format_args!("prepare {} for containers", state_dir.display())))?;
    }
    prepare(stage)?;
    if let Some(contained) = &stage.container {
        let entered = container::enter(contained, command);
        return entered.map_err(|failed| Refusal { code: failed.code, text: failed.text });
    }
    Err(become_command(stage, program, arguments))
}

/// What an earlier keeper's task noted, if it has containers that may outlive it.
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
    let closing = Stage { cgroups: Vec::new(), limits: Vec::new(), act: Act::Close, ..stage.clone() };
    let text = serde_json::to_string(&closing)?;
    std::fs::write(container_mark(state_dir, stage.task), &text)?;
    if contained.spec.per_node {
        std::fs::write(node_mark(state_dir, &contained.spec.name), &text)?;
    }
    Ok(())
}

fn become_command(stage: &Stage, program: &str, arguments: &[String]) -> Refusal {
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(login) = &stage.user {
        login.dress(&mut command);
    }
    let error = command.exec();
    let mut refusal = Refusal::of(format_args!("start '{program}'"))(&error);
    if error.kind() == io::ErrorKind::NotFound {
        refusal.code = CODE_NOT_FOUND;
    }
    refusal
}

fn prepare(stage: &Stage) -> Result<(), Refusal> {
    for file in &stage.cgroups {
        // Zero is whoever writes it.
        std::fs::write(file, "0")
            .map_err(Refusal::of(format_args!("enter the cgroup {}", file.display())))?;
    }
    limits::apply(&stage.limits).map_err(Refusal::new)?;
    if let Some(login) = &stage.user {
        switch(login).map_err(Refusal::of(format_args!("become the user {}", login.name)))?;
    }
    std::env::set_current_dir(&stage.workdir)
        .map_err(Refusal::of(format_args!("enter the working directory {}", stage.workdir.display())))?;
    if let Some(login) = &stage.user {
        open_files(login)?;
    }
    // Until now it was the port that is held for the task, if there is one.
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
        std::fs::create_dir_all(folder)
            .map_err(Refusal::of(format_args!("make the checkpoint folder {}", folder.display())))?;
    }
    Ok(())
}
