//! Links with the bare names of Slurm's commands, for whoever calls them by these.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use super::{NAMES, say};
use crate::args::{BatchArgs, ShimsArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;

/// Writes links to this program.
///
/// # Errors
/// Where they cannot be written.
pub(in crate::commands) fn shims(args: &ShimsArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    link(&args.folder).map_err(|error| CliError::write(&args.folder, error))?;
    terminal.note(&format!("put {} before the others in PATH", args.folder.display()));
    Ok(Exit::Ok)
}

/// Becomes a batch script, which finds Slurm's commands whatever is installed on its node.
pub(in crate::commands) fn batch(args: &BatchArgs) -> Exit {
    let spool = args.command.first().and_then(|script| Path::new(script).parent());
    let path = spool.map(|spool| spool.join("bin")).and_then(|folder| {
        // Most scripts call none of them: they run all the same.
        let failed =
            |error| say(&format!("wharf: no links to srun and its like in {}: {error}", folder.display()));
        search_path(&folder).map_err(failed).ok()
    });
    Exit::Passed(wharf_worker::batch_main(args.input.as_deref(), path.as_deref(), &args.command))
}

/// The search path of this process with links in front, which are written to a folder.
pub(super) fn search_path(folder: &Path) -> io::Result<OsString> {
    link(folder)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
    std::env::join_paths(folders).map_err(io::Error::other)
}

fn link(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let program = std::env::current_exe()?;
    for name in NAMES {
        let link = folder.join(name);
        match (std::fs::read_link(&link), link.symlink_metadata()) {
            (Ok(target), _) if target == program => continue,
            (Ok(_), _) => std::fs::remove_file(&link)?,
            // Somebody's own program stays.
            (Err(_), Ok(_)) => return Err(io::Error::other(format!("`{name}` there is no link"))),
            (Err(_), Err(_)) => {}
        }
        std::os::unix::fs::symlink(&program, &link)?;
    }
    Ok(())
}
