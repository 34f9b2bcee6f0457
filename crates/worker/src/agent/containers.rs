//! What the worker does about containers beside its tasks: those of dead tasks are removed when it starts, those of the node when
//! they have not been used for long.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::container::Idle;
use crate::supervisor::{Act, Stage};
use crate::task::TaskKey;

/// Removes the containers of tasks that do not run any more.
pub(crate) async fn remove_ended(
    program: Option<&Path>,
    state_dir: &Path,
    is_running: impl Fn(TaskKey) -> bool,
) {
    for (path, stage) in marks(state_dir, false) {
        if !is_running(stage.task) && perform(program, state_dir, &stage).await {
            // One that stays is checked again.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Removes the node's containers that have not been used for this time.
pub(crate) async fn remove_idle(program: Option<&Path>, state_dir: &Path, idle: Duration) {
    for (path, mut stage) in marks(state_dir, true) {
        stage.act = Act::Retire(Idle::from(idle));
        if perform(program, state_dir, &stage).await {
            // One that stays is checked again.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// What was noted of tasks' containers, or of the node's.
fn marks(state_dir: &Path, is_node: bool) -> Vec<(PathBuf, Stage)> {
    let Ok(entries) = std::fs::read_dir(state_dir.join("containers")) else { return Vec::new() };
    let of_node =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("node-"));
    let paths = entries.flatten().map(|entry| entry.path()).filter(|path| of_node(path) == is_node);
    paths
        .filter_map(|path| {
            Some((path.clone(), serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()?))
        })
        .collect()
}

/// Has it done by a process of the user's; true if it is done.
async fn perform(program: Option<&Path>, state_dir: &Path, stage: &Stage) -> bool {
    let program = program.map(PathBuf::from).or_else(|| std::env::current_exe().ok());
    let Some(program) = program else { return false };
    let Ok(command) = stage.to_closing_command(&program, state_dir) else { return false };
    let mut command = tokio::process::Command::from(command);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().await;
    status.is_ok_and(|status| status.success())
}
