//! How a command in a task gets into the task's container.
//!
//! Charliecloud's and apptainer's containers are namespaces of the task's own processes, which are entered one after the other. An
//! engine is asked to execute the command in its container.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, setns};

use super::error::EngineError;
use super::session::variables;
use crate::container::{ENGINE_VARIABLE, Engine, RUNTIME_VARIABLE, misleads};

/// What makes a container of a process, in the order of entering: a process in the user namespace may enter the others.
const KINDS: [(&str, CloneFlags); 2] =
    [("user", CloneFlags::CLONE_NEWUSER), ("mnt", CloneFlags::CLONE_NEWNS)];

type Variables = [(OsString, OsString)];

/// Namespaces to be entered; none of a task that runs on the node itself.
pub(super) struct Rooms(Vec<(File, CloneFlags)>);

/// The process whose surroundings are the task's: apptainer's own, which stays outside, has not even its variables.
pub(super) fn inmost(task: u32) -> u32 {
    let is_known = |process: u32| {
        let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        value(&variables(&environment), RUNTIME_VARIABLE).is_some()
    };
    if is_known(task) { task } else { Some(within(task)).filter(|inner| is_known(*inner)).unwrap_or(task) }
}

/// The namespaces of a task's container.
pub(super) fn of(task: u32, variables: &Variables) -> io::Result<Rooms> {
    let runtime = value(variables, RUNTIME_VARIABLE);
    if !matches!(runtime.as_deref(), Some("charliecloud" | "apptainer" | "singularity")) {
        return Ok(Rooms(Vec::new()));
    }
    let process = within(task);
    let mut rooms = Vec::new();
    for (kind, flag) in KINDS {
        let path = format!("/proc/{process}/ns/{kind}");
        // One that this process is in already cannot be entered again.
        if is_elsewhere(process, kind) {
            rooms.push((File::open(path)?, flag));
        }
    }
    Ok(Rooms(rooms))
}

impl Rooms {
    pub(super) fn enter(self) -> io::Result<()> {
        for (file, flag) in self.0 {
            setns(file, flag)?;
        }
        Ok(())
    }
}

fn is_elsewhere(process: u32, kind: &str) -> bool {
    let link = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/{kind}")).ok();
    let theirs = link(&process.to_string());
    theirs.is_some() && theirs != link("self")
}

/// Whether a process has other files than this one. Where that may not be seen, its namespace tells enough.
fn has_other_files(process: u32) -> bool {
    let root = |process: &str| {
        let found = std::fs::metadata(format!("/proc/{process}/root/")).ok()?;
        Some((found.dev(), found.ino()))
    };
    root(&process.to_string()).is_none_or(|theirs| Some(theirs) != root("self"))
}

/// The first of a task's processes that sees the container's files: apptainer's own stays outside, in a namespace of its own.
fn within(task: u32) -> u32 {
    let mut processes = vec![task];
    while let Some(process) = processes.pop() {
        if is_elsewhere(process, "mnt") && has_other_files(process) {
            return process;
        }
        let path = format!("/proc/{process}/task/{process}/children");
        let children = std::fs::read_to_string(Path::new(&path)).unwrap_or_default();
        processes.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
    }
    task
}

fn value(variables: &Variables, name: &str) -> Option<String> {
    let found = variables.iter().find(|(own, _)| own == name)?;
    found.1.to_str().map(str::to_owned)
}

/// The engine's command line for a command in the task's container; none where no engine runs it.
pub(super) fn through_engine(
    variables: &Variables,
    workdir: Option<String>,
    is_terminal: bool,
    command: &[String],
) -> Option<Result<Vec<String>, EngineError>> {
    let mut engine: Engine = serde_json::from_str(&value(variables, ENGINE_VARIABLE)?).ok()?;
    engine.workdir = workdir.unwrap_or(engine.workdir);
    Some(words(&engine, variables, is_terminal, command))
}

fn words(
    engine: &Engine,
    variables: &Variables,
    is_terminal: bool,
    command: &[String],
) -> Result<Vec<String>, EngineError> {
    if engine.prefix.is_empty() {
        return Err(EngineError::SocketOnly);
    }
    let container = if engine.name.is_empty() { find(engine, variables)? } else { engine.name.clone() };
    let mut words = engine.prefix.clone();
    words.extend(["exec", "-i"].map(String::from));
    if is_terminal {
        words.push("-t".to_owned());
    }
    if !engine.name.is_empty() {
        // Its own container has the task's variables; the node's has not.
        let names = variables.iter().filter_map(|(name, _)| name.to_str());
        let own = names.filter(|name| !misleads(name) && *name != ENGINE_VARIABLE);
        words.extend(own.flat_map(|name| ["-e".to_owned(), name.to_owned()]));
    }
    if !engine.workdir.is_empty() {
        words.extend(["-w".to_owned(), engine.workdir.clone()]);
    }
    words.push(container);
    if command.is_empty() {
        words.push("/bin/sh".to_owned());
    }
    words.extend(command.iter().cloned());
    Ok(words)
}

/// The container of a task, by its labels.
fn find(engine: &Engine, variables: &Variables) -> Result<String, EngineError> {
    let (program, rest) = engine.prefix.split_first().ok_or(EngineError::SocketOnly)?;
    let mut list = Command::new(program);
    let session = variables.iter().map(|(name, value)| (name, value));
    list.env_clear().envs(session).args(rest).args(["ps", "-q", "--no-trunc"]).stdin(Stdio::null());
    for label in &engine.labels {
        list.arg("--filter").arg(format!("label={label}"));
    }
    let output = list.output().map_err(|source| EngineError::Start { program: program.clone(), source })?;
    let said = String::from_utf8_lossy(&output.stdout);
    match said.split_whitespace().next() {
        Some(id) => Ok(id.to_owned()),
        None => {
            let output = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(EngineError::NotRunning { output })
        }
    }
}
