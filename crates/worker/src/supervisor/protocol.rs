//! What agent and supervisor say to each other: one JSON value a line over a stream socket, and where their files are.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wharf_curve::{Number, Points, Refused};

use crate::checkpoints::CheckpointSetup;
use crate::container::Contained;
use crate::task::{Exit, TaskKey};
use crate::trainer::{Lease, Pace, Trainer};

/// Raised with every change that an older peer would misunderstand.
pub(crate) const PROTOCOL: u32 = 4;

/// What the agent asks for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    Start(Box<Start>),
    Stop {
        task: TaskKey,
    },
    /// End it at once, whatever grace it has.
    Kill {
        task: TaskKey,
    },
    /// The head has acknowledged the end.
    Forget {
        task: TaskKey,
    },
    /// State which process is the task's.
    Locate {
        task: TaskKey,
    },
    /// Send a signal to the task's first process, or to all of the group that it leads.
    Signal {
        task: TaskKey,
        signal: i32,
        group: bool,
    },
    /// A task may run longer, or less long, than it was told before.
    Renew {
        task: TaskKey,
        lease: Lease,
    },
    /// A paced task is faster or slower from now on.
    Pace {
        task: TaskKey,
        pace: Pace,
    },
    /// How long a worker that is cut off waits before its tasks are stopped.
    Fence(Fence),
    /// The worker is cut off from the head: all tasks are stopped.
    CutOff,
    /// End, if nothing runs.
    Quit,
}

/// When tasks are stopped because the worker is cut off: soon after that the head runs them elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fence {
    /// 0: never.
    pub(crate) after_ms: u64,
    /// What they have left then, from the signal to the kill.
    pub(crate) grace_ms: u64,
}

impl Fence {
    /// As the head says it; nonsense is never.
    pub(crate) fn new(after_s: f64, grace_s: f64) -> Self {
        let ms = |seconds: f64| {
            let duration = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            u64::try_from(duration.as_millis()).unwrap_or(0)
        };
        Self { after_ms: ms(after_s), grace_ms: ms(grace_s) }
    }

    /// How long the worker may be cut off; none: as long as it likes.
    pub(crate) fn after(&self) -> Option<Duration> {
        (self.after_ms > 0).then(|| Duration::from_millis(self.after_ms))
    }
}

/// A task to be started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) task: TaskKey,
    /// One after the other, until one fails.
    pub(crate) steps: Vec<Step>,
    /// Beside what the supervisor has in its own environment.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) workdir: PathBuf,
    /// Empty: the supervisor's own file.
    pub(crate) output: PathBuf,
    /// Empty: with the output.
    pub(crate) error_output: PathBuf,
    /// How those are opened.
    #[serde(default)]
    pub(crate) files: OpenMode,
    /// Made if it is not there; empty: none is asked for.
    pub(crate) checkpoint_dir: PathBuf,
    /// How it is created.
    #[serde(default)]
    pub(crate) checkpoint_setup: CheckpointSetup,
    /// Kept free for the task until it runs; 0: none.
    pub(crate) port: u16,
    pub(crate) confinement: Confinement,
    pub(crate) stop_signal: i32,
    pub(crate) grace_ms: u64,
    pub(crate) trainer: Trainer,
    /// What has to be free on the disk of the state directory for it to be started.
    #[serde(default)]
    pub(crate) disk_reserve_bytes: u64,
    /// Why it cannot be started: recorded as its end, so that the head learns it even if the agent dies now.
    pub(crate) refused: Option<Exit>,
}

/// How a task's output files are opened; by default they are added to, and their folders are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenMode {
    /// What was in them is thrown away.
    pub(crate) is_anew: bool,
    /// Their folders have to be there.
    pub(crate) needs_folder: bool,
}

/// Processes that run at the same time: most steps have one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// Written above its output; empty where there is only one step.
    pub(crate) name: String,
    pub(crate) processes: Vec<Process>,
}

/// A process, and what it has in its environment beside the rest of the task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) command: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    /// What it runs in; none: on the node itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) container: Option<Box<Contained>>,
}

/// What a task is kept within. By default nothing, and then it costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Confinement {
    /// Who it runs as, where that is not the worker's own user.
    pub(crate) user: Option<String>,
    pub(crate) limits: Vec<Limit>,
    /// The highest values that a limit may have, as the site grants them.
    #[serde(default)]
    pub(crate) max_limits: Vec<Limit>,
    /// The device nodes that it may not open.
    #[serde(default)]
    pub(crate) denied_devices: Vec<PathBuf>,
    /// 0: as many as there are.
    pub(crate) cpus: u32,
    /// 0: as much as there is.
    pub(crate) memory_mib: u64,
}

impl Confinement {
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Start {
    /// Whether any of its processes runs in a container.
    pub(crate) fn is_contained(&self) -> bool {
        self.processes().any(|process| process.container.is_some())
    }

    /// Whether any of its processes runs in a container that outlives tasks.
    pub(crate) fn is_per_node(&self) -> bool {
        self.processes()
            .filter_map(|process| process.container.as_ref())
            .any(|contained| contained.spec.per_node)
    }

    /// A container that outlives its task's process, if it has any.
    pub(crate) fn engine(&self) -> Option<&Contained> {
        let containers = self.processes().filter_map(|process| process.container.as_deref());
        containers.into_iter().find(|contained| contained.runtime.is_engine())
    }

    fn processes(&self) -> impl Iterator<Item = &Process> {
        self.steps.iter().flat_map(|step| &step.processes)
    }
}

/// A resource limit by the name that `ulimit` and limits.conf have for it, in bytes, seconds or pieces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limit {
    pub(crate) name: String,
    /// None: unlimited.
    pub(crate) value: Option<u64>,
}

/// What the supervisor tells.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Event {
    /// The first line on every connection.
    Hello(Hello),
    Started {
        task: TaskKey,
    },
    Ended {
        task: TaskKey,
        exit: Exit,
    },
    /// A newer generation of the job is known; nothing was started.
    Stale {
        task: TaskKey,
        newest: u32,
    },
    Progress {
        task: TaskKey,
        progress: Progress,
        /// Points of metrics that were not sent before.
        #[serde(default)]
        points: Points,
        #[serde(default)]
        refused: Refused,
    },
    /// A feature requested by tasks is not available on this machine; reported once.
    Reduced {
        what: String,
    },
    /// The task's process; none where it does not run.
    Located {
        task: TaskKey,
        process: Option<TaskProcess>,
    },
}

/// The account that a task's processes are started as. What they are later, such as a program with the set-user-ID bit, does not
/// change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// A process of a task, for commands that run beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TaskProcess {
    pub(crate) pid: i32,
    /// When it was started, in the kernel's unit: together with the number, it is this process only.
    pub(crate) start_time: u64,
    /// None: started by an earlier version, which did not record it.
    pub(crate) account: Option<Account>,
    /// The files to enter the task's cgroups by.
    pub(crate) cgroups: Vec<PathBuf>,
    /// The device nodes that the task may not open.
    pub(crate) denied_devices: Vec<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) protocol: u32,
    pub(crate) pid: u32,
    pub(crate) tasks: Vec<TaskReport>,
    /// As an earlier agent has said.
    pub(crate) fence: Fence,
}

/// A task that the supervisor knows.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TaskReport {
    pub(crate) task: TaskKey,
    /// None while it runs.
    pub(crate) exit: Option<Exit>,
    pub(crate) progress: Option<Progress>,
    /// All points of its metrics.
    #[serde(default)]
    pub(crate) points: Points,
    #[serde(default)]
    pub(crate) refused: Refused,
}

impl TaskReport {
    /// Of a task that has not begun.
    pub(crate) fn new(task: TaskKey) -> Self {
        Self { task, exit: None, progress: None, points: Points::new(), refused: Refused::default() }
    }
}

/// How far a job has come, in iterations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) iterations: f64,
    /// What its last checkpoint holds.
    pub(crate) checkpointed: f64,
    /// The latest values of anything else.
    pub(crate) metrics: BTreeMap<String, Number>,
    /// Iterations that the trainer intends to make; 0: not reported.
    #[serde(default)]
    pub(crate) total: f64,
}

/// Appends a value and the end of its line.
pub(crate) fn write_line<T: Serialize>(buffer: &mut Vec<u8>, value: &T) -> io::Result<()> {
    serde_json::to_writer(&mut *buffer, value)?;
    buffer.push(b'\n');
    Ok(())
}

/// Where the supervisor listens. The names of its files are those of the first version: an upgraded worker finds a running supervisor, and
/// its record of tasks, by them.
pub(crate) fn supervisor_socket(state_dir: &Path) -> PathBuf {
    state_dir.join("keeper.sock")
}

pub(crate) fn progress_socket(state_dir: &Path) -> PathBuf {
    state_dir.join("progress.sock")
}

pub(crate) fn supervisor_log(state_dir: &Path) -> PathBuf {
    state_dir.join("keeper.log")
}

/// Where a task's output is, or a link to it. It stays when the task is forgotten.
pub(crate) fn output_file(state_dir: &Path, task: TaskKey) -> PathBuf {
    state_dir.join("tasks").join(format!("{task}.out"))
}

/// Where a task's containers are noted until its end, so that none is left behind.
pub(crate) fn container_mark(state_dir: &Path, task: TaskKey) -> PathBuf {
    state_dir.join("containers").join(format!("{task}.json"))
}

/// Where a container of the node is noted until it is removed.
pub(crate) fn node_mark(state_dir: &Path, name: &str) -> PathBuf {
    state_dir.join("containers").join(format!("node-{}.json", name.replace('/', "-")))
}

/// Whether a container of the node is noted.
pub(crate) fn has_node_mark(state_dir: &Path) -> bool {
    let entries = std::fs::read_dir(state_dir.join("containers")).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with("node-"))
}

/// Where a task's process states why it could not begin, before it is the task's.
pub(crate) fn refusal_file(state_dir: &Path, task: TaskKey) -> PathBuf {
    state_dir.join("tasks").join(format!("{task}.refused"))
}
