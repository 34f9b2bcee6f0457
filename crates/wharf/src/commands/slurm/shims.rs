//! Links with the bare names of Slurm's commands, for scripts and tools that call them by these.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::{NAMES, say};
use crate::args::{BatchArgs, ShimsArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Terminal, confirm};

/// Default search path of shells.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Writes links to this program, into a folder that contains other files only after a confirmation: they would hide Slurm's own
/// commands from every user of such a folder.
///
/// # Errors
/// Where they cannot be written.
pub(in crate::commands) fn shims(args: &ShimsArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    if let Some(other) = other_file(&args.folder) {
        let folder = args.folder.display();
        let question = format!(
            "{folder} contains other files (such as `{other}`). Write links to {} there?",
            NAMES.join(", ")
        );
        if !confirm(&question, args.yes, terminal)? {
            terminal.note("nothing was written");
            return Ok(Exit::Ok);
        }
    }
    link(&args.folder).map_err(|error| CliError::write(&args.folder, error))?;
    terminal.note(&format!("put {} before the others in PATH", args.folder.display()));
    Ok(Exit::Ok)
}

/// The first file of a folder that is no link of Slurm's names, if there is one.
fn other_file(folder: &Path) -> Option<String> {
    let names = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !NAMES.contains(&name.as_str())).min()
}

/// Becomes a batch script, which finds Slurm's commands whatever is installed on its node.
pub(in crate::commands) fn batch(args: &BatchArgs) -> Exit {
    let spool = args.command.first().and_then(|script| Path::new(script).parent());
    let path = spool.and_then(|spool| search_path(&spool.join("bin"), "wharf"));
    Exit::Passed(wharf_worker::batch_main(args.input.as_deref(), path.as_deref(), &args.command))
}

/// The search path of this process with links in front, which are written to a folder. Where that cannot be it is said: most commands call none of
/// them, and run all the same.
pub(super) fn search_path(folder: &Path, who: &str) -> Option<OsString> {
    let path = link(folder).and_then(|()| in_front(folder, std::env::var_os("PATH")));
    let failed = |error| {
        say(&format!("{who}: no links to Slurm commands such as srun in {}: {error}", folder.display()))
    };
    path.map_err(failed).ok()
}

/// A search path with a folder in front of the others.
fn in_front(folder: &Path, path: Option<OsString>) -> io::Result<OsString> {
    let path = path.filter(|path| !path.is_empty()).unwrap_or_else(|| USUAL_PATH.into());
    // An empty entry is the current directory.
    let others = std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty());
    std::env::join_paths(std::iter::once(folder.to_owned()).chain(others)).map_err(io::Error::other)
}

/// Others may do the same at once, on other machines: a link is made beside its place and moved there.
fn link(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let program = std::env::current_exe()?;
    for name in NAMES {
        let link = folder.join(name);
        // A user's own program stays.
        if link.symlink_metadata().is_ok_and(|metadata| !metadata.is_symlink()) {
            return Err(io::Error::other(format!("`{name}` there is no link")));
        }
        if std::fs::read_link(&link).is_ok_and(|target| target == program) {
            continue;
        }
        let beside = beside(&link, &program)?;
        std::fs::rename(&beside, &link).inspect_err(|_| drop(std::fs::remove_file(&beside)))?;
    }
    Ok(())
}

/// Creates a link with a unique name.
fn beside(link: &Path, program: &Path) -> io::Result<PathBuf> {
    let mut number = std::process::id();
    loop {
        let beside = link.with_extension(number.to_string());
        match std::os::unix::fs::symlink(program, &beside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number = number.wrapping_add(1),
            made => return made.map(|()| beside),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_many_make_at_once_are_there() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let folder = folder.path().join(round.to_string());
            std::thread::scope(|scope| {
                let all: Vec<_> = (0..8).map(|_| scope.spawn(|| link(&folder))).collect();
                all.into_iter().for_each(|one| one.join().unwrap().unwrap());
            });
            let mut names: Vec<_> =
                std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            let mut expected = NAMES.map(OsString::from);
            names.sort();
            expected.sort();
            assert_eq!(names, expected);
        }
        // One that leads elsewhere is replaced, and a program is left.
        let folder = folder.path().join("0");
        let srun = folder.join("srun");
        std::fs::remove_file(&srun).unwrap();
        std::os::unix::fs::symlink("/elsewhere", &srun).unwrap();
        link(&folder).unwrap();
        assert_eq!(std::fs::read_link(&srun).unwrap(), std::env::current_exe().unwrap());
        std::fs::remove_file(&srun).unwrap();
        std::fs::write(&srun, "mine").unwrap();
        assert_eq!(link(&folder).unwrap_err().to_string(), "`srun` there is no link");
    }

    #[test]
    fn links_are_in_front_of_folders_that_have_names() {
        let path = |path: Option<&str>| in_front(Path::new("/links"), path.map(OsString::from)).unwrap();
        assert_eq!(path(Some("/a::/b:")), "/links:/a:/b");
        for nothing in [Some(""), None] {
            assert_eq!(path(nothing), "/links:/usr/local/bin:/usr/bin:/bin");
        }
    }
}
