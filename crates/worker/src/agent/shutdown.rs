//! The end of a worker for good: its tasks are stopped, and its supervisor goes.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use super::containers;
use super::link::Supervisor;
use crate::error::WorkerError;
use crate::state_dir;
use crate::supervisor::protocol::{Event, Request};
use crate::task::TaskKey;

/// Stops all tasks of the worker whose state is in `state_dir`, and forgets them: a head that asks for them later runs them
/// again. Each has its grace, until `hurry` is ready: then what is left is killed.
///
/// # Errors
/// [`WorkerError`] where the worker still lives, or its supervisor does not answer.
pub async fn end_tasks(state_dir: &Path, hurry: impl Future<Output = ()>) -> Result<(), WorkerError> {
    let _held = state_dir::take(state_dir).await?;
    let Some((mut supervisor, hello)) = Supervisor::join(state_dir).await? else {
        return Ok(());
    };
    let mut open: BTreeSet<TaskKey> =
        hello.tasks.iter().filter(|report| report.exit.is_none()).map(|report| report.task).collect();
    let stopped = open.clone();
    for &task in &open {
        supervisor.ask(Request::Stop { task });
    }
    let mut hurry = std::pin::pin!(hurry);
    let mut is_hurried = false;
    while !open.is_empty() {
        tokio::select! {
            () = &mut hurry, if !is_hurried => {
                is_hurried = true;
                for &task in &open {
                    supervisor.ask(Request::Kill { task });
                }
            }
            event = supervisor.event() => match event {
                Some(Event::Ended { task, .. }) => drop(open.remove(&task)),
                Some(_) => {}
                None => break,
            },
        }
    }
    for task in stopped {
        supervisor.ask(Request::Forget { task });
    }
    supervisor.quit().await;
    containers::remove_ended(None, state_dir, |_| false).await;
    containers::remove_idle(None, state_dir, Duration::ZERO).await;
    Ok(())
}
