//! A task's name and end, as worker and keeper know them.

use serde::{Deserialize, Serialize};
use wharf_proto::{TaskEnded, TaskId};

/// One node's part of one placement of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct TaskKey {
    pub(crate) job: u32,
    pub(crate) generation: u32,
}

impl std::fmt::Display for TaskKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.job, self.generation)
    }
}

impl From<TaskId> for TaskKey {
    fn from(id: TaskId) -> Self {
        Self { job: id.job_id, generation: id.generation }
    }
}

impl From<TaskKey> for TaskId {
    fn from(key: TaskKey) -> Self {
        Self { job_id: key.job, generation: key.generation }
    }
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    /// As a shell tells it.
    pub(crate) code: i32,
    /// Why there is no real code; empty where there is one.
    pub(crate) error: String,
    /// Its lease was over or it was told to stop, and it has more to do.
    #[serde(default)]
    pub(crate) interrupted: bool,
    /// It ended before it was told to stop.
    #[serde(default)]
    pub(crate) by_itself: bool,
}

/// The code of a task whose end nobody saw.
const CODE_UNKNOWN: i32 = -1;

/// What a shell says of a command that cannot be run.
const CODE_REFUSED: i32 = 126;

impl Exit {
    pub(crate) fn code(code: i32) -> Self {
        Self { code, error: String::new(), interrupted: false, by_itself: false }
    }

    /// The end of a task that nobody saw ending, or that was never begun.
    pub(crate) fn lost(error: impl Into<String>) -> Self {
        Self { error: error.into(), ..Self::code(CODE_UNKNOWN) }
    }

    /// The end of a task that was stopped because its head may run it elsewhere by now.
    pub(crate) fn cut_off() -> Self {
        Self::lost("the node was cut off from the head")
    }

    /// The end of a task that cannot be begun as its job wants it.
    pub(crate) fn refused(error: impl Into<String>) -> Self {
        Self { error: error.into(), ..Self::code(CODE_REFUSED) }
    }

    /// Whether the job had no part in it.
    pub(crate) fn is_blameless(&self) -> bool {
        self.code == CODE_UNKNOWN
    }

    pub(crate) fn to_message(&self, task: TaskKey) -> TaskEnded {
        TaskEnded {
            task: Some(task.into()),
            exit_code: self.code,
            error: self.error.clone(),
            is_blameless: self.is_blameless(),
            interrupted: self.interrupted,
            by_itself: self.by_itself,
        }
    }
}
