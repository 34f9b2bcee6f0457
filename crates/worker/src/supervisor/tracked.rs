//! A task as the supervisor knows it: what the journal has of it, its processes, and what its trainer said.

use std::time::{Duration, Instant, SystemTime};

use wharf_curve::Curves;

use super::journal::Recorded;
use super::running::{Running, StopSettings};
use super::trainers::Step;
use crate::supervisor::protocol::Progress;
use crate::task::Exit;
use crate::trainer::{Trainer, Word};

/// Progress of one task is told at most this often.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// The same where a checkpoint was saved: what comes after it is lost with the node, what came before must not be.
const SAVED_INTERVAL: Duration = Duration::from_millis(20);
/// The machine's clock may be set while a lease runs, so its end is checked again after this long.
const LEASE_LOOK_MAX: Duration = Duration::from_secs(60);

pub(super) struct Task {
    pub(super) recorded: Recorded,
    /// None when it has ended: then `recorded` has its exit.
    pub(super) running: Option<Running>,
    pub(super) progress: Option<Progress>,
    pub(super) curves: Curves,
    progress_due: Option<Instant>,
    progress_told: Option<Instant>,
    /// Its trainer said that it ends because it has to, and has more to do.
    pub(super) said_stopped: bool,
    /// It was stopped because its lease was over.
    pub(super) overstayed: bool,
    /// It was stopped because the worker was cut off from the head.
    pub(super) is_fenced: bool,
}

impl Task {
    pub(super) fn new(recorded: Recorded, running: Option<Running>) -> Self {
        Self {
            recorded,
            running,
            progress: None,
            curves: Curves::default(),
            progress_due: None,
            progress_told: None,
            said_stopped: false,
            overstayed: false,
            is_fenced: false,
        }
    }

    /// What its trainer has to know; none when it has ended.
    pub(super) fn word(&self) -> Option<Word> {
        let stop = self.running.as_ref()?.is_stopping();
        let Trainer { token, lease, pace } = self.recorded.trainer.clone();
        Some(Word { token, lease, stop, pace })
    }

    /// Takes what its trainer tells; true if there is something to pass on.
    pub(super) fn on_step(&mut self, step: &Step, now: Instant) -> bool {
        self.said_stopped |= step.stopped;
        let Some(progress) = step.progress(self.progress.as_ref()) else { return false };
        let now_s =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        step.add_points(&progress, now_s, &mut self.curves);
        let is_saved =
            self.progress.as_ref().is_none_or(|before| progress.checkpointed > before.checkpointed);
        self.progress = Some(progress);
        let interval = if is_saved { SAVED_INTERVAL } else { PROGRESS_INTERVAL };
        let due = self.progress_told.map_or(now, |told| (told + interval).max(now));
        self.progress_due = Some(self.progress_due.map_or(due, |other| other.min(due)));
        true
    }

    /// Progress that is due to be passed on.
    pub(super) fn take_progress(&mut self, now: Instant, at_once: bool) -> Option<Progress> {
        self.progress_due.filter(|due| at_once || *due <= now)?;
        self.progress_due = None;
        self.progress_told = Some(now);
        self.progress.clone()
    }

    /// How long until it has overstayed its lease by its grace; none if that cannot be or it was requested to stop anyway.
    pub(super) fn overstay_left(&self) -> Option<Duration> {
        let word = self.word().filter(|word| !word.stop)?;
        let grace = Duration::from_millis(self.recorded.grace_ms);
        // The grace is taken from the clock, not added to the lease, so that zero means that it has ended.
        word.lease.time_left(SystemTime::now().checked_sub(grace)?)
    }

    /// Its end as the head has to know it, from how its processes ended.
    pub(super) fn judged(&self, exit: Exit) -> Exit {
        if self.is_fenced {
            return Exit::cut_off();
        }
        let interrupted = self.overstayed || (self.said_stopped && exit == Exit::code(0));
        let by_itself = self.running.as_ref().is_some_and(|running| !running.is_stopping());
        Exit { interrupted, by_itself, ..exit }
    }

    pub(super) fn next_look(&self, now: Instant) -> Option<Instant> {
        let processes = self.running.as_ref().and_then(|running| running.next_look(now));
        let lease = self.overstay_left().map(|left| now + left.min(LEASE_LOOK_MAX));
        processes.into_iter().chain(self.progress_due).chain(lease).min()
    }
}

impl Recorded {
    pub(super) fn stop_settings(&self) -> StopSettings {
        StopSettings { stop_signal: self.stop_signal, grace_ms: self.grace_ms }
    }
}
