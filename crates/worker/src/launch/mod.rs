//! From what the head sends to what the supervisor starts: commands, environment, files, limits.

pub(crate) mod batch;
mod command;
mod contain;
pub(crate) mod environment;
mod hosts;
pub(crate) mod interface;
mod ray;
mod spool;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{User, geteuid};
use wharf_proto::{Container, LaunchTask, Launcher};

use crate::WorkerConfig;
use crate::checkpoints::CheckpointSetup;
use crate::devices::DeviceNodes;
use crate::error::with_causes;
use crate::supervisor::limits::{self, LimitError};
use crate::supervisor::protocol::{Confinement, Limit, OpenMode, Process, Start, Step};
use crate::task::{Exit, TaskKey};
use crate::trainer::Trainer;
use environment::{Mpi, Surroundings};
use hosts::Hostfiles;

/// For jobs that do not state how long they may take to stop.
const GRACE_DEFAULT: Duration = Duration::from_secs(10);
/// Longer periods of grace are taken as this.
const GRACE_MAX_S: f64 = 7.0 * 24.0 * 3600.0;

/// Keeps a place in a container until it is stopped: that is no failure.
const WAIT: &str = "trap 'exit 0' TERM INT HUP USR1; while :; do sleep 3600 & wait $!; done";

/// What does not change from task to task.
pub(crate) struct Launching {
    workdir: PathBuf,
    /// The worker's own user.
    user: String,
    is_root: bool,
    /// The interface that carries the worker's address.
    interface: Option<String>,
    hostfiles: Hostfiles,
    /// Whether it can restrict the device nodes that tasks of other users open.
    can_restrict: bool,
    device_nodes: DeviceNodes,
}

/// A task that can be started, and what it cannot have.
pub(crate) struct Prepared {
    pub(crate) start: Start,
    /// It runs as the worker's user, although another one was requested.
    pub(crate) other_user: Option<String>,
}

/// How many processes a gang has, and which of them are a task's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) local: u32,
    pub(crate) all: u32,
    /// The rank of the task's first process.
    pub(crate) first: u32,
}

impl Launching {
    pub(crate) fn new(config: &WorkerConfig, workdir: PathBuf) -> Self {
        let uid = geteuid();
        // Without a name, every user that a job names is another one.
        let user = User::from_uid(uid).ok().flatten().map(|user| user.name).unwrap_or_default();
        let is_root = uid.is_root();
        let interface = config.network_interface.clone().or_else(|| interface::carrying(&config.address));
        let hostfiles = Hostfiles::new(&config.state_dir, is_root);
        let (can_restrict, device_nodes) = (is_root && can_mount(), DeviceNodes::default());
        Self { workdir, user, is_root, interface, hostfiles, can_restrict, device_nodes }
    }

    /// What a task is kept within.
    fn confinement(&mut self, config: &WorkerConfig, launch: &LaunchTask, is_other: bool) -> Confinement {
        let user = (is_other && self.is_root).then(|| launch.user.clone());
        let limits = limits_of(launch);
        let granted = config.tasks.max_limits.iter();
        let max_limits = granted.map(|(name, value)| Limit { name: name.clone(), value: *value });
        let max_limits = if user.is_some() { max_limits.collect() } else { Vec::new() };
        let denied_devices = if user.is_some() && self.can_restrict {
            self.device_nodes.denied(config, &launch.devices)
        } else {
            Vec::new()
        };
        let (cpus, memory_mib) = (launch.cpus, launch.memory_mib);
        Confinement { user, limits, max_limits, denied_devices, cpus, memory_mib }
    }

    pub(crate) fn prepare(&mut self, config: &WorkerConfig, task: TaskKey, launch: &LaunchTask) -> Prepared {
        let workdir = self.workdir.join(&launch.workdir);
        let is_other = !launch.user.is_empty() && launch.user != self.user;
        let mut start = Start {
            task,
            steps: Vec::new(),
            env: BTreeMap::new(),
            output: PathBuf::from(&launch.output),
            error_output: PathBuf::from(&launch.error_output),
            files: launch.batch.as_ref().map_or_else(OpenMode::default, |batch| OpenMode {
                is_anew: !batch.append,
                needs_folder: true,
            }),
            checkpoint_dir: joined_unless_empty(&workdir, &launch.checkpoint_dir),
            checkpoint_setup: checkpoint_setup(task, launch, &workdir),
            workdir,
            port: 0,
            confinement: self.confinement(config, launch, is_other),
            stop_signal: launch.stop_signal,
            grace_ms: grace_ms(launch.grace_s),
            trainer: Trainer::default(),
            disk_reserve_bytes: config.tasks.disk_reserve_bytes,
            refused: None,
        };
        if let Err(refused) = self.fill(&mut start, config, launch) {
            start.refused = Some(refused);
        }
        Prepared { start, other_user: (is_other && !self.is_root).then(|| launch.user.clone()) }
    }

    /// Environment and commands, or why there are none.
    fn fill(&mut self, start: &mut Start, config: &WorkerConfig, launch: &LaunchTask) -> Result<(), Exit> {
        check_limits(config, start).map_err(|error| Exit::refused(error.to_string()))?;
        let counts = counts(launch);
        let own = [config.address.clone()];
        let addresses = if launch.addresses.is_empty() { &own[..] } else { &launch.addresses[..] };
        let hostfile = self
            .hostfiles
            .file(addresses, &devices_by_rank(launch))
            .map_err(|error| Exit::of_file(&error, "cannot write the file of the gang's hosts"))?;
        let chosen = Some(&launch.network_interface).filter(|name| !name.is_empty());
        if let Some(name) = chosen.filter(|_| interface::is_of_node(launch)) {
            interface::check(name).map_err(|unknown| {
                let hint = "set `network_interface` of the job to one of them, or leave it out";
                Exit::refused(format!("{unknown}; {hint}"))
            })?;
        }
        let agent = mpi_agent(config, launch);
        let spooled = spool(start, config, launch, agent.is_some())?;
        let surroundings = Surroundings {
            interface: chosen.or(self.interface.as_ref()).map(String::as_str),
            hostfile: &hostfile,
            checkpoint_dir: if launch.checkpoint_dir.is_empty() {
                &start.workdir
            } else {
                &start.checkpoint_dir
            },
            counts,
            is_root: self.is_root && start.confinement.user.is_none(),
            mpi: agent
                .zip(spooled.as_ref())
                .map(|(agent, folder)| Mpi { agent, token: folder.join(spool::TOKEN) }),
        };
        let (env, port) = environment::of_task(config, start.task, launch, &surroundings)
            .map_err(|error| Exit::lost(error.to_string()))?;
        (start.env, start.port) = (env, port);
        start.trainer = Trainer::of(launch)
            .map_err(|error| Exit::lost(format!("the system's random number generator failed: {error}")))?;
        start.env.extend(start.trainer.variables(launch.stop_signal));
        let paced = paced_command(config, launch)
            .map_err(|error| Exit::lost(format!("cannot find the worker's executable: {error}")))?;
        let node = match launch.launcher() {
            Launcher::Ray => Some(ray::Node::of(config, launch, start).map_err(|error| {
                Exit::lost(format!("cannot encode the description of a Ray node: {error}"))
            })?),
            _ => None,
        };
        start.steps = steps(config, launch, &start.env, &hostfile, counts, node.as_ref());
        let is_paced = paced.is_some();
        let batch = self.batch_command(start, config, launch, spooled.as_deref())?;
        let is_held = launch.launcher() == Launcher::Mpirun && launch.rank > 0;
        let held = if is_held { Some(holding_command(config, launch)?) } else { None };
        if let Some(command) = held.or(paced).or(batch) {
            let process = Process { command, ..Process::default() };
            start.steps = vec![Step { name: String::new(), processes: vec![process] }];
        }
        if !is_paced {
            let contained = contain::contain(start, config, launch, &hostfile);
            contained.map_err(|error| Exit::refused(with_causes(&error)))?;
        }
        Ok(())
    }
}

impl Launching {
    /// The command of a batch script's task: this program, which becomes the script, or waits on the other nodes. An image need not
    /// have what this program runs with: there it is the script itself, or a shell that waits.
    fn batch_command(
        &self,
        start: &mut Start,
        config: &WorkerConfig,
        launch: &LaunchTask,
        spooled: Option<&Path>,
    ) -> Result<Option<Vec<String>>, Exit> {
        let Some(batch) = &launch.batch else { return Ok(None) };
        let tmp = ("TMPDIR".to_owned(), "/tmp".to_owned());
        start.env.entry(tmp.0).or_insert(tmp.1);
        let Some(spooled) = spooled.filter(|_| !batch.is_allocation) else {
            return holding_command(config, launch).map(Some);
        };
        let is_contained = launch.container.is_some();
        let mut command = if is_contained { Vec::new() } else { holding_command(config, launch)? };
        let steps = spooled.join("steps").to_string_lossy().into_owned();
        start.env.insert(spool::STEP_FILE.to_owned(), steps);
        if !is_contained {
            if !batch.input.is_empty() {
                command.extend(["--input".to_owned(), batch.input.clone()]);
            }
            command.push("--".to_owned());
        }
        command.push(spooled.join(spool::SCRIPT).to_string_lossy().into_owned());
        command.extend(batch.arguments.iter().cloned());
        Ok(Some(command))
    }

    /// Drops what was kept for a task that has ended.
    pub(crate) fn forget(&self, config: &WorkerConfig, task: TaskKey) {
        spool::remove(&config.state_dir, task);
    }
}

/// Keeps the files of a task that are its own, and returns their folder where there are any.
fn spool(
    start: &Start,
    config: &WorkerConfig,
    launch: &LaunchTask,
    has_agent: bool,
) -> Result<Option<PathBuf>, Exit> {
    let script = launch.batch.as_ref().filter(|batch| !batch.is_allocation);
    let script = script.map(|batch| spool::Spooled { name: spool::SCRIPT, text: &batch.script, mode: 0o700 });
    let token = has_agent.then_some(spool::Spooled { name: spool::TOKEN, text: &launch.token, mode: 0o600 });
    let files: Vec<_> = script.into_iter().chain(token).collect();
    if files.is_empty() {
        return Ok(None);
    }
    let user = start.confinement.user.as_deref();
    spool::write(&config.state_dir, start.task, &files, user)
        .map(Some)
        .map_err(|error| Exit::of_file(&error, "cannot keep the files of the task"))
}

/// What a task runs that only holds its devices for commands in it: this program; in a container a shell, because an image need not have
/// what this program runs with.
fn holding_command(config: &WorkerConfig, launch: &LaunchTask) -> Result<Vec<String>, Exit> {
    if launch.container.is_some() {
        return Ok(["/bin/sh", "-c", WAIT].map(String::from).to_vec());
    }
    let program = own_program(config)
        .map_err(|error| Exit::lost(format!("cannot find the worker's executable: {error}")))?;
    Ok(vec![program, "batch".to_owned()])
}

/// What Open MPI is to call instead of ssh; none where it cannot: the words of an agent are split at blanks, and agents at colons.
fn mpi_agent(config: &WorkerConfig, launch: &LaunchTask) -> Option<String> {
    let is_reached = !launch.token.is_empty() && config.head.starts_with("https://");
    // A batch script's container does not have this program.
    let is_inside = launch.batch.is_some() && launch.container.is_some();
    let program = own_program(config).ok().filter(|_| is_reached && !is_inside)?;
    (!program.contains([' ', '\t', ':', ','])).then(|| format!("{program} mpi-agent"))
}

/// How a task's checkpoint directory is created. One that the head chose is optional, except where it has to be mounted.
fn checkpoint_setup(task: TaskKey, launch: &LaunchTask, workdir: &Path) -> CheckpointSetup {
    if !launch.is_default_checkpoint {
        return CheckpointSetup::default();
    }
    let is_seen = workdir.join(&launch.checkpoint_dir).starts_with(workdir);
    let is_mounted = |container: &Container| !(container.per_node || container.workdir.is_empty() && is_seen);
    let is_first_of_several = launch.rank == 0 && launch.ranks > 1;
    CheckpointSetup {
        is_optional: !launch.container.as_ref().is_some_and(is_mounted),
        marker: if is_first_of_several { task.to_string() } else { String::new() },
    }
}

/// This program, whatever path it has on this machine.
fn own_program(config: &WorkerConfig) -> io::Result<String> {
    let program = match &config.supervisor_program {
        Some(program) => program.clone(),
        None => std::env::current_exe()?,
    };
    let program = program.into_os_string().into_string();
    program.map_err(|_| io::Error::other("its path is not UTF-8"))
}

/// The command of a paced task that has none of its own: this program's trainer.
fn paced_command(config: &WorkerConfig, launch: &LaunchTask) -> io::Result<Option<Vec<String>>> {
    let Some(iterations) = launch.paced_iterations else { return Ok(None) };
    if !launch.command.is_empty() || !launch.steps.is_empty() {
        return Ok(None);
    }
    Ok(Some([own_program(config)?, "pace".to_owned(), iterations.to_string()].to_vec()))
}

/// Checks the limits that a task asks for against what the site grants.
fn check_limits(config: &WorkerConfig, start: &Start) -> Result<(), LimitError> {
    let granted = config.tasks.max_limits.iter();
    let granted: Vec<Limit> =
        granted.map(|(name, value)| Limit { name: name.clone(), value: *value }).collect();
    limits::check(&start.confinement.limits, &granted)
}

/// Whether this process may change what is mounted.
fn can_mount() -> bool {
    const CAP_SYS_ADMIN: u32 = 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = capabilities.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    capabilities.is_some_and(|set| set & (1 << CAP_SYS_ADMIN) != 0)
}

fn joined_unless_empty(workdir: &Path, path: &str) -> PathBuf {
    if path.is_empty() { PathBuf::new() } else { workdir.join(path) }
}

fn limits_of(launch: &LaunchTask) -> Vec<Limit> {
    launch.limits.iter().map(|limit| Limit { name: limit.name.clone(), value: limit.value }).collect()
}

/// Devices of each task of the gang; a head that does not say gives every task as many as this one.
fn devices_by_rank(launch: &LaunchTask) -> Vec<u32> {
    if !launch.devices_by_rank.is_empty() {
        return launch.devices_by_rank.clone();
    }
    let own = u32::try_from(launch.devices.len()).unwrap_or(u32::MAX);
    vec![own; launch.ranks.max(1) as usize]
}

fn counts(launch: &LaunchTask) -> Counts {
    // A Ray node starts its processes itself, and tells each its devices.
    if matches!(launch.launcher(), Launcher::Plain | Launcher::Batch | Launcher::Ray) {
        return Counts { local: 1, all: launch.ranks.max(1), first: launch.rank };
    }
    // A node without devices still has a process.
    let by_rank: Vec<u32> = devices_by_rank(launch).iter().map(|devices| (*devices).max(1)).collect();
    let own = u32::try_from(launch.devices.len()).unwrap_or(u32::MAX).max(1);
    let before =
        by_rank.iter().take(launch.rank as usize).fold(0, |sum: u32, count| sum.saturating_add(*count));
    let all = by_rank.iter().fold(0, |sum: u32, count| sum.saturating_add(*count));
    Counts { local: own, all, first: before }
}

fn steps(
    config: &WorkerConfig,
    launch: &LaunchTask,
    env: &BTreeMap<String, String>,
    hostfile: &Path,
    counts: Counts,
    node: Option<&ray::Node>,
) -> Vec<Step> {
    let of = |name: &str| env.get(name).map_or("", String::as_str);
    let hostfile = hostfile.to_string_lossy();
    let mut forwarded = environment::forwarded(env, launch);
    forwarded.sort_unstable();
    let gang = command::Gang {
        nodes: launch.ranks.max(1),
        node_rank: launch.rank,
        local_processes: counts.local,
        all_processes: counts.all,
        master: (of("MASTER_ADDR"), of("MASTER_PORT")),
        hostfile: &hostfile,
        forwarded: &forwarded,
    };
    let processes = |command: &[String], mut env: BTreeMap<String, String>| {
        let mut command = command::launched(launch.launcher(), command, &gang);
        if let Some(node) = node {
            command = node.before(&command);
            env.extend(node.env.clone());
        }
        let command = command::activated(&launch.activate, command);
        if launch.launcher() != Launcher::PerDevice {
            return vec![Process { command, env, container: None }];
        }
        let process = |local| Process {
            container: None,
            command: command.clone(),
            env: env
                .clone()
                .into_iter()
                .chain(environment::of_process(config, launch, counts, local))
                .collect(),
        };
        (0..counts.local).map(process).collect()
    };
    if launch.steps.is_empty() {
        return vec![Step { name: String::new(), processes: processes(&launch.command, BTreeMap::new()) }];
    }
    let total = launch.steps.len();
    let step = |(index, step): (usize, &wharf_proto::Step)| {
        let own = step.env.iter().filter(|(name, _)| !environment::is_identity(name));
        let own = own.map(|(name, value)| (name.clone(), value.clone())).collect();
        let name = if step.name.is_empty() { step.command.join(" ") } else { step.name.clone() };
        Step { name: format!("{}/{total}: {name}", index + 1), processes: processes(&step.command, own) }
    };
    launch.steps.iter().enumerate().map(step).collect()
}

/// A job's period of grace; none or nonsense is the default.
fn grace_ms(seconds: f64) -> u64 {
    let grace = if seconds > 0.0 {
        Duration::try_from_secs_f64(seconds.min(GRACE_MAX_S)).unwrap_or(GRACE_DEFAULT)
    } else {
        GRACE_DEFAULT
    };
    u64::try_from(grace.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_launcher_and_devices() {
        let launch = |launcher: Launcher, rank, devices: Vec<u32>, by_rank: Vec<u32>| LaunchTask {
            launcher: launcher.into(),
            rank,
            ranks: 2,
            devices,
            devices_by_rank: by_rank,
            ..LaunchTask::default()
        };
        let rows = [
            (launch(Launcher::Plain, 1, vec![0, 1], vec![4, 2]), (1, 2, 1)),
            (launch(Launcher::PerDevice, 1, vec![0, 1], vec![4, 2]), (2, 6, 4)),
            (launch(Launcher::PerDevice, 0, vec![0, 1, 2, 3], vec![4, 2]), (4, 6, 0)),
            (launch(Launcher::Torchrun, 1, vec![5, 6], Vec::new()), (2, 4, 2)),
            (launch(Launcher::PerDevice, 1, Vec::new(), Vec::new()), (1, 2, 1)),
        ];
        for (launch, (local, all, first)) in rows {
            assert_eq!(counts(&launch), Counts { local, all, first }, "{launch:?}");
        }
    }

    #[test]
    fn steps_are_numbered_and_have_their_own_environment() {
        let step = |name: &str, command: &str| wharf_proto::Step {
            name: name.into(),
            command: vec![command.into()],
            env: [("A".into(), "1".into()), ("WHARF_JOB_ID".into(), "forged".into())].into(),
        };
        let launch = LaunchTask { steps: vec![step("fetch", "a"), step("", "b")], ..LaunchTask::default() };
        let config = environment::tests::config("cpu");
        let steps = steps(&config, &launch, &BTreeMap::new(), Path::new("/h"), counts(&launch), None);
        let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["1/2: fetch", "2/2: b"]);
        assert_eq!(steps[0].processes[0].env, BTreeMap::from([("A".into(), "1".into())]));
    }
}
