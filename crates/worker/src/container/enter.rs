//! From a prepared process to the runtime's: what the task's own process does before it is the container's.

use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::memfd::{MFdFlags, memfd_create};

use super::argv::Argv;
use super::{Contained, ContainerRuntime, api, apptainer, charliecloud, docker, image, node, serve};

/// As shells have it.
const CODE_NOT_FOUND: u8 = 127;
const CODE_NOT_EXECUTABLE: u8 = 126;

/// Why there is no container.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) code: u8,
    pub(crate) text: String,
}

impl From<String> for Failed {
    fn from(text: String) -> Self {
        Self { code: CODE_NOT_EXECUTABLE, text }
    }
}

/// Makes folders while the state directory can be written; those of a user are theirs.
pub(crate) fn before_switch(contained: &Contained, uid: u32, gid: u32) -> io::Result<()> {
    let make = |path: &Path, mode| match std::fs::DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    };
    make(&contained.folder(), 0o700)?;
    let folder = image::folder(contained, uid);
    make(folder.parent().unwrap_or(&folder), 0o711)?;
    make(&folder, 0o700)?;
    std::os::unix::fs::lchown(&folder, Some(uid), Some(gid))
}

/// Becomes the container's process, or serves it until its end: then its exit code is returned.
pub(crate) fn enter(contained: &Contained, command: &[String]) -> Result<u8, Failed> {
    check_sources(contained)?;
    read_input(contained)?;
    let ready = image::ready(contained)?;
    let image = ready.image.as_str();
    let spec = &contained.spec;
    let text = |error: super::argv::ArgvError| Failed::from(error.to_string());
    match contained.runtime {
        ContainerRuntime::Docker | ContainerRuntime::Podman => {
            if contained.program.is_empty() {
                let left_out = contained
                    .input()
                    .map(|_| "the engine's socket does not support `input`: it is ignored".to_owned());
                told(contained, left_out.as_slice())?;
                return api::run(contained, image, command).map_err(Failed::from);
            }
            if spec.per_node {
                told(contained, &[])?;
                return node::exec(contained, image, command);
            }
            let variables = InheritedFile::new(&docker::variables_file(contained))?;
            let argv = docker::run(contained, image, &variables.path(), command).map_err(text)?;
            told(contained, &argv.warnings)?;
            serve::run(contained, &argv.words)
        }
        ContainerRuntime::Apptainer | ContainerRuntime::Singularity => {
            let instance = if spec.per_node { Some(node::instance(contained, image)?) } else { None };
            let image = instance.as_deref().unwrap_or(image);
            let argv = apptainer::exec(contained, image, command).map_err(text)?;
            become_words(contained, argv, |next| {
                let (name, value) = apptainer::literal(contained.runtime);
                next.env(name, value);
                for (name, value) in variables(contained, &own_value) {
                    next.env(apptainer::outside(contained.runtime, &name), value);
                }
            })
        }
        ContainerRuntime::Charliecloud => charlie(contained, &ready, command),
    }
}

fn charlie(contained: &Contained, image: &image::Ready, command: &[String]) -> Result<u8, Failed> {
    let (argv, _variables) = charlie_words(contained, image, command, &own_value)?;
    become_words(contained, argv, charlie_session)
}

/// The command line of charliecloud, and the file with the variables that it reads, which has to stay open until then.
pub(super) fn charlie_words(
    contained: &Contained,
    image: &image::Ready,
    command: &[String],
    value: &dyn Fn(&str) -> Option<String>,
) -> Result<(Argv, std::fs::File), Failed> {
    let files = image.files();
    let is_written = contained.spec.writable_root && image.store.is_none();
    for mount in charliecloud::binds(contained).filter(|_| !is_written) {
        mount_point(&files, Path::new(&mount.src), &mount.dst).map_err(|error| {
            let (image, dst) = (&contained.spec.image, &mount.dst);
            format!("the image {image} has no {dst} to mount at, and it cannot be made: {error}; make it, or set `writable_root`")
        })?;
    }
    let values = variables(contained, value);
    let (text, inherited) =
        charliecloud::file(values.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let file = InheritedFile::new(&text)?;
    let path = file.path();
    let are_in_image = files.join(charliecloud::OWN_VARIABLES).exists();
    let told = charliecloud::Variables { file: &path, inherited: &inherited, are_in_image };
    let argv = charliecloud::run(contained, image, &told, command);
    Ok((argv.map_err(|error| error.to_string())?, file.0))
}

/// What charliecloud's own program finds in its environment.
pub(super) fn charlie_session(next: &mut Command) {
    // It would put that folder instead of /tmp.
    next.env_remove("TMPDIR");
    // It asks for it and takes no answer from the system instead.
    if std::env::var_os("USER").is_none() {
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
        next.env("USER", user.map_or_else(|| "nobody".to_owned(), |user| user.name));
    }
}

/// A variable of this process.
fn own_value(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The variables for within, by name; `value` tells those of the process.
fn variables(contained: &Contained, value: &dyn Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let named = contained.names.iter().filter_map(|name| Some((name.clone(), value(name)?)));
    let set = contained.set.iter().map(|(name, value)| (name.clone(), value.clone()));
    // This process becomes the script.
    let own = contained.script.iter().map(|_| ("SLURM_TASK_PID".to_owned(), std::process::id().to_string()));
    named.chain(set).chain(own).collect()
}

/// Makes what a batch script reads this process's input, which whatever it becomes inherits.
fn read_input(contained: &Contained) -> Result<(), Failed> {
    let Some(path) = contained.input() else { return Ok(()) };
    let read = std::fs::File::open(path).and_then(|file| Ok(nix::unistd::dup2_stdin(file)?));
    read.map_err(|error| format!("cannot read the input {}: {error}", path.display()).into())
}

/// A file that only this process and those that it starts can reach, for what does not belong into a command line.
pub(super) struct InheritedFile(std::fs::File);

impl InheritedFile {
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let make = || {
            // Kept open for the next program.
            let mut file = std::fs::File::from(memfd_create(c"wharf-env", MFdFlags::empty())?);
            file.write_all(text.as_bytes())?;
            Ok(Self(file))
        };
        make().map_err(|error: io::Error| format!("cannot pass on the variables: {error}"))
    }

    /// Where the next program finds it.
    pub(super) fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }
}

/// States what is left out; an error where the job wants that.
fn told(contained: &Contained, warnings: &[String]) -> Result<(), Failed> {
    let all: Vec<&String> = contained.warnings.iter().chain(warnings).collect();
    match all.first() {
        Some(first) if contained.spec.strict => Err(format!("{first}; `strict` makes that an error").into()),
        _ => {
            all.iter().for_each(|warning| say(warning));
            Ok(())
        }
    }
}

/// Says something in the task's log.
pub(super) fn say(what: &str) {
    // The log may not be writable.
    let _ = writeln!(io::stderr(), "wharf: container: {what}");
}

fn become_words(contained: &Contained, argv: Argv, change: impl FnOnce(&mut Command)) -> Result<u8, Failed> {
    told(contained, &argv.warnings)?;
    let Some((program, arguments)) = argv.words.split_first() else {
        return Err("no program given".to_owned().into());
    };
    let mut next = Command::new(program);
    next.args(arguments);
    change(&mut next);
    let error = next.exec();
    let code = if error.kind() == io::ErrorKind::NotFound { CODE_NOT_FOUND } else { CODE_NOT_EXECUTABLE };
    Err(Failed { code, text: format!("cannot start `{program}`: {error}") })
}

/// An engine would make what is missing, as root.
pub(super) fn check_sources(contained: &Contained) -> Result<(), Failed> {
    let is_elsewhere = contained.socket.as_ref().is_some_and(|socket| !socket.starts_with("unix:"));
    for mount in contained.mounts().filter(|mount| !mount.is_volume() && !is_elsewhere) {
        if let Err(error) = Path::new(&mount.src).symlink_metadata() {
            return Err(format!("{} cannot be mounted at {}: {error}", mount.src, mount.dst).into());
        }
    }
    let file = &contained.spec.env_file;
    if !file.is_empty() && !is_elsewhere {
        std::fs::File::open(file).map_err(|error| format!("cannot read the env_file {file}: {error}"))?;
    }
    Ok(())
}

/// Makes the place in an image's folder that something is mounted at. What is a link there is the image's own affair.
fn mount_point(image: &Path, src: &Path, dst: &str) -> io::Result<()> {
    let names: Vec<&str> = dst.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    let mut place = PathBuf::from(image);
    for (index, name) in names.iter().enumerate() {
        if *name == ".." {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "`..` leads out of it"));
        }
        place.push(name);
        match place.symlink_metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // Another task may have made it just now.
            Err(_) if index + 1 == names.len() && !src.is_dir() => match std::fs::File::create_new(&place) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            },
            Err(_) => match std::fs::create_dir(&place) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            },
        }
    }
    Ok(())
}
