//! Values of the contract as people read them.

use crate::{Cause, HistoryEntry, JobPhase, job_event};

impl HistoryEntry {
    /// What happened; `None` from heads without typed events.
    #[must_use]
    pub fn happened(&self) -> Option<&job_event::Event> {
        self.event.as_ref().and_then(|event| event.event.as_ref())
    }
}

impl JobPhase {
    /// The phase in a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::Placed => "placed",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed-out",
        }
    }
}

impl Cause {
    /// All that there are, but for none.
    pub const ALL: [Self; 10] = [
        Self::UserError,
        Self::NodeAway,
        Self::BrokenDevice,
        Self::TimeLimit,
        Self::Preemption,
        Self::LostWorker,
        Self::OutOfMemory,
        Self::LaunchError,
        Self::Request,
        Self::Stalled,
    ];

    /// Causes after which a job can be told how often to be run again.
    pub const RETRIED: [Self; 7] = [
        Self::UserError,
        Self::NodeAway,
        Self::BrokenDevice,
        Self::LostWorker,
        Self::OutOfMemory,
        Self::LaunchError,
        Self::Stalled,
    ];

    /// The cause in a word; empty where there is none.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NoCause => "",
            Self::UserError => "user",
            Self::NodeAway => "node",
            Self::BrokenDevice => "device",
            Self::TimeLimit => "time-limit",
            Self::Preemption => "preemption",
            Self::LostWorker => "lost-worker",
            Self::OutOfMemory => "out-of-memory",
            Self::LaunchError => "launch",
            Self::Request => "request",
            Self::Stalled => "stalled",
        }
    }

    /// The cause of that word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.word() == word)
    }

    /// Whether the machines are to blame, and not the job.
    #[must_use]
    pub fn is_infrastructure(self) -> bool {
        matches!(self, Self::NodeAway | Self::BrokenDevice | Self::LostWorker)
    }

    /// Whether the job itself failed.
    #[must_use]
    pub fn is_own(self) -> bool {
        matches!(self, Self::UserError | Self::OutOfMemory | Self::LaunchError)
    }
}
