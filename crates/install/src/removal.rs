//! Removal of installed roles.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::layout::unit;
use crate::texts::{CONFIG, HEAD_HOME, WORKER_HOME};
use crate::{InstallError, Layout, Role, Step, systemctl};

/// The files and directories that the removal of a role removes.
pub struct Removal {
    role: Role,
    paths: Vec<PathBuf>,
}

impl Removal {
    /// The removal of a role, and with the last one of what the roles share; configuration and state only if `is_purged`.
    ///
    /// # Errors
    /// [`InstallError`] if a directory cannot be listed.
    pub fn new(layout: &Layout, role: Role, is_purged: bool) -> Result<Self, InstallError> {
        let other = if role == Role::Head { Role::Worker } else { Role::Head };
        let is_last = !layout.at(unit(other)).exists();
        let mut paths = doomed(layout, role, is_last, is_purged)?;
        paths.retain(|path| path.symlink_metadata().is_ok());
        Ok(Self { role, paths })
    }

    /// What is to be done.
    pub fn steps(&self) -> Vec<Step> {
        let step = |path: &PathBuf| Step {
            how: "gone",
            what: path.display().to_string(),
            mode: String::new(),
            owner: String::new(),
        };
        self.paths.iter().map(step).collect()
    }

    /// Carries it out, and returns warnings.
    ///
    /// # Errors
    /// [`InstallError`] if something cannot be removed.
    pub fn apply(&self, layout: &Layout) -> Result<Vec<String>, InstallError> {
        let mut warnings = Vec::new();
        if layout.is_here() && layout.at(unit(self.role)).exists() {
            let service = format!("wharf-{}.service", self.role.name());
            warnings.extend(systemctl(&["disable", "--now", &service]));
        }
        for path in &self.paths {
            remove(path)?;
        }
        if layout.is_here() {
            warnings.extend(systemctl(&["daemon-reload"]));
        }
        // Only where it is empty.
        let _ = fs::remove_dir(layout.at("/etc/wharf"));
        Ok(warnings)
    }
}

/// Everything that belongs to a role.
fn doomed(layout: &Layout, role: Role, is_last: bool, is_purged: bool) -> Result<Vec<PathBuf>, InstallError> {
    let mut paths = vec![layout.at(unit(role))];
    if is_last {
        paths.extend(manual_pages(&layout.manual())?);
        paths.extend(layout.completions().map(|(_, path)| path));
        paths.push(layout.in_prefix("bin/wharf"));
    }
    if is_purged {
        paths.push(layout.at(if role == Role::Head { HEAD_HOME } else { WORKER_HOME }));
    }
    if is_purged && is_last {
        paths.extend([layout.at(CONFIG), layout.at(CONFIG).with_extension("toml.old")]);
    }
    Ok(paths)
}

/// Pages of this and of earlier versions.
fn manual_pages(folder: &Path) -> Result<Vec<PathBuf>, InstallError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(InstallError::read(folder, error)),
    };
    let is_own = |name: &str| name == "wharf.1" || (name.starts_with("wharf-") && name.ends_with(".1"));
    let mut pages: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| InstallError::read(folder, error))?;
        if entry.file_name().to_str().is_some_and(is_own) {
            pages.push(entry.path());
        }
    }
    pages.sort();
    Ok(pages)
}

fn remove(path: &Path) -> Result<(), InstallError> {
    let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let removed = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.map_err(|error| InstallError::write(path, error))
}
