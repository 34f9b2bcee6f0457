//! A cgroup for each task, where the system lets the supervisor create one.
//!
//! Linux has two kinds of hierarchies: version 2 is one tree with all controllers, version 1 a tree for each; a hybrid machine has
//! both. A task has a folder in the *tracking* tree, by which all its processes are found and killed at its end, and in each tree
//! that has something to limit, below a folder of the supervisor's own. Its processes cannot leave: only root may move them.
//!
//! A worker that may not create cgroups, such as one of an ordinary user, runs tasks without; their strays are found as the
//! supervisor's adopted children ([`super::strays`]).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{AccessFlags, Pid, access};

use super::note;
use crate::supervisor::protocol::Confinement;
use crate::task::TaskKey;

/// The scheduler's period that a quota is measured in.
const PERIOD_US: u64 = 100_000;
/// What one processor weighs among tasks: each version's own default.
const SHARES_PER_CPU: u64 = 1024;
const SHARES_MAX: u64 = 262_144;
const WEIGHT_PER_CPU: u64 = 100;
const WEIGHT_MAX: u64 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A tree that tasks' folders can be made in.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    version: Version,
    /// The supervisor's own cgroup in it.
    own: PathBuf,
}

/// The trees that limit memory and processors, and the one that tracks processes.
#[derive(Debug)]
pub(super) struct Cgroups {
    /// None where the supervisor may not create cgroups.
    tracking: Option<Hierarchy>,
    memory: Option<Hierarchy>,
    cpu: Option<Hierarchy>,
    /// What the supervisor's folders are called.
    name: String,
}

/// A task's folders.
#[derive(Debug, Default)]
pub(super) struct TaskCgroup {
    /// The one that all its processes are found by.
    tracking: Option<PathBuf>,
    folders: Vec<PathBuf>,
    /// The one that counts processes killed for lack of memory.
    oom: Option<PathBuf>,
}

impl Cgroups {
    pub(super) fn find(state_dir: &Path) -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let (mounts, own) = (read("/proc/self/mounts"), read("/proc/self/cgroup"));
        let mut hasher = DefaultHasher::new();
        state_dir.hash(&mut hasher);
        let name = format!("wharf-{:016x}", hasher.finish());
        Self {
            tracking: tracking(&mounts, &own, |hierarchy| can_create(&hierarchy.own)),
            memory: hierarchy(&mounts, &own, "memory"),
            cpu: hierarchy(&mounts, &own, "cpu"),
            name,
        }
    }

    /// Whether every task gets a cgroup.
    pub(super) fn is_tracking(&self) -> bool {
        self.tracking.is_some()
    }

    /// Creates a task's folders with its limits in them; none where it asks for no limits and its processes are not tracked. The
    /// second part states why it has less than it asks for.
    pub(super) fn create(
        &self,
        task: TaskKey,
        asked: &Confinement,
        is_tracked: bool,
    ) -> (Option<TaskCgroup>, io::Result<()>) {
        let mut made = TaskCgroup::default();
        let tracked = match self.tracking.as_ref().filter(|_| is_tracked) {
            Some(hierarchy) => self.folder(hierarchy, None, task).map(Some),
            None => Ok(None),
        };
        let done = tracked.and_then(|folder| {
            made.folders.extend(folder.clone());
            made.tracking = folder;
            self.limit(&mut made, task, asked)
        });
        ((!made.folders.is_empty()).then_some(made), done)
    }

    fn limit(&self, made: &mut TaskCgroup, task: TaskKey, asked: &Confinement) -> io::Result<()> {
        let memory = (asked.memory_mib > 0).then_some((self.memory.as_ref(), "memory"));
        let cpu = (asked.cpus > 0).then_some((self.cpu.as_ref(), "cpu"));
        for (hierarchy, controller) in memory.into_iter().chain(cpu) {
            let hierarchy = hierarchy.ok_or_else(|| {
                io::Error::other(format!("no hierarchy of cgroups has the controller {controller}"))
            })?;
            let folder = self.folder(hierarchy, Some(controller), task)?;
            if !made.folders.contains(&folder) {
                made.folders.push(folder.clone());
            }
            if controller == "memory" {
                made.oom = Some(folder.join(oom_file(hierarchy.version)));
                limit_memory(hierarchy.version, &folder, asked.memory_mib)?;
            } else {
                limit_cpu(hierarchy.version, &folder, asked.cpus)?;
            }
        }
        Ok(())
    }

    /// What an earlier supervisor has made for a task.
    pub(super) fn existing(&self, task: TaskKey) -> Option<TaskCgroup> {
        let is_there = |folder: &PathBuf| folder.is_dir();
        let tracking = self.tracking.as_ref().map(|hierarchy| self.path(hierarchy, task)).filter(is_there);
        let mut folders: Vec<PathBuf> = self.all().map(|hierarchy| self.path(hierarchy, task)).collect();
        folders.retain(is_there);
        folders.dedup();
        (!folders.is_empty()).then_some(TaskCgroup { tracking, folders, oom: None })
    }

    fn all(&self) -> impl Iterator<Item = &Hierarchy> {
        self.tracking.iter().chain(&self.memory).chain(&self.cpu)
    }

    /// Takes the supervisor's own folders away, which are empty when it ends.
    pub(super) fn remove(&self) {
        for hierarchy in self.all() {
            // Not there, most often: most supervisors never had to make one.
            let _ = std::fs::remove_dir(hierarchy.own.join(&self.name));
        }
    }

    fn path(&self, hierarchy: &Hierarchy, task: TaskKey) -> PathBuf {
        hierarchy.own.join(&self.name).join(task.to_string())
    }

    fn folder(&self, hierarchy: &Hierarchy, controller: Option<&str>, task: TaskKey) -> io::Result<PathBuf> {
        let parent = hierarchy.own.join(&self.name);
        if !parent.is_dir() {
            make(&parent)?;
        }
        if let (Version::Two, Some(controller)) = (hierarchy.version, controller) {
            delegate(&hierarchy.own, controller)?;
            delegate(&parent, controller)?;
        }
        let folder = self.path(hierarchy, task);
        make(&folder)?;
        Ok(folder)
    }
}

impl TaskCgroup {
    /// The files that a process enters by.
    pub(super) fn entrances(&self) -> Vec<PathBuf> {
        self.folders.iter().map(|folder| folder.join("cgroup.procs")).collect()
    }

    /// Puts a process into it that was started just now and does not enter by itself: one of the supervisor's own user, who could leave
    /// again anyway. What it has started in that moment is found as a stray.
    pub(super) fn add(&self, process: Pid) {
        for folder in &self.folders {
            // One that has ended already needs no place.
            let _ = set(folder, "cgroup.procs", process);
        }
    }

    /// Kills all processes that are left; false if there were none.
    pub(super) fn kill(&self) -> bool {
        let found = self.folders.iter().any(|folder| is_populated(folder));
        if let (true, Some(folder)) = (found, &self.tracking) {
            // Where the kernel can, all at once, so that no fork runs away from it.
            if set(folder, "cgroup.kill", 1).is_ok() {
                return true;
            }
            set_frozen(folder, true);
        }
        for folder in &self.folders {
            for pid in processes(folder) {
                // Gone in between is as good.
                let _ = kill(pid, Signal::SIGKILL);
            }
        }
        if let (true, Some(folder)) = (found, &self.tracking) {
            set_frozen(folder, false);
        }
        found
    }

    /// Whether a process was killed for lack of memory.
    pub(super) fn was_out_of_memory(&self) -> bool {
        let text = self.oom.as_ref().and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.is_some_and(|count| count.trim() != "0")
    }

    pub(super) fn remove(&self) {
        for folder in &self.folders {
            if let Err(error) = remove(folder) {
                note(format_args!("cannot remove the cgroup {}: {error}", folder.display()));
            }
        }
    }
}

/// Whether this process may create cgroups below its own, and enter them.
fn can_create(own: &Path) -> bool {
    let may_write = |path: &Path| access(path, AccessFlags::W_OK).is_ok();
    may_write(own) && may_write(&own.join("cgroup.procs"))
}

/// Whether a cgroup has processes, those of cgroups below it included.
fn is_populated(folder: &Path) -> bool {
    match std::fs::read_to_string(folder.join("cgroup.events")) {
        Ok(events) => events.lines().any(|line| line == "populated 1"),
        Err(_) => !processes(folder).is_empty(),
    }
}

/// The processes of a cgroup, and of those below it.
fn processes(folder: &Path) -> Vec<Pid> {
    let text = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    let own = text.lines().filter_map(|line| line.parse().ok()).map(Pid::from_raw);
    own.chain(below(folder).iter().flat_map(|folder| processes(folder))).collect()
}

/// Stops the processes of a cgroup from running, and from forking, or lets them run again; version 2 has another file for it.
fn set_frozen(folder: &Path, is_frozen: bool) {
    let state = if is_frozen { "FROZEN" } else { "THAWED" };
    // Where there is neither, processes are killed one by one, again and again.
    let _ =
        set(folder, "freezer.state", state).or_else(|_| set(folder, "cgroup.freeze", u8::from(is_frozen)));
}

/// The cgroups right below another, which a job that is root's own may have created.
fn below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

fn remove(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(_) => {
            below(folder).iter().try_for_each(|folder| remove(folder))?;
            std::fs::remove_dir(folder)
        }
        Ok(()) => Ok(()),
    }
}

fn make(folder: &Path) -> io::Result<()> {
    match std::fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(named("make the cgroup", folder, &error)),
        Ok(()) => Ok(()),
    }
}

fn set(folder: &Path, file: &str, value: impl ToString) -> io::Result<()> {
    let path = folder.join(file);
    std::fs::write(&path, value.to_string()).map_err(|error| named("write", &path, &error))
}

fn named(what: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {what} {}: {error}", path.display()))
}

/// Lets the folders below a cgroup of version 2 have a controller.
///
/// Only a cgroup without processes of its own may do that, except the root: its processes move to a sibling.
fn delegate(folder: &Path, controller: &str) -> io::Result<()> {
    let file = folder.join("cgroup.subtree_control");
    let has = std::fs::read_to_string(&file).unwrap_or_default();
    if has.split_whitespace().any(|name| name == controller) {
        return Ok(());
    }
    let enable = || set(folder, "cgroup.subtree_control", format_args!("+{controller}"));
    match enable() {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => (),
        done => return done,
    }
    let leaf = folder.join("wharf-worker");
    make(&leaf)?;
    let processes = std::fs::read_to_string(folder.join("cgroup.procs"))?;
    for pid in processes.lines() {
        // One that has ended is out of the way, too; any other is why the next line fails.
        let _ = set(&leaf, "cgroup.procs", pid);
    }
    enable()
}

fn limit_memory(version: Version, folder: &Path, mib: u64) -> io::Result<()> {
    let bytes = mib.saturating_mul(1024 * 1024);
    match version {
        Version::One => {
            set(folder, "memory.limit_in_bytes", bytes)?;
            // Kernels that do not account for swap do not have it.
            let _ = set(folder, "memory.memsw.limit_in_bytes", bytes);
        }
        Version::Two => {
            set(folder, "memory.max", bytes)?;
            // What older kernels do not have. A trainer that lost one of its processes would wait for it forever.
            let _ = set(folder, "memory.swap.max", 0);
            let _ = set(folder, "memory.oom.group", 1);
        }
    }
    Ok(())
}

fn limit_cpu(version: Version, folder: &Path, cpus: u32) -> io::Result<()> {
    let (cpus, quota) = (u64::from(cpus), u64::from(cpus) * PERIOD_US);
    match version {
        Version::One => {
            set(folder, "cpu.shares", (cpus * SHARES_PER_CPU).min(SHARES_MAX))?;
            set(folder, "cpu.cfs_period_us", PERIOD_US)?;
            set(folder, "cpu.cfs_quota_us", quota)
        }
        Version::Two => {
            set(folder, "cpu.weight", (cpus * WEIGHT_PER_CPU).min(WEIGHT_MAX))?;
            set(folder, "cpu.max", format_args!("{quota} {PERIOD_US}"))
        }
    }
}

fn oom_file(version: Version) -> &'static str {
    match version {
        Version::One => "memory.oom_control",
        Version::Two => "memory.events",
    }
}

/// The hierarchy that processes are tracked in, of those that the supervisor can use: version 2, which can kill a whole cgroup, or the
/// freezer of version 1, which can at least stop it.
fn tracking(mounts: &str, own: &str, can_use: impl Fn(&Hierarchy) -> bool) -> Option<Hierarchy> {
    ["", "freezer"].into_iter().filter_map(|name| hierarchy(mounts, own, name)).find(can_use)
}

/// The hierarchy that has a controller, or without one that of version 2, from `/proc/self/mounts` and `/proc/self/cgroup`.
fn hierarchy(mounts: &str, own: &str, controller: &str) -> Option<Hierarchy> {
    let mounted = |kind: &str, option: Option<&str>| {
        mounts.lines().find_map(|line| {
            let mut fields = line.split(' ');
            let (_, place, found, options) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
            let has = option.is_none_or(|option| options.split(',').any(|had| had == option));
            (found == kind && has).then(|| PathBuf::from(place))
        })
    };
    let path_of = |wanted: &dyn Fn(&str) -> bool| {
        own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            wanted(controllers).then(|| path.trim_start_matches('/').to_owned())
        })
    };
    if let Some(place) = mounted("cgroup", Some(controller)) {
        let path = path_of(&|controllers| controllers.split(',').any(|name| name == controller))?;
        return Some(Hierarchy { version: Version::One, own: place.join(path) });
    }
    let place = mounted("cgroup2", None)?;
    let path = path_of(&str::is_empty)?;
    Some(Hierarchy { version: Version::Two, own: place.join(path) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchy_is_found_in_all_layouts() {
        let v1 = "cgroup /c/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\ncgroup /c/memory cgroup rw,memory 0 0\n";
        let v2 = "cgroup2 /c cgroup2 rw,nosuid 0 0\n";
        let hybrid = "cgroup /c/memory cgroup rw,memory 0 0\ncgroup2 /c/unified cgroup2 rw 0 0\n";
        let rows = [
            (v1, "4:memory:/a/b\n1:cpu,cpuacct:/\n", "cpu", Some((Version::One, "/c/cpu,cpuacct/"))),
            (v1, "4:memory:/a/b\n1:cpu,cpuacct:/\n", "memory", Some((Version::One, "/c/memory/a/b"))),
            (v2, "0::/user.slice/x\n", "memory", Some((Version::Two, "/c/user.slice/x"))),
            (hybrid, "4:memory:/\n0::/u\n", "memory", Some((Version::One, "/c/memory/"))),
            (hybrid, "4:memory:/\n0::/u\n", "cpu", Some((Version::Two, "/c/unified/u"))),
            (hybrid, "4:memory:/\n0::/u\n", "", Some((Version::Two, "/c/unified/u"))),
            ("", "0::/\n", "cpu", None),
        ];
        for (mounts, own, controller, expected) in rows {
            let expected = expected.map(|(version, own)| Hierarchy { version, own: own.into() });
            assert_eq!(hierarchy(mounts, own, controller), expected, "{mounts}{controller}");
        }
    }

    #[test]
    fn tracking_takes_the_first_usable_hierarchy() {
        let mounts = "cgroup /c/freezer cgroup rw,freezer 0 0\ncgroup2 /c/unified cgroup2 rw 0 0\n";
        let own = "4:freezer:/a\n0::/u\n";
        let chosen =
            |can_use: &dyn Fn(&Hierarchy) -> bool| tracking(mounts, own, can_use).map(|found| found.version);
        assert_eq!(chosen(&|_| true), Some(Version::Two));
        assert_eq!(chosen(&|found| found.version == Version::One), Some(Version::One));
        assert_eq!(chosen(&|_| false), None);
    }

    #[test]
    fn limits_are_written_in_each_version_s_words() {
        let dir = tempfile::tempdir().unwrap();
        let read = |file: &str| std::fs::read_to_string(dir.path().join(file)).unwrap();
        for version in [Version::One, Version::Two] {
            limit_memory(version, dir.path(), 3).unwrap();
            limit_cpu(version, dir.path(), 2).unwrap();
        }
        assert_eq!((read("memory.limit_in_bytes"), read("memory.max")), ("3145728".into(), "3145728".into()));
        assert_eq!((read("cpu.shares"), read("cpu.cfs_quota_us")), ("2048".into(), "200000".into()));
        assert_eq!((read("cpu.weight"), read("cpu.max")), ("200".into(), "200000 100000".into()));
    }

    #[test]
    fn was_out_of_memory_reads_both_versions() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("counts");
        let cgroup = TaskCgroup { oom: Some(file.clone()), ..TaskCgroup::default() };
        assert!(!cgroup.was_out_of_memory());
        let rows = [
            ("oom_kill_disable 0\nunder_oom 0\noom_kill 0\n", false),
            ("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", true),
            ("low 0\nhigh 0\nmax 12\noom 2\noom_kill 2\noom_group_kill 1\n", true),
        ];
        for (text, expected) in rows {
            std::fs::write(&file, text).unwrap();
            assert_eq!(cgroup.was_out_of_memory(), expected, "{text}");
        }
    }
}
