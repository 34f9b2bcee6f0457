//! What the machine has to do with the ends of tasks: its memory, its disk, its cgroups.

use nix::unistd::geteuid;

use super::Table;
use crate::disk;
use crate::supervisor::cgroup::TaskCgroup;
use crate::supervisor::memory;
use crate::supervisor::protocol::{Event, Start};
use crate::task::{Cause, Exit, TaskKey};

impl Table {
    /// How full the disk of the state directory is, where that is too full for tasks.
    pub(super) fn full_disk(&self) -> Option<String> {
        let disk = disk::disk(&self.state_dir, self.disk_reserve_bytes)?;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        disk::is_full(&disk).then(|| {
            format!(
                "the disk of the worker's folder {} is full: {:.1} MiB are free, and {:.1} MiB are reserved",
                disk.path,
                mib(disk.available_bytes),
                mib(disk.reserve_bytes)
            )
        })
    }

    /// The end of a task, with the full disk as its cause where its own program failed on one.
    pub(super) fn disk_judged(&self, exit: Exit) -> Exit {
        let may_be = exit.code != 0 && exit.by_itself && matches!(exit.cause, None | Some(Cause::Launch));
        match may_be.then(|| self.full_disk()).flatten() {
            Some(text) => {
                Exit { by_itself: true, ..Exit::disk_full(format!("exit code {}; {text}", exit.code)) }
            }
            None => exit,
        }
    }

    /// A cgroup, where the supervisor may create one or the task needs one. Where that fails the task runs without, and the worker reports it.
    pub(super) fn make_cgroup(&mut self, start: &Start) -> Option<TaskCgroup> {
        if !self.cgroups.is_tracking() && geteuid().is_root() {
            let what = "tasks run without cgroups, which this machine does not let the worker create: processes that \
                        hide from their task may outlive it while other tasks of the same user run";
            self.events.push(Event::Reduced { what: what.to_owned() });
        }
        // A container of the node is entered from the task's process, or made by it, and outlives it.
        let is_tracked = !start.is_per_node();
        let (cgroup, done) = self.cgroups.create(start.task, &start.confinement, is_tracked);
        if let Err(error) = done {
            let what = format!("tasks run without limits on processors and memory: {error}");
            self.events.push(Event::Reduced { what });
        }
        cgroup
    }

    /// The end of a task, with lack of memory as its cause where the kernel states this.
    pub(super) fn memory_judged(&self, key: TaskKey, exit: Exit) -> Exit {
        let Some(running) = self.tasks.get(&key).and_then(|task| task.running.as_ref()) else { return exit };
        if exit.code == 0 {
            return exit;
        }
        let is_counted = running.cgroup.as_ref().is_some_and(TaskCgroup::was_out_of_memory);
        memory::judged(exit, is_counted)
    }
}
