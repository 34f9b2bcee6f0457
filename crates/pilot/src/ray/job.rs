//! A job as the Jobs API of an existing Ray cluster takes it.

use std::collections::BTreeMap;

use serde::Serialize;
use wharf_document::shell::{line, quote};
use wharf_job::{FieldError, Job, JobError, Planned};
use wharf_proto::JobSpec;

use crate::container::Within;

/// A job as Ray's Jobs API takes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RayJob {
    /// Where the cluster's dashboard is.
    #[serde(skip)]
    pub address: String,
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

impl RayJob {
    /// The job for Ray, where its executor is a Ray cluster.
    ///
    /// # Errors
    /// [`JobError`] with the field that Ray has nothing for.
    pub fn of(planned: &Planned) -> Result<Option<Self>, JobError> {
        ray_job(&planned.job, &planned.spec).map_err(|error| planned.refused(error))
    }
}

fn ray_job(job: &Job, spec: &JobSpec) -> Result<Option<RayJob>, FieldError> {
    let Some(address) = job.executor.as_ref().and_then(|executor| executor.ray.clone()) else {
        return Ok(None);
    };
    if let Some(field) = unsupported(job) {
        return Err(FieldError::new(field, "not supported on an existing Ray cluster; remove it"));
    }
    let gang = job.gang.clone().unwrap_or_default();
    if gang.nodes.is_some_and(|nodes| nodes > 1) {
        let message =
            "Ray runs the command on one of its nodes; leave `nodes` out and let the program spread itself";
        return Err(FieldError::new("gang.nodes", message));
    }
    let devices = gang.devices.or(gang.devices_per_node);
    let each = |amount: u64| amount * u64::from(devices.unwrap_or(1).max(1));
    let variables = job.variables();
    if spec.container.is_some() && job.workdir.as_ref().is_some_and(|folder| !folder.starts_with('/')) {
        return Err(FieldError::new("workdir", "a container needs an absolute path; begin it with `/`"));
    }
    let within = spec.container.as_ref().map(|container| Within {
        container,
        workdir: job.workdir.as_deref().unwrap_or_default(),
        env: &variables,
        inherited: &INHERITED,
        has_gpus: devices.is_some(),
        sockets: Some(SOCKETS),
    });
    let env_vars = within.as_ref().map_or_else(
        || variables.clone(),
        |within| {
            within.exported().into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        },
    );
    Ok(Some(RayJob {
        address,
        entrypoint: entrypoint(job, &spec.activate, within.as_ref())?,
        runtime_env: RuntimeEnv { env_vars },
        metadata: [("name", spec.name.clone()), ("submitted_by", "wharf".to_owned())].into(),
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
        ("on_time_limit", job.on_time_limit.is_some()),
        ("stall_timeout", job.stall_timeout.is_some()),
        ("on_stall", job.on_stall.is_some()),
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
        ("priority", job.priority.is_some()),
        ("weight", job.weight.is_some()),
        ("retry_delay", job.retry_delay.is_some()),
        ("account", job.account.is_some()),
        ("export", job.export.is_some()),
        ("network_interface", job.network_interface.is_some()),
        ("stop_signal", job.stop_signal.is_some()),
        ("grace", job.grace.is_some()),
        ("data_parallel", job.data_parallel == Some(true)),
        ("on_nan", job.on_nan.is_some()),
        ("secrets", job.secrets.is_some()),
        ("gang.min", job.gang.as_ref().is_some_and(|gang| gang.min.is_some())),
        ("gang.max", job.gang.as_ref().is_some_and(|gang| gang.max.is_some())),
        ("gang.types", job.gang.as_ref().is_some_and(|gang| gang.types.is_some())),
    ];
    given.into_iter().find(|(_, is_given)| *is_given).map(|(field, _)| field)
}

/// Where Ray has its sockets, unless its nodes were started with another `--temp-dir`.
const SOCKETS: &str = "/tmp/ray";
/// What Ray tells a driver, and a container has to be told as well.
const INHERITED: [&str; 6] = [
    "RAY_ADDRESS",
    "RAY_JOB_CONFIG_JSON_ENV_VAR",
    "RAY_AUTH_MODE",
    "RAY_AUTH_TOKEN",
    "RAY_AUTH_TOKEN_PATH",
    "CUDA_VISIBLE_DEVICES",
];

/// The line for Ray's shell: every word is quoted. A container's program is run by that shell instead of the command.
fn entrypoint(job: &Job, activate: &[String], within: Option<&Within<'_>>) -> Result<String, FieldError> {
    let words: Vec<String> = job.command.iter().flat_map(|words| words.0.clone()).collect();
    let words = match within {
        None => words,
        Some(within) => {
            let script =
                within.script(&words).map_err(|refused| FieldError::new(&refused.field, refused.reason))?;
            ["sh", "-c", &script].map(str::to_owned).to_vec()
        }
    };
    let folder = job.workdir.iter().map(|folder| format!("cd {}", quote(folder)));
    let lines = activate.iter().cloned();
    let command = line(words.iter().map(String::as_str));
    Ok(lines.chain(folder).chain([command]).collect::<Vec<_>>().join(" && "))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wharf_document::decode::Decode as _;
    use wharf_document::node::Node;

    use super::*;

    fn converted(text: &str) -> Result<Value, FieldError> {
        let job = Job::decode(&Node::from_yaml(text).unwrap(), "").unwrap();
        let container = job.container.as_ref().map(|container| container.to_wire(|path| path.into()));
        let venv = job.activate.iter().filter_map(|activate| activate.venv.as_deref());
        let activate = venv.map(|venv| format!(". {venv}/bin/activate")).collect();
        let spec = JobSpec { name: "train".into(), container, activate, ..JobSpec::default() };
        ray_job(&job, &spec).map(|ray| json!(ray))
    }

    fn refusal(text: &str) -> String {
        let FieldError { field, message, .. } = converted(text).unwrap_err();
        format!("{field}: {message}")
    }

    #[test]
    fn container_wraps_the_entry_point() {
        let text = "
executor: {ray: x}
command: [python, 'a b.py']
workdir: /data
env: {A: '1', PATH: /in}
container: {image: 'img:1', runtime: podman}
";
        let ray = converted(text).unwrap();
        assert_eq!(ray["runtime_env"]["env_vars"], json!({ "A": "1" }), "PATH is for the container alone");
        let entrypoint = wharf_document::shell::split(ray["entrypoint"].as_str().unwrap()).unwrap();
        let expected = [
            "cd",
            "/data",
            "&&",
            "sh",
            "-c",
            "exec podman run --rm -v /data:/data -v /tmp/ray:/tmp/ray -e A -e RAY_ADDRESS -e RAY_JOB_CONFIG_JSON_ENV_VAR \
             -e RAY_AUTH_MODE -e RAY_AUTH_TOKEN -e RAY_AUTH_TOKEN_PATH -e CUDA_VISIBLE_DEVICES -e PATH=/in -w /data \
             --network=host --ipc=host img:1 python 'a b.py'",
        ];
        assert_eq!(entrypoint, expected);
        let named = text.replace("runtime: podman", "runtime: podman, name: box");
        assert_eq!(refusal(&named), "container.name: only Wharf's own workers can do that; leave it out");
    }

    #[test]
    fn job_is_converted_to_ray_s_fields() {
        assert_eq!(converted("command: python t.py").unwrap(), Value::Null, "it is for the head's workers");
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
        assert_eq!(converted(text).unwrap(), expected);
    }

    #[test]
    fn unsupported_field_is_refused_by_name() {
        for (field, value) in [
            ("array", "0-3"),
            ("time_limit", "1h"),
            ("after_ok", "[3]"),
            ("output", "log.txt"),
            ("launcher", "torchrun"),
            ("notify", "{mail: a@b}"),
            ("priority", "3"),
            ("grace", "30s"),
            ("network_interface", "ib0"),
        ] {
            let said = refusal(&format!("executor: {{ray: x}}\ncommand: a\n{field}: {value}\n"));
            assert_eq!(said, format!("{field}: not supported on an existing Ray cluster; remove it"));
        }
        let said = refusal("executor: {ray: x}\ncommand: a\ngang: 2x4\n");
        assert!(said.starts_with("gang.nodes: Ray runs the command on one of its nodes"), "{said}");
    }
}
