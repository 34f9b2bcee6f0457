//! Whether a task ended for lack of memory. A count of its own cgroup is evidence; that it was killed by nobody known, while the
//! kernel killed somebody on this machine for lack of memory, is a guess and said to be one.

use std::time::{Duration, Instant};

use crate::task::{Cause, Exit};

/// The file is long, and tasks can come by the thousand.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// As a shell tells of SIGKILL.
const CODE_KILLED: i32 = 128 + 9;

/// How many processes of this machine the kernel has killed for lack of memory, as far as it counts them.
#[derive(Debug, Default)]
pub(super) struct Kills {
    count: Option<u64>,
    looked: Option<Instant>,
}

impl Kills {
    /// The count a moment ago at most.
    pub(super) fn recent(&mut self, now: Instant) -> Option<u64> {
        if self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= LOOK_INTERVAL) {
            self.looked = Some(now);
            self.count = Self::present();
        }
        self.count
    }

    /// The count right now.
    pub(super) fn present() -> Option<u64> {
        // Not there in every container; then nothing is guessed.
        read(&std::fs::read_to_string("/proc/vmstat").ok()?)
    }
}

fn read(vmstat: &str) -> Option<u64> {
    vmstat.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

/// What is known of the memory of a task that ended.
pub(super) struct Signs {
    /// Its cgroup counts processes that were killed at its limit.
    pub(super) is_counted: bool,
    /// The machine's count when the task was started, and now.
    pub(super) before: Option<u64>,
    pub(super) after: Option<u64>,
}

/// The end of a task, with lack of memory as its cause where the signs say so.
pub(super) fn judged(exit: Exit, signs: &Signs) -> Exit {
    if exit.code == 0 || exit.interrupted || exit.cause.is_some() {
        return exit;
    }
    let text = if signs.is_counted {
        "out of memory: the kernel killed processes of the task at its limit"
    } else if exit.by_itself
        && exit.code == CODE_KILLED
        && matches!((signs.before, signs.after), (Some(before), Some(after)) if after > before)
    {
        "probably out of memory: killed, not by Wharf, while the kernel killed processes of this machine for lack of memory"
    } else {
        return exit;
    };
    Exit { cause: Some(Cause::Memory), error: text.to_owned(), ..exit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lack_of_memory_is_told_from_other_ends() {
        let by_itself = |code| Exit { by_itself: true, ..Exit::code(code) };
        let told = |code| by_itself(code);
        let rows = [
            (told(137), true, Some(0), Some(0), Some("out of memory")),
            (told(1), true, None, None, Some("out of memory")),
            (told(0), true, Some(0), Some(1), None),
            (told(137), false, Some(3), Some(4), Some("probably out of memory")),
            (told(137), false, Some(3), Some(3), None),
            (told(137), false, None, Some(3), None),
            (told(143), false, Some(3), Some(4), None),
            (Exit::code(137), false, Some(3), Some(4), None),
            (Exit::lost("gone"), true, None, None, None),
        ];
        for (exit, is_counted, before, after, expected) in rows {
            let judged = judged(exit.clone(), &Signs { is_counted, before, after });
            assert_eq!(judged.code, exit.code);
            match expected {
                Some(text) => {
                    assert!(judged.error.starts_with(text), "{exit:?}: {}", judged.error);
                    assert_eq!(judged.cause, Some(Cause::Memory));
                }
                None => assert_eq!(judged, exit),
            }
        }
    }

    #[test]
    fn machine_s_count_is_found() {
        assert_eq!(read("nr_free_pages 7\noom_kill 12\ndrop_slab 0\n"), Some(12));
        assert_eq!(read("nr_free_pages 7\n"), None);
    }
}
