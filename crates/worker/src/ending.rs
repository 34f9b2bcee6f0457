//! The end of a worker for good: its tasks are stopped, and its keeper goes.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use crate::container;
use crate::error::WorkerError;
use crate::link::Keeper;
use crate::lock;
use crate::protocol::{Event, Request};
use crate::task::TaskKey;

/// Stops all tasks of the worker whose state is in `state_dir`, and forgets them: a head that asks for them later runs them
/// again. Each has its grace, until `hurry` is ready: then what is left is killed.
///
/// # Errors
/// [`WorkerError`] where the worker still lives, or its keeper does not answer.
pub async fn end_tasks(state_dir: &Path, hurry: impl Future<Output = ()>) -> Result<(), WorkerError> {
    let _held = lock::take(state_dir).await?;
    let Some((mut keeper, hello)) = Keeper::join(state_dir).await? else {
        return Ok(());
    };
    let mut open: BTreeSet<TaskKey> =
        hello.tasks.iter().filter(|report| report.exit.is_none()).map(|report| report.task).collect();
    let stopped = open.clone();
    for &task in &open {
        keeper.ask(Request::Stop { task });
    }
    let mut hurry = std::pin::pin!(hurry);
    let mut is_hurried = false;
    while !open.is_empty() {
        tokio::select! {
            () = &mut hurry, if !is_hurried => {
                is_hurried = true;
                for &task in &open {
                    keeper.ask(Request::Kill { task });
                }
            }
            event = keeper.event() => match event {
                Some(Event::Ended { task, .. }) => drop(open.remove(&task)),
                Some(_) => {}
                None => break,
            },
        }
    }
    for task in stopped {
        keeper.ask(Request::Forget { task });
    }
    keeper.quit().await;
    container::tidy(None, state_dir, |_| false).await;
    container::retire_all(None, state_dir, Duration::ZERO).await;
    Ok(())
}
