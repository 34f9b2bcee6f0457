//! The process between the supervisor and an engine's program: it hands signals on to the container itself. The program does so only
//! from some moment on, and of what it executes in a container that stays, not at all.

use std::os::unix::process::ExitStatusExt;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use super::enter::Failed;
use super::image::{answer, tool};
use super::{Contained, ContainerRuntime, docker, engine};

const CODE_SIGNAL_BASE: i32 = 128;
/// What docker and podman end with where they could not run the container.
pub(super) const CODE_ENGINE: u8 = 125;
/// Where they could not execute its command, or did not find it. Programs end with these, too.
const CODES_COMMAND: [u8; 2] = [126, 127];
/// The signals that are handed on to the command.
const SIGNALS: [(SignalKind, Signal); 6] = [
    (SignalKind::terminate(), Signal::SIGTERM),
    (SignalKind::interrupt(), Signal::SIGINT),
    (SignalKind::hangup(), Signal::SIGHUP),
    (SignalKind::quit(), Signal::SIGQUIT),
    (SignalKind::user_defined1(), Signal::SIGUSR1),
    (SignalKind::user_defined2(), Signal::SIGUSR2),
];

/// Runs a container until its end and returns the exit code of its command. An engine that could not run it ends with codes that
/// commands end with, too: whether there was a command at all is known to the engine.
pub(super) fn run(contained: &Contained, words: &[String]) -> Result<u8, Failed> {
    let begun_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let code = serve(contained, words)?;
    let is_engines = match code {
        CODE_ENGINE => !was_started(contained, begun_s).unwrap_or(false),
        code if CODES_COMMAND.contains(&code) => !was_started(contained, begun_s).unwrap_or(true),
        _ => false,
    };
    if is_engines { Err(refused(contained, code)) } else { Ok(code) }
}

/// The engine's own error as the cause of a task's end, for which its program is not to blame.
pub(super) fn refused(contained: &Contained, code: u8) -> Failed {
    let runtime = contained.runtime.word();
    let text = format!("{runtime} could not run the container; see the task's output");
    Failed { code, text }
}

/// Whether the engine has started a container of the task since then; none where it cannot tell.
fn was_started(contained: &Contained, since_s: u64) -> Option<bool> {
    let mut words = docker::prefix(contained);
    words.extend(["events", "--since"].map(String::from));
    words.push(since_s.saturating_sub(1).to_string());
    if contained.runtime == ContainerRuntime::Podman {
        words.push("--stream=false".to_owned());
    } else {
        // Until now: with a moment that is still to come it would wait for that.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        words.extend(["--until".to_owned(), format!("{}.{:09}", now.as_secs(), now.subsec_nanos())]);
    }
    // Of several labels one would be enough for podman, and docker wants all.
    let [worker, task] = contained.labels();
    words.extend(["--filter".to_owned(), format!("label={task}")]);
    words.extend(["--filter", "event=start", "--format", "{{json .}}"].map(String::from));
    let (_, state_dir) = worker.split_once('=')?;
    let own = format!("\"wharf.worker\":{}", serde_json::Value::from(state_dir));
    Some(answer(&words).ok()?.contains(&own))
}

/// Runs an engine's program until its end and returns its exit code, which is the command's.
pub(super) fn serve(contained: &Contained, words: &[String]) -> Result<u8, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(served(contained, words))
}

async fn served(contained: &Contained, words: &[String]) -> Result<u8, String> {
    let (program, rest) = words.split_first().ok_or("no program given")?;
    let failed = |error: std::io::Error| format!("cannot execute it in the container: {error}");
    let mut signals = Vec::new();
    for (kind, number) in SIGNALS {
        signals.push((signal(kind).map_err(failed)?, number));
    }
    // In a group of its own, so that a signal does not end it before the command. It reads what this process was requested to.
    let mut child = Command::new(program).args(rest).process_group(0).spawn().map_err(failed)?;
    let status = loop {
        let next = std::future::poll_fn(|context| {
            for (signal, number) in &mut signals {
                if signal.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*number);
                }
            }
            std::task::Poll::Pending
        });
        tokio::select! {
            status = child.wait() => break status.map_err(failed)?,
            number = next => {
                hand_on(contained, &child, number);
            }
        }
    };
    let code = status.code().unwrap_or_else(|| CODE_SIGNAL_BASE + status.signal().unwrap_or_default());
    Ok(u8::try_from(code & 0xff).unwrap_or(1))
}

/// Tells the command of a signal; the program, where there is no command yet.
fn hand_on(contained: &Contained, program: &Child, number: Signal) {
    if contained.spec.per_node {
        for pid in engine::inside(&contained.state_dir, contained.task) {
            // Gone by itself meanwhile, which is as good.
            let _ = kill(pid, number);
        }
        return;
    }
    let mut list = docker::prefix(contained);
    list.extend(["ps", "-q", "--no-trunc"].map(String::from));
    for label in contained.labels() {
        list.extend(["--filter".to_owned(), format!("label={label}")]);
    }
    let running: Vec<String> =
        answer(&list).unwrap_or_default().split_whitespace().map(String::from).collect();
    if running.is_empty() {
        if let Some(pid) = program.id().and_then(|id| i32::try_from(id).ok()) {
            // Gone by itself meanwhile, which is as good.
            let _ = kill(Pid::from_raw(pid), number);
        }
        return;
    }
    let told = ["kill".to_owned(), "--signal".to_owned(), number.as_str().to_owned()];
    if let Err(error) = tool(&[docker::prefix(contained), told.to_vec(), running].concat()) {
        super::enter::say(&format!("cannot stop the container: {error}"));
    }
}
