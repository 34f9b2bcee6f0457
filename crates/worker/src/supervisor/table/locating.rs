//! Processes of tasks, for commands and signals from outside.

use nix::sys::signal::{Signal, kill, killpg};

use super::Table;
use crate::processes::start_time;
use crate::supervisor::cgroup::TaskCgroup;
use crate::supervisor::protocol::{Event, TaskProcess};
use crate::supervisor::running::Running;
use crate::task::TaskKey;

impl Table {
    /// States which process is a task's.
    pub(crate) fn locate(&mut self, task: TaskKey) {
        let running = self.tasks.get(&task).and_then(|task| task.running.as_ref());
        let process = running.and_then(|running| {
            let pid = running.process()?.as_raw();
            let recorded = &self.tasks.get(&task)?.recorded;
            Some(TaskProcess {
                pid,
                start_time: start_time(pid)?,
                account: recorded.account,
                cgroups: running.cgroup.as_ref().map(TaskCgroup::entrances).unwrap_or_default(),
                denied_devices: recorded.denied_devices.clone(),
            })
        });
        self.events.push(Event::Located { task, process });
    }

    /// Sends a signal to a task's first process, which nothing but the supervisor can have collected, or to the group that it leads.
    pub(crate) fn signal(&self, task: TaskKey, signal: i32, group: bool) {
        let running = self.tasks.get(&task).and_then(|task| task.running.as_ref());
        if let (Some(process), Ok(signal)) = (running.and_then(Running::process), Signal::try_from(signal)) {
            // One that has just ended needs none.
            let _ = if group { killpg(process, signal) } else { kill(process, signal) };
        }
    }
}
