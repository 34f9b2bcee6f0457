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

use nix::unistd::{Gid, Uid, dup2_stderr, dup2_stdin, dup2_stdout, initgroups, setgid, setuid};
use serde::{Deserialize, Serialize};

use super::process::{CODE_NOT_EXECUTABLE, CODE_NOT_FOUND};
use super::{files, limits, note};
use crate::protocol::{Limit, Manner, refusal_file};
use crate::task::TaskKey;

/// What is to be done before the command runs.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stage {
    pub(super) task: TaskKey,
    /// The `cgroup.procs` files to enter by.
    pub(super) cgroups: Vec<PathBuf>,
    pub(super) limits: Vec<Limit>,
    pub(super) user: Option<Login>,
    pub(super) workdir: PathBuf,
}

/// Who the task runs as. Whatever is done with their files is done as them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Login {
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
    let path = refusal_file(state_dir, stage.task);
    // Opened while the state directory can be entered; closed when the command runs.
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    let refusal = become_task(&stage, command);
    if let Err(error) = file.and_then(|mut file| writeln!(file, "{}", refusal.text)) {
        note(format_args!("wharf: the keeper cannot be told: {error}"));
    }
    note(format_args!("wharf: {}", refusal.text));
    refusal.code
}

fn become_task(stage: &Stage, command: &[String]) -> Refusal {
    let Some((program, arguments)) = command.split_first() else {
        return Refusal::new("the command is empty");
    };
    if let Err(refusal) = prepare(stage) {
        return refusal;
    }
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(login) = &stage.user {
        command.env("HOME", &login.home).env("SHELL", &login.shell);
        command.env("USER", &login.name).env("LOGNAME", &login.name);
        for name in SESSION_VARIABLES {
            command.env_remove(name);
        }
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
