//! Containers: one neutral spec, and what each runtime is told for it.
//!
//! The agent decides what can be decided without touching anything ([`plan`]): runtime, devices, variables. The task's own process
//! does the rest, with the rights of the task's user ([`enter`]): it gets the image ready ([`image`]), makes the runtime's command
//! line ([`argv`]), and becomes it. Charliecloud and apptainer are then the task's processes themselves; docker and podman run
//! theirs elsewhere, so what is left of those is searched for by label when a task ends ([`engine`]).

mod api;
mod apptainer;
mod argv;
mod charliecloud;
mod direct;
mod docker;
mod engine;
mod enter;
mod image;
mod node;
mod plan;
mod prefer;
mod serve;
mod settings;
mod spec;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub(crate) use direct::{Direct, direct};
pub(crate) use engine::clean;
pub(crate) use enter::{before_switch, enter};
pub(crate) use node::{Idle, retire};
pub(crate) use plan::{PlanError, Planned, Wanted, misleads, plan};
pub(crate) use prefer::prefer;
pub use settings::{BadMount, ContainerMount, ContainerRuntime, ContainerSettings, UnknownRuntime};
pub(crate) use spec::{Mount, Network, Shm, Spec};

use crate::task::TaskKey;

/// What a task's process finds in its environment if it runs in a container: the runtime's name.
pub(crate) const RUNTIME_VARIABLE: &str = "WHARF_CONTAINER";
/// What commands in the task need to know of the engine, on the node only: an [`Engine`] as JSON.
pub(crate) const ENGINE_VARIABLE: &str = "WHARF_CONTAINER_ENGINE";

/// How an engine is asked about a task's container.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Engine {
    /// Its program and the options before its command; empty: there is only its socket.
    pub(crate) prefix: Vec<String>,
    /// The container of the node that the task is executed in; empty: the task has its own.
    pub(crate) name: String,
    /// What its own is found by.
    pub(crate) labels: Vec<String>,
    /// Where the task begins, within; empty where an earlier version of Wharf has started the task.
    #[serde(default)]
    pub(crate) workdir: String,
}

/// A process that is to run in a container, with everything that was decided beforehand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Contained {
    pub(crate) task: TaskKey,
    pub(crate) runtime: ContainerRuntime,
    /// The runtime's program and the options that always stand first; empty: it is not installed.
    pub(crate) program: Vec<String>,
    /// Where docker or podman listens, if that is not where they usually do.
    pub(crate) socket: Option<String>,
    pub(crate) spec: Spec,
    /// Variables for within whose values are in the environment of this process.
    pub(crate) names: Vec<String>,
    /// Variables for within that would mislead the runtime itself, or are others within.
    pub(crate) set: BTreeMap<String, String>,
    pub(crate) gpus: Gpus,
    /// What the task needs to see at the same path, beside the spec's own mounts.
    pub(crate) needs: Vec<Mount>,
    /// Where it begins, within.
    pub(crate) workdir: String,
    /// 0: as many as there are.
    pub(crate) cpus: u32,
    /// 0: as much as there is.
    pub(crate) memory_mib: u64,
    /// Whose job it is.
    pub(crate) owner: String,
    /// The worker that it belongs to.
    pub(crate) state_dir: PathBuf,
    /// What unpacked images may take; 0: what they need.
    pub(crate) cache_bytes: u64,
    /// Charliecloud's images get the driver's libraries.
    #[serde(default)]
    pub(crate) from_host: bool,
    /// It is a batch script that runs in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) script: Option<Script>,
    /// Known unavailable features.
    pub(crate) warnings: Vec<String>,
}

/// What a batch script has that other processes have not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Script {
    /// A file of the node that it reads; empty: nothing.
    pub(crate) input: PathBuf,
}

/// The devices of a placement, as runtimes have to be informed of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Gpus {
    #[default]
    None,
    /// By the driver's numbers.
    Nvidia(Vec<String>),
    Amd,
}

impl Contained {
    /// The file that it reads, where it reads one.
    pub(crate) fn input(&self) -> Option<&Path> {
        let script = self.script.as_ref()?;
        Some(script.input.as_path()).filter(|path| !path.as_os_str().is_empty())
    }

    /// Where the worker keeps what it knows of containers.
    pub(crate) fn folder(&self) -> PathBuf {
        self.state_dir.join("containers")
    }

    /// The task's labels, that its containers are found by.
    pub(crate) fn labels(&self) -> [String; 2] {
        [format!("wharf.worker={}", self.state_dir.display()), format!("wharf.task={}", self.task)]
    }

    /// Everything that the container gets mounted, in order.
    pub(crate) fn mounts(&self) -> impl Iterator<Item = &Mount> {
        self.needs.iter().chain(&self.spec.mounts)
    }
}
