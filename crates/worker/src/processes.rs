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

/// Live descendants of a process.
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

/// Stopped processes of a task, as by SIGSTOP, with their ranks: they are known by their environment.
pub(crate) fn stopped(job: u32, generation: u32) -> Vec<(u32, Option<u32>)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_stopped = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    };
    let rank = |pid: u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        let value = |name: &str| {
            let mut variables = environment.split(|byte| *byte == 0);
            let found = variables.find_map(|text| text.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
            std::str::from_utf8(found?).ok()?.parse::<u32>().ok()
        };
        let is_task = value("WHARF_JOB_ID") == Some(job) && value("WHARF_GENERATION") == Some(generation);
        is_task.then(|| (pid, value("RANK")))
    };
    pids.filter(is_stopped).filter_map(rank).collect()
}

/// Kills them. One that has ended meanwhile is still a zombie of its parent's, so its number is not reused in between.
pub(crate) fn kill_all(pids: &[Pid]) {
    for &pid in pids {
        // A process that does not exit is found again at the next check.
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
    fn stopped_process_of_a_task_is_found_by_its_environment() {
        let task = [("WHARF_JOB_ID", "4000000001"), ("WHARF_GENERATION", "2"), ("RANK", "5")];
        let mut child = Command::new("sleep").arg("600").envs(task).spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        assert_eq!(stopped(4_000_000_001, 2), []);
        kill(pid, Signal::SIGSTOP).unwrap();
        let begin = std::time::Instant::now();
        while stopped(4_000_000_001, 2).is_empty() {
            assert!(begin.elapsed().as_secs() < 10, "it does not stop");
            std::thread::yield_now();
        }
        assert_eq!(stopped(4_000_000_001, 2), [(child.id(), Some(5))]);
        assert_eq!(stopped(4_000_000_001, 1), []);
        child.kill().unwrap();
        child.wait().unwrap();
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
