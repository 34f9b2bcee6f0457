//! Answers as JSON. Empty and zero fields are omitted: most jobs have many of them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};
use wharf_curve::Number;
use wharf_proto::{
    Device, JobMetrics, JobSpec, JobSummary, LimitsReply, MetricPoints, NodeSummary, PolicyReply, Share,
    StepSummary, UsageReply, UsageRow,
};

use super::census::health_word;
use crate::dispatcher::head_metrics::why_word;
use crate::policy::decisions::{Decided, Stopped};

/// To a millisecond: more digits are not needed.
pub(super) fn short(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_usual(value: &i32) -> bool {
    *value == 0
}

/// A job as it is listed.
#[derive(Serialize)]
pub(super) struct JobRow {
    id: u32,
    name: String,
    user: String,
    phase: &'static str,
    devices: u32,
    submit: f64,
    #[serde(skip_serializing_if = "is_zero")]
    start: f64,
    #[serde(skip_serializing_if = "is_zero")]
    run: f64,
    #[serde(skip_serializing_if = "is_zero")]
    end: f64,
    #[serde(skip_serializing_if = "is_usual")]
    priority: i32,
    #[serde(skip_serializing_if = "is_usual")]
    exit: i32,
    #[serde(skip_serializing_if = "is_zero")]
    preemptions: u32,
    #[serde(skip_serializing_if = "is_zero")]
    restarts: u32,
    #[serde(skip_serializing_if = "is_zero")]
    done: f64,
    #[serde(skip_serializing_if = "is_zero")]
    iterations: f64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    placement: Vec<(String, Vec<u32>)>,
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    device_type: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    cause: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    account: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pool: String,
    /// The array's first job, and the index in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    array: Option<(u32, u32)>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metrics: BTreeMap<String, Number>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    remarks: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<(u32, u32, u32)>,
    #[serde(skip_serializing_if = "is_zero")]
    deadline: f64,
    #[serde(skip_serializing_if = "is_zero")]
    limit: f64,
}

/// How many devices a placement has; none without one.
fn given(placement: &[Share]) -> Option<u32> {
    let given: usize = placement.iter().map(|share| share.devices.len()).sum();
    u32::try_from(given).ok().filter(|&given| given > 0)
}

fn shares(shares: Vec<Share>) -> Vec<(String, Vec<u32>)> {
    shares.into_iter().map(|share| (share.node, share.devices)).collect()
}

impl From<JobSummary> for JobRow {
    fn from(job: JobSummary) -> Self {
        Self {
            id: job.job_id,
            phase: job.phase().word(),
            cause: job.cause().word(),
            name: job.name,
            user: job.user,
            devices: given(&job.placement).unwrap_or(job.devices),
            submit: short(job.submit_s),
            start: short(job.start_s),
            run: short(job.run_s),
            end: short(job.end_s),
            priority: job.priority,
            exit: job.exit_code,
            preemptions: job.preemptions,
            restarts: job.restarts,
            done: short(job.iterations_done),
            iterations: short(job.iterations),
            placement: shares(job.placement),
            device_type: job.device_type,
            reason: job.reason,
            account: job.account,
            pool: job.pool,
            array: job.array_index.map(|index| (job.array_job, index)),
            metrics: job.metrics.into_iter().map(|(name, value)| (name, Number(value))).collect(),
            remarks: job.remarks,
            plan: job.plan.map(|plan| (plan.stages, plan.data, plan.tensor)),
            deadline: short(job.deadline_s),
            limit: short(job.time_limit_s),
        }
    }
}

/// A node as it is listed; `index` is its number in events.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct NodeRow {
    pub(super) index: usize,
    name: String,
    health: &'static str,
    #[serde(rename = "type")]
    device_type: String,
    devices: u32,
    cpus: u32,
    memory_gib: u32,
    switch: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    pool: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    away: bool,
    version: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    told: Vec<DeviceRow>,
}

/// What a device's worker says of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct DeviceRow {
    index: u32,
    #[serde(skip_serializing_if = "String::is_empty")]
    model: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    problem: String,
    #[serde(rename = "use", skip_serializing_if = "Option::is_none")]
    used: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_used_mib: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature_c: Option<f64>,
}

impl From<Device> for DeviceRow {
    fn from(device: Device) -> Self {
        Self {
            index: device.index,
            model: device.model,
            problem: device.problem,
            used: device.utilisation.map(short),
            memory_used_mib: device.memory_used_mib,
            temperature_c: device.temperature_c.map(short),
        }
    }
}

impl NodeRow {
    pub(super) fn new(index: usize, node: NodeSummary) -> Self {
        Self {
            index,
            health: health_word(node.health()),
            name: node.name,
            device_type: node.device_type,
            devices: node.devices,
            cpus: node.cpus,
            memory_gib: node.memory_gib,
            switch: node.switch,
            pool: node.pool,
            reason: node.reason,
            away: node.is_away,
            version: node.version,
            told: node.device.into_iter().map(DeviceRow::from).collect(),
        }
    }
}

/// All nodes; those that are gone keep their numbers.
pub(super) fn nodes(nodes: Vec<NodeSummary>) -> Vec<NodeRow> {
    nodes.into_iter().enumerate().map(|(index, node)| NodeRow::new(index, node)).collect()
}

/// What happened: what a record is called, and what is in it.
pub(super) fn event(time_s: f64, record: &str) -> Value {
    let told = serde_json::from_str::<serde_json::Map<String, Value>>(record).ok();
    let Some((what, mut data)) = told.and_then(|told| told.into_iter().next()) else {
        return json!({ "time": short(time_s), "what": "unknown", "data": {} });
    };
    // Of a job's wishes only what tells it from others.
    if let Some(spec) = data.get_mut("spec").map(Value::take) {
        for key in ["name", "user", "devices"] {
            data[key] = spec[key].clone();
        }
        if let Some(data) = data.as_object_mut() {
            data.remove("spec");
        }
    }
    json!({ "time": short(time_s), "what": what, "data": data })
}

/// What a job's owner asked for.
pub(super) fn spec(spec: &JobSpec) -> Value {
    let gang = spec.gang.clone().unwrap_or_default();
    json!({
        "command": spec.command,
        "steps": spec.steps.iter().map(|step| json!({ "name": step.name, "command": step.command })).collect::<Vec<_>>(),
        "script": spec.batch.as_ref().map(|batch| batch.script.clone()),
        "workdir": spec.workdir,
        "env": spec.env,
        "launcher": spec.launcher().as_str_name().to_lowercase(),
        "image": spec.container.as_ref().map(|container| container.image.clone()),
        "model": spec.model,
        "retries": spec.retries,
        "devices_min": gang.devices_min,
        "devices_max": gang.devices_max,
        "device_types": gang.device_types,
        "parameters": spec.parameters.as_ref().map(|parameters| json!({
            "names": parameters.names,
            "rows": parameters.rows.iter().map(|row| &row.values).collect::<Vec<_>>(),
        })),
        "dependencies": spec.dependencies.iter().map(|on| on.job_id).collect::<Vec<_>>(),
    })
}

pub(super) fn step(step: &StepSummary) -> Value {
    json!({
        "id": step.id, "name": step.name, "nodes": step.nodes, "tasks": step.tasks,
        "start": short(step.start_s), "end": short(step.end_s), "exit": step.exit_code,
    })
}

/// The stored metrics of a job: for each, its points as columns.
pub(super) fn curves(job: &JobMetrics) -> Value {
    let curve = |one: &MetricPoints| {
        json!({
            "name": one.name,
            "step": one.step,
            "time": one.time_s.iter().map(|time_s| short(*time_s)).collect::<Vec<_>>(),
            "value": one.value.iter().map(|value| Number(*value)).collect::<Vec<_>>(),
            "run": one.run,
        })
    };
    json!({
        "job": job.job_id,
        "curves": job.metrics.iter().map(curve).collect::<Vec<_>>(),
        "refused": job.refused.as_ref().map(|refused| refused.example.clone()),
    })
}

pub(super) fn decided(decided: &Decided, epoch_unix_s: f64) -> Value {
    let stopped = |one: &Stopped| {
        json!({
            "job": one.job, "why": why_word(one.why), "to": one.to,
            "chosen": one.chosen.map(|chosen| chosen.to_string()),
        })
    };
    json!({
        "number": decided.number,
        "time": short(epoch_unix_s + decided.time_s),
        "took_ms": short(decided.took_s * 1000.0),
        "policy": decided.policy,
        "waiting": decided.waiting,
        "free": decided.free,
        "started": decided.started,
        "stopped": decided.stopped.iter().map(stopped).collect::<Vec<_>>(),
        "started_count": decided.started_count,
        "stopped_count": decided.stopped_count,
    })
}

pub(super) fn policies(reply: PolicyReply) -> Value {
    let change = |change: wharf_proto::PolicyChange| json!({ "time": short(change.time_s), "by": change.by, "policy": change.policy, "settings": change.settings });
    reply.changes.into_iter().map(change).collect()
}

pub(super) fn usage(reply: &UsageReply) -> Value {
    let row = |row: &UsageRow| {
        json!({
            "key": row.key, "allocated_h": row.allocated_h, "running_h": row.running_h, "idle_h": row.idle_h,
            "lost_h": row.lost_h, "waiting_h": row.waiting_h, "submitted": row.submitted,
            "finished": row.finished, "failed": row.failed + row.timed_out, "cancelled": row.cancelled,
        })
    };
    json!({
        "rows": reply.rows.iter().map(row).collect::<Vec<_>>(),
        "total": reply.total.as_ref().map(row),
        "since": short(reply.since_s), "until": short(reply.until_s),
    })
}

pub(super) fn limits(reply: LimitsReply) -> Value {
    let one = |use_: wharf_proto::LimitUse| {
        json!({
            "whose": use_.whose, "what": use_.what, "limit": use_.limit, "used": use_.used,
            "per_s": use_.per_s, "waiting": use_.waiting,
        })
    };
    json!({
        "text": reply.text, "by": reply.by, "applied": short(reply.applied_s),
        "uses": reply.uses.into_iter().map(one).collect::<Vec<_>>(),
    })
}
