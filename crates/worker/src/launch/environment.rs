//! What a task finds in its environment.
//!
//! The job's own variables win over what is derived here, except those that say who a process is: which devices are its own,
//! its ranks, and what it is to Wharf ([`IDENTITY`]). A job that got hold of another's would fight it for devices, or wait
//! forever for ranks that do not exist.
//!
//! With one process for each device, each sees its own device only, as number 0 whatever its `LOCAL_RANK`: that is how frameworks
//! that know nothing of ranks do the right thing. Who wants to see all devices from every process uses torchrun.
//!
//! `MASTER_PORT` is the head's choice, different for all jobs of the cluster. Where the head has none, all ranks of a gang have to
//! agree without asking each other, so it follows from job and generation alone: one of [`PORTS`] from [`PORT_FIRST`], below Linux'
//! range of ephemeral ports and the blocks of Ray. In both cases the supervisor of rank 0 holds it until the task runs; a task that is alone and has no
//! port of the head takes any free one.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use wharf_proto::{LaunchTask, Launcher};

use crate::WorkerConfig;
use crate::devices;
use crate::launch::Counts;
use crate::supervisor::protocol::progress_socket;
use crate::task::TaskKey;

const PORT_FIRST: u16 = 12_000;
const PORTS: u64 = 8_000;
/// Coprime with `PORTS`, so that neighbouring jobs are apart and each has a few generations before it meets the next.
const PORT_STEP: u64 = 17;

/// Variables that a job cannot choose.
const IDENTITY: &[&str] = &[
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "WHARF_JOB_ID",
    "WHARF_JOB_NAME",
    "WHARF_GENERATION",
    "WHARF_RESTART",
    "WHARF_NODE",
    "WHARF_NODES",
    "WHARF_ADDRESSES",
    "WHARF_DEVICES",
    "WHARF_DEVICE_TYPE",
    "WHARF_DEVICE_COUNT",
    "WHARF_PIPELINE_STAGES",
    "WHARF_DATA_PARALLEL",
    "WHARF_TENSOR_PARALLEL",
    "WHARF_HOSTFILE",
    "WHARF_CHECKPOINT_DIR",
    "WHARF_CHECKPOINT_DEFAULT",
    "WHARF_ITERATIONS_DONE",
    "WHARF_PROGRESS_SOCKET",
    "WHARF_PROGRESS_TOKEN",
    "WHARF_TASK_HEAD",
    "WHARF_TASK_TOKEN_FILE",
    "WHARF_STOP_SIGNAL",
    "WHARF_LEASE_UNTIL_ITERATION",
    "WHARF_LEASE_UNTIL_S",
];

/// Of these, what mpirun's processes on other nodes have to know, too: it is the same there.
const FORWARDED: &[&str] = &[
    "WHARF_JOB_ID",
    "WHARF_JOB_NAME",
    "WHARF_GENERATION",
    "WHARF_RESTART",
    "WHARF_NODES",
    "WHARF_ADDRESSES",
    "WHARF_DEVICE_TYPE",
    "WHARF_DEVICE_COUNT",
    "WHARF_PIPELINE_STAGES",
    "WHARF_DATA_PARALLEL",
    "WHARF_TENSOR_PARALLEL",
    "WHARF_CHECKPOINT_DIR",
    "WHARF_CHECKPOINT_DEFAULT",
    "WHARF_ITERATIONS_DONE",
];

/// Why a task cannot be given its environment.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no port is free on this node for the task's MASTER_PORT")]
pub(crate) struct NoPort;

/// What the worker has found out or made for a task.
pub(crate) struct Surroundings<'a> {
    pub(crate) interface: Option<&'a str>,
    pub(crate) hostfile: &'a Path,
    pub(crate) checkpoint_dir: &'a Path,
    pub(crate) counts: Counts,
    /// The task runs as root.
    pub(crate) is_root: bool,
    /// What starts Open MPI's daemons on the other nodes, where the head lets it.
    pub(crate) mpi: Option<Mpi>,
}

/// How Open MPI reaches the other nodes of a gang.
pub(crate) struct Mpi {
    /// What it calls instead of ssh.
    pub(crate) agent: String,
    /// The file with the token that lets the agent in.
    pub(crate) token: PathBuf,
}

/// All variables that a task has beside the worker's own, and the port to be held for it (0: none).
pub(crate) fn of_task(
    config: &WorkerConfig,
    task: TaskKey,
    launch: &LaunchTask,
    surroundings: &Surroundings<'_>,
) -> Result<(BTreeMap<String, String>, u16), NoPort> {
    let (port, held) = master_port(task, launch)?;
    let mut env = defaults(config, launch, surroundings, port);
    env.extend(launch.env.iter().map(|(name, value)| (name.clone(), value.clone())));
    env.retain(|name, _| !is_identity(name));
    let mut set = |name: &str, value: String| env.insert(name.to_owned(), value);
    let counts = surroundings.counts;
    for (name, value) in [
        ("NODE_RANK", launch.rank),
        ("GROUP_RANK", launch.rank),
        ("GROUP_WORLD_SIZE", launch.ranks.max(1)),
        ("WORLD_SIZE", counts.all),
        ("LOCAL_WORLD_SIZE", counts.local),
        ("WHARF_NODES", launch.ranks.max(1)),
        ("WHARF_JOB_ID", task.job),
        ("WHARF_GENERATION", task.generation),
        ("WHARF_RESTART", task.generation),
    ] {
        set(name, value.to_string());
    }
    // mpirun's processes would all have the same, and some programs ask for these before they ask MPI.
    if launch.launcher() != Launcher::Mpirun {
        set("RANK", counts.first.to_string());
        set("LOCAL_RANK", "0".to_owned());
    }
    set("WHARF_ADDRESSES", launch.addresses.join(","));
    set("WHARF_DEVICES", joined(&launch.devices));
    set("WHARF_DEVICE_TYPE", config.device_type.clone());
    set("WHARF_DEVICE_COUNT", device_count(launch).to_string());
    if let Some(plan) = launch.plan {
        set("WHARF_PIPELINE_STAGES", plan.stages.to_string());
        set("WHARF_DATA_PARALLEL", plan.data.to_string());
        set("WHARF_TENSOR_PARALLEL", plan.tensor.to_string());
    }
    set("WHARF_NODE", config.node.clone());
    set("WHARF_JOB_NAME", launch.job_name.clone());
    set("WHARF_ITERATIONS_DONE", launch.iterations_done.to_string());
    if launch.is_default_checkpoint {
        set("WHARF_CHECKPOINT_DEFAULT", "1".to_owned());
    }
    if let Some(index) = launch.array_index {
        set("WHARF_ARRAY_INDEX", index.to_string());
        set("WHARF_ARRAY_JOB", launch.array_job.to_string());
    }
    for (name, path) in [
        ("WHARF_PROGRESS_SOCKET", progress_socket(&config.state_dir).as_path()),
        ("WHARF_HOSTFILE", surroundings.hostfile),
        ("WHARF_CHECKPOINT_DIR", surroundings.checkpoint_dir),
    ] {
        set(name, path.to_string_lossy().into_owned());
    }
    if let Some(mpi) = &surroundings.mpi {
        set("WHARF_TASK_HEAD", config.head.trim_start_matches("https://").to_owned());
        set("WHARF_TASK_TOKEN_FILE", mpi.token.to_string_lossy().into_owned());
    }
    env.extend(visible(config, &launch.devices));
    Ok((env, held))
}

/// What one of several processes of a task has instead of the task's own.
pub(crate) fn of_process(
    config: &WorkerConfig,
    launch: &LaunchTask,
    counts: Counts,
    local: u32,
) -> BTreeMap<String, String> {
    let device = launch.devices.get(local as usize).copied();
    let mut env = visible(config, device.as_slice());
    env.insert("RANK".into(), counts.first.saturating_add(local).to_string());
    env.insert("LOCAL_RANK".into(), local.to_string());
    env
}

/// Whether a variable says who a process is, which a job cannot choose.
pub(crate) fn is_identity(name: &str) -> bool {
    IDENTITY.contains(&name)
}

/// Names of variables that a job's processes on other nodes need and do not have of themselves.
pub(crate) fn forwarded<'a>(env: &'a BTreeMap<String, String>, launch: &'a LaunchTask) -> Vec<&'a str> {
    let steps = launch.steps.iter().flat_map(|step| step.env.keys());
    let told = env.keys().chain(steps).map(String::as_str).filter(|name| {
        let is_mpi = name.starts_with("OMPI_") || name.starts_with("PRTE_");
        let is_own = is_identity(name) && !FORWARDED.contains(name) || is_mpi;
        // mpirun takes no empty names, and commas or equal signs would be something else to it.
        !is_own && !name.is_empty() && !name.contains([',', '='])
    });
    told.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

/// Variables that the job may choose otherwise.
fn defaults(
    config: &WorkerConfig,
    launch: &LaunchTask,
    surroundings: &Surroundings<'_>,
    port: u16,
) -> BTreeMap<String, String> {
    let first = launch.addresses.first().map_or("127.0.0.1", String::as_str);
    let mut env = BTreeMap::from([
        ("MASTER_ADDR".to_owned(), first.to_owned()),
        ("MASTER_PORT".to_owned(), port.to_string()),
    ]);
    if let Some(threads) = threads(config, launch, surroundings.counts) {
        env.insert("OMP_NUM_THREADS".into(), threads.to_string());
    }
    // A batch script may call mpirun.
    let is_mpi = launch.launcher() == Launcher::Mpirun || surroundings.mpi.is_some();
    if let Some(interface) = surroundings.interface {
        let mpi: &[&str] =
            &["OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include", "HOROVOD_GLOO_IFACE"];
        let names = ["NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"];
        for name in names.iter().chain(if is_mpi { mpi } else { &[] }) {
            env.insert((*name).to_owned(), interface.to_owned());
        }
    }
    if let Some(mpi) = &surroundings.mpi {
        env.extend(of_mpi_agent(&mpi.agent, surroundings.hostfile, launch));
    }
    if is_mpi && surroundings.is_root {
        // Open MPI wants it said twice. Who set the worker up as root and sends no other user has decided that.
        for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
            env.insert(name.into(), "1".into());
        }
    }
    env
}

/// Lets Open MPI (4 and 5) start its daemons on the gang's other nodes without ssh. They stay attached to what has started them, and end with it.
/// They wait a timeout between SIGCONT and SIGTERM, and again before SIGKILL, a second by default: both fit into the job's grace.
fn of_mpi_agent(agent: &str, hostfile: &Path, launch: &LaunchTask) -> BTreeMap<String, String> {
    let hostfile = hostfile.to_string_lossy();
    let timeout_s = (super::grace_ms(launch.grace_s) / 3000).max(1).to_string();
    let mut variables = vec![
        ("OMPI_MCA_plm_rsh_agent", agent),
        ("OMPI_MCA_orte_default_hostfile", &*hostfile),
        ("OMPI_MCA_orte_leave_session_attached", "1"),
        ("OMPI_MCA_odls_base_sigkill_timeout", &*timeout_s),
        ("PRTE_MCA_plm_ssh_agent", agent),
        ("PRTE_MCA_prte_default_hostfile", &*hostfile),
        ("PRTE_MCA_prte_leave_session_attached", "1"),
        ("PRTE_MCA_odls_base_sigkill_timeout", &*timeout_s),
    ];
    if launch.batch.is_some() {
        // Its SLURM_* variables would have it search for a Slurm.
        variables.extend([
            ("OMPI_MCA_plm", "rsh"),
            ("OMPI_MCA_ras", "^slurm"),
            ("PRTE_MCA_plm", "ssh"),
            ("PRTE_MCA_ras", "^slurm"),
        ]);
    }
    variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The variables that show a process its devices and no others.
fn visible(config: &WorkerConfig, devices: &[u32]) -> BTreeMap<String, String> {
    let variables = devices::visible(config, devices);
    variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The task's port, and which port has to be held for it (0: none).
fn master_port(task: TaskKey, launch: &LaunchTask) -> Result<(u16, u16), NoPort> {
    let is_held = launch.rank == 0 && !launch.env.contains_key("MASTER_PORT");
    if let Ok(port) = u16::try_from(launch.master_port)
        && port != 0
    {
        return Ok((port, if is_held { port } else { 0 }));
    }
    let offset = (u64::from(task.job) * PORT_STEP + u64::from(task.generation)) % PORTS;
    let port = PORT_FIRST + u16::try_from(offset).unwrap_or_default();
    if launch.ranks > 1 {
        return Ok((port, if is_held { port } else { 0 }));
    }
    if !is_held || free(port).is_some() {
        return Ok((port, 0));
    }
    free(0).map(|port| (port, 0)).ok_or(NoPort)
}

/// The port, if it can be listened at; any free one for 0.
fn free(port: u16) -> Option<u16> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).ok()?;
    listener.local_addr().ok().map(|address| address.port())
}

/// Each process' share of the task's processors.
fn threads(config: &WorkerConfig, launch: &LaunchTask, counts: Counts) -> Option<u32> {
    processors_of(config, launch).map(|task| (task / counts.local.max(1)).max(1))
}

/// A task's processors: what it asks for, or else the same part of the node's as of its devices.
pub(crate) fn processors_of(config: &WorkerConfig, launch: &LaunchTask) -> Option<u32> {
    let devices = u32::try_from(launch.devices.len()).unwrap_or(u32::MAX);
    match launch.cpus {
        0 if config.cpus == 0 || config.devices == 0 => None,
        0 => Some((config.cpus.saturating_mul(devices) / config.devices).max(1)),
        asked => Some(asked),
    }
}

/// Devices of the whole gang.
fn device_count(launch: &LaunchTask) -> u64 {
    let own = launch.devices.len() as u64;
    launch.devices_by_rank.iter().map(|&count| u64::from(count)).sum::<u64>().max(own)
}

fn joined(devices: &[u32]) -> String {
    devices.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
pub(crate) mod tests {
    use wharf_proto::Plan;

    use super::*;
    pub(crate) use crate::testing::config;

    const TASK: TaskKey = TaskKey { job: 3, generation: 2 };

    fn launch() -> LaunchTask {
        LaunchTask {
            devices: vec![1, 3],
            rank: 1,
            ranks: 2,
            addresses: vec!["10.0.0.1".into(), "10.0.0.2".into()],
            ..LaunchTask::default()
        }
    }

    fn surroundings() -> Surroundings<'static> {
        Surroundings {
            interface: Some("eth7"),
            hostfile: Path::new("/hosts"),
            checkpoint_dir: Path::new("/checkpoints"),
            counts: Counts { local: 1, all: 2, first: 1 },
            is_root: false,
            mpi: None,
        }
    }

    fn check(
        device_type: &str,
        launch: &LaunchTask,
        around: &Surroundings<'_>,
        expected: &[(&str, Option<&str>)],
    ) {
        let (env, _) = of_task(&config(device_type), TASK, launch, around).unwrap();
        for (name, value) in expected {
            assert_eq!(env.get(*name).map(String::as_str), *value, "{name}");
        }
    }

    #[test]
    fn of_task_gang_has_devices_and_ranks() {
        let rows = [
            ("CUDA_VISIBLE_DEVICES", Some("1,3")),
            ("HIP_VISIBLE_DEVICES", Some("1,3")),
            ("ROCR_VISIBLE_DEVICES", Some("1,3")),
            ("WHARF_DEVICES", Some("1,3")),
            ("MASTER_ADDR", Some("10.0.0.1")),
            ("MASTER_PORT", Some("12053")),
            ("RANK", Some("1")),
            ("WORLD_SIZE", Some("2")),
            ("LOCAL_RANK", Some("0")),
            ("LOCAL_WORLD_SIZE", Some("1")),
            ("NODE_RANK", Some("1")),
            ("GROUP_RANK", Some("1")),
            ("WHARF_NODES", Some("2")),
            ("OMP_NUM_THREADS", Some("8")),
            ("NCCL_SOCKET_IFNAME", Some("eth7")),
            ("GLOO_SOCKET_IFNAME", Some("eth7")),
            ("OMPI_MCA_btl_tcp_if_include", None),
            ("WHARF_PROGRESS_SOCKET", Some("/tmp/w/progress.sock")),
            ("WHARF_HOSTFILE", Some("/hosts")),
            ("WHARF_CHECKPOINT_DIR", Some("/checkpoints")),
            ("WHARF_RESTART", Some("2")),
            ("WHARF_ITERATIONS_DONE", Some("0")),
            ("WHARF_ARRAY_INDEX", None),
            ("WHARF_DEVICE_COUNT", Some("2")),
            ("WHARF_PIPELINE_STAGES", None),
        ];
        check("v100", &launch(), &surroundings(), &rows);
    }

    #[test]
    fn of_task_derives_variables_from_the_launch_message() {
        let launch = LaunchTask {
            job_name: "resnet".into(),
            array_index: Some(0),
            array_job: 70,
            iterations_done: 1500.5,
            master_port: 31_999,
            cpus: 6,
            devices_by_rank: vec![6, 2],
            plan: Some(Plan { stages: 2, data: 1, tensor: 4 }),
            ..launch()
        };
        let rows = [
            ("WHARF_JOB_NAME", Some("resnet")),
            ("WHARF_ARRAY_INDEX", Some("0")),
            ("WHARF_ARRAY_JOB", Some("70")),
            ("WHARF_ITERATIONS_DONE", Some("1500.5")),
            ("MASTER_PORT", Some("31999")),
            ("OMP_NUM_THREADS", Some("3")),
            ("RANK", Some("4")),
            ("WORLD_SIZE", Some("6")),
            ("WHARF_DEVICE_TYPE", Some("v100")),
            ("WHARF_DEVICE_COUNT", Some("8")),
            ("WHARF_PIPELINE_STAGES", Some("2")),
            ("WHARF_DATA_PARALLEL", Some("1")),
            ("WHARF_TENSOR_PARALLEL", Some("4")),
        ];
        let around = Surroundings { counts: Counts { local: 2, all: 6, first: 4 }, ..surroundings() };
        check("v100", &launch, &around, &rows);
    }

    #[test]
    fn of_task_open_mpi_finds_its_agent_and_no_slurm_in_batch_scripts() {
        let mpi = || Some(Mpi { agent: "/w mpi-agent".into(), token: PathBuf::from("/spool/token") });
        let around = Surroundings { mpi: mpi(), ..surroundings() };
        let launch_of =
            |launcher: Launcher, batch| LaunchTask { launcher: launcher.into(), batch, ..launch() };
        let mpirun = launch_of(Launcher::Mpirun, None);
        let expected = [
            ("OMPI_MCA_plm_rsh_agent", Some("/w mpi-agent")),
            ("OMPI_MCA_odls_base_sigkill_timeout", Some("3")),
            ("PRTE_MCA_plm_ssh_agent", Some("/w mpi-agent")),
            ("OMPI_MCA_orte_default_hostfile", Some("/hosts")),
            ("OMPI_MCA_plm", None),
            ("WHARF_TASK_TOKEN_FILE", Some("/spool/token")),
        ];
        check("v100", &mpirun, &around, &expected);
        let script = launch_of(Launcher::Batch, Some(wharf_proto::Batch::default()));
        check("v100", &script, &around, &[("OMPI_MCA_plm", Some("rsh")), ("OMPI_MCA_ras", Some("^slurm"))]);
        let own = LaunchTask { env: [("OMPI_MCA_plm_rsh_agent".into(), "ssh".into())].into(), ..mpirun };
        check("v100", &own, &around, &[("OMPI_MCA_plm_rsh_agent", Some("ssh"))]);
        check("v100", &own, &surroundings(), &[("PRTE_MCA_plm_ssh_agent", None), ("WHARF_TASK_HEAD", None)]);
    }

    #[test]
    fn of_task_mpirun_can_be_root_and_knows_its_network() {
        let launch = LaunchTask { launcher: Launcher::Mpirun.into(), ..launch() };
        let around = Surroundings { is_root: true, ..surroundings() };
        let rows = [
            ("OMPI_MCA_btl_tcp_if_include", Some("eth7")),
            ("HOROVOD_GLOO_IFACE", Some("eth7")),
            ("OMPI_ALLOW_RUN_AS_ROOT", Some("1")),
            ("RANK", None),
        ];
        check("v100", &launch, &around, &rows);
    }

    #[test]
    fn of_task_own_variables_win_but_for_identity() {
        let rows = [
            ("MASTER_PORT", "1234", Some("1234")),
            ("OMP_NUM_THREADS", "5", Some("5")),
            ("NCCL_SOCKET_IFNAME", "ib0", Some("ib0")),
            ("GREETING", "hi", Some("hi")),
            ("WHARF_JOB_ID", "9", Some("3")),
            ("WHARF_TENSOR_PARALLEL", "9", None),
            ("WHARF_HOME", "/elsewhere", Some("/elsewhere")),
            ("CUDA_VISIBLE_DEVICES", "0", Some("1,3")),
            ("RANK", "0", Some("1")),
            ("WORLD_SIZE", "1", Some("2")),
        ];
        let env = rows.iter().map(|(name, value, _)| ((*name).to_owned(), (*value).to_owned()));
        let launch = LaunchTask { env: env.collect(), ..launch() };
        let expected = rows.map(|(name, _, value)| (name, value));
        check("v100", &launch, &surroundings(), &expected);
        // On a slot without a device, no program may assume one.
        check("cpu", &launch, &surroundings(), &[("CUDA_VISIBLE_DEVICES", None)]);
    }

    #[test]
    fn of_process_has_its_own_device_and_rank() {
        let rows = [
            (
                "v100",
                1,
                [
                    ("RANK", "5"),
                    ("LOCAL_RANK", "1"),
                    ("CUDA_VISIBLE_DEVICES", "3"),
                    ("ROCR_VISIBLE_DEVICES", "3"),
                ],
            ),
            (
                "mi250",
                1,
                [
                    ("RANK", "5"),
                    ("LOCAL_RANK", "1"),
                    ("HIP_VISIBLE_DEVICES", "0"),
                    ("ROCR_VISIBLE_DEVICES", "3"),
                ],
            ),
        ];
        let counts = Counts { local: 2, all: 6, first: 4 };
        for (device_type, local, expected) in rows {
            let env = of_process(&config(device_type), &launch(), counts, local);
            for (name, value) in expected {
                assert_eq!(env.get(name).map(String::as_str), Some(value), "{device_type} {name}");
            }
        }
        assert!(of_process(&config("cpu"), &launch(), counts, 0).len() == 2);
    }

    #[test]
    fn master_port_is_held_by_rank_0_only() {
        let port = PORT_FIRST + 53;
        let of = |rank, ranks, master_port, own: bool| {
            let env = if own { [("MASTER_PORT".into(), "1".into())].into() } else { Default::default() };
            master_port_of(&LaunchTask { rank, ranks, master_port, env, ..LaunchTask::default() })
        };
        assert_eq!(of(0, 2, 0, false), (port, port));
        assert_eq!(of(1, 2, 0, false), (port, 0));
        assert_eq!(of(0, 2, 25_000, false), (25_000, 25_000));
        assert_eq!(of(0, 1, 25_000, false), (25_000, 25_000));
        assert_eq!(of(1, 2, 25_000, false), (25_000, 0));
        assert_eq!(of(0, 2, 25_000, true), (25_000, 0));
    }

    fn master_port_of(launch: &LaunchTask) -> (u16, u16) {
        master_port(TASK, launch).unwrap()
    }

    #[test]
    fn master_port_taken_moves_a_task_that_is_alone() {
        let task = TaskKey { job: 555, generation: 1 };
        let port = PORT_FIRST + 1436;
        let _held = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap();
        let launch = LaunchTask { rank: 0, ranks: 1, ..LaunchTask::default() };
        assert_ne!(master_port(task, &launch).unwrap().0, port);
    }

    #[test]
    fn forwarded_leaves_out_what_is_another_there() {
        let launch = LaunchTask { env: [("GREETING".into(), "hi".into())].into(), ..launch() };
        let (env, _) = of_task(&config("v100"), TASK, &launch, &surroundings()).unwrap();
        let names = forwarded(&env, &launch);
        for (name, expected) in [
            ("GREETING", true),
            ("MASTER_ADDR", true),
            ("WHARF_JOB_ID", true),
            ("RANK", false),
            ("WHARF_NODE", false),
        ] {
            assert_eq!(names.contains(&name), expected, "{name}");
        }
    }

    #[test]
    fn config_debug_hides_token() {
        assert!(!format!("{:?}", config("cpu")).contains("hush"));
    }
}
