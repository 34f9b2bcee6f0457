//! The system user that the head runs as.

use std::io;
use std::path::Path;
use std::process::{Command, Output};

use crate::InstallError;
use crate::texts::{HEAD_HOME, USER};

/// User and group of the head, where there are such.
pub(crate) fn find(root: &Path) -> Option<(u32, u32)> {
    let listed = std::fs::read_to_string(root.join("etc/passwd")).ok()?;
    let line = listed.lines().find(|line| line.split(':').next() == Some(USER))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Makes the user with whatever this machine has for that.
///
/// # Errors
/// Where there is nothing, or it fails.
pub(crate) fn make(root: &Path) -> Result<(u32, u32), InstallError> {
    let is_here = root == Path::new("/");
    let mut sysusers = Command::new("systemd-sysusers");
    let mut useradd = Command::new("useradd");
    if !is_here {
        sysusers.arg("--root").arg(root);
        useradd.arg("--prefix").arg(root);
    }
    sysusers.arg("--inline").arg(format!("u {USER} - \"Wharf head\" {HEAD_HOME}"));
    useradd.args(["--system", "--user-group", "--no-create-home", "--home-dir", HEAD_HOME]);
    useradd.args(["--comment", "Wharf head", "--shell", "/usr/sbin/nologin", USER]);
    let mut said = Vec::new();
    for mut command in [sysusers, useradd] {
        let name = command.get_program().to_string_lossy().into_owned();
        let why = outcome(&command.output());
        match (why, find(root)) {
            (None, Some(ids)) => return Ok(ids),
            (None, None) => said.push(format!("{name}: it has not made the user")),
            (Some(why), _) => said.push(format!("{name}: {why}")),
        }
    }
    Err(InstallError::User { user: USER, reports: said })
}

/// Why a command did not work; `None` where it did.
fn outcome(output: &io::Result<Output>) -> Option<String> {
    match output {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")),
        Err(error) => Some(error.to_string()),
    }
}
