//! A task's processes in containers.

use std::path::Path;

use wharf_proto::{LaunchTask, Launcher};

use crate::keeper::limits;
use crate::protocol::{Limit, Start};
use crate::{WorkerConfig, container};

/// Puts all processes of a task into containers.
pub(super) fn contain(
    start: &mut Start,
    config: &WorkerConfig,
    launch: &LaunchTask,
    hostfile: &Path,
) -> Result<(), String> {
    let Some(spec) = &launch.container else { return Ok(()) };
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
            })?;
            if !planned.contained.runtime.is_engine() {
                // Its processes are the task's own: they inherit what is set here.
                let own =
                    |limit: &Limit| !start.confinement.limits.iter().any(|other| other.name == limit.name);
                let more: Vec<Limit> =
                    planned.contained.spec.ulimits.iter().filter(|limit| own(limit)).cloned().collect();
                start.confinement.limits.extend(more);
            }
            let container::Planned { env, contained } = planned;
            (process.env, process.container) = (env, Some(Box::new(contained)));
        }
    }
    limits::check(&start.confinement.limits).map_err(|error| error.to_string())?;
    start.env.retain(|name, _| !container::misleads(name));
    Ok(())
}
