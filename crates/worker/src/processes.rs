//! Processes below this one, by the kernel's own table: never by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::{Notify, mpsc};
use tokio::time::MissedTickBehavior;
use wharf_proto::StoppedProcess;

use crate::supervisor::protocol::TaskProcess;
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

/// A stopped process that claims in its environment to belong to a task, which any user's process can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) process: StoppedProcess,
    /// The user that started it: its real user id, which programs with the set-user-ID bit keep.
    uid: u32,
    /// Its paths in the trees of cgroups.
    cgroups: Vec<PathBuf>,
}

impl Claim {
    /// Whether the process runs as the task's user, and in no other task's cgroup. Containers that a service starts are in none.
    pub(crate) fn is_of(&self, task: &TaskProcess) -> bool {
        let is_other = |entrance: &PathBuf| {
            let Some(folder) = entrance.parent() else { return false };
            let Some((all, own)) = folder.parent().and_then(Path::file_name).zip(folder.file_name()) else {
                return false;
            };
            let is_in_other = |path: &PathBuf| {
                let mut names = path.iter().skip_while(|name| *name != all).skip(1);
                names.next().is_some_and(|name| name != own)
            };
            self.cgroups.iter().any(is_in_other)
        };
        let is_of_user = task.account.is_some_and(|account| account.uid == self.uid);
        is_of_user && !task.cgroups.iter().any(is_other)
    }
}

/// Stopped processes by the task that they claim to belong to.
pub(crate) type Claims = BTreeMap<TaskKey, Vec<Claim>>;

/// Interval between two looks for stopped processes.
const STOPPED_INTERVAL: Duration = Duration::from_secs(5);

/// A search for stopped processes of a node's tasks, again and again until it is dropped.
pub(crate) struct StoppedSearch {
    news: mpsc::Receiver<Claims>,
    wanted: Arc<Notify>,
}

impl StoppedSearch {
    pub(crate) fn start(node: String) -> Self {
        let (sender, news) = mpsc::channel(1);
        let search = Self { news, wanted: Arc::default() };
        let wanted = Arc::clone(&search.wanted);
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(STOPPED_INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = ticks.tick() => (),
                    () = wanted.notified() => (),
                    () = sender.closed() => return,
                }
                let name = node.clone();
                // Where the search fails, the next one is soon.
                let Ok(found) = tokio::task::spawn_blocking(move || stopped(&name)).await else { continue };
                if sender.send(found).await.is_err() {
                    return;
                }
            }
        });
        search
    }

    /// Has the next search begin at once.
    pub(crate) fn hasten(&self) {
        self.wanted.notify_one();
    }

    pub(crate) async fn next(&mut self) -> Option<Claims> {
        self.news.recv().await
    }
}

/// Stopped processes, as by SIGSTOP, that claim to belong to a node's tasks by their environment. Those with a terminal are left out,
/// because a person at it may have suspended them.
fn stopped(node: &str) -> Claims {
    let mut all = Claims::new();
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
        let task = task.filter(|_| value("WHARF_NODE") == Some(node));
        // One that has ended meanwhile has no user.
        if let Some(((job, generation), uid)) = task.zip(real_uid(pid)) {
            let process = StoppedProcess { pid, rank: number("RANK") };
            let claim = Claim { process, uid, cgroups: cgroups_of(pid) };
            all.entry(TaskKey { job, generation }).or_default().push(claim);
        }
    }
    all
}

fn real_uid(pid: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?.parse().ok()
}

fn cgroups_of(pid: u32) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    text.lines().filter_map(|line| line.splitn(3, ':').nth(2)).map(PathBuf::from).collect()
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
    use crate::supervisor::protocol::Account;

    #[test]
    fn stat_odd_name_is_read() {
        let fields = "S 7 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 555 0";
        let expected = Stat { is_over: false, parent: 7, start: 555 };
        assert_eq!(Stat::read(&format!("12 (a) b) {fields}")), Some(expected));
        assert_eq!(Stat::read("12 (a) S 7"), None);
    }

    /// A stopped process that claims to belong to a task; the words run it, as another user.
    fn stopped_child(words: &[&str], node: &str) -> std::process::Child {
        let task = [("WHARF_JOB_ID", "4000000001"), ("WHARF_GENERATION", "2"), ("RANK", "5")];
        let mut command = Command::new("setsid");
        command.args(words).args(["sleep", "600"]).envs(task).env("WHARF_NODE", node);
        let child = command.spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        assert_eq!(stopped(node), Claims::new());
        let begin = std::time::Instant::now();
        // Until `setsid` has become the other program, which has no terminal.
        while !std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().starts_with("sleep") {
            assert!(begin.elapsed().as_secs() < 10, "it does not start");
            std::thread::yield_now();
        }
        kill(pid, Signal::SIGSTOP).unwrap();
        while stopped(node).is_empty() {
            assert!(begin.elapsed().as_secs() < 20, "it does not stop");
            std::thread::yield_now();
        }
        child
    }

    fn task_of(uid: u32, cgroups: &[&str]) -> TaskProcess {
        let cgroups = cgroups.iter().map(PathBuf::from).collect();
        let account = Some(Account { uid, gid: 0 });
        TaskProcess { pid: 1, start_time: 1, account, cgroups, denied_devices: Vec::new() }
    }

    #[test]
    fn stopped_process_of_a_task_is_found_by_its_environment() {
        let mut child = stopped_child(&[], "n-stopped");
        let task = TaskKey { job: 4_000_000_001, generation: 2 };
        let found = stopped("n-stopped").remove(&task).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].process, StoppedProcess { pid: child.id(), rank: Some(5) });
        let own = nix::unistd::getuid().as_raw();
        assert!(found[0].is_of(&task_of(own, &[])));
        assert!(!found[0].is_of(&task_of(own + 1, &[])));
        assert!(!found[0].is_of(&TaskProcess { account: None, ..task_of(own, &[]) }));
        assert_eq!(stopped("n-other"), Claims::new());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn stopped_process_of_another_user_is_not_the_tasks() {
        if !nix::unistd::getuid().is_root() {
            return;
        }
        let other = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"];
        let mut child = stopped_child(&other, "n-forged");
        let claims: Vec<Claim> = stopped("n-forged").into_values().flatten().collect();
        assert_eq!(claims.len(), 1);
        assert!(!claims[0].is_of(&task_of(0, &[])));
        assert!(!claims[0].is_of(&task_of(1000, &[])));
        assert!(claims[0].is_of(&task_of(54321, &[])));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn stopped_process_in_another_tasks_cgroup_is_not_the_tasks() {
        let task = task_of(7, &["/sys/fs/cgroup/a.service/wharf-12/3-1/cgroup.procs"]);
        let process = StoppedProcess { pid: 9, rank: None };
        for (path, expected) in [
            ("/a.service/wharf-12/3-1", true),
            ("/a.service/wharf-12/3-1/step", true),
            ("/a.service/wharf-12/4-1", false),
            ("/a.service/wharf-12/4-1/3-1", false),
            // A container that a service has started, and a worker within a task of another worker.
            ("/system.slice/docker-1.scope", true),
            ("/wharf-77/4-1", true),
        ] {
            let claim = Claim { process, uid: 7, cgroups: vec!["/".into(), path.into()] };
            assert_eq!(claim.is_of(&task), expected, "{path}");
        }
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
