//! A spec as people and programs read it: what is at its default is left out.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use wharf_proto as proto;
use wharf_proto::{Container, Dependency, Gang, JobSpec, Mount, Notify, Ray, Step, dependency, notify};

use crate::choice::{Choice, Launcher, Network, OnNan, OnStall, Runtime, of_wire};
use crate::number::JobNumber;
use crate::plan::Planned;

/// Jobs that would be submitted, in their order.
#[must_use]
pub fn document(planned: &[Planned]) -> Value {
    let jobs: Vec<Value> = planned
        .iter()
        .map(|job| {
            let mut shown = spec(&job.spec);
            let waits = job.waits.iter().map(|(kind, index)| {
                json!({ "kind": kind_name(*kind), "job": planned.get(*index).map(|other| &other.spec.name) })
            });
            put(&mut shown, "waits_for", json!(waits.collect::<Vec<_>>()));
            Value::Object(shown)
        })
        .collect();
    json!({ "schema": 1, "jobs": jobs })
}

/// Adds a field unless it is at its default.
fn put(fields: &mut Map<String, Value>, name: &str, value: Value) {
    let is_default = match &value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(value) => value.is_empty(),
        Value::Array(value) => value.is_empty(),
        Value::Object(value) => value.is_empty(),
    };
    if !is_default {
        fields.insert(name.to_owned(), value);
    }
}

/// The name of a choice; empty for the default.
fn unusual<T: Choice, W: From<T> + PartialEq>(wire: W, default: T) -> &'static str {
    of_wire(wire).filter(|choice| *choice != default).map_or("", T::name)
}

/// A job, without the fields that are at their defaults.
#[must_use]
pub fn spec(spec: &JobSpec) -> Map<String, Value> {
    let mut fields = Map::new();
    let limits = spec.limits.iter().map(|limit| {
        let value = limit.value.map_or_else(|| json!("unlimited"), |value| json!(value));
        (limit.name.clone(), value)
    });
    let retry = spec.retry.iter().map(|rule| (rule.cause().word().to_owned(), json!(rule.count)));
    // The launcher of batch scripts has no name that a document can give.
    let launcher = if spec.launcher() == proto::Launcher::Batch {
        "batch"
    } else {
        unusual(spec.launcher(), Launcher::Plain)
    };
    let checkpoint = spec.checkpoint.as_ref().map(|checkpoint| {
        let mut fields = Map::new();
        put(&mut fields, "dir", json!(checkpoint.dir));
        put(&mut fields, "resume_codes", json!(checkpoint.resume_codes));
        fields
    });
    let stages = spec.stages.as_ref().map(|stages| {
        let mut fields = Map::new();
        put(&mut fields, "data_ms", json!(stages.data_ms));
        put(&mut fields, "compute_ms", json!(stages.compute_ms));
        put(&mut fields, "network_ms", json!(stages.network_ms));
        fields
    });
    for (name, value) in [
        ("name", json!(spec.name)),
        ("user", json!(spec.user)),
        ("command", json!(spec.command)),
        ("steps", json!(spec.steps.iter().map(step).collect::<Vec<_>>())),
        ("gang", json!(spec.gang.as_ref().map(gang))),
        ("launcher", json!(launcher)),
        ("ray", json!(spec.ray.as_ref().map(ray))),
        ("data_parallel", json!(spec.data_parallel)),
        ("on_nan", json!(unusual(spec.on_nan(), OnNan::Ignore))),
        ("cpus", json!(spec.cpus)),
        ("memory_mib", json!(spec.memory_mib)),
        ("pool", json!(spec.pool)),
        ("reservation", json!(spec.reservation)),
        ("array", json!(spec.array)),
        ("priority", json!(spec.priority)),
        ("time_limit_s", json!(spec.time_limit_s)),
        ("on_time_limit", json!(if spec.requeue_at_limit { "requeue" } else { "" })),
        ("stall_timeout_s", json!(spec.stall_timeout_s)),
        ("on_stall", json!(unusual(spec.on_stall(), OnStall::Report))),
        ("weight", json!(spec.weight)),
        ("deadline_s", json!(spec.deadline_s)),
        ("dependencies", json!(spec.dependencies.iter().map(depends).collect::<Vec<_>>())),
        ("retries", json!(spec.retries)),
        ("retry_codes", json!(spec.retry_codes)),
        ("retry", Value::Object(retry.collect())),
        ("retry_delay_s", json!(spec.retry_delay_s)),
        ("account", json!(spec.account)),
        ("env", json!(sorted(&spec.env))),
        ("secrets", json!(spec.secrets.as_ref().map(|secrets| secrets.values.keys().collect::<Vec<_>>()))),
        ("activate", json!(spec.activate)),
        ("limits", Value::Object(limits.collect())),
        ("network_interface", json!(spec.network_interface)),
        ("workdir", json!(spec.workdir)),
        ("output", json!(spec.output)),
        ("error", json!(spec.error_output)),
        ("stop_signal", json!(spec.stop_signal)),
        ("grace_s", json!(spec.grace_s)),
        ("checkpoint", json!(checkpoint)),
        ("notify", json!(spec.notify.as_ref().map(told))),
        ("model", json!(spec.model)),
        ("batch_size", json!(spec.batch_size)),
        ("iterations", json!(spec.iterations)),
        ("iteration_ms", json!(spec.iteration_ms)),
        ("paced", json!(spec.paced)),
        ("stages", json!(stages)),
        ("held", json!(spec.held)),
        ("container", json!(spec.container.as_ref().map(container))),
    ] {
        put(&mut fields, name, value);
    }
    fields
}

/// A container as a job file would have it.
#[must_use]
pub fn container(container: &Container) -> Map<String, Value> {
    let mut fields = Map::new();
    let runtime = unusual(container.runtime(), Runtime::Auto);
    let network = of_wire(container.network()).map_or("", Network::name);
    let mount = |mount: &Mount| {
        let read_only = if mount.read_only { ":ro" } else { "" };
        format!("{}:{}{read_only}", mount.src, mount.dst)
    };
    let ulimits = container.ulimits.iter().map(|limit| {
        (limit.name.clone(), limit.value.map_or_else(|| json!("unlimited"), |value| json!(value)))
    });
    let shm = if container.shm_host { json!("host") } else { json!(container.shm_bytes) };
    for (name, value) in [
        ("runtime", json!(runtime)),
        ("image", json!(container.image)),
        ("name", json!(container.name)),
        ("mounts", json!(container.mounts.iter().map(mount).collect::<Vec<_>>())),
        ("env", json!(container.env)),
        ("env_file", json!(container.env_file)),
        ("workdir", json!(container.workdir)),
        ("shm", shm),
        ("network", json!(network)),
        ("privileged", json!(container.privileged)),
        ("writable_root", json!(container.writable_root)),
        ("user", json!(container.user)),
        ("init", json!(container.init)),
        ("ulimits", Value::Object(ulimits.collect())),
        ("entrypoint", json!(container.entrypoint)),
        ("devices", json!(container.devices)),
        ("infiniband", json!(container.infiniband)),
        ("keep", json!(container.keep)),
        ("strict", json!(container.strict)),
        ("per_node", json!(container.per_node)),
    ] {
        put(&mut fields, name, value);
    }
    fields
}

fn sorted<'a>(env: impl IntoIterator<Item = (&'a String, &'a String)>) -> BTreeMap<&'a String, &'a String> {
    env.into_iter().collect()
}

fn step(step: &Step) -> Map<String, Value> {
    let mut fields = Map::new();
    put(&mut fields, "name", json!(step.name));
    put(&mut fields, "command", json!(step.command));
    put(&mut fields, "env", json!(sorted(&step.env)));
    fields
}

fn gang(gang: &Gang) -> Map<String, Value> {
    let mut fields = Map::new();
    put(&mut fields, "devices", json!(gang.devices));
    put(&mut fields, "min", json!(gang.devices_min));
    put(&mut fields, "max", json!(gang.devices_max));
    put(&mut fields, "nodes", json!(gang.nodes));
    put(&mut fields, "every_node", json!(gang.every_node));
    put(&mut fields, "every_device", json!(gang.every_device));
    put(&mut fields, "types", json!(gang.device_types));
    fields
}

fn ray(ray: &Ray) -> Map<String, Value> {
    let mut fields = Map::new();
    for (name, value) in [
        ("program", json!(ray.program)),
        ("cpus", json!(ray.cpus)),
        ("gpus", json!(ray.gpus)),
        ("object_store_bytes", json!(ray.object_store_bytes)),
        ("memory_bytes", json!(ray.memory_bytes)),
        ("head_args", json!(ray.head_args)),
        ("worker_args", json!(ray.worker_args)),
        ("temp_dir", json!(ray.temp_dir)),
        ("no_dashboard", json!(ray.no_dashboard)),
        ("dashboard_host", json!(ray.dashboard_host)),
        ("ready_timeout_s", json!(ray.ready_timeout_s)),
        ("no_token", json!(ray.no_token)),
    ] {
        put(&mut fields, name, value);
    }
    fields
}

fn depends(dependency: &Dependency) -> Value {
    match dependency.kind() {
        dependency::Kind::Singleton => json!({ "kind": "singleton" }),
        kind => match dependency.array_index {
            Some(index) => {
                let number = JobNumber { job: dependency.job_id, index: Some(index) };
                json!({ "kind": kind_name(kind), "job": number.to_string() })
            }
            None => json!({ "kind": kind_name(kind), "job": dependency.job_id }),
        },
    }
}

fn kind_name(kind: dependency::Kind) -> &'static str {
    match kind {
        dependency::Kind::After => "after",
        dependency::Kind::AfterOk => "after_ok",
        dependency::Kind::AfterNotOk => "after_not_ok",
        dependency::Kind::AfterAny => "after_any",
        dependency::Kind::AfterCorr => "after_corr",
        dependency::Kind::Singleton => "singleton",
    }
}

fn told(notify: &Notify) -> Map<String, Value> {
    let moment = |moment: notify::Moment| moment.as_str_name().to_lowercase();
    let mut fields = Map::new();
    put(&mut fields, "on", json!(notify.on().map(moment).collect::<Vec<_>>()));
    put(&mut fields, "command", json!(notify.command));
    put(&mut fields, "webhook", json!(notify.webhook));
    put(&mut fields, "mail", json!(notify.mail));
    fields
}
