//! The files that a task's processes write to.
//!
//! A task of another user names files that only that user's rights may reach: its stage opens those. The keeper, which is root then,
//! writes such a file later only if it is the user's, and never follows them elsewhere.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, fchown, lchown, symlink};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::unistd::geteuid;

use super::process::failure;
use super::stage::Login;
use crate::protocol::{Manner, Start, Step, output_file};
use crate::task::{Exit, TaskKey};

/// What the keeper opens for a step.
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
            std::fs::create_dir_all(folder).map_err(|error| {
                failure(&error, format_args!("make the checkpoint folder {}", folder.display()))
            })?;
        }
        Ok(Self { output, error_output })
    }
}

/// The keeper's own file, given to the user; or nothing, where the stage opens the user's own.
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
pub(super) fn open(path: &Path, manner: Manner) -> io::Result<File> {
    let file = match check_kind(path).and_then(|()| append(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if !manner.needs_folder {
                std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
            }
            append(path)?
        }
        file => file?,
    };
    if manner.is_anew && file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// A pipe without a reader would stop the keeper.
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

/// Adds a line to the output of a task that has ended.
pub(super) fn add_line(state_dir: &Path, task: TaskKey, line: &str) -> io::Result<()> {
    let own = output_file(state_dir, task);
    // Neither waits for the reader of a pipe nor makes a file.
    let mut file = OpenOptions::new().append(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&own)?;
    if !is_owned(&own, &file.metadata()?)? {
        return Err(io::Error::other("the output is not the task's own any more"));
    }
    writeln!(file, "{line}")
}

/// Whether what a task's link leads to is the file of whose link it is; the worker's own links may lead anywhere.
pub(crate) fn is_owned(link: &Path, file: &std::fs::Metadata) -> io::Result<bool> {
    let owner = link.symlink_metadata()?.uid();
    Ok(file.is_file() && (owner == geteuid().as_raw() || owner == file.uid()))
}
