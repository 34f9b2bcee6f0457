//! A task's name and end, as worker and supervisor know them.

use serde::{Deserialize, Serialize};
use wharf_proto::{Cause as WireCause, NodeFault, TaskEnded, TaskId};

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

/// Why a task ended, where that is not for its own program to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cause {
    /// The machine was cut off or restarted.
    Node,
    /// The file system of the worker's state directory is full.
    DiskFull,
    /// Its end was not seen, or the worker could not do its part.
    Worker,
    /// It had too little memory.
    Memory,
    /// Its program, folder, user or files could not be had.
    Launch,
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    /// As a shell tells it.
    pub(crate) code: i32,
    /// Why, in words; empty where the code says it all.
    pub(crate) error: String,
    /// Its lease was over or it was requested to stop, and it has more to do.
    #[serde(default)]
    pub(crate) interrupted: bool,
    /// It ended before it was requested to stop.
    #[serde(default)]
    pub(crate) by_itself: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cause: Option<Cause>,
    /// The signal that ended it; 0: none did.
    #[serde(default)]
    pub(crate) signal: i32,
}

/// Exit code of a task whose end was not observed.
const CODE_UNKNOWN: i32 = -1;

/// What a shell says of a command that cannot be run.
const CODE_REFUSED: i32 = 126;

impl Exit {
    pub(crate) fn code(code: i32) -> Self {
        Self { code, error: String::new(), interrupted: false, by_itself: false, cause: None, signal: 0 }
    }

    /// The end of a task that was not observed, or that was never started.
    pub(crate) fn lost(error: impl Into<String>) -> Self {
        Self { error: error.into(), cause: Some(Cause::Worker), ..Self::code(CODE_UNKNOWN) }
    }

    /// The end of a task that was stopped because its head may run it elsewhere by now.
    pub(crate) fn cut_off() -> Self {
        Self::of_node("the node was cut off from the head")
    }

    /// The end of a task that went down with its machine, or was parted from its head.
    pub(crate) fn of_node(error: impl Into<String>) -> Self {
        Self { cause: Some(Cause::Node), ..Self::lost(error) }
    }

    /// The end of a task that could not run as it should because the disk of the worker's state directory is full.
    pub(crate) fn disk_full(error: impl Into<String>) -> Self {
        Self { cause: Some(Cause::DiskFull), ..Self::lost(error) }
    }

    /// The end of a task for which the worker could not write a file of its own.
    pub(crate) fn of_file(error: &std::io::Error, what: &str) -> Self {
        let text = format!("{what}: {error}");
        if error.kind() == std::io::ErrorKind::StorageFull { Self::disk_full(text) } else { Self::lost(text) }
    }

    /// The end of a task that cannot be begun as its job wants it.
    pub(crate) fn refused(error: impl Into<String>) -> Self {
        Self::unlaunched(CODE_REFUSED, error)
    }

    /// The end of a task whose processes could not be started, as a shell tells it.
    pub(crate) fn unlaunched(code: i32, error: impl Into<String>) -> Self {
        Self { error: error.into(), cause: Some(Cause::Launch), ..Self::code(code) }
    }

    /// Whether the job had no part in it.
    pub(crate) fn is_blameless(&self) -> bool {
        self.code == CODE_UNKNOWN
    }

    /// As the head has to know it.
    pub(crate) fn wire_cause(&self) -> WireCause {
        match self.cause {
            None => WireCause::NoCause,
            Some(Cause::Node | Cause::DiskFull) => WireCause::NodeAway,
            Some(Cause::Worker) => WireCause::LostWorker,
            Some(Cause::Memory) => WireCause::OutOfMemory,
            Some(Cause::Launch) => WireCause::LaunchError,
        }
    }

    /// The fault of the node that the head has to know.
    pub(crate) fn node_fault(&self) -> NodeFault {
        match self.cause {
            Some(Cause::DiskFull) => NodeFault::DiskFull,
            _ => NodeFault::NoNodeFault,
        }
    }

    pub(crate) fn to_message(&self, task: TaskKey) -> TaskEnded {
        TaskEnded {
            task: Some(task.into()),
            exit_code: self.code,
            error: self.error.clone(),
            is_blameless: self.is_blameless(),
            interrupted: self.interrupted,
            by_itself: self.by_itself,
            cause: self.wire_cause().into(),
            signal: self.signal,
            node_fault: self.node_fault().into(),
        }
    }
}
