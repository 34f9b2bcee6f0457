//! Programs that are asked something: run to their end, within a time limit, with bounded memory.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

/// More than any of them has to say.
const OUTPUT_BYTES_MAX: u64 = 256 * 1024;

/// What a program said, and how it ended.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// None where a signal ended it.
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Said {
    /// The last thing that it said, for messages.
    pub(super) fn last_line(&self) -> &str {
        let last = |text: &'_ str| text.trim_end().lines().next_back().map_or(0, str::len);
        let text = if last(&self.stderr) > 0 { &self.stderr } else { &self.stdout };
        text.trim_end().lines().next_back().unwrap_or("no error message")
    }
}

/// Why a program has nothing to say.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
    #[error("cannot be started: {0}")]
    Start(io::Error),
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("took longer than {} s", .0.as_secs_f64())]
    Late(Duration),
}

/// Runs a program in a process group of its own, which is killed where it takes too long, or is not waited for.
pub(super) async fn to_end(mut command: Command, limit: Duration) -> Result<Said, RunError> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(RunError::Start)?;
    let mut group = Group(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw));
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let ending = async {
        let (stdout, stderr) = tokio::join!(text(stdout), text(stderr));
        let status = child.wait().await?;
        Ok::<Said, io::Error>(Said { code: status.code(), stdout: stdout?, stderr: stderr? })
    };
    let said = tokio::time::timeout(limit, ending).await.map_err(|_| RunError::Late(limit))??;
    group.0 = None;
    Ok(said)
}

/// A process group that does not outlast the interest in it.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended by itself in this moment.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

async fn text(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let mut bounded = pipe.take(OUTPUT_BYTES_MAX);
        bounded.read_to_end(&mut bytes).await?;
        // The rest is read and thrown away, so that the program does not wait for a reader.
        tokio::io::copy(&mut bounded.into_inner(), &mut tokio::io::sink()).await?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script);
        command
    }

    #[tokio::test]
    async fn to_end_returns_code_and_output() {
        let said = to_end(shell("echo out; echo err >&2; exit 3"), Duration::from_secs(30)).await.unwrap();
        assert_eq!((said.code, said.stdout.as_str(), said.last_line()), (Some(3), "out\n", "err"));
    }

    #[tokio::test]
    async fn to_end_kills_what_takes_too_long() {
        let dir = tempfile::tempdir().unwrap();
        let script = format!("echo $$ > {}/pid; sleep 600 & wait", dir.path().display());
        let error = to_end(shell(&script), Duration::from_millis(500)).await.unwrap_err();
        assert!(error.to_string().contains("took longer"), "{error}");
        let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap();
        let is_gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ") || stat.contains(") X ")
        };
        while !is_gone() {
            tokio::task::yield_now().await;
        }
    }
}
