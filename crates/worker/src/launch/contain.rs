//! A task's processes in containers.

use std::io;
use std::path::{Path, PathBuf};

use wharf_proto::container::Network;
use wharf_proto::{LaunchTask, Launcher};

use super::{check_limits, own_program, spool};
use crate::supervisor::limits::LimitError;
use crate::supervisor::protocol::{Limit, Start};
use crate::{WorkerConfig, container};

/// Why a task cannot be put into containers.
#[derive(Debug, thiserror::Error)]
pub(super) enum ContainError {
    #[error(transparent)]
    Plan(#[from] container::PlanError),
    #[error(transparent)]
    Limit(#[from] LimitError),
    #[error("cannot find the worker's executable")]
    Program(#[source] io::Error),
}

/// Puts all processes of a task into containers.
pub(super) fn contain(
    start: &mut Start,
    config: &WorkerConfig,
    launch: &LaunchTask,
    hostfile: &Path,
) -> Result<(), ContainError> {
    let Some(spec) = &launch.container else { return Ok(()) };
    let mut spec = spec.clone();
    container::prefer(config, &mut spec, start.confinement.user.as_deref());
    let mut tools = Vec::new();
    if launch.launcher() == Launcher::Ray || launch.launcher() == Launcher::Mpirun && launch.ranks > 1 {
        tools = own_tools(config)?;
        tools.extend(start.env.get("WHARF_TASK_TOKEN_FILE").map(PathBuf::from));
        // Nodes reach each other at the machines' addresses: nothing else could work.
        spec.set_network(Network::Host);
    }
    let script = launch.batch.as_ref().filter(|batch| !batch.is_allocation);
    if let (Some(_), Some(steps)) = (script, start.env.get(spool::STEP_FILE)) {
        tools.extend(Path::new(steps).parent().map(Path::to_owned));
    }
    let is_per_device = launch.launcher() == Launcher::PerDevice;
    for step in &mut start.steps {
        for (local, process) in step.processes.iter_mut().enumerate() {
            let devices = launch.devices.iter().copied();
            let mut spec = spec.clone();
            if is_per_device && local > 0 && !spec.name.is_empty() && !spec.per_node {
                spec.name = format!("{}-{local}", spec.name);
            }
            let planned = container::plan(container::Wanted {
                config,
                task: start.task,
                launch,
                container: &spec,
                env: &start.env,
                own: std::mem::take(&mut process.env),
                devices: if is_per_device {
                    devices.skip(local).take(1).collect()
                } else {
                    devices.collect()
                },
                workdir: &start.workdir,
                checkpoint_dir: &start.checkpoint_dir,
                hostfile,
                tools: &tools,
            })?;
            if !planned.contained.runtime.is_engine() {
                // Its processes are the task's own: they inherit what is set here.
                let own =
                    |limit: &Limit| !start.confinement.limits.iter().any(|other| other.name == limit.name);
                let more: Vec<Limit> =
                    planned.contained.spec.ulimits.iter().filter(|limit| own(limit)).cloned().collect();
                start.confinement.limits.extend(more);
            }
            let container::Planned { env, mut contained } = planned;
            contained.script = script.map(|batch| container::Script { input: PathBuf::from(&batch.input) });
            (process.env, process.container) = (env, Some(Box::new(contained)));
        }
    }
    check_limits(config, start)?;
    start.env.retain(|name, _| !container::misleads(name));
    Ok(())
}

/// What a Ray node and Open MPI need within, beside the image's own: this program, which is the node, or starts the daemons on others.
fn own_tools(config: &WorkerConfig) -> Result<Vec<PathBuf>, ContainError> {
    Ok(vec![PathBuf::from(own_program(config).map_err(ContainError::Program)?)])
}
