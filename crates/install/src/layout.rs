//! Places in a file system, and its services.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::InstallError;

/// What a machine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It runs the head.
    Head,
    /// It runs a worker.
    Worker,
}

impl Role {
    /// Its name in files and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Worker => "worker",
        }
    }
}

/// A shell with completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

/// Where a service's unit is.
pub(crate) fn unit(role: Role) -> String {
    format!("/etc/systemd/system/wharf-{}.service", role.name())
}

/// Where things go in a file system.
pub struct Layout {
    pub(crate) root: PathBuf,
    pub(crate) prefix: PathBuf,
}

impl Layout {
    /// A file system below `root`, in which programs are below `prefix`.
    ///
    /// # Errors
    /// [`InstallError::Prefix`] and [`InstallError::NoRoot`].
    pub fn new(root: &Path, prefix: &Path) -> Result<Self, InstallError> {
        let is_plain = |text: &str| !text.contains(|c: char| c.is_whitespace() || "%\"'\\$".contains(c));
        if !prefix.is_absolute() || !prefix.to_str().is_some_and(is_plain) {
            return Err(InstallError::Prefix(prefix.to_owned()));
        }
        let root = std::path::absolute(root).map_err(|error| InstallError::read(root, error))?;
        if !root.is_dir() {
            return Err(InstallError::NoRoot(root));
        }
        Ok(Self { root, prefix: prefix.to_owned() })
    }

    /// Whether it is the running system, and not an image.
    pub fn is_here(&self) -> bool {
        self.root == Path::new("/")
    }

    /// A path of the system as it is from here.
    pub(crate) fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    pub(crate) fn in_prefix(&self, path: &str) -> PathBuf {
        self.at(self.prefix.join(path))
    }

    /// Where completions go, shell by shell.
    pub(crate) fn completions(&self) -> [(Shell, PathBuf); 3] {
        [
            (Shell::Bash, self.in_prefix("share/bash-completion/completions/wharf")),
            (Shell::Zsh, self.in_prefix("share/zsh/site-functions/_wharf")),
            (Shell::Fish, self.in_prefix("share/fish/vendor_completions.d/wharf.fish")),
        ]
    }

    pub(crate) fn manual(&self) -> PathBuf {
        self.in_prefix("share/man/man1")
    }
}

/// Calls systemctl if systemd manages this machine; returns a warning if that fails.
#[must_use]
pub fn systemctl(words: &[&str]) -> Option<String> {
    if !Path::new("/run/systemd/system").is_dir() {
        return None;
    }
    let run = Command::new("systemctl").args(words).output();
    let said = match &run {
        Ok(output) if output.status.success() => return None,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Some(format!("systemctl {}: {said}", words.join(" ")))
}
