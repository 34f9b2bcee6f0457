//! The process that becomes a command in a task: it takes on the task's surroundings, then executes the command.
//!
//! A process of its own, because it changes what only a process can change: session, groups, user, folder.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, User};

use super::error::ExecError;
use super::namespaces;
use crate::container::{RUNTIME_VARIABLE, misleads};
use crate::descriptors::close_inherited;
use crate::error::with_causes;
use crate::processes::start_time_of;
use crate::supervisor::device_nodes;
use crate::supervisor::protocol::TaskProcess;

/// As shells have it.
const CODE_NOT_FOUND: u8 = 127;
const CODE_NOT_EXECUTABLE: u8 = 126;
/// What variables are called that go over the task's own, before their names.
pub(super) const OVER: &str = "WHARF_BESIDE_ENV_";
/// The variable with the folder, where it is not the task's.
pub(super) const WORKDIR: &str = "WHARF_BESIDE_DIR";
/// Among those, which of the task's devices are a step's.
const STEP_DEVICES: &str = "WHARF_STEP_DEVICES";
/// Variables that list devices.
const VISIBLE: [&str; 4] =
    ["CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"];
/// What every terminal of today understands.
const TERM: &str = "xterm-256color";
/// How long a process that prepares a task may take to become the task's user.
const SWITCH_PATIENCE: Duration = Duration::from_secs(2);
const SWITCH_INTERVAL: Duration = Duration::from_millis(5);

/// The task that a command runs beside.
#[derive(Clone, Debug)]
pub struct SessionTask {
    /// A process of the task.
    pub pid: u32,
    /// When that process was started: a process with the same number and another time is not the task's.
    pub start_time: u64,
    /// The user that the task was started as, which the command runs as.
    pub uid: u32,
    /// That user's group.
    pub gid: u32,
    /// The files to enter the task's cgroups by.
    pub cgroups: Vec<PathBuf>,
    /// The device nodes that the task may not open.
    pub denied_devices: Vec<PathBuf>,
}

impl SessionTask {
    /// A task whose supervisor has recorded the account that it runs as.
    pub(super) fn new(process: &TaskProcess) -> Result<Self, ExecError> {
        let account = process.account.ok_or(ExecError::NoAccount)?;
        Ok(Self {
            pid: process.pid.cast_unsigned(),
            start_time: process.start_time,
            uid: account.uid,
            gid: account.gid,
            cgroups: process.cgroups.clone(),
            denied_devices: process.denied_devices.clone(),
        })
    }

    /// The options of the subcommand `exec-session`.
    pub(super) fn options(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        let numbers = [
            ("--task", u64::from(self.pid)),
            ("--start-time", self.start_time),
            ("--uid", u64::from(self.uid)),
            ("--gid", u64::from(self.gid)),
        ];
        for (option, number) in numbers {
            words.extend([option.into(), number.to_string().into()]);
        }
        for file in &self.cgroups {
            words.extend(["--cgroup".into(), file.into()]);
        }
        for node in &self.denied_devices {
            words.extend(["--denied-device".into(), node.into()]);
        }
        words
    }
}

/// Executes `command`, or the user's shell where it is empty, beside a task. With `is_terminal`, standard
/// input is a terminal that becomes its own. Returns only where that is not possible: the exit code, told why on standard error.
pub fn exec_session_main(task: &SessionTask, is_terminal: bool, command: &[String]) -> u8 {
    close_inherited(None);
    let failed = match become_neighbour(task, is_terminal, command) {
        Ok(error) | Err(error) => error,
    };
    // There is no other place to report it.
    let _ = writeln!(io::stderr(), "wharf: {}: {}", failed.what, failed.source);
    if failed.source.kind() == io::ErrorKind::NotFound { CODE_NOT_FOUND } else { CODE_NOT_EXECUTABLE }
}

struct Failed {
    what: String,
    source: io::Error,
}

fn become_neighbour(task: &SessionTask, is_terminal: bool, command: &[String]) -> Result<Failed, Failed> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |source: io::Error| Failed { what, source }
    };
    let process = find_process(task).map_err(failed("the task is gone"))?;
    for file in &task.cgroups {
        fs::write(file, "0").map_err(failed("cannot enter the task's cgroup"))?;
    }
    device_nodes::deny(&task.denied_devices).map_err(failed("cannot restrict access to devices"))?;
    if is_terminal {
        take_terminal().map_err(failed("cannot take the terminal"))?;
    }
    // What the task's processes say of themselves is read with the rights of its user, never with the worker's.
    become_user(task.uid, task.gid).map_err(failed("cannot become the task's user"))?;
    let inner = namespaces::inmost(task.pid);
    let process = if inner == task.pid { folder(&process) } else { PathBuf::from(format!("/proc/{inner}")) };
    let environment =
        fs::read(process.join("environ")).map_err(failed("cannot read the task's environment"))?;
    let workdir =
        fs::read_link(process.join("cwd")).map_err(failed("cannot read the task's working directory"))?;
    let chosen = std::env::var_os(WORKDIR);
    let workdir = chosen.clone().map_or(workdir, PathBuf::from);
    let variables = variables(&environment);
    let rooms = namespaces::of(inner, &variables).map_err(failed("cannot inspect the task's container"))?;
    rooms.enter().map_err(failed("cannot enter the task's container"))?;
    // If the worker is killed, the output has no reader: this process must end.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(|errno| failed("cannot follow the worker")(errno.into()))?;
    if let Some(words) = namespaces::through_engine(
        &variables,
        chosen.and_then(|folder| folder.into_string().ok()),
        is_terminal,
        command,
    ) {
        let words = words.map_err(|error| {
            failed("cannot reach the task's container")(io::Error::other(with_causes(&error)))
        })?;
        let (program, arguments) =
            words.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
        let mut next = Command::new(program);
        // Of the task's own variables the engine's program needs those of its session.
        next.env_clear().envs(variables).args(arguments);
        return Ok(failed(&format!("cannot start '{program}'"))(next.exec()));
    }
    let shell = shell(&variables, task.uid);
    let (program, arguments) = match command.split_first() {
        Some((program, arguments)) => (OsStr::new(program), arguments),
        None => (shell.as_os_str(), command),
    };
    let mut next = Command::new(program);
    // What is here of an environment is the worker's.
    next.env_clear();
    if is_terminal {
        next.env("TERM", TERM);
    }
    // An image has its own idea of what is the machine's.
    let is_contained = variables.iter().any(|(name, _)| name == RUNTIME_VARIABLE);
    let fits = |name: &OsStr| !is_contained || !name.to_str().is_some_and(misleads);
    let over: Vec<(OsString, OsString)> = over().filter(|(name, _)| fits(name)).collect();
    let devices = step_devices(&variables, &over);
    let over = over.into_iter().filter(|(name, _)| name != STEP_DEVICES);
    next.args(arguments).envs(variables).envs(over).envs(devices).current_dir(&workdir);
    Ok(failed(&format!("cannot start '{}'", program.to_string_lossy()))(next.exec()))
}

/// Variables requested for the command.
fn over() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter_map(|(name, value)| {
        let name = name.as_encoded_bytes().strip_prefix(OVER.as_bytes())?.to_vec();
        Some((OsString::from_vec(name), value))
    })
}

/// What a step's task sees of the devices of the task beside it: with `FIRST COUNT ALL` so many from there on, of which the step has
/// `ALL` on this node; a count of 0 is everything.
fn step_devices(task: &[(OsString, OsString)], over: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    let of = |all: &[(OsString, OsString)], name: &str| {
        all.iter().find(|(own, _)| own == name).and_then(|(_, value)| value.to_str()).map(str::to_owned)
    };
    let Some(wanted) = of(over, STEP_DEVICES) else { return Vec::new() };
    let mut numbers = wanted.split(' ').map(|word| word.parse::<usize>().unwrap_or(0));
    let [first, count, all] = [(); 3].map(|()| numbers.next().unwrap_or(0));
    let part = |list: String| {
        let count = if count == 0 { usize::MAX } else { count };
        list.split(',').skip(first).take(count).collect::<Vec<_>>().join(",")
    };
    let mut own = Vec::new();
    if let Some(list) = of(task, "SLURM_JOB_GPUS") {
        let count = if all == 0 { list.split(',').count() } else { all };
        own.push(("SLURM_GPUS_ON_NODE", count.to_string()));
        own.push(("SLURM_STEP_GPUS", part(list)));
    }
    own.extend(VISIBLE.iter().filter_map(|&name| Some((name, part(of(task, name)?)))));
    own.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// Names and values out of what the kernel has of a process.
pub(super) fn variables(environment: &[u8]) -> Vec<(OsString, OsString)> {
    let pair = |variable: &[u8]| {
        // A name is not empty, though it may begin with the sign.
        let end = variable.iter().skip(1).position(|byte| *byte == b'=')? + 1;
        let part = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        Some((part(&variable[..end]), part(&variable[end + 1..])))
    };
    environment.split(|byte| *byte == 0).filter_map(pair).collect()
}

fn shell(variables: &[(OsString, OsString)], uid: u32) -> OsString {
    let told = variables.iter().find(|(name, value)| name == "SHELL" && !value.is_empty());
    let listed = || User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.shell.into_os_string());
    let known = told.map(|(_, shell)| shell.clone()).or_else(listed);
    known.filter(|shell| Path::new(shell).is_absolute()).unwrap_or_else(|| "/bin/sh".into())
}

/// Makes the terminal at standard input the one of a session of its own: an open by its leader does that.
fn take_terminal() -> io::Result<()> {
    nix::unistd::setsid()?;
    let name = nix::unistd::ttyname(io::stdin())?;
    File::open(name).map(drop)
}

fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    if !nix::unistd::geteuid().is_root() || uid == 0 {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    match User::from_uid(uid)? {
        Some(user) => {
            let name = std::ffi::CString::new(user.name).map_err(io::Error::other)?;
            nix::unistd::initgroups(&name, gid)?;
        }
        None => nix::unistd::setgroups(&[gid])?,
    }
    nix::unistd::setgid(gid)?;
    nix::unistd::setuid(uid)?;
    Ok(())
}

/// The folder of the task's process in `/proc`, open: it is of that very process, whichever has its number later.
///
/// A process that still prepares the task is waited for: until the switch its user may not read it.
fn find_process(task: &SessionTask) -> io::Result<File> {
    let process = File::open(format!("/proc/{}", task.pid))?;
    let deadline = Instant::now() + SWITCH_PATIENCE;
    loop {
        let stat = fs::read_to_string(folder(&process).join("stat"))?;
        if start_time_of(&stat) != Some(task.start_time) {
            return Err(io::ErrorKind::NotFound.into());
        }
        // A process that has changed its user, and has executed nothing since, belongs to root.
        if process.metadata()?.uid() == task.uid || Instant::now() > deadline {
            return Ok(process);
        }
        thread::park_timeout(SWITCH_INTERVAL);
    }
}

fn folder(process: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", process.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_a_process() {
        let pairs = variables(b"A=1\0EMPTY=\0B=x=y\0\0=odd=1\0none\0");
        let pairs: Vec<_> = pairs.iter().map(|(n, v)| (n.to_str().unwrap(), v.to_str().unwrap())).collect();
        assert_eq!(pairs, [("A", "1"), ("EMPTY", ""), ("B", "x=y"), ("=odd", "1")]);
    }

    #[test]
    fn steps_have_their_part_of_the_devices() {
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(OsString, OsString)> {
            pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
        };
        let task = pairs(&[("SLURM_JOB_GPUS", "0,1,2,3"), ("CUDA_VISIBLE_DEVICES", "4,5,6,7")]);
        let seen = |task: &[(OsString, OsString)], wanted: &str| -> Vec<String> {
            let found = step_devices(task, &pairs(&[(STEP_DEVICES, wanted)]));
            found.iter().map(|(_, value)| value.to_str().unwrap().to_owned()).collect()
        };
        assert_eq!(seen(&task, "0 0 0"), ["4", "0,1,2,3", "4,5,6,7"]);
        assert_eq!(seen(&task, "2 2 4"), ["4", "2,3", "6,7"]);
        assert_eq!(seen(&task, "0 1 1"), ["1", "0", "4"]);
        assert_eq!(seen(&pairs(&[("A", "b")]), "0 1 1"), Vec::<String>::new(), "it has none");
        assert_eq!(step_devices(&task, &[]), []);
    }
}
