//! Registries: who one is there, and images that come and go.
//!
//! A password reaches the engine through its standard input, and is kept by it in a file of its owner's alone. It is never an argument,
//! never a variable, and never in an error.

use std::fs::{self, DirBuilder};
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
        Engine::Podman => Tool::new("podman").arg("login").arg("--authfile").arg(file(&folder)),
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
    Ok(with_login(engine, kept, "push").arg(name).shown()?)
}

/// Fetches an image from its registry.
///
/// # Errors
/// What the engine says.
pub fn pull(engine: Engine, kept: &Path, name: &str) -> Result<(), ImageError> {
    Ok(with_login(engine, kept, "pull").arg(name).shown()?)
}

/// Makes an image of a container as it is now.
///
/// # Errors
/// There is no such container, or the engine has none.
pub fn commit(engine: Engine, container: &str, name: &str) -> Result<(), ImageError> {
    if engine == Engine::ChImage {
        return Err(ImageError::Environment(
            "Charliecloud has no containers to commit: run with a writable folder and convert that"
                .to_owned(),
        ));
    }
    Tool::new(engine.program()).args(["commit", container, name]).output()?;
    Ok(())
}

fn with_login(engine: Engine, kept: &Path, what: &str) -> Tool {
    let path = file(kept);
    match engine {
        // Who has not logged in here may have with the engine itself.
        Engine::Docker if path.exists() => Tool::new("docker").arg("--config").arg(kept).arg(what),
        Engine::Podman if path.exists() => Tool::new("podman").arg(what).arg("--authfile").arg(path),
        _ => Tool::new(engine.program()).arg(what),
    }
}

/// Both engines call it so.
fn file(folder: &Path) -> PathBuf {
    folder.join("config.json")
}

fn private_folder(folder: &Path) -> Result<PathBuf, ImageError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(ImageError::file("cannot make the folder", folder))?;
    Ok(folder.to_owned())
}
