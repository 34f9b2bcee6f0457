//! `wharf uninstall`

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::texts::{CONFIG, HEAD_HOME, USER, WORKER_HOME};
use super::{Layout, systemctl, tell, unit};
use crate::args::{InstalledRole, UninstallArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;

/// Removes a role, and with the last one what the roles share.
///
/// # Errors
/// Where something cannot be removed.
pub(in crate::commands) fn uninstall(args: &UninstallArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let layout = Layout::new(&args.place)?;
    let (role, other) = match args.role {
        InstalledRole::Head => ("head", "worker"),
        InstalledRole::Worker => ("worker", "head"),
    };
    let is_last = !layout.at(unit(other)).exists();
    let gone: Vec<PathBuf> = doomed(&layout, role, is_last, args.purge)?
        .into_iter()
        .filter(|path| path.symlink_metadata().is_ok())
        .collect();
    if !args.place.dry_run {
        if layout.is_here() && layout.at(unit(role)).exists() {
            systemctl(&["disable", "--now", &format!("wharf-{role}.service")], terminal);
        }
        for path in &gone {
            remove(path)?;
        }
        if layout.is_here() {
            systemctl(&["daemon-reload"], terminal);
        }
        // Only where it is empty.
        let _ = fs::remove_dir(layout.at("/etc/wharf"));
    }
    let row = |path: &PathBuf| ["gone".to_owned(), path.display().to_string(), String::new(), String::new()];
    let rows: Vec<[String; 4]> = gone.iter().map(row).collect();
    tell(&rows, if args.place.dry_run { "would" } else { "done" }, terminal)?;
    if !args.purge {
        terminal.note("configuration and state stay; `--purge` removes them");
    } else if role == "head" {
        terminal.note(&format!("the system user `{USER}` stays"));
    }
    Ok(Exit::Ok)
}

/// Everything that belongs to a role.
fn doomed(layout: &Layout, role: &str, is_last: bool, is_purged: bool) -> Result<Vec<PathBuf>, CliError> {
    let mut paths = vec![layout.at(unit(role))];
    if is_last {
        paths.extend(manual_pages(&layout.manual())?);
        paths.extend(layout.completions().map(|(_, path)| path));
        paths.push(layout.in_prefix("bin/wharf"));
    }
    if is_purged {
        paths.push(layout.at(if role == "head" { HEAD_HOME } else { WORKER_HOME }));
    }
    if is_purged && is_last {
        paths.extend([layout.at(CONFIG), layout.at(CONFIG).with_extension("toml.old")]);
    }
    Ok(paths)
}

/// Pages of this and of earlier versions.
fn manual_pages(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(CliError::read(folder, error)),
    };
    let is_own = |name: &str| name == "wharf.1" || (name.starts_with("wharf-") && name.ends_with(".1"));
    let mut pages: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| CliError::read(folder, error))?;
        if entry.file_name().to_str().is_some_and(is_own) {
            pages.push(entry.path());
        }
    }
    pages.sort();
    Ok(pages)
}

fn remove(path: &Path) -> Result<(), CliError> {
    let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let removed = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.map_err(|error| CliError::write(path, error))
}
