//! A Ray node instead of a command: what it is told, from what the head says and what the task has.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use wharf_proto::{LaunchTask, Ray};

use super::own_program;
use crate::WorkerConfig;
use crate::devices;
use crate::launch::environment;
use crate::ray::{Plan, TOKEN};
use crate::supervisor::protocol::Start;

/// How long a cluster may take to come up: this, and this for each node.
const READY_MS: u64 = 120_000;
const READY_MS_PER_NODE: u64 = 2_000;
/// Of a task's memory, Ray's object store has three tenths, as Ray itself has it of the machine's.
const STORE_TENTHS: u64 = 3;
/// Ray refuses less.
const STORE_BYTES_MIN: u64 = 80 << 20;

/// What stands before the job's command, and what its environment has to have.
pub(super) struct Node {
    words: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
}

impl Node {
    /// For a task whose environment is filled in already.
    pub(super) fn of(config: &WorkerConfig, launch: &LaunchTask, start: &Start) -> io::Result<Self> {
        let settings = launch.ray.clone().unwrap_or_default();
        let token = settings.token.clone();
        let plan = plan(config, launch, start, settings);
        let words = vec![
            own_program(config)?,
            "ray-node".to_owned(),
            "--plan".to_owned(),
            serde_json::to_string(&plan)?,
            "--".to_owned(),
        ];
        let token = (!token.is_empty()).then_some((TOKEN.to_owned(), token));
        Ok(Self { words, env: token.into_iter().collect() })
    }

    /// The node, and the command that it runs.
    pub(super) fn before(&self, command: &[String]) -> Vec<String> {
        [&self.words, command].concat()
    }
}

fn plan(config: &WorkerConfig, launch: &LaunchTask, start: &Start, ray: Ray) -> Plan {
    let devices = u32::try_from(launch.devices.len()).unwrap_or(u32::MAX);
    let cpus = ray.cpus.or_else(|| environment::processors_of(config, launch)).unwrap_or(devices.max(1));
    let own_gpus = if devices::are_gpus(config) { devices } else { 0 };
    let memory = memory_bytes(config, launch);
    let store = match ray.object_store_bytes {
        0 if memory == 0 => 0,
        0 => (memory / 10 * STORE_TENTHS).max(STORE_BYTES_MIN),
        asked => asked,
    };
    let memory = if ray.memory_bytes == 0 { memory.saturating_sub(store) } else { ray.memory_bytes };
    let ready_ms = READY_MS + READY_MS_PER_NODE * u64::from(launch.ranks);
    let named = |text: String, usual: &str| if text.is_empty() { usual.to_owned() } else { text };
    Plan {
        job: start.task.job,
        generation: start.task.generation,
        rank: launch.rank,
        ranks: launch.ranks.max(1),
        addresses: launch.addresses.clone(),
        port: start.env.get("MASTER_PORT").and_then(|port| port.parse().ok()).unwrap_or_default(),
        program: named(ray.program, "ray"),
        cpus,
        gpus: ray.gpus.unwrap_or(own_gpus),
        object_store_bytes: store,
        memory_bytes: memory,
        arguments: if launch.rank == 0 { ray.head_args } else { ray.worker_args },
        temp_dir: (!ray.temp_dir.is_empty()).then(|| PathBuf::from(ray.temp_dir)),
        dashboard: (!ray.no_dashboard).then(|| named(ray.dashboard_host, "127.0.0.1")),
        // Saturates where it is absurd.
        ready_ms: if ray.ready_timeout_s > 0.0 { (ray.ready_timeout_s * 1000.0) as u64 } else { ready_ms },
        grace_ms: start.grace_ms,
        has_threads: launch.env.contains_key("OMP_NUM_THREADS"),
    }
}

/// What the task may use: as much as it asks for, or else the same part of the machine's as of its devices.
fn memory_bytes(config: &WorkerConfig, launch: &LaunchTask) -> u64 {
    let devices = launch.devices.len() as u64;
    match launch.memory_mib {
        0 if config.devices == 0 => 0,
        0 => (u64::from(config.memory_gib) << 30) / u64::from(config.devices) * devices,
        asked => asked << 20,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::protocol::Confinement;
    use crate::task::TaskKey;
    use crate::testing::config;
    use crate::trainer::Trainer;

    fn start() -> Start {
        Start {
            task: TaskKey { job: 7, generation: 2 },
            steps: Vec::new(),
            env: [("MASTER_PORT".to_owned(), "20007".to_owned())].into(),
            workdir: PathBuf::new(),
            output: PathBuf::new(),
            error_output: PathBuf::new(),
            files: crate::supervisor::protocol::OpenMode::default(),
            checkpoint_dir: PathBuf::new(),
            checkpoint_setup: Default::default(),
            port: 0,
            confinement: Confinement::default(),
            stop_signal: 0,
            grace_ms: 10_000,
            trainer: Trainer::default(),
            disk_reserve_bytes: 0,
            refused: None,
        }
    }

    fn launch(ray: Ray) -> LaunchTask {
        LaunchTask {
            rank: 1,
            ranks: 3,
            devices: vec![0, 1],
            addresses: ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(String::from).into(),
            ray: Some(ray),
            ..LaunchTask::default()
        }
    }

    #[test]
    fn ray_node_resources_default_to_those_of_the_task() {
        let worker = WorkerConfig { memory_gib: 40, ..config("v100") };
        let plan = |launch: &LaunchTask| super::plan(&worker, launch, &start(), launch.ray.clone().unwrap());
        let usual = plan(&launch(Ray::default()));
        assert_eq!((usual.cpus, usual.gpus, usual.port), (8, 2, 20_007));
        assert_eq!((usual.object_store_bytes, usual.memory_bytes), (6 << 30, 14 << 30));
        assert_eq!((usual.ready_ms, usual.dashboard.as_deref()), (126_000, Some("127.0.0.1")));
        assert_eq!((usual.program.as_str(), &usual.temp_dir), ("ray", &None));
        let asked = LaunchTask { cpus: 3, memory_mib: 1000, ..launch(Ray::default()) };
        let asked = plan(&asked);
        assert_eq!((asked.cpus, asked.object_store_bytes + asked.memory_bytes), (3, 1000 << 20));
        let told = plan(&launch(Ray {
            program: "/opt/ray".into(),
            cpus: Some(1),
            gpus: Some(0),
            object_store_bytes: 5,
            memory_bytes: 6,
            head_args: vec!["--head-only".into()],
            worker_args: vec!["--labels=a=b".into()],
            temp_dir: "/scratch".into(),
            no_dashboard: true,
            ready_timeout_s: 1.5,
            ..Ray::default()
        }));
        assert_eq!((told.cpus, told.gpus, told.object_store_bytes, told.memory_bytes), (1, 0, 5, 6));
        assert_eq!((told.arguments.join(" ").as_str(), told.ready_ms), ("--labels=a=b", 1500));
        assert_eq!((told.dashboard, told.temp_dir), (None, Some("/scratch".into())));
        assert_eq!(plan(&launch(Ray::default())), usual);
        assert_eq!(super::plan(&config("cpu"), &launch(Ray::default()), &start(), Ray::default()).gpus, 0);
    }

    #[test]
    fn the_token_is_not_among_the_words() {
        let ray = Ray { token: "hush-hush".into(), ..Ray::default() };
        let node = Node::of(&config("cpu"), &launch(ray), &start()).unwrap();
        let words = node.before(&["python".to_owned(), "train.py".to_owned()]);
        assert_eq!(words.last().map(String::as_str), Some("train.py"));
        assert!(!words.iter().any(|word| word.contains("hush-hush")), "{words:?}");
        assert_eq!(node.env.get(TOKEN).map(String::as_str), Some("hush-hush"));
    }
}
