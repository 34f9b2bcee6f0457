//! Containers of a node: one for each name, created when the first task needs it, that outlives tasks. They are executed in it.
//!
//! A process that executes something holds the container with a shared lock; removing it needs the exclusive lock. A container whose
//! image has changed since, such as one that was built again under the same tag, is replaced as soon as it is idle.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use nix::sys::memfd::{MFdFlags, memfd_create};

use super::enter::{Failed, InheritedFile, say};
use super::image::{answer, tool};
use super::{Contained, ENGINE_VARIABLE, apptainer, docker, image, serve};
use crate::state_dir;

/// More of what an engine says is not shown.
const SAID_MAX: u64 = 64 << 10;

/// How long a container may have been unused before it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Idle {
    pub(crate) ms: u64,
}

impl From<Duration> for Idle {
    fn from(idle: Duration) -> Self {
        Self { ms: u64::try_from(idle.as_millis()).unwrap_or(u64::MAX) }
    }
}

fn file(contained: &Contained, ending: &str) -> PathBuf {
    let folder = image::folder(contained, nix::unistd::geteuid().as_raw());
    folder.join(format!("node-{}.{ending}", contained.spec.name.replace('/', "-")))
}

/// What a container was created from.
#[derive(Debug, PartialEq, Eq)]
struct Origin {
    spec: String,
    /// The image itself, not its name; empty where an earlier version of Wharf has created the container.
    image: String,
}

impl Origin {
    /// Of the file beside an instance.
    fn parse(text: &str) -> Self {
        let (spec, image) = text.split_once(' ').unwrap_or((text, ""));
        Self { spec: spec.to_owned(), image: image.to_owned() }
    }
}

/// Takes the container for use: creates it where there is none, and replaces one of another origin that is idle.
fn taken(
    contained: &Contained,
    image_id: &str,
    find: impl Fn() -> Result<Option<Origin>, String>,
    make: impl Fn() -> Result<(), String>,
    remove: impl Fn() -> Result<(), String>,
) -> Result<File, String> {
    let (name, image) = (&contained.spec.name, &contained.spec.image);
    let failed = |error: std::io::Error| format!("cannot take the container {name} of this node: {error}");
    let gate = state_dir::open(&file(contained, "lock")).map_err(failed)?;
    gate.lock().map_err(failed)?;
    let used = state_dir::open(&file(contained, "use")).map_err(failed)?;
    match find()? {
        Some(origin) if origin.spec != contained.spec.hash => {
            used.try_lock().map_err(|_| {
                format!("the container {name} of this node was created from another spec, and tasks run in it; wait for their end, or choose another name")
            })?;
            remove()?;
            make()?;
        }
        Some(origin) if origin.image != image_id => match used.try_lock() {
            Ok(()) => {
                say(&format!("the image {image} has changed: the container {name} is replaced"));
                remove()?;
                make()?;
            }
            Err(_) => say(&format!(
                "the image {image} has changed, but tasks run in the container {name}: this task uses the earlier image, and the \
                 container is replaced when it is idle"
            )),
        },
        Some(_) => {}
        None => make()?,
    }
    used.lock_shared().map_err(failed)?;
    used.set_modified(SystemTime::now()).map_err(failed)?;
    Ok(used)
}

/// Executes a command in docker's or podman's container, and hands on signals: the program itself does not.
pub(super) fn exec(contained: &Contained, image: &str, command: &[String]) -> Result<u8, Failed> {
    let remove = || tool(&words(contained, &["rm", "-f", &contained.spec.name]));
    let make = || {
        let argv = docker::run_detached(contained, image).map_err(|error| error.to_string())?;
        apart(contained, &argv.words)
    };
    let id = answer(&words(contained, &["image", "inspect", "--format", "{{.Id}}", image]))?;
    let used = taken(contained, &bare(&id), || found(contained), make, remove)?;
    let variables = InheritedFile::new(&docker::variables_file(contained))?;
    let argv = docker::exec(contained, &variables.path(), command);
    argv.warnings.iter().for_each(|warning| say(warning));
    let code = serve::serve(contained, &argv.words);
    // Idle from now on, not since the command began; only a guess would be off where that cannot be said.
    let _ = used.set_modified(SystemTime::now());
    match code? {
        // A command that ends with it leaves a container behind that continues.
        serve::CODE_ENGINE if found(contained)?.is_none() => {
            Err(serve::refused(contained, serve::CODE_ENGINE))
        }
        code => Ok(code),
    }
}

fn words(contained: &Contained, rest: &[&str]) -> Vec<String> {
    docker::prefix(contained).into_iter().chain(rest.iter().map(|word| (*word).to_owned())).collect()
}

/// An image's id without the name of its hash, which docker puts before it and podman does not.
fn bare(id: &str) -> String {
    id.trim().trim_start_matches("sha256:").to_owned()
}

/// What the running container was created from; one that has stopped is removed.
fn found(contained: &Contained) -> Result<Option<Origin>, String> {
    let name = &contained.spec.name;
    let form = "{{.State.Running}} {{.Image}} {{index .Config.Labels \"wharf.worker\"}} {{index .Config.Labels \"wharf.spec\"}}";
    let Ok(said) = answer(&words(contained, &["container", "inspect", "--format", form, name])) else {
        return Ok(None);
    };
    let mut parts = said.split_whitespace();
    let mut part = || parts.next().unwrap_or_default();
    let (is_running, image, worker, spec) = (part() == "true", bare(part()), part(), part().to_owned());
    if worker != contained.state_dir.to_string_lossy() {
        return Err(format!("a container {name} of another owner exists; choose another name"));
    }
    if is_running {
        return Ok(Some(Origin { spec, image }));
    }
    tool(&words(contained, &["rm", "-f", name]))?;
    Ok(None)
}

/// Runs a program without the task's variables: what it leaves behind is no part of the task.
fn apart(contained: &Contained, words: &[String]) -> Result<(), String> {
    let (program, rest) = words.split_first().ok_or("no program given")?;
    let mut command = std::process::Command::new(program);
    command.args(rest).stdin(Stdio::null()).stdout(Stdio::null()).env_remove(ENGINE_VARIABLE);
    for name in &contained.names {
        command.env_remove(name);
    }
    // A file, because what stays running may keep it open: a pipe would not end before the container does.
    let cannot = |error: io::Error| format!("cannot store the output of `{program}`: {error}");
    let mut said = memfd_create(c"wharf-said", MFdFlags::MFD_CLOEXEC)
        .map(File::from)
        .map_err(|error| cannot(error.into()))?;
    command.stderr(said.try_clone().map_err(cannot)?);
    let status = command.status().map_err(|error| format!("cannot start `{program}`: {error}"))?;
    let mut text = Vec::new();
    said.rewind().and_then(|()| (&said).take(SAID_MAX).read_to_end(&mut text)).map_err(cannot)?;
    let text = String::from_utf8_lossy(&text);
    text.lines().for_each(say);
    if status.success() {
        return Ok(());
    }
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no error message");
    Err(format!("cannot create the container ({status}): {}", last.trim()))
}

/// Apptainer's instance, which its `exec` takes instead of an image.
pub(super) fn instance(contained: &Contained, image: &str) -> Result<String, String> {
    let name = &contained.spec.name;
    let program = |rest: &[&str]| -> Vec<String> {
        contained.program.iter().cloned().chain(rest.iter().map(|word| (*word).to_owned())).collect()
    };
    let mark = file(contained, "spec");
    let find = || {
        let listed = answer(&program(&["instance", "list", name]))?;
        let is_there = listed.lines().any(|line| line.split_whitespace().next() == Some(name));
        let written = || std::fs::read_to_string(&mark).unwrap_or_default();
        Ok(is_there.then(|| Origin::parse(&written())))
    };
    let id = image::identity(image)?;
    let make = || {
        let argv = apptainer::start_instance(contained, image).map_err(|error| error.to_string())?;
        apart(contained, &argv.words)?;
        std::fs::write(&mark, format!("{} {id}", contained.spec.hash)).map_err(|error| error.to_string())
    };
    let used = taken(contained, &id, find, make, || tool(&program(&["instance", "stop", name])))?;
    // Kept open for the next program, which lives as long as the task.
    nix::fcntl::fcntl(&used, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()))
        .map_err(|errno| errno.to_string())?;
    std::mem::forget(used);
    Ok(format!("instance://{name}"))
}

/// Removes the container of a node, unless it is in use or was used just now; true if it is gone.
pub(crate) fn retire(contained: &Contained, idle: Idle) -> Result<bool, String> {
    let gate = state_dir::open(&file(contained, "lock")).map_err(|error| error.to_string())?;
    gate.lock().map_err(|error| error.to_string())?;
    let used = state_dir::open(&file(contained, "use")).map_err(|error| error.to_string())?;
    let since = used.metadata().and_then(|found| found.modified()).ok().and_then(|at| at.elapsed().ok());
    if used.try_lock().is_err() || since.is_some_and(|since| since < Duration::from_millis(idle.ms)) {
        return Ok(false);
    }
    if contained.runtime.is_engine() {
        tool(&words(contained, &["rm", "-f", &contained.spec.name]))?;
    } else {
        let stop = ["instance", "stop", &contained.spec.name].map(String::from);
        tool(&[contained.program.clone(), stop.to_vec()].concat())?;
    }
    Ok(true)
}
