//! The agent from its start to its end.

use super::link::Supervisor;
use super::{Agent, containers, head};
use crate::error::WorkerError;
use crate::launch::interface;
use crate::{Notice, WorkerConfig, state_dir};

/// Runs a worker until `shutdown` is ready; running tasks continue after that and are found again by the next run.
pub async fn run(config: WorkerConfig, shutdown: impl Future<Output = ()>) -> Result<(), WorkerError> {
    run_with(config, shutdown, |_| ()).await
}

/// As [`run`], and reports what happens to `notice`.
pub async fn run_with(
    config: WorkerConfig,
    shutdown: impl Future<Output = ()>,
    mut notice: impl FnMut(Notice),
) -> Result<(), WorkerError> {
    let notice = move |event: Notice| {
        tracing::debug!(notice = ?event, "state of the worker changed");
        notice(event);
    };
    config.network_interface.as_deref().map_or(Ok(()), interface::check)?;
    state_dir::prepare(&config.state_dir)?;
    let _held = state_dir::take(&config.state_dir).await?;
    let (supervisor, hello) = Supervisor::attach(&config).await?;
    let is_running = |task| hello.tasks.iter().any(|report| report.task == task && report.exit.is_none());
    // Before the head hears that such a task has ended and has it run elsewhere.
    containers::remove_ended(config.supervisor_program.as_deref(), &config.state_dir, is_running).await;
    let (head, from_head) = head::connect(&config, hello.fence)?;
    let result = Agent::new(config, supervisor, hello, notice)?.serve(from_head, shutdown).await;
    head.abort();
    result
}
