//! What tasks of a batch job receive when they are launched: files, `SLURM_*` variables, and who runs the script.

use wharf_proto::{Batch, JobSpec, LaunchTask};

use crate::grammar::environ::Placed;
use crate::grammar::filename::Names;
use crate::grammar::shape::{CPU, PARTITION};

/// The value of SLURM_CLUSTER_NAME.
pub const CLUSTER: &str = "wharf";

/// One node of a job's gang.
#[derive(Clone, Copy, Debug)]
pub struct GangNode<'a> {
    /// Name of the node.
    pub name: &'a str,
    /// Its pool; empty for none.
    pub pool: &'a str,
    /// Its device type; [`CPU`] if its devices are CPUs.
    pub device_type: &'a str,
    /// How many CPUs and devices it has.
    pub cpus: u32,
    /// See `cpus`.
    pub devices: u32,
    /// How many of its devices the job has.
    pub used: u32,
}

impl GangNode<'_> {
    /// CPUs of the job on this node; `each` is the number per device, or 0 for a proportional share.
    fn job_cpus(&self, each: u32) -> u32 {
        match each {
            _ if self.device_type == CPU => self.used,
            0 => (self.cpus * self.used / self.devices.max(1)).max(1),
            each => each * self.used,
        }
    }
}

/// Completes the launch of a task of a batch job. The first node of the gang runs the script; the others hold devices for steps.
pub fn complete(launch: &mut LaunchTask, spec: &JobSpec, gang: &[GangNode<'_>], restarts: u32) {
    let Some(batch) = &spec.batch else { return };
    let variables = variables(launch, spec, batch, gang, restarts);
    let names = Names {
        job: launch.task.map_or(0, |task| task.job_id),
        array: launch.array_index.map(|index| (launch.array_job, index)),
        node: gang.first().map_or("", |node| node.name),
        name: &launch.job_name,
        user: &spec.user,
        task: None,
    };
    let is_first = launch.rank == 0;
    let expanded = |pattern: &str| if is_first { names.expand(pattern) } else { String::new() };
    let (output, error_output, input) =
        (expanded(&spec.output), expanded(&spec.error_output), expanded(&batch.input));
    launch.output = output;
    launch.error_output = error_output;
    launch.batch = Some(if is_first {
        Batch { input, ..batch.clone() }
    } else {
        Batch { is_allocation: true, ..Batch::default() }
    });
    launch.env.extend(variables);
}

fn variables(
    launch: &LaunchTask,
    spec: &JobSpec,
    batch: &Batch,
    gang: &[GangNode<'_>],
    restarts: u32,
) -> Vec<(String, String)> {
    let nodes: Vec<String> = gang.iter().map(|node| node.name.to_owned()).collect();
    let cpus: Vec<u32> = gang.iter().map(|node| node.job_cpus(spec.cpus)).collect();
    let pool = gang.first().map_or("", |node| node.pool);
    let is_cpu = gang.first().is_some_and(|node| node.device_type == CPU);
    let placed = Placed {
        job: launch.task.map_or(0, |task| task.job_id),
        array: launch.array_index.map(|index| (launch.array_job, index)),
        name: &launch.job_name,
        user: &launch.user,
        partition: if pool.is_empty() { PARTITION } else { pool },
        cluster: CLUSTER,
        nodes: &nodes,
        cpus: &cpus,
        tasks: batch.tasks,
        cpus_per_task: batch.cpus_per_task,
        gpus: if is_cpu { &[] } else { &launch.devices },
        rank: launch.rank as usize,
        restarts,
    };
    placed.variables().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_of_gpu_nodes_are_a_share_or_per_device() {
        let node = GangNode { name: "n1", pool: "", device_type: "a40", cpus: 64, devices: 8, used: 2 };
        assert_eq!((node.job_cpus(0), node.job_cpus(6)), (16, 12));
        let small = GangNode { cpus: 2, ..node };
        assert_eq!(small.job_cpus(0), 1);
        assert_eq!(GangNode { device_type: CPU, ..node }.job_cpus(6), 2);
    }

    #[test]
    fn script_runs_on_the_first_node_only() {
        let batch = Batch { script: "#!/bin/sh".into(), input: "in-%j".into(), ..Batch::default() };
        let spec = JobSpec { output: "out-%j-%N".into(), batch: Some(batch), ..JobSpec::default() };
        let node = GangNode { name: "n1", pool: "lab", device_type: CPU, cpus: 4, devices: 4, used: 2 };
        let gang = [node, GangNode { name: "n2", ..node }];
        let task = Some(wharf_proto::TaskId { job_id: 7, generation: 1 });
        let launch = |rank| {
            let mut launch = LaunchTask { task, rank, ..LaunchTask::default() };
            complete(&mut launch, &spec, &gang, 0);
            launch
        };
        let (first, second) = (launch(0), launch(1));
        assert_eq!((first.output.as_str(), second.output.as_str()), ("out-7-n1", ""));
        assert_eq!(first.batch.map(|batch| (batch.input, batch.is_allocation)), Some(("in-7".into(), false)));
        assert_eq!(
            second.batch.map(|batch| (batch.script, batch.is_allocation)),
            Some((String::new(), true))
        );
        assert_eq!(first.env["SLURM_JOB_PARTITION"], "lab");
        assert_eq!(second.env["SLURM_NODEID"], "1");
    }
}
