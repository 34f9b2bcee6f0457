//! What a worker is started with, and what it reports to its operator.

use std::path::PathBuf;
use std::time::Duration;

use crate::agent::Lifetime;
use crate::container::ContainerSettings;
use crate::devices::Watch;
use crate::settings::TaskSettings;

/// What a worker is and where its head is.
#[derive(Clone)]
pub struct WorkerConfig {
    /// The head's address, such as `https://127.0.0.1:7717`; `http://` is for heads in the same process.
    pub head: String,
    /// Proof of identity for the head: a join token, not needed once it has joined. Never logged, never handed
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
    /// The program that has the subcommands `supervisor`, `exec-session`, `batch`, `pace` and `ray-node`; without one, this very program.
    pub supervisor_program: Option<PathBuf>,
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
    pub lifetime: Option<Lifetime>,
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
            .field("supervisor_program", &self.supervisor_program)
            .field("rehearsal", &self.rehearsal)
            .field("network_interface", &self.network_interface)
            .field("watch", &self.watch)
            .field("containers", &self.containers)
            .field("tasks", &self.tasks)
            .field("lifetime", &self.lifetime)
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
    /// The head is away; the tasks continue.
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
    /// The supervisor was gone and another was started.
    SupervisorRestarted,
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
