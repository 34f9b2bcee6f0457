//! NVIDIA's multi-process service around tasks that share devices, so that their kernels run side by side instead of in turns.
//!
//! One control daemon for each worker, with its folders in the worker's own; started before the first task that shares, stopped
//! after the last. A marker for each such task lets the next agent know of them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use wharf_proto::LaunchTask;

use crate::WorkerConfig;
use crate::task::TaskKey;

const CONTROL: &str = "nvidia-cuda-mps-control";
/// The agent waits for it: a task must not start before the service.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Why tasks share devices without the service.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MpsError {
    #[error("{CONTROL} has no folder")]
    Folder(#[source] io::Error),
    #[error("{CONTROL} does not start in time")]
    Timeout,
    #[error("{CONTROL} cannot be started")]
    Start(#[source] io::Error),
    #[error("{CONTROL} does not start: {status}")]
    Failed { status: ExitStatus },
    #[error("its marker cannot be written")]
    Marker(#[source] io::Error),
}

/// The tasks that share devices, and the service that they do it with.
pub(crate) struct Sharing {
    folder: PathBuf,
    is_possible: bool,
    is_running: bool,
    tasks: BTreeSet<TaskKey>,
}

impl Sharing {
    /// Finds what an earlier agent has left.
    pub(crate) fn new(config: &WorkerConfig) -> Self {
        let folder = config.state_dir.join("mps");
        let tasks = markers(&folder);
        let is_possible = config.watch.source.is_nvidia();
        Self { is_running: !tasks.is_empty(), folder, is_possible, tasks }
    }

    /// Tasks that run no more, or never did, do not keep the service.
    pub(crate) fn keep_only(&mut self, is_running: impl Fn(TaskKey) -> bool) {
        let gone: Vec<TaskKey> = self.tasks.iter().copied().filter(|&task| !is_running(task)).collect();
        gone.into_iter().for_each(|task| self.ended(task));
    }

    /// Whether a launch needs the service. The service works for one user: not for tasks that run as another.
    pub(crate) fn concerns(&self, launch: &LaunchTask) -> bool {
        let is_other_user = nix::unistd::geteuid().is_root() && !matches!(launch.user.as_str(), "" | "root");
        launch.is_shared && self.is_possible && !is_other_user
    }

    /// Sees to it that the service runs, and adds what the task needs to find it.
    pub(crate) async fn begin(&mut self, task: TaskKey, launch: &mut LaunchTask) -> Result<(), MpsError> {
        if !self.is_running {
            self.start().await?;
        }
        let marked = fs::write(self.folder.join("tasks").join(task.to_string()), "");
        marked.map_err(MpsError::Marker)?;
        self.tasks.insert(task);
        for (name, path) in self.variables() {
            launch.env.insert(name.to_owned(), path.to_string_lossy().into_owned());
        }
        Ok(())
    }

    /// A task has ended; [`Self::settle`] does what follows from it.
    pub(crate) fn ended(&mut self, task: TaskKey) {
        if self.tasks.remove(&task) {
            // Without a service to keep the marker does no harm.
            let _ = fs::remove_file(self.folder.join("tasks").join(task.to_string()));
        }
    }

    /// Ends the service if it is not needed any more.
    pub(crate) async fn settle(&mut self) {
        if self.is_running && self.tasks.is_empty() {
            self.is_running = false;
            // One that does not hear is gone already, or is found running by the next start.
            let _ = tokio::time::timeout(TIME_LIMIT, self.quit()).await;
        }
    }

    fn variables(&self) -> [(&'static str, PathBuf); 2] {
        [
            ("CUDA_MPS_PIPE_DIRECTORY", self.folder.join("pipe")),
            ("CUDA_MPS_LOG_DIRECTORY", self.folder.join("log")),
        ]
    }

    fn control(&self) -> Command {
        let mut command = Command::new(CONTROL);
        // It serves all devices: which are whose is for each task's own variable to say.
        command.envs(self.variables()).env_remove("CUDA_VISIBLE_DEVICES").kill_on_drop(true);
        command
    }

    async fn start(&mut self) -> Result<(), MpsError> {
        for name in ["pipe", "log", "tasks"] {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(self.folder.join(name));
            made.map_err(MpsError::Folder)?;
        }
        // The daemon keeps what it inherits: pipes to it would never end.
        let mut command = self.control();
        command.arg("-d").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = tokio::time::timeout(TIME_LIMIT, command.status()).await;
        let status = status.map_err(|_| MpsError::Timeout)?;
        let status = status.map_err(MpsError::Start)?;
        // One that an agent before this one has left is as good.
        if !status.success() && !self.answers().await {
            return Err(MpsError::Failed { status });
        }
        self.is_running = true;
        Ok(())
    }

    async fn answers(&self) -> bool {
        matches!(tokio::time::timeout(TIME_LIMIT, self.tell("get_server_list\n")).await, Ok(Ok(true)))
    }

    async fn quit(&self) -> io::Result<bool> {
        self.tell("quit\n").await
    }

    async fn tell(&self, line: &str) -> io::Result<bool> {
        let mut command = self.control();
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(line.as_bytes()).await?;
        }
        Ok(child.wait().await?.success())
    }
}

fn markers(folder: &Path) -> BTreeSet<TaskKey> {
    let entries = fs::read_dir(folder.join("tasks")).into_iter().flatten().flatten();
    let key = |name: &str| {
        let (job, generation) = name.split_once('-')?;
        Some(TaskKey { job: job.parse().ok()?, generation: generation.parse().ok()? })
    };
    entries.filter_map(|entry| key(entry.file_name().to_str()?)).collect()
}
