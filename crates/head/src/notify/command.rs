//! A notice as a command: facts in its environment, JSON on its standard input.

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, Uid, User};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};

use super::{Notice, NotifyError};

/// Where a command is searched for: nothing of the head's own environment is passed on.
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs the command and waits for it, at most `limit`.
pub(super) async fn run(notice: &Notice, limit: Duration) -> Result<(), NotifyError> {
    let program = notice.target.command.first().cloned().unwrap_or_default();
    let mut command = prepared(notice)?;
    let mut child =
        command.spawn().map_err(|source| NotifyError::Start { program: program.clone(), source })?;
    let group = child.id();
    let ended = tokio::time::timeout(limit, feed_and_wait(&mut child, &notice.json())).await;
    // Whatever it left behind goes with it.
    kill_group(group);
    match ended {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(NotifyError::Failed { program, status }),
        Ok(Err(source)) => Err(NotifyError::Start { program, source }),
        Err(_) => {
            // It was killed, so this does not last.
            let _ = child.wait().await;
            Err(NotifyError::TimedOut(limit))
        }
    }
}

fn prepared(notice: &Notice) -> Result<Command, NotifyError> {
    let mut words = notice.target.command.iter();
    let mut command = Command::new(words.next().map(String::as_str).unwrap_or_default());
    command.args(words).env_clear().env("PATH", PATH).envs(notice.variables());
    command.current_dir("/").process_group(0).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let wanted = notice.facts.user.as_str();
    let refused = || NotifyError::User { user: wanted.to_owned() };
    let own = User::from_uid(Uid::effective()).ok().flatten();
    let is_own = wanted.is_empty() || own.as_ref().is_some_and(|own| own.name == wanted);
    if is_own {
        command.envs(own.map(|own| ("HOME", own.dir)));
        return Ok(command);
    }
    // A command of one user must not run with the rights of another.
    if !Uid::effective().is_root() {
        return Err(refused());
    }
    let user = User::from_name(wanted).ok().flatten().ok_or_else(refused)?;
    command.uid(user.uid.as_raw()).gid(user.gid.as_raw()).env("HOME", user.dir);
    Ok(command)
}

pub(super) async fn feed_and_wait(
    child: &mut Child,
    text: &str,
) -> std::io::Result<std::process::ExitStatus> {
    if let Some(mut input) = child.stdin.take() {
        // A command that does not read its input is fine.
        let _ = input.write_all(text.as_bytes()).await;
    }
    child.wait().await
}

fn kill_group(leader: Option<u32>) {
    if let Some(pid) = leader.and_then(|pid| i32::try_from(pid).ok()) {
        // Nothing left to kill is what we hope for.
        let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
    }
}
