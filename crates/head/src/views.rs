//! What people see of jobs and nodes.

use wharf_core::{JobEnd, JobId, JobState, NodeId, Phase};
use wharf_proto::{
    HistoryEntry, InfoReply, JobDetail, JobPhase, JobSummary, ListJobsRequest, NodeSummary, Share,
    node_summary,
};

use crate::dispatcher::Dispatcher;
use crate::journal::JournalError;

/// Jobs that match a filter, by id.
pub(crate) fn jobs(dispatcher: &Dispatcher, filter: &ListJobsRequest) -> Vec<JobSummary> {
    let state = dispatcher.engine.state();
    state
        .jobs()
        .filter(|(job, spec, life)| {
            (filter.job_ids.is_empty() || filter.job_ids.contains(&job.0))
                && (!filter.live_only || !life.is_ended())
                && (filter.user.is_empty() || spec.user.as_deref() == Some(&filter.user))
        })
        .map(|(job, _, _)| summary(dispatcher, job))
        .collect()
}

/// One job in a line.
pub(crate) fn summary(dispatcher: &Dispatcher, job: JobId) -> JobSummary {
    let state = dispatcher.engine.state();
    let (spec, life) = (state.spec(job), state.job(job));
    let unix_s = |time: wharf_core::Time| dispatcher.epoch_unix_s + time.seconds();
    let placement = state.schedule().placement(job).unwrap_or_else(|| life.left());
    let share = |share: &wharf_core::NodeShare| Share {
        node: state.topology().node(share.node).spec.name.to_string(),
        devices: share.devices.iter().collect(),
    };
    JobSummary {
        job_id: job.0,
        name: spec.name.to_string(),
        user: spec.user.as_deref().unwrap_or_default().to_owned(),
        phase: phase(life).into(),
        devices: spec.gang.devices,
        submit_s: unix_s(spec.submit),
        start_s: life.first_start.map(unix_s).unwrap_or_default(),
        end_s: life.end.map(unix_s).unwrap_or_default(),
        exit_code: dispatcher.exit_code(job).unwrap_or_default(),
        preemptions: life.preemptions,
        iterations_done: dispatcher.progress.get(&job).map_or(0.0, |&(made, _)| made),
        placement: placement.iter().map(share).collect(),
        priority: spec.priority,
        ..JobSummary::default()
    }
}

fn phase(life: &JobState) -> JobPhase {
    match life.phase {
        Phase::Waiting => JobPhase::Waiting,
        Phase::Held => JobPhase::Held,
        Phase::Placed => JobPhase::Placed,
        Phase::Running => JobPhase::Running,
        Phase::Stopping => JobPhase::Stopping,
        Phase::Ended(JobEnd::Finished) => JobPhase::Finished,
        Phase::Ended(JobEnd::Failed { .. } | JobEnd::Rejected) => JobPhase::Failed,
        Phase::Ended(JobEnd::Cancelled) => JobPhase::Cancelled,
    }
}

/// One job with its history.
pub(crate) fn detail(dispatcher: &Dispatcher, job: JobId) -> Result<JobDetail, JournalError> {
    let history = dispatcher.journal.history(job.0)?;
    let entry =
        |(time_s, what): (f64, String)| HistoryEntry { time_s: dispatcher.epoch_unix_s + time_s, what };
    Ok(JobDetail {
        summary: Some(summary(dispatcher, job)),
        spec: dispatcher.specs.get(job.index()).cloned(),
        history: history.into_iter().map(entry).collect(),
    })
}

/// Why a job is where it is.
pub(crate) fn explain(dispatcher: &Dispatcher, job: JobId) -> String {
    let life = dispatcher.engine.state().job(job);
    match life.phase {
        Phase::Waiting => dispatcher.engine.explain(dispatcher.now(), job).to_string(),
        Phase::Held => {
            let open: Vec<String> = dispatcher.specs[job.index()]
                .dependencies
                .iter()
                .map(|dependency| dependency.job_id)
                .filter(|&id| !dispatcher.engine.state().job(JobId(id)).is_ended())
                .map(|id| id.to_string())
                .collect();
            if open.is_empty() {
                dispatcher.engine.explain(dispatcher.now(), job).to_string()
            } else {
                format!("waits for the end of job {}", open.join(", "))
            }
        }
        Phase::Placed => "it has its devices and is being started".to_owned(),
        Phase::Running => "it runs".to_owned(),
        Phase::Stopping => "it was told to stop and saves its work".to_owned(),
        Phase::Ended(JobEnd::Finished) => "it is finished".to_owned(),
        Phase::Ended(JobEnd::Failed { code }) => format!("it failed with exit code {code}"),
        Phase::Ended(JobEnd::Cancelled) => "it was cancelled".to_owned(),
        Phase::Ended(JobEnd::Rejected) => "no node could ever hold it".to_owned(),
    }
}

/// All nodes, by id.
pub(crate) fn nodes(dispatcher: &Dispatcher) -> Vec<NodeSummary> {
    let state = dispatcher.engine.state();
    let mut jobs = Vec::new();
    let nodes = state.topology().nodes().iter().enumerate();
    nodes
        .map(|(index, node)| {
            let id = NodeId::from_index(index);
            state.schedule().jobs_on(state.topology(), id, &mut jobs);
            let is_up = state.schedule().is_up(id) && dispatcher.sessions.contains_key(&id);
            let health = if is_up { node_summary::Health::Up } else { node_summary::Health::Lost };
            NodeSummary {
                name: node.spec.name.to_string(),
                health: health.into(),
                device_type: node.spec.device_type.to_string(),
                devices: node.spec.devices,
                free: state.schedule().free(id).len(),
                job_ids: jobs.iter().map(|job| job.0).collect(),
                address: dispatcher.addresses.get(&id).cloned().unwrap_or_default(),
                ..NodeSummary::default()
            }
        })
        .collect()
}

/// The node of that name.
pub(crate) fn node_named(dispatcher: &Dispatcher, name: &str) -> Option<NodeId> {
    let nodes = dispatcher.engine.state().topology().nodes();
    nodes.iter().position(|node| &*node.spec.name == name).map(NodeId::from_index)
}

/// What the head is and does.
pub(crate) fn info(dispatcher: &Dispatcher) -> InfoReply {
    let state = dispatcher.engine.state();
    let counts = state.counts();
    InfoReply {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        policy: String::new(),
        jobs_live: counts.waiting + counts.held + counts.placed + counts.stopping,
        jobs_ended: counts.ended,
        nodes: state.topology().nodes().len() as u32,
        devices: state.topology().device_count(),
        devices_free: state.schedule().free_count(),
        ..InfoReply::default()
    }
}
