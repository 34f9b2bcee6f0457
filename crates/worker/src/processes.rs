//! Processes below this one, by the kernel's own table: never by name.

use std::collections::BTreeMap;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use wharf_proto::StoppedProcess;

use crate::task::TaskKey;

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

/// Stopped processes by task, as a worker reports them.
pub(crate) type Stopped = BTreeMap<TaskKey, Vec<StoppedProcess>>;

/// Interval between two looks for stopped processes.
const STOPPED_INTERVAL: Duration = Duration::from_secs(5);

/// Looks for stopped processes of a node's tasks again and again. The receiver is dropped to end it.
pub(crate) fn watch_stopped(node: String) -> mpsc::Receiver<Stopped> {
    let (news, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(STOPPED_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => (),
                () = news.closed() => return,
            }
            let name = node.clone();
            // Where the search fails, the next one is soon.
            let Ok(found) = tokio::task::spawn_blocking(move || stopped(&name)).await else { continue };
            if news.send(found).await.is_err() {
                return;
            }
        }
    });
    receiver
}

/// Stopped processes of a node's tasks, as by SIGSTOP: they are known by their environment. Those with a terminal are left out, because
/// a person at it may have suspended them.
pub(crate) fn stopped(node: &str) -> Stopped {
    let mut all = Stopped::new();
    let Ok(entries) = std::fs::read_dir("/proc") else { return all };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids.filter(|&pid| is_stopped(pid)) {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let value = |name: &str| {
            let mut variables = environment.split(|byte| *byte == 0);
            let found = variables.find_map(|text| text.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
            std::str::from_utf8(found?).ok()
        };
        let number = |name: &str| value(name)?.parse::<u32>().ok();
        let task = number("WHARF_JOB_ID").zip(number("WHARF_GENERATION"));
        if let Some((job, generation)) = task.filter(|_| value("WHARF_NODE") == Some(node)) {
            let process = StoppedProcess { pid, rank: number("RANK") };
            all.entry(TaskKey { job, generation }).or_default().push(process);
        }
    }
    all
}

fn is_stopped(pid: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let Some((_, rest)) = text.rsplit_once(") ") else { return false };
    let mut fields = rest.split_whitespace();
    // After the state come the parent, the process group, the session and the terminal.
    fields.next() == Some("T") && fields.nth(3) == Some("0")
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
        let mut command = Command::new("setsid");
        let mut child =
            command.args(["sleep", "600"]).envs(task).env("WHARF_NODE", "n-stopped").spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        assert_eq!(stopped("n-stopped"), Stopped::new());
        let begin = std::time::Instant::now();
        // Until `setsid` has become the other program, which has no terminal.
        while !std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().starts_with("sleep") {
            assert!(begin.elapsed().as_secs() < 10, "it does not start");
            std::thread::yield_now();
        }
        kill(pid, Signal::SIGSTOP).unwrap();
        while stopped("n-stopped").is_empty() {
            assert!(begin.elapsed().as_secs() < 20, "it does not stop");
            std::thread::yield_now();
        }
        let task = TaskKey { job: 4_000_000_001, generation: 2 };
        let process = StoppedProcess { pid: child.id(), rank: Some(5) };
        assert_eq!(stopped("n-stopped"), Stopped::from([(task, vec![process])]));
        assert_eq!(stopped("n-other"), Stopped::new());
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
