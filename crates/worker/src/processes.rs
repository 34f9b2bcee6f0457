//! Processes below this one, by the kernel's own table: never by name.

use std::collections::BTreeMap;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// What the kernel tells of a process.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    is_over: bool,
    parent: i32,
    start: u64,
}

impl Stat {
    fn of(pid: i32) -> Option<Self> {
        Self::read(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn read(text: &str) -> Option<Self> {
        // The name, in parentheses, may hold anything.
        let (_, rest) = text.rsplit_once(") ")?;
        let mut fields = rest.split_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let start = fields.nth(17)?.parse().ok()?;
        Some(Self { is_over: state == "Z" || state == "X", parent, start })
    }
}

/// When a living process was started, in the kernel's own unit; none where there is no such process.
pub(crate) fn start_time(pid: i32) -> Option<u64> {
    Stat::of(pid).filter(|stat| !stat.is_over).map(|stat| stat.start)
}

/// When a process was started, from its own `stat` in an open folder of `/proc`.
pub(crate) fn start_time_of(stat: &str) -> Option<u64> {
    Stat::read(stat).filter(|stat| !stat.is_over).map(|stat| stat.start)
}

/// Living processes below another, whoever started them.
pub(crate) fn below(root: i32) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let all: BTreeMap<i32, Stat> = pids.filter_map(|pid| Some((pid, Stat::of(pid)?))).collect();
    let is_below = |pid: i32| {
        let parents = std::iter::successors(all.get(&pid), |stat| all.get(&stat.parent));
        // As many as there are at most, should the table have changed while it was read.
        parents.take(all.len()).any(|stat| stat.parent == root)
    };
    let living = all.iter().filter(|(_, stat)| !stat.is_over).map(|(&pid, _)| pid);
    living.filter(|&pid| is_below(pid)).map(Pid::from_raw).collect()
}

/// Kills them. One that has ended meanwhile is still a zombie of its parent's, so its number is nobody else's in a moment.
pub(crate) fn kill_all(pids: &[Pid]) {
    for &pid in pids {
        // Whoever does not go is still there at the next look.
        let _ = kill(pid, Signal::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn stat_odd_name_is_read() {
        let fields = "S 7 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 555 0";
        let expected = Stat { is_over: false, parent: 7, start: 555 };
        assert_eq!(Stat::read(&format!("12 (a) b) {fields}")), Some(expected));
        assert_eq!(Stat::read("12 (a) S 7"), None);
    }

    #[test]
    fn grandchildren_are_found_and_killed() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 600 & echo; wait"]).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let root = child.id().cast_signed();
        let found = below(root);
        assert_eq!(found.len(), 1);
        assert!(below(std::process::id().cast_signed()).contains(&found[0]));
        kill_all(&found);
        child.wait().unwrap();
        assert_eq!(start_time(found[0].as_raw()), None);
    }
}
