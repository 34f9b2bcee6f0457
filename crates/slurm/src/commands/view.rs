//! Jobs and nodes of Wharf as Slurm would show them.

use std::collections::BTreeMap;

use crate::grammar::limit::TimeLimit;
use crate::grammar::outcome::{Outcome, State};
use crate::grammar::shape::{CPU, NodeFacts, PARTITION};
use crate::grammar::sinfo::{Node, NodeState};
use crate::grammar::{array, hostlist, squeue};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use wharf_proto::{Cause, JobPhase, JobSpec, JobSummary, NodeSummary, Wait, node_summary::Health};

/// The partition that a pool is.
pub(super) fn partition(pool: &str) -> String {
    if pool.is_empty() { PARTITION.to_owned() } else { pool.to_owned() }
}

/// A moment as Slurm prints it; empty where there was none.
pub(super) fn moment(unix_s: f64) -> String {
    if unix_s <= 0.0 {
        return String::new();
    }
    let timestamp = Timestamp::from_second(unix_s as i64).unwrap_or_default();
    timestamp.to_zoned(TimeZone::system()).strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

pub(super) fn now_s() -> f64 {
    Timestamp::now().as_millisecond() as f64 / 1000.0
}

/// How a job ended; none while it lives.
pub(super) fn outcome(job: &JobSummary) -> Option<Outcome> {
    Some(match job.phase() {
        JobPhase::Finished => Outcome::Exited(0),
        JobPhase::Cancelled => Outcome::Cancelled,
        JobPhase::TimedOut => Outcome::TimedOut,
        JobPhase::Failed => match job.cause() {
            Cause::LaunchError => Outcome::NotLaunched,
            Cause::NodeAway | Cause::LostWorker | Cause::BrokenDevice => Outcome::NodeFailed,
            Cause::OutOfMemory => Outcome::OutOfMemory,
            _ if job.signal > 0 => Outcome::Killed(job.signal),
            _ => Outcome::Exited(job.exit_code),
        },
        _ => return None,
    })
}

pub(super) fn state(job: &JobSummary) -> State {
    match (outcome(job), job.phase()) {
        (Some(outcome), _) => outcome.state(),
        (None, JobPhase::Running) => State::Running,
        (None, JobPhase::Placed) => State::Configuring,
        (None, JobPhase::Stopping) => State::Completing,
        (None, _) => State::Pending,
    }
}

/// What a job waits for, in Slurm's words; `is_first` of those that wait for devices.
pub(super) fn reason(job: &JobSummary, is_first: bool) -> &'static str {
    if let Some(outcome) = outcome(job) {
        return outcome.reason();
    }
    match (job.phase(), job.wait()) {
        (JobPhase::Held, Wait::Person) => "JobHeldUser",
        (JobPhase::Held, Wait::Dependency) => "Dependency",
        (JobPhase::Held, Wait::Impossible) => "DependencyNeverSatisfied",
        (JobPhase::Held, Wait::Time) => "BeginTime",
        (JobPhase::Held, Wait::ArrayLimit) => "JobArrayTaskLimit",
        (JobPhase::Waiting, _) if is_first => "Resources",
        (JobPhase::Waiting, _) => "Priority",
        _ => "None",
    }
}

/// All jobs as rows; what waits of an array and has the same reason is one, unless each is wanted.
pub(super) fn rows(jobs: &[JobSummary], nodes: &[NodeSummary], is_each: bool) -> Vec<squeue::Job> {
    let pools: BTreeMap<&str, &str> =
        nodes.iter().map(|node| (node.name.as_str(), node.pool.as_str())).collect();
    let first = jobs.iter().filter(|job| job.phase() == JobPhase::Waiting);
    let first = first.max_by_key(|job| (job.priority, std::cmp::Reverse(job.job_id))).map(|job| job.job_id);
    let mut rows: Vec<squeue::Job> = Vec::new();
    let mut waiting: BTreeMap<(u32, &str), Vec<&JobSummary>> = BTreeMap::new();
    for job in jobs {
        let why = reason(job, first == Some(job.job_id));
        if job.array_index.is_some() && state(job) == State::Pending && !is_each {
            // Those that wait for devices are told together, with what the first of them waits for.
            let why = if why == "Priority" { "Resources" } else { why };
            waiting.entry((job.array_job, why)).or_default().push(job);
        } else {
            rows.push(row(job, why, &pools));
        }
    }
    for ((array, why), elements) in waiting {
        let Some(last) = elements.last() else { continue };
        let indexes: Vec<u32> = elements.iter().filter_map(|job| job.array_index).collect();
        let limit = if last.array_limit > 0 { format!("%{}", last.array_limit) } else { String::new() };
        let shown = format!("{}{limit}", array::runs(&indexes));
        let id = if indexes.len() == 1 && limit.is_empty() {
            format!("{array}_{shown}")
        } else {
            format!("{array}_[{shown}]")
        };
        rows.push(squeue::Job { id, index: Some(shown), ..row(last, why, &pools) });
    }
    rows
}

fn row(job: &JobSummary, why: &str, pools: &BTreeMap<&str, &str>) -> squeue::Job {
    let names: Vec<&str> = job.placement.iter().map(|share| share.node.as_str()).collect();
    let pool = match names.first().and_then(|name| pools.get(name)) {
        Some(pool) => pool,
        None => job.pool.as_str(),
    };
    let state = state(job);
    let until_s = if job.end_s > 0.0 { job.end_s } else { now_s() };
    let has_run = job.run_s > 0.0 && state != State::Pending;
    let nodes = u32::try_from(names.len()).unwrap_or(u32::MAX).max(job.nodes).max(1);
    let is_gpu = !job.device_type.is_empty() && job.device_type != CPU;
    squeue::Job {
        id: job
            .array_index
            .map_or_else(|| job.job_id.to_string(), |index| format!("{}_{index}", job.array_job)),
        job: job.job_id,
        array: job.array_job,
        index: job.array_index.map(|index| index.to_string()),
        name: job.name.clone(),
        user: job.user.clone(),
        account: job.account.clone(),
        partition: partition(pool),
        state,
        reason: why.to_owned(),
        used_s: if has_run { (until_s - job.run_s).max(0.0) as u64 } else { 0 },
        limit: limit(job.time_limit_s),
        nodes,
        nodelist: if state == State::Pending { String::new() } else { hostlist::compress(&names) },
        cpus: job.devices,
        gres: if is_gpu {
            format!("gres:gpu:{}:{}", job.device_type, job.devices / nodes)
        } else {
            String::new()
        },
        priority: job.priority.into(),
        times: [job.submit_s, if has_run { job.run_s } else { 0.0 }, job.end_s].map(moment),
        workdir: String::new(),
        command: String::new(),
        dependency: String::new(),
        features: String::new(),
        exit: outcome(job).map(|outcome| outcome.exit().to_string()).unwrap_or_else(|| "0:0".to_owned()),
    }
}

pub(super) fn limit(seconds: f64) -> TimeLimit {
    if seconds > 0.0 { TimeLimit::Minutes((seconds / 60.0).ceil() as u32) } else { TimeLimit::Unlimited }
}

/// What `squeue` and `scontrol` know of a job only from what was submitted.
pub(super) fn complete(row: &mut squeue::Job, spec: &JobSpec) {
    row.workdir.clone_from(&spec.workdir);
    row.limit = limit(spec.time_limit_s);
    row.dependency = spec.env.get("SLURM_JOB_DEPENDENCY").cloned().unwrap_or_default();
    row.command = match &spec.batch {
        Some(_) => spec.env.get("WHARF_SCRIPT").cloned().unwrap_or_default(),
        None => spec.command.join(" "),
    };
}

/// Nodes that have left for good are not told of.
pub(super) fn is_there(node: &NodeSummary) -> bool {
    node.health() != Health::Gone
}

/// What matters about nodes to those who ask for some.
pub(super) fn facts(nodes: &[NodeSummary]) -> Vec<NodeFacts> {
    let fact = |node: &NodeSummary| NodeFacts {
        name: node.name.clone(),
        partition: partition(&node.pool),
        device_type: node.device_type.clone(),
        devices: node.devices,
        cpus: node.cpus,
        memory_mib: u64::from(node.memory_gib) * 1024,
        features: node.features.clone(),
    };
    nodes.iter().filter(|node| is_there(node)).map(fact).collect()
}

pub(super) fn node(node: &NodeSummary) -> Node {
    let is_cpu = node.device_type == CPU;
    let used = node.devices.saturating_sub(node.free);
    let state = match node.health() {
        Health::Lost | Health::Gone => NodeState::Down,
        Health::Draining => NodeState::Draining,
        Health::Cordoned if used > 0 => NodeState::Draining,
        Health::Cordoned => NodeState::Drained,
        Health::Up if used == 0 => NodeState::Idle,
        Health::Up if node.free == 0 => NodeState::Allocated,
        Health::Up => NodeState::Mixed,
    };
    let cpus =
        if is_cpu { (node.devices, used) } else { (node.cpus, node.cpus * used / node.devices.max(1)) };
    Node {
        name: node.name.clone(),
        partition: partition(&node.pool),
        state,
        cpus,
        memory_mib: u64::from(node.memory_gib) * 1024,
        gres: if is_cpu { String::new() } else { format!("gpu:{}:{}", node.device_type, node.devices) },
        features: node.features.join(","),
        reason: node.reason.clone(),
        address: node.address.clone(),
    }
}
