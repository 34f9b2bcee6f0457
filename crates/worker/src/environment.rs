//! What a task finds in its environment.
//!
//! The job's own variables win over what is derived here, except those that say which devices are the task's and who it is.
//!
//! `MASTER_PORT`: all ranks of a gang have to agree on a port without asking each other, so it follows from job and generation
//! alone: one of [`PORTS`] from [`PORT_FIRST`], below Linux' range of ephemeral ports. Rank 0's node looks whether it is free; a gang
//! whose port is taken is not started there, and the next generation has another port. A task that is alone takes any free port.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};

use wharf_proto::LaunchTask;

use crate::WorkerConfig;
use crate::devices;
use crate::protocol::progress_socket;
use crate::task::TaskKey;

const PORT_FIRST: u16 = 20_000;
const PORTS: u64 = 10_000;
/// Coprime with `PORTS`, so that neighbouring jobs are apart and each has a few generations before it meets the next.
const PORT_STEP: u64 = 17;

/// Why a task cannot be given its environment.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("port {port}, the gang's MASTER_PORT, is in use on this node")]
pub(crate) struct PortTaken {
    port: u16,
}

/// All variables that a task has beside the worker's own.
pub(crate) fn of_task(
    config: &WorkerConfig,
    task: TaskKey,
    launch: &LaunchTask,
) -> Result<BTreeMap<String, String>, PortTaken> {
    let mut env = gang(launch, master_port(task, launch)?);
    if let Some(threads) = threads(config, launch) {
        env.insert("OMP_NUM_THREADS".into(), threads.to_string());
    }
    env.extend(launch.env.iter().map(|(name, value)| (name.clone(), value.clone())));
    for (name, value) in devices::visible(config, &launch.devices) {
        env.insert(name.into(), value);
    }
    env.insert("WHARF_DEVICES".into(), joined(&launch.devices));
    env.insert("WHARF_DEVICE_TYPE".into(), config.device_type.clone());
    env.insert("WHARF_NODE".into(), config.node.clone());
    env.insert("WHARF_JOB_ID".into(), task.job.to_string());
    env.insert("WHARF_GENERATION".into(), task.generation.to_string());
    let socket = progress_socket(&config.state_dir);
    env.insert("WHARF_PROGRESS_SOCKET".into(), socket.to_string_lossy().into_owned());
    Ok(env)
}

/// The variables of torch's and others' `env://` start: one process per node here; launchers such as torchrun make more of it.
fn gang(launch: &LaunchTask, port: u16) -> BTreeMap<String, String> {
    let first = launch.addresses.first().map_or("127.0.0.1", String::as_str);
    BTreeMap::from([
        ("NODE_RANK".into(), launch.rank.to_string()),
        ("RANK".into(), launch.rank.to_string()),
        ("WORLD_SIZE".into(), launch.ranks.max(1).to_string()),
        ("LOCAL_RANK".into(), "0".into()),
        ("MASTER_ADDR".into(), first.into()),
        ("MASTER_PORT".into(), port.to_string()),
        ("WHARF_ADDRESSES".into(), launch.addresses.join(",")),
    ])
}

fn master_port(task: TaskKey, launch: &LaunchTask) -> Result<u16, PortTaken> {
    let offset = (u64::from(task.job) * PORT_STEP + u64::from(task.generation)) % PORTS;
    let port = PORT_FIRST + u16::try_from(offset).unwrap_or_default();
    if launch.rank != 0 || launch.env.contains_key("MASTER_PORT") || free(port).is_some() {
        return Ok(port);
    }
    if launch.ranks > 1 {
        return Err(PortTaken { port });
    }
    free(0).ok_or(PortTaken { port })
}

/// The port, if it can be listened at; any free one for 0.
fn free(port: u16) -> Option<u16> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).ok()?;
    listener.local_addr().ok().map(|address| address.port())
}

/// The task's share of the processors: as much as of the devices.
fn threads(config: &WorkerConfig, launch: &LaunchTask) -> Option<usize> {
    if config.cpus == 0 || config.devices == 0 {
        return None;
    }
    Some((config.cpus as usize * launch.devices.len() / config.devices as usize).max(1))
}

fn joined(devices: &[u32]) -> String {
    devices.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config;

    fn launch() -> LaunchTask {
        LaunchTask {
            devices: vec![1, 3],
            rank: 1,
            ranks: 2,
            addresses: vec!["10.0.0.1".into(), "10.0.0.2".into()],
            ..LaunchTask::default()
        }
    }

    #[test]
    fn of_task_gang_has_devices_and_ranks() {
        let env = of_task(&config("v100"), TaskKey { job: 3, generation: 2 }, &launch()).unwrap();
        let expected = [
            ("CUDA_VISIBLE_DEVICES", "1,3"),
            ("HIP_VISIBLE_DEVICES", "1,3"),
            ("ROCR_VISIBLE_DEVICES", "1,3"),
            ("WHARF_DEVICES", "1,3"),
            ("MASTER_ADDR", "10.0.0.1"),
            ("MASTER_PORT", "20053"),
            ("RANK", "1"),
            ("WORLD_SIZE", "2"),
            ("OMP_NUM_THREADS", "8"),
            ("WHARF_PROGRESS_SOCKET", "/tmp/w/progress.sock"),
        ];
        for (name, value) in expected {
            assert_eq!(env.get(name).map(String::as_str), Some(value), "{name}");
        }
    }

    #[test]
    fn of_task_cpu_has_no_device_variables() {
        let env = of_task(&config("cpu"), TaskKey { job: 3, generation: 2 }, &launch()).unwrap();
        assert!(!env.contains_key("CUDA_VISIBLE_DEVICES"));
    }

    #[test]
    fn of_task_own_variables_win_but_for_identity() {
        let mut launch = launch();
        launch.env = [("MASTER_PORT".into(), "1234".into()), ("WHARF_JOB_ID".into(), "9".into())].into();
        let env = of_task(&config("cpu"), TaskKey { job: 3, generation: 2 }, &launch).unwrap();
        assert_eq!((env["MASTER_PORT"].as_str(), env["WHARF_JOB_ID"].as_str()), ("1234", "3"));
    }

    #[test]
    fn master_port_taken_refuses_gang_and_moves_single() {
        let task = TaskKey { job: 555, generation: 1 };
        let port = PORT_FIRST + 9436;
        let _held = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap();
        let mut launch = LaunchTask { rank: 0, ranks: 2, ..LaunchTask::default() };
        assert_eq!(master_port(task, &launch), Err(PortTaken { port }));
        launch.ranks = 1;
        assert_ne!(master_port(task, &launch).unwrap(), port);
    }

    #[test]
    fn config_debug_hides_token() {
        assert!(!format!("{:?}", config("cpu")).contains("hush"));
    }
}
