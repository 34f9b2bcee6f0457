//! The node agent: connects to a head, runs its tasks, and reports their states.
//!
//! A worker is two processes. The *agent* ([`run`]) speaks gRPC with the head and may be killed, upgraded and started again at
//! any time. The *keeper* ([`keeper_main`]) is a small process without an async runtime that is the parent of all tasks; it lives
//! in a session of its own, so that tasks and their exit codes outlast the agent at the price of one spawn per task. Both meet
//! at a socket in the state directory; who holds which fact:
//!
//! - the keeper: which tasks there are, their process groups, ends that the head has not acknowledged, latest progress, leases;
//! - the agent: the stream to the head, the environment of a task, streams of output.

mod agent;
mod batch;
mod checkpoints;
mod container;
mod descriptors;
mod devices;
mod door;
mod ending;
mod environment;
mod error;
mod exec;
mod fence;
mod head;
mod housekeeping;
mod identity;
mod keeper;
mod launch;
mod link;
mod lock;
mod mark;
mod output;
mod pace;
mod processes;
mod protocol;
mod ray;
mod settings;
mod stay;
mod step;
mod task;
#[cfg(test)]
mod testing;
mod trainer;

use std::path::PathBuf;
use std::time::Duration;

pub use batch::batch_main;
pub use container::{ContainerMount, ContainerRuntime, ContainerSettings};
pub use devices::{Inventory, Source, Watch, memory_gib, processors};
pub use ending::end_tasks;
pub use error::{KeeperError, WorkerError};
pub use exec::{BesideTask, beside_main, kept_main};
pub use keeper::{keeper_main, outlast_signals, stage_main};
pub use launch::interface::{UnknownInterface, check as check_network_interface};
pub use pace::pace_main;
pub use ray::ray_main;
pub use settings::TaskSettings;
pub use stay::Stay;
pub use step::{StepAnswer, StepReport, tell_step};

/// Whether this program is statically linked: it can then load no library, the NVIDIA driver's neither.
#[must_use]
pub const fn is_static() -> bool {
    cfg!(target_feature = "crt-static")
}

/// What a worker is and where its head is.
#[derive(Clone)]
pub struct WorkerConfig {
    /// The head's address, such as `https://127.0.0.1:7717`; `http://` is for heads in the same process.
    pub head: String,
    /// What the worker shows the head to be let in: a join token, not needed once it has joined. Never logged, never handed
    /// to tasks.
    pub token: String,
    /// The node's name, unique in the cluster.
    pub node: String,
    /// The type of its devices; `cpu` for slots without a device.
    pub device_type: String,
    /// How many devices it offers.
    pub devices: u32,
    /// Processors of the machine; 0 where that is not known.
    pub cpus: u32,
    /// Memory of the machine; 0 where that is not known.
    pub memory_gib: u32,
    /// The switch that it hangs on.
    pub switch: u32,
    /// The part of the cluster that it belongs to; empty where there are no parts.
    pub pool: String,
    /// What it is said to have, for jobs that ask for it by name.
    pub features: Vec<String>,
    /// Where other nodes of a gang reach it.
    pub address: String,
    /// Where it keeps its state; made if it is not there. A root worker's tasks of other users must be able
    /// to pass through the folders above it, or their progress is not heard.
    pub state_dir: PathBuf,
    /// The program that has the subcommands `keeper`, `beside`, `batch`, `pace` and `ray-node`; without one, this very program.
    pub keeper_program: Option<PathBuf>,
    /// Tasks are not run, but treated like this.
    pub rehearsal: Option<Rehearsal>,
    /// The interface that gangs talk through; without one, that which carries `address`.
    pub network_interface: Option<String>,
    /// Where its devices are known from, and how they are looked after.
    pub watch: Watch,
    /// What containers are run with, and what they get.
    pub containers: ContainerSettings,
    /// What tasks are granted.
    pub tasks: TaskSettings,
    /// When it leaves, where its machine is its own for a time only. It then also leaves, with its tasks, when it is requested to end.
    pub stay: Option<Stay>,
}

impl std::fmt::Debug for WorkerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerConfig")
            .field("head", &self.head)
            .field("token", &"(secret)")
            .field("node", &self.node)
            .field("device_type", &self.device_type)
            .field("devices", &self.devices)
            .field("cpus", &self.cpus)
            .field("memory_gib", &self.memory_gib)
            .field("switch", &self.switch)
            .field("pool", &self.pool)
            .field("address", &self.address)
            .field("state_dir", &self.state_dir)
            .field("keeper_program", &self.keeper_program)
            .field("rehearsal", &self.rehearsal)
            .field("network_interface", &self.network_interface)
            .field("watch", &self.watch)
            .field("containers", &self.containers)
            .field("tasks", &self.tasks)
            .field("stay", &self.stay)
            .finish()
    }
}

/// Behaviour of tasks that are not run, for measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rehearsal {
    /// They end at once, with 0.
    End,
    /// They seem to run until they are requested to stop.
    Hold,
}

/// What happens to a worker that its operator may want to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The head has let it in.
    Welcomed,
    /// The head is away; the tasks go on.
    HeadAway {
        /// What happened.
        reason: String,
        /// When it is tried again.
        retry_in: Duration,
    },
    /// A launch was ignored because a newer generation of the job is known.
    StaleLaunch {
        /// The job.
        job: u32,
        /// The generation that was to be launched.
        generation: u32,
        /// The newest one known.
        newest: u32,
    },
    /// The head sent something that makes no sense.
    BadMessage {
        /// What was wrong with it.
        what: &'static str,
    },
    /// The certificate was renewed.
    Renewed,
    /// The certificate could not be renewed; it is tried again.
    NotRenewed {
        /// What happened.
        reason: String,
    },
    /// The head was not heard of for so long that it may run the tasks elsewhere: they were requested to stop.
    CutOff,
    /// The keeper was gone and another was started.
    KeeperRestarted,
    /// Tasks run, but without something that they ask for; said once for each thing.
    Reduced {
        /// What, and why.
        what: String,
    },
    /// A device is broken, or is not any more.
    Device {
        /// Its number, as the head counts.
        index: u32,
        /// What is wrong with it; empty where it is well again.
        problem: String,
    },
    /// Its tasks are requested to stop, and it goes.
    Leaving {
        /// Why.
        reason: String,
    },
    /// Tasks share devices without NVIDIA's multi-process service, in turns.
    SharedInTurns {
        /// Why.
        reason: String,
    },
}

/// Runs a worker until `shutdown` is ready; running tasks go on after that and are found again by the next run.
pub async fn run(config: WorkerConfig, shutdown: impl Future<Output = ()>) -> Result<(), WorkerError> {
    run_with(config, shutdown, |_| ()).await
}

/// As [`run`], and tells what happens.
pub async fn run_with(
    config: WorkerConfig,
    shutdown: impl Future<Output = ()>,
    notice: impl FnMut(Notice),
) -> Result<(), WorkerError> {
    config.network_interface.as_deref().map_or(Ok(()), launch::interface::check)?;
    lock::prepare(&config.state_dir)?;
    let _held = lock::take(&config.state_dir).await?;
    let (keeper, hello) = link::Keeper::attach(&config).await?;
    let is_running = |task| hello.tasks.iter().any(|report| report.task == task && report.exit.is_none());
    // Before the head hears that such a task is over and has it run elsewhere.
    container::tidy(config.keeper_program.as_deref(), &config.state_dir, is_running).await;
    let (head, from_head) = head::connect(&config, hello.fence)?;
    let result = agent::Agent::new(config, keeper, hello, notice)?.serve(from_head, shutdown).await;
    head.abort();
    result
}
