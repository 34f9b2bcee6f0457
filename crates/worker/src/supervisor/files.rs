//! The files that a task's processes write to.
//!
//! A task of another user names files that only that user's rights may reach: its stage opens those, and a stage of the same user reads
//! them for the head. The supervisor and the agent, which are root then, never open them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, fchown, lchown, symlink};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::unistd::geteuid;

use super::process::failure;
use super::stage::Login;
use crate::supervisor::protocol::{OpenMode, Start, Step, output_file};
use crate::task::{Exit, TaskKey};

/// What the supervisor opens for a step.
pub(super) struct Files {
    pub(super) output: File,
    /// None: with the output.
    pub(super) error_output: Option<File>,
}

impl Files {
    pub(super) fn open(
        state_dir: &Path,
        start: &Start,
        step: &Step,
        login: Option<&mut Login>,
    ) -> Result<Self, Exit> {
        let header =
            if step.name.is_empty() { String::new() } else { format!("--- step {} ---\n", step.name) };
        if let Some(login) = login {
            let own = output_file(state_dir, start.task);
            let output = open_for(&own, login, header)
                .map_err(|error| failure(&error, format_args!("open the output {}", own.display())))?;
            return Ok(Self { output, error_output: None });
        }
        let output = open_output(state_dir, start)
            .and_then(|mut output| {
                output.write_all(header.as_bytes())?;
                Ok(output)
            })
            .map_err(|error| failure(&error, format_args!("open the output {}", start.output.display())))?;
        let error_output = match start.workdir.join(&start.error_output) {
            _ if start.error_output.as_os_str().is_empty() => None,
            path => Some(open(&path, start.files).map_err(|error| {
                failure(&error, format_args!("open the error output {}", path.display()))
            })?),
        };
        if !start.checkpoint_dir.as_os_str().is_empty() {
            let folder = &start.checkpoint_dir;
            start.checkpoint_setup.create(folder, &start.workdir).map_err(|error| {
                failure(&error, format_args!("create the checkpoint directory {}", folder.display()))
            })?;
        }
        Ok(Self { output, error_output })
    }
}

/// The supervisor's own file, given to the user; or nothing, where the stage opens the user's own.
fn open_for(own: &Path, login: &mut Login, header: String) -> io::Result<File> {
    if login.output.as_os_str().is_empty() {
        let mut file = append(own)?;
        fchown(&file, Some(login.uid), Some(login.gid))?;
        file.write_all(header.as_bytes())?;
        return Ok(file);
    }
    login.header = header;
    link(&login.output, own)?;
    // Whose link it is says whose the file has to be.
    lchown(own, Some(login.uid), Some(login.gid))?;
    OpenOptions::new().write(true).open("/dev/null")
}

fn open_output(state_dir: &Path, start: &Start) -> io::Result<File> {
    let own = output_file(state_dir, start.task);
    if start.output.as_os_str().is_empty() {
        return append(&own);
    }
    let path = start.workdir.join(&start.output);
    let file = open(&path, start.files)?;
    if file.metadata()?.is_file() {
        link(&path, &own)?;
    }
    Ok(file)
}

/// Leaves a link, so that the output is found when the task is forgotten. A task that was started before has its link already.
fn link(path: &Path, own: &Path) -> io::Result<()> {
    match symlink(path, own) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Opens a file that a job names, mostly with the folders that it lies in.
pub(super) fn open(path: &Path, mode: OpenMode) -> io::Result<File> {
    let file = match check_kind(path).and_then(|()| append(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if !mode.needs_folder {
                std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
            }
            append(path)?
        }
        file => file?,
    };
    if mode.is_anew && file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// A pipe without a reader would stop the supervisor.
fn check_kind(path: &Path) -> io::Result<()> {
    let kind = path.metadata()?.file_type();
    if kind.is_file() || kind.is_char_device() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a file nor a character device"))
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Adds a line to the output of a task that has ended. A file that another user names is left alone: only that user's rights may reach it.
pub(super) fn add_line(state_dir: &Path, task: TaskKey, line: &str) -> io::Result<()> {
    let own = output_file(state_dir, task);
    if foreign_owner(&own)?.is_some() {
        return Err(io::Error::other("the output is a file of the task's user"));
    }
    // Neither waits for the reader of a pipe nor makes a file.
    let mut file = OpenOptions::new().append(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&own)?;
    writeln!(file, "{line}")
}

/// The user whose rights a task's output has to be read with: that of a link which is not the worker's own. None where the worker may.
pub(crate) fn foreign_owner(own: &Path) -> io::Result<Option<u32>> {
    let found = own.symlink_metadata()?;
    Ok(Some(found.uid()).filter(|&uid| found.is_symlink() && uid != geteuid().as_raw()))
}

/// Opens an output; none if it is not there yet, or is nothing that keeps what is written to it.
pub(crate) fn open_to_read(path: &Path) -> io::Result<Option<File>> {
    // Without waiting for the other end of a pipe.
    let opened = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    let file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    Ok(Some(file).filter(|file| file.metadata().is_ok_and(|found| found.is_file())))
}
