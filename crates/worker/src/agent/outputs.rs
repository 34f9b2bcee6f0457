//! Output of tasks: sent to the head, kept within limits, removed; and the disk that it is on.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use wharf_proto::{Heartbeat, ReleaseCheckpoint, SendOutput, StoppedProcess, TaskInspected, from_worker};

use super::Agent;
use super::output::{self, Wanted};
use crate::checkpoints::{self, Released};
use crate::processes::Claims;
use crate::supervisor::protocol::{Request, TaskProcess, output_file};
use crate::task::TaskKey;
use crate::{Notice, TaskSettings, disk};

/// How often the output of running tasks is checked, and that of tasks that have ended.
pub(super) const OUTPUTS_INTERVAL: Duration = Duration::from_secs(1);
pub(super) const REMOVAL_INTERVAL: Duration = Duration::from_secs(600);
/// Interval of disk reports to the head.
const DISK_INTERVAL: Duration = Duration::from_secs(5);

impl<N: FnMut(Notice)> Agent<N> {
    /// States that this worker is there, and now and then how full its disk is.
    pub(super) fn tell_heartbeat(&mut self) {
        let is_due = self.disk_told.is_none_or(|told| told.elapsed() >= DISK_INTERVAL);
        let reserve = self.config.tasks.disk_reserve_bytes;
        let disk = if is_due { disk::disk(&self.config.state_dir, reserve) } else { None };
        if disk.is_some() && self.head.is_some() {
            self.disk_told = Some(Instant::now());
        }
        self.tell(from_worker::Message::Heartbeat(Heartbeat { disk }));
    }

    /// Has the output of running tasks trimmed that takes too much of the disk; nothing waits for that.
    pub(super) fn trim_outputs(&mut self) {
        if self.trimming.as_ref().is_some_and(|trimming| !trimming.is_finished()) {
            return;
        }
        let running = self.tasks.iter().filter(|(_, known)| known.exit.is_none());
        let paths: Vec<PathBuf> =
            running.map(|(&task, _)| output_file(&self.config.state_dir, task)).collect();
        let TaskSettings { output_bytes, disk_reserve_bytes, .. } = self.config.tasks;
        let disk = disk::disk(&self.config.state_dir, disk_reserve_bytes);
        if let (false, Some(disk)) = (paths.is_empty(), disk) {
            let trim = move || disk::trim_outputs(&paths, &disk, output_bytes);
            self.trimming = Some(tokio::task::spawn_blocking(trim).abort_handle());
        }
    }

    /// Has the output removed of tasks that have ended for long; nothing waits for that.
    pub(super) fn remove_old(&self) {
        let known: BTreeSet<String> = self.tasks.keys().map(ToString::to_string).collect();
        let (folder, retention) = (self.config.state_dir.clone(), self.config.tasks.output_retention);
        let remove = move || disk::remove_old(&folder, retention, |task| known.contains(task));
        drop(tokio::task::spawn_blocking(remove));
        let (program, folder) = (self.config.supervisor_program.clone(), self.config.state_dir.clone());
        let released = Released::all(&folder);
        if !released.is_empty() {
            drop(tokio::spawn(checkpoints::remove(program, folder, released, true)));
        }
    }

    /// Notes that the job of a checkpoint directory is over.
    pub(super) fn release_checkpoint(&mut self, message: ReleaseCheckpoint) {
        if self.config.rehearsal.is_some() {
            return;
        }
        match Released::note(&self.config.state_dir, message) {
            Ok(released) => self.released.extend(released),
            Err(error) => {
                self.reduced(format!("checkpoint directories of ended jobs are not removed: {error}"));
            }
        }
    }

    /// Removes empty checkpoint directories of jobs that have ended lately; nothing waits for that.
    pub(super) fn remove_released(&mut self) {
        let released = std::mem::take(&mut self.released);
        if !released.is_empty() {
            let (program, folder) = (self.config.supervisor_program.clone(), self.config.state_dir.clone());
            drop(tokio::spawn(checkpoints::remove(program, folder, released, false)));
        }
    }

    /// Has the stopped processes judged that claim to belong to running tasks, and reports once when a task has none any more.
    pub(super) fn on_stopped(&mut self, mut found: Claims) {
        if self.head.is_none() {
            return;
        }
        let mut without = Vec::new();
        for (&task, known) in self.tasks.iter_mut().filter(|(_, known)| known.exit.is_none()) {
            known.claims = found.remove(&task).unwrap_or_default();
            if known.claims.is_empty() {
                without.push(task);
            } else {
                self.supervisor.ask(Request::Locate { task });
            }
        }
        without.into_iter().for_each(|task| self.tell_stopped(task, Vec::new()));
    }

    /// Reports the stopped processes that are a task's own, now that its user is known.
    pub(super) fn judge_stopped(&mut self, task: TaskKey, process: Option<&TaskProcess>) {
        let Some(known) = self.tasks.get_mut(&task) else { return };
        let mut claims = std::mem::take(&mut known.claims);
        // A task that was located for another reason has none.
        if !claims.is_empty() {
            claims.retain(|claim| process.is_some_and(|process| claim.is_of(process)));
            self.tell_stopped(task, claims.into_iter().map(|claim| claim.process).collect());
        }
    }

    /// Reports a task's stopped processes to the head, or that it has none any more.
    fn tell_stopped(&mut self, task: TaskKey, stopped: Vec<StoppedProcess>) {
        let (Some(head), Some(known)) = (&self.head, self.tasks.get_mut(&task)) else { return };
        let had_some = std::mem::replace(&mut known.has_stopped, !stopped.is_empty());
        if had_some || known.has_stopped {
            let task = Some(task.into());
            head.send(from_worker::Message::Inspected(TaskInspected { task, stopped }));
        }
    }

    /// Sends the output of a task to the head.
    pub(super) fn send_output(&mut self, wanted: &SendOutput) -> Option<()> {
        if let Some(earlier) = self.outputs.remove(&wanted.request) {
            earlier.abort();
        }
        if wanted.stop {
            return Some(());
        }
        let task: TaskKey = wanted.task?.into();
        let head = self.head.as_ref()?;
        let ended = match self.tasks.get(&task) {
            Some(known) => known.ended.subscribe(),
            None => watch::Sender::new(true).subscribe(),
        };
        let sending = output::send(
            Wanted {
                request: wanted.request,
                path: output_file(&self.config.state_dir, task),
                offset: wanted.offset,
                follow: wanted.follow,
                ended,
                state_dir: self.config.state_dir.clone(),
                program: self.config.supervisor_program.clone(),
            },
            head.output.clone(),
        );
        self.outputs.retain(|_, running| !running.is_finished());
        self.outputs.insert(wanted.request, tokio::spawn(sending).abort_handle());
        Some(())
    }

    pub(super) fn end_outputs(&mut self) {
        for (_, running) in self.outputs.drain() {
            running.abort();
        }
    }
}
