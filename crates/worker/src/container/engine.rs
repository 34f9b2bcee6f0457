//! What is left of a task's containers when its own process is gone: engines run them elsewhere.

use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::image::{answer, tool};
use super::{Contained, api, docker};
use crate::supervisor::protocol::progress_socket;
use crate::task::TaskKey;

/// Ends what a task has left behind; containers that are to be kept are only stopped.
///
/// # Errors
/// What the engine said.
pub(crate) fn clean(contained: &Contained) -> Result<(), String> {
    if !contained.runtime.is_engine() {
        return Ok(());
    }
    if contained.spec.per_node {
        for pid in inside(&contained.state_dir, contained.task) {
            // Gone by itself meanwhile, which is as good.
            let _ = kill(pid, Signal::SIGKILL);
        }
        return Ok(());
    }
    if contained.program.is_empty() {
        return api::clean(contained);
    }
    let mut list = docker::prefix(contained);
    list.extend(["ps", "-q", "--no-trunc"].map(String::from));
    if !contained.spec.keep {
        list.push("-a".to_owned());
    }
    for label in contained.labels() {
        list.extend(["--filter".to_owned(), format!("label={label}")]);
    }
    let found = answer(&list)?;
    let ids: Vec<String> = found.split_whitespace().map(String::from).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let how: &[&str] = if contained.spec.keep { &["kill"] } else { &["rm", "-f"] };
    let how = how.iter().map(|word| (*word).to_owned()).collect();
    tool(&[docker::prefix(contained), how, ids].concat())
}

/// Processes of a task that run in another process namespace than this one, by what is in their environment.
pub(super) fn inside(state_dir: &Path, task: TaskKey) -> Vec<Pid> {
    let own = std::fs::read_link("/proc/self/ns/pid").ok();
    let socket = progress_socket(state_dir);
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let namespace = std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        namespace.is_some() && namespace != own && crate::supervisor::is_of_task(*pid, task, &socket)
    })
    .map(Pid::from_raw)
    .collect()
}
