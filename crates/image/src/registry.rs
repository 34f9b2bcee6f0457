//! Registries: who one is there, and images that come and go.
//!
//! A password reaches the engine through its standard input, and is kept by it in a file of its owner's alone. It is never an argument,
//! never a variable, and never in an error.

use std::fs::{self, DirBuilder};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::ImageError;
use crate::place::Engine;
use crate::tool::Tool;

/// Logs in at a registry; from then on images can be pushed and pulled there.
///
/// # Errors
/// The registry does not take them, or the engine is missing.
pub fn login(
    engine: Engine,
    kept: &Path,
    registry: &str,
    user: &str,
    password: &[u8],
) -> Result<(), ImageError> {
    let folder = private_folder(kept)?;
    let tool = match engine {
        Engine::Docker => Tool::new("docker").arg("--config").arg(&folder).arg("login"),
        Engine::Podman => {
            let tool = Tool::new("podman").arg("login").arg("--authfile").arg(file(&folder));
            tool.args(without_tls(registry))
        }
        Engine::ChImage => {
            return Err(ImageError::Environment(
                "ch-image keeps no logins; log in with podman or docker and convert what they pull"
                    .to_owned(),
            ));
        }
    };
    let password = password.strip_suffix(b"\n").unwrap_or(password);
    tool.args(["--username", user, "--password-stdin", registry]).fed(password)?;
    let path = file(&folder);
    if path.exists() {
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&path, private).map_err(ImageError::file("cannot make private", &path))?;
    }
    Ok(())
}

/// Sends an image to its registry.
///
/// # Errors
/// What the engine says.
pub fn push(engine: Engine, kept: &Path, name: &str) -> Result<(), ImageError> {
    Ok(with_login(engine, kept, "push", name).arg(name).shown()?)
}

/// Fetches an image from its registry.
///
/// # Errors
/// What the engine says.
pub fn pull(engine: Engine, kept: &Path, name: &str) -> Result<(), ImageError> {
    Ok(with_login(engine, kept, "pull", name).arg(name).shown()?)
}

/// What is recorded with an image that a container becomes.
#[derive(Clone, Debug, Default)]
pub struct Note {
    /// Its author.
    pub author: Option<String>,
    /// What has changed.
    pub message: Option<String>,
}

/// Makes an image of a container as it is now.
///
/// # Errors
/// There is no such container, or the engine has none.
pub fn commit(engine: Engine, container: &str, name: &str, note: &Note) -> Result<(), ImageError> {
    if engine == Engine::ChImage {
        return Err(ImageError::Environment(
            "Charliecloud has no containers to commit: run with a writable folder and convert that"
                .to_owned(),
        ));
    }
    let mut tool = Tool::new(engine.program()).arg("commit");
    if let Some(author) = &note.author {
        tool = tool.args(["--author", author]);
    }
    if let Some(message) = &note.message {
        // The format that podman prefers has no place for a message.
        let format: &[&str] = if engine == Engine::Podman { &["--format", "docker"] } else { &[] };
        tool = tool.args(format.iter().copied()).args(["--message", message]);
    }
    tool.args([container, name]).output()?;
    Ok(())
}

/// Whether a registry, or an image's, is on this machine. Docker speaks to such a one without TLS by itself; others have to be told.
#[must_use]
pub fn is_local(name: &str) -> bool {
    let host = name.split('/').next().unwrap_or(name);
    let host = if host.ends_with(']') { host } else { host.rsplit_once(':').map_or(host, |(host, _)| host) };
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// The folder in which logins at registries are kept, for their owner alone; none where there is no home.
#[must_use]
pub fn logins() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CONFIG_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let own = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".config"));
    Some(named.or_else(own)?.join("wharf/registries"))
}

/// The file with the logins, as both engines call it.
#[must_use]
pub fn file(folder: &Path) -> PathBuf {
    folder.join("config.json")
}

fn with_login(engine: Engine, kept: &Path, what: &str, name: &str) -> Tool {
    // Who has not logged in here may have with the engine itself.
    let path = Some(file(kept)).filter(|path| path.exists());
    match (engine, path) {
        (Engine::Docker, Some(_)) => Tool::new("docker").arg("--config").arg(kept).arg(what),
        (Engine::Podman, path) => {
            let tool = Tool::new("podman").arg(what).args(without_tls(name));
            path.into_iter().fold(tool, |tool, path| tool.arg("--authfile").arg(path))
        }
        _ => Tool::new(engine.program()).arg(what),
    }
}

fn without_tls(name: &str) -> Option<&'static str> {
    is_local(name).then_some("--tls-verify=false")
}

fn private_folder(folder: &Path) -> Result<PathBuf, ImageError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(ImageError::file("cannot make the folder", folder))?;
    Ok(folder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registries_of_this_machine_are_known_by_their_names() {
        for (name, expected) in [
            ("127.0.0.1:5000/lab/train:1", true),
            ("127.3.0.1:5000", true),
            ("localhost:5000/x", true),
            ("[::1]:5000/x", true),
            ("[::1]/x", true),
            ("10.0.0.1:5000/x", false),
            ("localhost.example.org/x", false),
            ("docker.io/library/python:3.12", false),
            ("python", false),
        ] {
            assert_eq!(is_local(name), expected, "{name}");
        }
    }
}
