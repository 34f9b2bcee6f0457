//! The document of `sacct --json`, in the shape of Slurm's v0.0.38.

use crate::grammar::accounting::{Level, Resources, Row};
use crate::launch::CLUSTER;
use serde_json::{Value, json};

/// Jobs with their steps.
pub(super) fn document(rows: &[Row]) -> Value {
    let mut jobs: Vec<Value> = Vec::new();
    for row in rows {
        if row.level == Level::Allocation {
            jobs.push(job(row));
        } else if let Some(steps) = jobs.last_mut().and_then(|job| job["steps"].as_array_mut()) {
            steps.push(step(row));
        }
    }
    json!({ "meta": meta(), "errors": [], "jobs": jobs })
}

/// What made a document.
pub(super) fn meta() -> Value {
    json!({
        "plugin": { "type": "wharf", "name": "Wharf, in the shape of Slurm OpenAPI v0.0.38" },
        "Slurm": { "version": { "major": 22, "micro": 8, "minor": 5 }, "release": "22.05.8" },
    })
}

fn seconds(text: &str) -> i64 {
    let parsed = text.parse::<jiff::civil::DateTime>().ok();
    let zoned = parsed.and_then(|moment| moment.to_zoned(jiff::tz::TimeZone::system()).ok());
    zoned.map_or(0, |zoned| zoned.timestamp().as_second())
}

fn time(row: &Row) -> Value {
    let [submit, start, end] = &row.job.times;
    let (user_s, system_s) = row.usage.as_ref().map_or((0.0, 0.0), |usage| usage.cpu_s);
    let span =
        |seconds: f64| json!({ "seconds": seconds as u64, "microseconds": (seconds.fract() * 1e6) as u64 });
    json!({
        "elapsed": row.job.used_s,
        "eligible": seconds(&row.eligible),
        "end": seconds(end),
        "start": seconds(start),
        "submission": seconds(submit),
        "suspended": 0,
        "limit": row.job.limit.seconds().map(|seconds| seconds / 60),
        "system": span(system_s),
        "user": span(user_s),
        "total": span(user_s + system_s),
    })
}

fn exit_code(text: &str) -> Value {
    let (code, signal) = text.split_once(':').unwrap_or((text, "0"));
    let number = |text: &str| text.parse::<i32>().unwrap_or(0);
    match (number(code), number(signal)) {
        (0, 0) => json!({ "status": "SUCCESS", "return_code": 0 }),
        (code, 0) => json!({ "status": "ERROR", "return_code": code }),
        (code, signal) => {
            json!({ "status": "SIGNALED", "return_code": code, "signal": { "signal_id": signal } })
        }
    }
}

fn tres(resources: &Resources) -> Value {
    let one = |id: u32, kind: &str, name: Option<&str>, count: u64| json!({ "type": kind, "name": name, "id": id, "count": count });
    let mut all = vec![
        one(1, "cpu", None, resources.cpus.into()),
        one(2, "mem", None, resources.memory_mib),
        one(4, "node", None, resources.nodes.into()),
        one(5, "billing", None, resources.cpus.into()),
    ];
    if let Some((_, count)) = &resources.gpus {
        all.push(one(1001, "gres", Some("gpu"), (*count).into()));
    }
    Value::Array(all)
}

fn job(row: &Row) -> Value {
    let job = &row.job;
    let index = job.index.as_ref().and_then(|index| index.parse::<u32>().ok());
    json!({
        "account": job.account,
        "comment": { "administrator": null, "job": row.comment, "system": null },
        "allocation_nodes": job.nodes,
        "array": {
            "job_id": if job.index.is_some() { job.array } else { 0 },
            "task": job.index.as_ref().filter(|_| index.is_none()),
            "task_id": index,
        },
        "association": { "account": job.account, "cluster": CLUSTER, "partition": null, "user": job.user },
        "cluster": CLUSTER,
        "constraints": row.constraints,
        "container": row.container,
        "derived_exit_code": exit_code(&row.derived),
        "exit_code": exit_code(&job.exit),
        "time": time(row),
        "flags": [],
        "group": row.ids[2],
        "het": { "job_id": 0, "job_offset": null },
        "job_id": job.job,
        "name": job.name,
        "nodes": job.nodelist,
        "partition": job.partition,
        "priority": job.priority,
        "qos": row.qos,
        "required": { "CPUs": row.resources[0].cpus, "memory": row.resources[0].memory_mib },
        "reservation": { "id": 0, "name": row.reservation },
        "state": { "current": job.state.names().1, "reason": job.reason },
        "steps": [],
        "tres": { "allocated": tres(&row.resources[1]), "requested": tres(&row.resources[0]) },
        "user": job.user,
        "working_directory": job.workdir,
    })
}

fn step(row: &Row) -> Value {
    let id = row.job.id.rsplit('.').next().unwrap_or_default();
    json!({
        "nodes": { "count": row.job.nodes, "range": row.job.nodelist },
        "tres": { "allocated": tres(&row.resources[1]) },
        "time": time(row),
        "exit_code": exit_code(&row.job.exit),
        "tasks": { "count": row.tasks },
        "state": row.job.state.names().1,
        "statistics": { "memory": { "max_rss": row.usage.as_ref().map(|usage| usage.max_rss_bytes) } },
        "step": { "job_id": row.job.job, "id": id, "name": row.job.name },
    })
}
