//! Processes of a task that have left its process group: they outlive their parents, and so become children of the supervisor.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::task::TaskKey;

/// Kills what is left of a task among the supervisor's adopted children; false if there was nothing.
///
/// `leaders` are the children that belong where they are. A process that a killed stray has left comes to the supervisor in turn. A process that
/// has hidden the environment of its task is the task's where no other can have started it: `is_claimed` states whether a
/// user has other running tasks.
pub(super) fn kill_of(
    task: TaskKey,
    leaders: &HashMap<Pid, TaskKey>,
    socket: &Path,
    is_claimed: impl Fn(u32) -> bool,
) -> bool {
    let mut found = false;
    for pid in children().filter(|pid| !leaders.contains_key(pid)) {
        if is_of_task(pid.as_raw(), task, socket) || real_uid(pid).is_some_and(|uid| !is_claimed(uid)) {
            found = true;
            // A child cannot be gone before it was waited for; whatever else is wrong shows in its staying.
            let _ = kill(pid, Signal::SIGKILL);
        } else if is_changing(pid) {
            // Its task cannot be told now, and what it has below it comes to the supervisor only when it is gone.
            found = true;
        }
    }
    found
}

/// The user that has started a process, which a set-user-ID bit does not change; none of a process that has ended.
fn real_uid(pid: Pid) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let is_zombie = status.lines().any(|line| line.starts_with("State:\tZ"));
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok().filter(|_| !is_zombie)
}

/// All children of this process, which has one thread. Kernels without checkpointing do not tell: then there are no strays.
fn children() -> impl Iterator<Item = Pid> {
    let own = std::process::id();
    let read = || std::fs::read_to_string(format!("/proc/self/task/{own}/children")).unwrap_or_default();
    // The kernel skips some where one exits while it lists them: a second look finds those.
    let text = read() + " " + &read();
    let pids: BTreeSet<i32> = text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    pids.into_iter().map(Pid::from_raw)
}

/// Whether a child has no environment, or not for the moment: it is on its way out, or in the middle of an exec.
///
/// A zombie is on its way out too, until it is collected: what it had below it may have come after the children were listed.
fn is_changing(pid: Pid) -> bool {
    /// As the kernel has it among a process's flags.
    const PF_EXITING: u32 = 0x4;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name is in brackets and may have anything in it.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let is_zombie = fields.next() == Some("Z");
    let flags = fields.nth(5).and_then(|flags| flags.parse().ok()).unwrap_or(0);
    // A process that may not be inspected shows no environment address either, and would be awaited indefinitely.
    let mut is_in_exec =
        || fields.nth(41) == Some("0") && std::fs::File::open(format!("/proc/{pid}/environ")).is_ok();
    is_zombie || flags & PF_EXITING != 0 || is_in_exec()
}

/// Whether a process has the environment of a task of the supervisor whose socket that is; a zombie has none.
pub(crate) fn is_of_task(pid: i32, task: TaskKey, socket: &Path) -> bool {
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
    let wanted = [
        format!("WHARF_PROGRESS_SOCKET={}", socket.display()),
        format!("WHARF_JOB_ID={}", task.job),
        format!("WHARF_GENERATION={}", task.generation),
    ];
    wanted.iter().all(|line| environment.split(|byte| *byte == 0).any(|had| had == line.as_bytes()))
}
