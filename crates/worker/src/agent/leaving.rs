//! The end of an agent whose machine is its own for a time only.

use tokio::time::Instant;
use wharf_proto::{Leave, from_worker};

use super::Agent;
use super::lifetime::Phase;
use crate::Notice;
use crate::task::{Exit, TaskKey};

impl<N: FnMut(Notice)> Agent<N> {
    /// Does what its lifetime asks for now; returns whether it has ended.
    pub(super) fn check_lifetime(&mut self) -> bool {
        let now = Instant::now();
        for (task, exit) in self.departure.take_kept(now) {
            self.tell_ended(task, exit);
        }
        self.departure.on_tasks(self.tasks.is_empty(), now);
        if let Some(reason) = self.departure.reason(now) {
            self.leave(reason, false);
        }
        if !matches!(self.departure.phase, Phase::Leaving { .. }) {
            return self.departure.is_over(now);
        }
        // A head that is there says of each task that its end is known.
        let is_done = match &self.head {
            Some(_) => self.tasks.is_empty(),
            None => self.tasks.values().all(|known| known.exit.is_some()),
        };
        if is_done && self.head.is_some() {
            let reason = self.departure.leaving().to_owned();
            self.tell(from_worker::Message::Leave(Leave { reason, is_over: true }));
            self.departure.go(now);
            return false;
        }
        is_done
    }

    /// Tells the head that its jobs have to go elsewhere. If no head does so, the tasks are stopped from here.
    pub(super) fn leave(&mut self, reason: String, is_evicted: bool) {
        if self.departure.phase != Phase::Staying {
            return;
        }
        self.tell(from_worker::Message::Leave(Leave { reason: reason.clone(), is_over: false }));
        (self.notice)(Notice::Leaving { reason: reason.clone() });
        for (task, exit) in self.departure.leave(reason, is_evicted) {
            self.tell_ended(task, exit);
        }
        if is_evicted || self.head.is_none() {
            let running: Vec<TaskKey> =
                self.tasks.iter().filter(|(_, known)| known.exit.is_none()).map(|(&task, _)| task).collect();
            running.into_iter().for_each(|task| self.stop(task));
        }
    }

    /// Whether a task comes too late to be started; its end is told.
    pub(super) fn turns_away(&mut self, task: TaskKey) -> bool {
        if self.departure.phase == Phase::Staying || self.tasks.contains_key(&task) {
            return false;
        }
        self.tasks.insert(task, super::Known::new(None));
        self.tell_ended(task, Exit::of_node("the worker is leaving"));
        true
    }
}
