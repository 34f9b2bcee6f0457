//! Why commands cannot be run beside tasks.

use std::io;

/// Why a command does not run beside a task.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExecError {
    #[error("the task does not run on this node")]
    NoTask,
    #[error("the task's user is not recorded: an earlier version of Wharf started it")]
    NoAccount,
    #[error("there is no command")]
    NoCommand,
    #[error("cannot start it")]
    Start(#[source] io::Error),
    #[error("its key is not {digits} hexadecimal digits")]
    Key { digits: usize },
    /// The process that keeps a command.
    #[error("cannot reach it")]
    Unreachable(#[source] io::Error),
}

/// Why a command cannot be passed to a task's container engine.
#[derive(Debug, thiserror::Error)]
pub(super) enum EngineError {
    #[error("this node has the engine's socket only; install docker or podman there")]
    SocketOnly,
    #[error("cannot start `{program}`")]
    Start {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("it does not run yet {output}")]
    NotRunning { output: String },
}
