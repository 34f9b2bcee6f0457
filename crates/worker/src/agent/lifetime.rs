//! How long a worker stays whose machine is its own for a time only, and what it does when that has ended.
//!
//! What ends such a worker from outside, such as a batch system, tells every process of it at the same moment, the tasks' included.
//! A task may therefore have ended before the agent knows why: ends are kept for a moment before they are told.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use wharf_proto::NO_JOB_CAME;

use crate::task::{Exit, TaskKey};

/// How long an end is kept: so long a signal may take from one process of a machine to the other.
const KEPT: Duration = Duration::from_millis(250);
/// How long the head may take to let it in, however soon it would leave afterwards.
const ENTRY: Duration = Duration::from_secs(60);
/// Time limit for the head's answer to a deregistration.
const DEREGISTER_TIMEOUT: Duration = Duration::from_secs(5);

/// When a worker leaves, other than by being killed. Its tasks are requested to stop, and their jobs run elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// It leaves when it has had nothing to do for so long.
    pub idle: Option<Duration>,
    /// It leaves at this moment.
    pub until: Option<SystemTime>,
}

/// How far a worker's leaving has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Staying,
    /// Its tasks are to end; why, and whether they are also ended externally.
    Leaving {
        reason: String,
        is_evicted: bool,
    },
    /// The head was informed that it is gone, and has until then to answer.
    Gone {
        until: Instant,
    },
}

/// A worker's lifetime, if it has an end.
pub(crate) struct Departure {
    lifetime: Option<Lifetime>,
    until: Option<Instant>,
    idle_since: Option<Instant>,
    is_welcome: bool,
    has_worked: bool,
    pub(crate) phase: Phase,
    kept: VecDeque<(Instant, TaskKey, Exit)>,
}

impl Departure {
    pub(crate) fn new(lifetime: Option<Lifetime>, now: Instant) -> Self {
        let left = |at: SystemTime| at.duration_since(SystemTime::now()).unwrap_or_default();
        let until = lifetime.and_then(|lifetime| lifetime.until).and_then(|at| now.checked_add(left(at)));
        Self {
            lifetime,
            until,
            idle_since: Some(now),
            is_welcome: false,
            has_worked: false,
            phase: Phase::Staying,
            kept: VecDeque::new(),
        }
    }

    /// Whether it leaves when it is requested to end, instead of only going away from its tasks.
    pub(crate) fn has_end(&self) -> bool {
        self.lifetime.is_some()
    }

    /// The head has let it in: from now on there may be something to do.
    pub(crate) fn on_welcome(&mut self, now: Instant) {
        if !self.is_welcome {
            self.is_welcome = true;
            self.idle_since = self.idle_since.map(|_| now);
        }
    }

    /// How long it may have nothing to do.
    fn patience(&self) -> Option<Duration> {
        let idle = self.lifetime?.idle?;
        Some(if self.is_welcome { idle } else { idle.max(ENTRY) })
    }

    /// Notes whether there is anything to do.
    pub(crate) fn on_tasks(&mut self, are_none: bool, now: Instant) {
        match (are_none, self.idle_since) {
            (true, None) => self.idle_since = Some(now),
            (false, _) => (self.idle_since, self.has_worked) = (None, true),
            _ => {}
        }
    }

    /// Why it is to leave now, if it is.
    pub(crate) fn reason(&self, now: Instant) -> Option<String> {
        if self.phase != Phase::Staying {
            return None;
        }
        if self.until.is_some_and(|until| until <= now) {
            return Some("its time limit on this machine is near".to_owned());
        }
        let idle = self.patience()?;
        let is_idle = self.idle_since.is_some_and(|since| since + idle <= now);
        let idle_s = idle.as_secs_f64();
        is_idle.then(|| match self.has_worked {
            true => format!("it was idle for {idle_s:.0} s"),
            false => format!("{NO_JOB_CAME} within {idle_s:.0} s"),
        })
    }

    /// When it has to be checked, if nothing happens before.
    pub(crate) fn due(&self) -> Option<Instant> {
        let kept = self.kept.front().map(|(due, ..)| *due);
        let next = match self.phase {
            Phase::Staying => {
                let idle = self.patience().zip(self.idle_since).map(|(idle, since)| since + idle);
                self.until.into_iter().chain(idle).min()
            }
            Phase::Leaving { .. } => None,
            Phase::Gone { until } => Some(until),
        };
        kept.into_iter().chain(next).min()
    }

    /// An end, as it is to be told now; `None` where it is kept for a moment.
    pub(crate) fn on_ended(&mut self, task: TaskKey, exit: Exit, now: Instant) -> Option<Exit> {
        match self.phase {
            Phase::Staying if self.has_end() && exit.by_itself => {
                self.kept.push_back((now + KEPT, task, exit));
                None
            }
            Phase::Leaving { is_evicted: true, .. } => Some(brought_about(exit)),
            _ => Some(exit),
        }
    }

    /// Ends that were kept long enough.
    pub(crate) fn take_kept(&mut self, now: Instant) -> Vec<(TaskKey, Exit)> {
        let count = self.kept.iter().take_while(|(due, ..)| *due <= now).count();
        self.kept.drain(..count).map(|(_, task, exit)| (task, exit)).collect()
    }

    /// It leaves from now on; returns the ends that were kept, as they are to be told.
    pub(crate) fn leave(&mut self, reason: String, is_evicted: bool) -> Vec<(TaskKey, Exit)> {
        self.phase = Phase::Leaving { reason, is_evicted };
        let told = |exit: Exit| if is_evicted { brought_about(exit) } else { exit };
        self.kept.drain(..).map(|(_, task, exit)| (task, told(exit))).collect()
    }

    /// Whether nothing is left to be done: the head has answered the deregistration, or its time limit has passed.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        matches!(self.phase, Phase::Gone { until } if until <= now)
    }

    /// Deregisters.
    pub(crate) fn go(&mut self, now: Instant) {
        self.phase = Phase::Gone { until: now + DEREGISTER_TIMEOUT };
    }

    /// The head has closed the stream; returns whether that was its answer.
    pub(crate) fn on_closed(&mut self, now: Instant) -> bool {
        let is_answer = matches!(self.phase, Phase::Gone { .. });
        if is_answer {
            self.phase = Phase::Gone { until: now };
        }
        is_answer
    }

    /// Why it leaves, for a head that has to be told again.
    pub(crate) fn leaving(&self) -> &str {
        match &self.phase {
            Phase::Leaving { reason, .. } => reason,
            Phase::Staying | Phase::Gone { .. } => "",
        }
    }
}

/// The end of a task that did not come to it by itself, whatever its code: it has more to do.
fn brought_about(exit: Exit) -> Exit {
    if exit.by_itself { Exit { interrupted: true, by_itself: false, ..exit } } else { exit }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: TaskKey = TaskKey { job: 1, generation: 1 };

    fn own_end(code: i32) -> Exit {
        Exit { by_itself: true, ..Exit::code(code) }
    }

    fn staying(idle_s: u64) -> (Departure, Instant) {
        let now = Instant::now();
        let lifetime = Lifetime { idle: Some(Duration::from_secs(idle_s)), until: None };
        let mut departure = Departure::new(Some(lifetime), now);
        assert_eq!(departure.due(), Some(now + ENTRY), "the head may take its time");
        departure.on_welcome(now);
        (departure, now)
    }

    #[test]
    fn worker_without_an_end_stays_and_reports_ends_at_once() {
        let now = Instant::now();
        let mut departure = Departure::new(None, now);
        assert!(!departure.has_end());
        assert_eq!(departure.due(), None);
        assert_eq!(departure.reason(now + Duration::from_secs(9999)), None);
        assert_eq!(departure.on_ended(TASK, own_end(0), now), Some(own_end(0)));
    }

    #[test]
    fn idle_counts_from_when_there_is_nothing_to_do() {
        let (mut departure, now) = staying(10);
        let after = |s| now + Duration::from_secs(s);
        departure.on_tasks(false, after(5));
        assert_eq!(departure.reason(after(30)), None);
        departure.on_tasks(true, after(40));
        departure.on_tasks(true, after(45));
        assert_eq!(departure.due(), Some(after(50)));
        assert_eq!(departure.reason(after(49)), None);
        assert_eq!(departure.reason(after(50)).as_deref(), Some("it was idle for 10 s"));
        departure.leave("enough".into(), false);
        assert_eq!(departure.reason(after(60)), None, "it is leaving already");
        assert_eq!(departure.leaving(), "enough");
    }

    #[test]
    fn end_that_an_eviction_brought_about_is_an_interruption() {
        let (mut departure, now) = staying(10);
        assert_eq!(departure.on_ended(TASK, own_end(143), now), None, "kept for a moment");
        assert_eq!(departure.take_kept(now), []);
        assert_eq!(departure.take_kept(now + KEPT), [(TASK, own_end(143))], "nothing came: it is its own");
        assert_eq!(departure.on_ended(TASK, own_end(0), now), None);
        let [(_, told)] = &departure.leave("scancel".into(), true)[..] else { panic!("it was kept") };
        assert!(told.interrupted && !told.by_itself);
        let told = departure.on_ended(TASK, own_end(143), now).unwrap();
        assert!(told.interrupted && told.code == 143);
        let stopped = Exit::code(143);
        assert_eq!(departure.on_ended(TASK, stopped.clone(), now), Some(stopped), "the head knows why");
    }
}
