//! Processes of a task that have left its process group: they outlive their parents, and so become children of the keeper.

use std::collections::HashMap;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::task::TaskKey;

/// Kills what is left of a task among the keeper's adopted children; false if there was nobody.
///
/// `leaders` are the children that belong where they are. What a killed stray had below it comes to the keeper in turn.
pub(super) fn kill_of(task: TaskKey, leaders: &HashMap<Pid, TaskKey>, socket: &Path) -> bool {
    let mut found = false;
    for pid in children().filter(|pid| !leaders.contains_key(pid)) {
        if is_of_task(pid.as_raw(), task, socket) {
            found = true;
            // A child cannot be gone before it was waited for; whatever else is wrong shows in its staying.
            let _ = kill(pid, Signal::SIGKILL);
        }
    }
    found
}

/// All children of this process, which has one thread. Kernels without checkpointing do not tell: then there are no strays.
fn children() -> impl Iterator<Item = Pid> {
    let own = std::process::id();
    let text = std::fs::read_to_string(format!("/proc/self/task/{own}/children")).unwrap_or_default();
    let pids: Vec<Pid> =
        text.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw).collect();
    pids.into_iter()
}

/// Whether a process has the environment of a task of the keeper whose socket that is; a zombie has none.
pub(super) fn is_of_task(pid: i32, task: TaskKey, socket: &Path) -> bool {
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
    let wanted = [
        format!("WHARF_PROGRESS_SOCKET={}", socket.display()),
        format!("WHARF_JOB_ID={}", task.job),
        format!("WHARF_GENERATION={}", task.generation),
    ];
    wanted.iter().all(|line| environment.split(|byte| *byte == 0).any(|had| had == line.as_bytes()))
}
