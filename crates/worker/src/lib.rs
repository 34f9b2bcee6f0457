//! The node agent: connects to a head, runs its tasks, and reports their states.
//!
//! A worker is two processes. The *agent* ([`run`]) exchanges gRPC messages with the head and may be killed, upgraded and started
//! again at any time. The *supervisor* ([`supervisor_main`]) is a small process without an async runtime that is the parent of all
//! tasks; it lives in a session of its own, so that tasks and their exit codes outlast the agent at the price of one spawn per
//! task. Both connect over a socket in the state directory. Each fact has one owner:
//!
//! - the supervisor: tasks, their process groups, ends that the head has not acknowledged, latest progress, leases;
//! - the agent: the stream to the head, the environment of a task, streams of output.
//!
//! | module | contents |
//! |---|---|
//! | `agent` | the loop between head and supervisor, the connections to both, the worker's end |
//! | `supervisor` | the parent of the tasks, and the protocol that the agent uses with it |
//! | `launch` | from the head's launch message to commands, environment, files and limits |
//! | `exec` | commands that clients run in a task |
//! | `devices` | devices of the machine: discovery, health, sharing |
//! | `trainer` | leases, pace and progress of a task's own program |

mod agent;
mod checkpoints;
mod config;
mod container;
mod descriptors;
mod devices;
mod disk;
mod error;
mod exec;
mod launch;
mod processes;
mod ray;
mod settings;
mod state_dir;
mod supervisor;
mod task;
#[cfg(test)]
mod testing;
mod trainer;

pub use agent::{Lifetime, end_tasks, run, run_with};
pub use config::{Notice, Rehearsal, WorkerConfig};
pub use container::{BadMount, ContainerMount, ContainerRuntime, ContainerSettings, UnknownRuntime};
pub use devices::{Inventory, Source, Watch, memory_gib, processors};
pub use error::{SupervisorError, WorkerError};
pub use exec::{SessionTask, exec_session_main, keyed_session_main};
pub use launch::batch::batch_main;
pub use launch::interface::{UnknownInterface, check as check_network_interface};
pub use ray::ray_main;
pub use settings::TaskSettings;
pub use supervisor::{ignore_termination, stage_main, supervisor_main};
pub use trainer::{StepAnswer, StepReport, pace_main, tell_step};

/// Whether this program is statically linked: it can then load no library, including the NVIDIA driver's.
#[must_use]
pub const fn is_static() -> bool {
    cfg!(target_feature = "crt-static")
}
