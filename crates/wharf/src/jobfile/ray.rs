//! A job for a Ray cluster that is there already: what of it Ray's own way to take jobs can say.

use std::collections::BTreeMap;

use serde::Serialize;
use wharf_document::shell::quote;

use super::job::Job;
use super::resolve::{Wrong, activation};

/// A job as Ray's Jobs API takes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RayJob {
    /// Where the cluster's dashboard is.
    #[serde(skip)]
    pub(crate) address: String,
    /// A line of shell.
    entrypoint: String,
    runtime_env: RuntimeEnv,
    metadata: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "is_zero")]
    entrypoint_num_cpus: u64,
    #[serde(skip_serializing_if = "is_zero")]
    entrypoint_num_gpus: u64,
    #[serde(skip_serializing_if = "is_zero")]
    entrypoint_memory: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct RuntimeEnv {
    env_vars: BTreeMap<String, String>,
}

// The signature is serde's.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The job for Ray, where it is for Ray.
pub(super) fn ray_job(job: &Job, name: &str) -> Result<Option<RayJob>, Wrong> {
    let Some(address) = job.executor.as_ref().and_then(|executor| executor.ray.clone()) else {
        return Ok(None);
    };
    if let Some(field) = unsupported(job) {
        return Err(Wrong::new(field, "a Ray cluster that is there already cannot do that; leave it out"));
    }
    let gang = job.gang.clone().unwrap_or_default();
    if gang.nodes.is_some_and(|nodes| nodes > 1) {
        let message =
            "Ray runs the command on one of its nodes; leave `nodes` out and let the program spread itself";
        return Err(Wrong::new("gang.nodes", message));
    }
    let devices = gang.devices.or(gang.devices_per_node);
    let each = |amount: u64| amount * u64::from(devices.unwrap_or(1).max(1));
    Ok(Some(RayJob {
        address,
        entrypoint: entrypoint(job),
        runtime_env: RuntimeEnv { env_vars: job.env.clone().unwrap_or_default() },
        metadata: [("name", name.to_owned()), ("submitted_by", "wharf".to_owned())].into(),
        entrypoint_num_cpus: each(job.cpus.unwrap_or(0).into()),
        entrypoint_num_gpus: devices.unwrap_or(0).into(),
        entrypoint_memory: each(job.memory.map_or(0, |memory| memory.0)),
    }))
}

/// The first field that only Wharf's own cluster can do something with.
fn unsupported(job: &Job) -> Option<&'static str> {
    let given = [
        ("steps", job.steps.is_some()),
        ("array", job.array.is_some()),
        ("per_node", job.per_node == Some(true)),
        ("pool", job.pool.is_some()),
        ("reservation", job.reservation.is_some()),
        ("time_limit", job.time_limit.is_some()),
        ("deadline", job.deadline.is_some()),
        ("after", job.after.is_some()),
        ("after_ok", job.after_ok.is_some()),
        ("after_any", job.after_any.is_some()),
        ("after_not_ok", job.after_not_ok.is_some()),
        ("after_corr", job.after_corr.is_some()),
        ("singleton", job.singleton == Some(true)),
        ("retries", job.retries.is_some()),
        ("retry", job.retry.is_some()),
        ("env_file", job.env_file.is_some()),
        ("limits", job.limits.is_some()),
        ("output", job.output.is_some()),
        ("error", job.error.is_some()),
        ("notify", job.notify.is_some()),
        ("checkpoint", job.checkpoint.is_some()),
        ("launcher", job.launcher.is_some()),
        ("held", job.held == Some(true)),
    ];
    given.into_iter().find(|(_, is_given)| *is_given).map(|(field, _)| field)
}

/// Ray hands it to a shell: every word is quoted.
fn entrypoint(job: &Job) -> String {
    let words = job.command.iter().flat_map(|words| &words.0).map(|word| quote(word));
    let command = words.collect::<Vec<_>>().join(" ");
    let folder = job.workdir.iter().map(|folder| format!("cd {}", quote(folder)));
    let lines = job.activate.iter().flat_map(activation);
    lines.chain(folder).chain([command]).collect::<Vec<_>>().join(" && ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::decode::Decode as _;
    use super::super::node::Node;
    use super::*;

    fn told(text: &str) -> Result<Value, String> {
        let job = Job::decode(&Node::from_yaml(text).unwrap(), "").unwrap();
        let ray = ray_job(&job, "train").map_err(|wrong| format!("{}: {}", wrong.field, wrong.message))?;
        Ok(json!(ray))
    }

    #[test]
    fn ray_is_told_what_it_can_do() {
        assert_eq!(told("command: python t.py").unwrap(), Value::Null, "it is for the head's workers");
        let text = "
executor: {ray: 'http://node1:8265'}
command: [python, -c, 'print(\"a b\")']
env: {A: '1'}
workdir: /data
gang: 2
cpus: 3
memory: 1GiB
activate: {venv: /v}
";
        let expected = json!({
            "entrypoint": ". /v/bin/activate && cd /data && python -c 'print(\"a b\")'",
            "runtime_env": { "env_vars": { "A": "1" } },
            "metadata": { "name": "train", "submitted_by": "wharf" },
            "entrypoint_num_cpus": 6,
            "entrypoint_num_gpus": 2,
            "entrypoint_memory": 2u64 << 30,
        });
        assert_eq!(told(text).unwrap(), expected);
    }

    #[test]
    fn what_ray_cannot_do_is_refused_by_field() {
        for (field, value) in [
            ("array", "0-3"),
            ("time_limit", "1h"),
            ("after_ok", "[3]"),
            ("output", "log.txt"),
            ("launcher", "torchrun"),
            ("notify", "{mail: a@b}"),
        ] {
            let said = told(&format!("executor: {{ray: x}}\ncommand: a\n{field}: {value}\n")).unwrap_err();
            assert_eq!(
                said,
                format!("{field}: a Ray cluster that is there already cannot do that; leave it out")
            );
        }
        let said = told("executor: {ray: x}\ncommand: a\ngang: 2x4\n").unwrap_err();
        assert!(said.starts_with("gang.nodes: Ray runs the command on one of its nodes"), "{said}");
    }
}
