//! What people see of jobs and nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wharf_core::{GaveWay, JobEnd, JobId, JobState, NodeId, Phase, PhaseCounts, Reshape, Reshapes};
use wharf_proto::{
    Cause, HistoryEntry, InfoReply, JobDetail, JobPhase, JobSpec, JobSummary, NodeSummary, PolicyChange,
    PolicyReply, Share, Wait, node_summary,
};

use crate::auth::{Identity, REDACTED};
use crate::dispatcher::Dispatcher;
use crate::jobs::amendments::Amended;
use crate::jobs::failures::FailureHistory;
use crate::jobs::names::Called;
use crate::jobs::wire;
use crate::journal::JournalError;
use crate::journal::record::Record;
use crate::journal::wire::event;
use crate::policy::active_policy::PolicyChoice;
use crate::tasks::execution::Execution;
use crate::tasks::progress::Progress;

/// One job in a line.
pub(crate) fn summary(dispatcher: &Dispatcher, job: JobId) -> JobSummary {
    let state = dispatcher.engine.state();
    let head_state = &dispatcher.log.state;
    let (spec, life) = (state.spec(job), state.job(job));
    let unix_s = |time: wharf_core::Time| dispatcher.clock.unix_s(time);
    let placement = state.schedule().placement(job).unwrap_or_else(|| life.left());
    let device_type = state.topology().type_of(placement);
    let share = |share: &wharf_core::NodeShare| Share {
        node: state.topology().node(share.node).spec.name.to_string(),
        devices: share.devices.iter().collect(),
    };
    JobSummary {
        job_id: job.0,
        name: dispatcher.name_of(job).to_owned(),
        user: spec.user.as_deref().unwrap_or_default().to_owned(),
        phase: phase(life).into(),
        devices: spec.gang.devices,
        submit_s: unix_s(spec.submit),
        start_s: life.first_start.map(unix_s).unwrap_or_default(),
        end_s: life.end.map(unix_s).unwrap_or_default(),
        exit_code: dispatcher.exit_code(job).unwrap_or_default(),
        preemptions: head_state.failure_count(job, Cause::Preemption),
        iterations_done: iterations_done(dispatcher, job),
        placement: placement.iter().map(share).collect(),
        priority: spec.priority,
        reason: reason(dispatcher, job),
        metrics: metrics(dispatcher, job),
        remarks: remarks(dispatcher, job),
        iterations: iterations(dispatcher, job),
        array_index: spec.array.as_ref().map(|element| element.index),
        array_job: head_state.first_of(job.0),
        cause: cause(dispatcher, job).into(),
        causes: head_state.failures.get(&job.0).map(FailureHistory::to_wire).unwrap_or_default(),
        account: head_state.account(job.0).to_owned(),
        pool: spec.gang.needs.as_ref().and_then(|needs| needs.pool.as_deref()).unwrap_or_default().to_owned(),
        retry_s: head_state.delays.get(&job.0).map_or(0.0, |until| dispatcher.clock.epoch_unix_s() + until),
        plan: head_state.plan_of(job),
        reshapes: Some(life.reshapes()).filter(|counts| *counts != Reshapes::default()).map(wire::reshapes),
        deadline_s: spec.deadline.map(unix_s).unwrap_or_default(),
        signal: head_state.failures.get(&job.0).and_then(|failures| failures.signal).unwrap_or_default(),
        restarts: life.generation.saturating_sub(1),
        wait: dispatcher.wait_of(job).into(),
        nodes: spec.gang.needs.as_ref().and_then(|needs| needs.nodes).unwrap_or_default(),
        time_limit_s: dispatcher.time_limit_s(job),
        array_limit: dispatcher.spec(job).map_or(0, |spec| spec.array_limit),
        run_s: life.first_start.map(|_| unix_s(life.placed_at())).unwrap_or_default(),
        device_type: device_type
            .map(|kind| state.topology().types()[kind.index()].to_string())
            .unwrap_or_default(),
        explanation: None,
    }
}

/// Reported iterations.
fn iterations_done(dispatcher: &Dispatcher, job: JobId) -> f64 {
    let kept = || dispatcher.log.state.checkpoints.get(&job.0).copied().unwrap_or(0.0);
    match dispatcher.log.state.reported.get(&job.0) {
        Some(&(done, _)) if dispatcher.engine.state().job(job).is_ended() => done,
        _ => dispatcher.tasks.progress(job).map_or_else(kept, |told| told.iterations),
    }
}

/// Declared or reported total iterations; 0: unknown.
fn iterations(dispatcher: &Dispatcher, job: JobId) -> f64 {
    let before = || dispatcher.log.state.reported.get(&job.0).map_or(0.0, |&(_, total)| total);
    dispatcher.total_iterations(job).unwrap_or_else(before)
}

/// What is remarkable about a job that finished: it may have ended early.
fn early_end(dispatcher: &Dispatcher, job: JobId) -> Option<String> {
    let &(done, total) = dispatcher.log.state.reported.get(&job.0)?;
    (done < total).then(|| format!("ended after {done:.0} of {total:.0} iterations"))
}

/// What brought a job's last run to its end, where that was not the end of its work.
pub(crate) fn cause(dispatcher: &Dispatcher, job: JobId) -> Cause {
    match dispatcher.engine.state().job(job).phase {
        Phase::Ended(JobEnd::Finished | JobEnd::Rejected) => Cause::NoCause,
        // It runs again: the failure of its last run has ended.
        Phase::Placed | Phase::Running => Cause::NoCause,
        Phase::Ended(JobEnd::Cancelled) => Cause::Request,
        Phase::Ended(JobEnd::TimedOut) => Cause::TimeLimit,
        _ => dispatcher.log.state.last_cause(job),
    }
}

/// Why a job ended as it did, where its phase does not say it all.
fn reason(dispatcher: &Dispatcher, job: JobId) -> String {
    let life = dispatcher.engine.state().job(job);
    if let Some(delayed) = dispatcher.delayed(job).filter(|_| life.phase == Phase::Held) {
        return delayed;
    }
    let is_noted = matches!(
        life.phase,
        Phase::Waiting | Phase::Held | Phase::Ended(JobEnd::Failed { .. } | JobEnd::Cancelled)
    );
    if let Some(noted) = dispatcher.log.state.reasons.get(&job.0).filter(|_| is_noted) {
        return noted.clone();
    }
    match life.phase {
        Phase::Placed | Phase::Running => {
            dispatcher.away(job).or_else(|| dispatcher.stalled(job)).unwrap_or_default()
        }
        Phase::Ended(JobEnd::Finished) => early_end(dispatcher, job).unwrap_or_default(),
        Phase::Ended(JobEnd::TimedOut) => "time limit reached".to_owned(),
        Phase::Ended(JobEnd::Rejected) => "no node can hold it".to_owned(),
        _ => String::new(),
    }
}

/// All phases that people are informed of.
pub(crate) const PHASES: [JobPhase; 9] = [
    JobPhase::Waiting,
    JobPhase::Held,
    JobPhase::Placed,
    JobPhase::Running,
    JobPhase::Stopping,
    JobPhase::Finished,
    JobPhase::Failed,
    JobPhase::Cancelled,
    JobPhase::TimedOut,
];

/// How many jobs are in a phase.
pub(crate) fn count(counts: PhaseCounts, phase: JobPhase) -> u32 {
    match phase {
        JobPhase::Waiting => counts.waiting,
        JobPhase::Held => counts.held,
        JobPhase::Placed => counts.placed - counts.running,
        JobPhase::Running => counts.running,
        JobPhase::Stopping => counts.stopping,
        JobPhase::Finished => counts.ended - counts.failed - counts.cancelled - counts.timed_out,
        JobPhase::Failed => counts.failed,
        JobPhase::Cancelled => counts.cancelled,
        JobPhase::TimedOut => counts.timed_out,
    }
}

pub(crate) fn phase(life: &JobState) -> JobPhase {
    match life.phase {
        Phase::Waiting => JobPhase::Waiting,
        Phase::Held => JobPhase::Held,
        Phase::Placed => JobPhase::Placed,
        Phase::Running => JobPhase::Running,
        Phase::Stopping => JobPhase::Stopping,
        Phase::Ended(JobEnd::Finished) => JobPhase::Finished,
        Phase::Ended(JobEnd::Failed { .. } | JobEnd::Rejected) => JobPhase::Failed,
        Phase::Ended(JobEnd::Cancelled) => JobPhase::Cancelled,
        Phase::Ended(JobEnd::TimedOut) => JobPhase::TimedOut,
    }
}

/// The jobs of some ids; the first of an array stands for all its elements, unless each id stands for itself.
///
/// # Errors
/// The first id that no job has.
pub(crate) fn named_jobs(dispatcher: &Dispatcher, ids: &[u32], elements_only: bool) -> Result<Vec<u32>, u32> {
    let mut jobs = Vec::new();
    for &id in ids {
        if !dispatcher.engine.state().has_job(JobId(id)) {
            return Err(id);
        }
        jobs.extend(if elements_only { id..id + 1 } else { dispatcher.log.state.whole(id) });
    }
    Ok(jobs)
}

/// What is to be known about a job's metrics, of this run or else of the one before it.
fn remarks(dispatcher: &Dispatcher, job: JobId) -> Vec<String> {
    let now = dispatcher.tasks.progress(job).filter(|progress| !progress.metrics.is_empty());
    let kept = || dispatcher.log.state.remarks.get(&job.0).cloned().unwrap_or_default();
    now.map_or_else(kept, Progress::remarks)
}

/// What a job's trainer told last: in this run, or else in the one before it.
fn metrics(dispatcher: &Dispatcher, job: JobId) -> BTreeMap<String, f64> {
    let now = dispatcher.tasks.progress(job).map(|told| &told.metrics).filter(|metrics| !metrics.is_empty());
    let known = now.or_else(|| dispatcher.log.state.metrics.get(&job.0));
    known.into_iter().flatten().map(|(name, number)| (name.clone(), number.0)).collect()
}

/// Whose a job is; `None` where there is no such job.
pub(crate) fn owner(dispatcher: &Dispatcher, job: JobId) -> Option<String> {
    let state = dispatcher.engine.state();
    state.has_job(job).then(|| state.spec(job).user.as_deref().unwrap_or_default().to_owned())
}

/// One job with its history.
pub(crate) fn detail(dispatcher: &Dispatcher, job: JobId) -> Result<JobDetail, JournalError> {
    let first = dispatcher.log.state.first_of(job.0);
    let history = dispatcher.log.journal.history(job.0, first)?;
    let entry = |(time_s, what): (f64, String)| HistoryEntry {
        time_s: dispatcher.clock.epoch_unix_s() + time_s,
        event: serde_json::from_str(&what).ok().and_then(|record| event(&record)),
        what,
    };
    let brief = brief_detail(dispatcher, job, submitted_spec(dispatcher, first)?.as_deref(), true);
    Ok(JobDetail { history: history.into_iter().map(entry).collect(), ..brief })
}

/// The spec that a job, or an array by its first job, was submitted with.
fn submitted_spec(dispatcher: &Dispatcher, first: u32) -> Result<Option<Arc<JobSpec>>, JournalError> {
    match dispatcher.spec(JobId(first)) {
        Some(spec) => Ok(Some(spec.clone())),
        None => dispatcher.log.journal.spec(first),
    }
}

/// One job without its history, and without its spec on request.
fn brief_detail(
    dispatcher: &Dispatcher,
    job: JobId,
    submitted: Option<&JobSpec>,
    has_spec: bool,
) -> JobDetail {
    let spec = submitted.filter(|_| has_spec);
    let first = dispatcher.log.state.first_of(job.0);
    // The first job stands for its array and tells all indexes, the others tell their own.
    let shown = if job.0 == first { dispatcher.log.state.whole(first) } else { job.0..job.0 + 1 };
    let index = |id: u32| dispatcher.engine.state().spec(JobId(id)).array.as_ref().map(|one| one.index);
    let amended = dispatcher.log.state.amended.get(&job.0);
    let own = |spec: &JobSpec| {
        let mut spec = JobSpec {
            array: shown.filter_map(index).collect(),
            name: dispatcher.name_of(job).to_owned(),
            ..spec.clone()
        };
        if let Some(limit_s) = amended.and_then(|amended| amended.time_limit_s) {
            spec.time_limit_s = limit_s;
        }
        // For workers only.
        spec.ray.iter_mut().for_each(|ray| ray.token.clear());
        if let (Some(parameters), [index], true) =
            (&mut spec.parameters, spec.array.as_slice(), job.0 != first)
        {
            // The first job stands for all; the others tell their own values only, as an array's are many.
            let own = parameters.rows.get(*index as usize).cloned();
            parameters.rows = own.into_iter().collect();
        }
        spec
    };
    let checkpoint_dir = spec.map(|spec| dispatcher.first_checkpoint_dir(spec, job).path);
    // Specs of jobs that ended are in the journal alone.
    let limit_s = amended.and_then(|amended| amended.time_limit_s);
    let limit_s = limit_s.or_else(|| Some(submitted?.time_limit_s)).unwrap_or_default();
    JobDetail {
        summary: Some(JobSummary { time_limit_s: limit_s, ..summary(dispatcher, job) }),
        spec: spec.map(own),
        history: Vec::new(),
        steps: amended.map(Amended::steps).unwrap_or_default(),
        checkpoint_dir: checkpoint_dir.unwrap_or_default(),
    }
}

/// The jobs of some ids and the elements of some arrays, by id; unknown ids are left out.
pub(crate) fn jobs_of(dispatcher: &Dispatcher, ids: &[u32]) -> Vec<u32> {
    // An id that is repeated must not cost as much as its array each time.
    let named: BTreeSet<u32> = ids.iter().copied().collect();
    let known = named.into_iter().filter(|&id| dispatcher.engine.state().has_job(JobId(id)));
    let jobs: BTreeSet<u32> = known.flat_map(|id| dispatcher.log.state.whole(id)).collect();
    jobs.into_iter().collect()
}

/// Several jobs with their histories, or in brief.
pub(crate) fn details(
    dispatcher: &Dispatcher,
    jobs: &[JobId],
    is_brief: bool,
) -> Result<Vec<JobDetail>, JournalError> {
    if !is_brief {
        return jobs.iter().map(|&job| detail(dispatcher, job)).collect();
    }
    let mut last: Option<(u32, Option<Arc<JobSpec>>)> = None;
    let describe = |&job: &JobId| -> Result<JobDetail, JournalError> {
        let first = dispatcher.log.state.first_of(job.0);
        let is_next = last.as_ref().is_none_or(|(before, _)| *before != first);
        if is_next {
            last = Some((first, submitted_spec(dispatcher, first)?));
        }
        let spec = last.as_ref().and_then(|(_, spec)| spec.as_deref());
        Ok(brief_detail(dispatcher, job, spec, is_next))
    };
    jobs.iter().map(describe).collect()
}

/// The wait reason of a job for one user: failure texts of other users' jobs are hidden.
pub(crate) fn explain_to(dispatcher: &Dispatcher, job: JobId, identity: &Identity) -> String {
    let is_noted = dispatcher.log.state.reasons.contains_key(&job.0);
    let is_failed = matches!(dispatcher.engine.state().job(job).phase, Phase::Ended(JobEnd::Failed { .. }));
    if is_noted && is_failed && !identity.may_read(&owner(dispatcher, job).unwrap_or_default()) {
        return format!("it failed; {REDACTED}");
    }
    explain(dispatcher, job)
}

/// Who cancelled a job, as far as the journal goes back.
fn cancelled_by(dispatcher: &Dispatcher, job: JobId) -> Option<String> {
    let history = dispatcher.log.journal.history(job.0, dispatcher.log.state.first_of(job.0)).ok()?;
    history.into_iter().rev().find_map(|(_, record)| match serde_json::from_str(&record).ok()? {
        Record::JobChanged { change, by, .. } | Record::ArrayChanged { change, by, .. } => {
            (change == "cancel").then_some(by)
        }
        _ => None,
    })
}

/// Whether a job waits for other nodes, pools or limits, and not for other jobs.
pub(crate) fn is_unplaceable(dispatcher: &Dispatcher, job: JobId) -> bool {
    let is_waiting = dispatcher.engine.state().job(job).phase == Phase::Waiting;
    is_waiting && dispatcher.engine.explain(dispatcher.now(), job).is_lasting()
}

/// Why a job is where it is.
pub(crate) fn explain(dispatcher: &Dispatcher, job: JobId) -> String {
    let life = dispatcher.engine.state().job(job);
    match life.phase {
        Phase::Waiting => {
            let reason = told(dispatcher, job);
            match life.gave_way() {
                Some(gave) => format!("{reason}; {}", made_room(dispatcher, gave)),
                None => reason,
            }
        }
        Phase::Held => held(dispatcher, job),
        Phase::Placed => with_impediment(
            with_reshape("it has its devices and is starting", dispatcher, job),
            dispatcher,
            job,
        ),
        Phase::Running => {
            let text = with_reshape("it runs", dispatcher, job);
            with_impediment(text + &never_resized(dispatcher, job), dispatcher, job)
        }
        Phase::Stopping if dispatcher.engine.state().reshape(job).is_some() => {
            with_reshape("it is stopping and saving a checkpoint", dispatcher, job)
        }
        Phase::Stopping => match life.gave_way() {
            Some(gave) => format!("it is stopping and saving a checkpoint: {}", made_room(dispatcher, gave)),
            None => "it is stopping and saving a checkpoint".to_owned(),
        },
        Phase::Ended(JobEnd::Finished) => match early_end(dispatcher, job) {
            Some(remark) => format!("it is finished: {remark}"),
            None => "it is finished".to_owned(),
        },
        Phase::Ended(JobEnd::Failed { code }) => match dispatcher.log.state.reasons.get(&job.0) {
            Some(noted) => format!("it failed: {noted}"),
            None => match dispatcher.log.state.failures.get(&job.0).map(FailureHistory::cause) {
                None | Some(Cause::NoCause | Cause::UserError) => format!("it failed with exit code {code}"),
                Some(_) => format!("it failed after {}", dispatcher.last_cause(job)),
            },
        },
        Phase::Ended(JobEnd::Cancelled) => match cancelled_by(dispatcher, job) {
            None if dispatcher.log.state.reasons.contains_key(&job.0) => {
                format!("it was cancelled: {}", dispatcher.log.state.reasons[&job.0])
            }
            Some(user) => format!("it was cancelled by {user}"),
            None => "it was cancelled".to_owned(),
        },
        Phase::Ended(JobEnd::TimedOut) => "it was stopped at its time limit".to_owned(),
        Phase::Ended(JobEnd::Rejected) => "no node can hold it".to_owned(),
    }
}

/// What the policy says of a job that waits, with the names that people know.
fn told(dispatcher: &Dispatcher, job: JobId) -> String {
    dispatcher.engine.explain(dispatcher.now(), job).told(&Called(dispatcher))
}

fn made_room(dispatcher: &Dispatcher, gave: GaveWay) -> String {
    wharf_core::made_room(gave.to, &gave.chosen, &Called(dispatcher))
}

/// What is said of a job, and why it has other devices than before, where it has.
fn with_reshape(text: &str, dispatcher: &Dispatcher, job: JobId) -> String {
    let state = dispatcher.engine.state();
    match state.reshape(job) {
        Some(reshape) => format!("{text}; {}", reshaped(dispatcher, job, reshape)),
        None => text.to_owned(),
    }
}

/// A remark on an elastic job under a policy that never resizes any.
fn never_resized(dispatcher: &Dispatcher, job: JobId) -> String {
    let gang = &dispatcher.engine.state().spec(job).gang;
    let policy = dispatcher.log.state.policy.as_ref().filter(|_| gang.devices_min < gang.devices_max);
    match policy.and_then(|choice| dispatcher.policy.never_resizes(choice)) {
        Some(policy) => format!("; the policy `{policy}` never resizes jobs"),
        None => String::new(),
    }
}

/// What is said of a job, and what keeps it from getting on.
fn with_impediment(text: String, dispatcher: &Dispatcher, job: JobId) -> String {
    match dispatcher.away(job).or_else(|| dispatcher.stalled(job)) {
        Some(impediment) => format!("{text}; {impediment}"),
        None => text,
    }
}

/// How a job's devices differ from those before, and who got those.
fn reshaped(dispatcher: &Dispatcher, job: JobId, reshape: Reshape) -> String {
    let state = dispatcher.engine.state();
    let life = state.job(job);
    let after = state.schedule().placement(job).unwrap_or_default();
    let to = life.last_gave_way().and_then(|gave| gave.to);
    wharf_core::reshaped(state.topology(), reshape, life.left(), after, to, &Called(dispatcher))
}

/// What a held job waits for.
fn held(dispatcher: &Dispatcher, job: JobId) -> String {
    const SHOWN_MAX: usize = 5;
    let state = dispatcher.engine.state();
    let edges = dispatcher.jobs.dependencies_of(job);
    let is_open = |&id: &u32| state.has_job(JobId(id)) && !state.job(JobId(id)).is_ended();
    let open: Vec<u32> = edges.iter().map(|edge| edge.job).filter(is_open).collect();
    let by_someone = dispatcher.log.state.holds.contains(&job.0);
    if let Some(delayed) = dispatcher.delayed(job).filter(|_| !by_someone) {
        return delayed;
    }
    match dispatcher.wait_of(job) {
        Wait::Impossible => {
            return "its dependency can never be satisfied: another job ended otherwise".to_owned();
        }
        Wait::ArrayLimit => {
            let limit = dispatcher.spec(job).map_or(0, |spec| spec.array_limit);
            return format!("other elements of its array go first: it may run {limit} at a time");
        }
        _ => {}
    }
    if open.is_empty() || by_someone {
        return told(dispatcher, job);
    }
    let called = Called(dispatcher);
    let shown: Vec<String> = open.iter().take(SHOWN_MAX).map(|&id| called.number(JobId(id))).collect();
    match open.len().saturating_sub(SHOWN_MAX) {
        0 => format!("waits for the end of job {}", shown.join(", ")),
        more => format!("waits for the end of jobs {} and {more} more", shown.join(", ")),
    }
}

/// All nodes, by id.
pub(crate) fn nodes(dispatcher: &Dispatcher, also_gone: bool) -> Vec<NodeSummary> {
    let state = dispatcher.engine.state();
    let mut jobs = Vec::new();
    let leaving = leaving(dispatcher);
    let nodes = state.topology().nodes().iter().enumerate();
    nodes
        .map(|(index, node)| (NodeId::from_index(index), node))
        .filter(|&(id, _)| also_gone || !dispatcher.log.state.is_gone(id))
        .map(|(id, node)| {
            state.schedule().jobs_on(state.topology(), id, &mut jobs);
            let facts = dispatcher.nodes.facts(id).cloned().unwrap_or_default();
            NodeSummary {
                name: node.spec.name.to_string(),
                health: health(dispatcher, id, leaving.contains(&id)).into(),
                device_type: node.spec.device_type.to_string(),
                devices: node.spec.devices,
                free: state.schedule().free(id).len(),
                job_ids: jobs.iter().map(|job| job.0).collect(),
                address: facts.address,
                cpus: node.spec.cpus,
                memory_gib: node.spec.memory_gib,
                switch: node.spec.switch,
                pool: node.spec.pool.to_string(),
                device: facts.devices,
                reason: dispatcher.log.state.node_reasons.get(&id.0).cloned().unwrap_or_default(),
                version: facts.version,
                features: facts.features,
                disk: facts.disk,
                is_away: state.schedule().is_there(id) && !dispatcher.nodes.connections.is_connected(id),
            }
        })
        .collect()
}

/// How all nodes are, by id.
pub(crate) fn healths(dispatcher: &Dispatcher) -> Vec<(NodeId, node_summary::Health)> {
    let leaving = leaving(dispatcher);
    let all = (0..dispatcher.engine.state().topology().nodes().len()).map(NodeId::from_index);
    all.map(|id| (id, health(dispatcher, id, leaving.contains(&id)))).collect()
}

/// Nodes with tasks all of which were requested to stop.
fn leaving(dispatcher: &Dispatcher) -> BTreeSet<NodeId> {
    let of = |is_stopping: bool| {
        let runs = dispatcher.tasks.executions().filter(move |run| run.is_stopping == is_stopping);
        runs.flat_map(Execution::open_nodes)
    };
    // Jobs of a node that is only cordoned run on.
    let staying: BTreeSet<NodeId> = of(false).collect();
    of(true).filter(|node| !staying.contains(node)).collect()
}

fn health(dispatcher: &Dispatcher, node: NodeId, is_left: bool) -> node_summary::Health {
    let schedule = dispatcher.engine.state().schedule();
    if dispatcher.log.state.is_gone(node) {
        node_summary::Health::Gone
    } else if !schedule.is_there(node) || !dispatcher.nodes.connections.is_connected(node) {
        node_summary::Health::Lost
    } else if schedule.is_cordoned(node) && is_left {
        node_summary::Health::Draining
    } else if schedule.is_cordoned(node) {
        node_summary::Health::Cordoned
    } else {
        node_summary::Health::Up
    }
}

/// The node of that name.
pub(crate) fn node_named(dispatcher: &Dispatcher, name: &str) -> Option<NodeId> {
    let nodes = dispatcher.engine.state().topology().nodes();
    nodes.iter().position(|node| &*node.spec.name == name).map(NodeId::from_index)
}

/// Who decides and who decided before, as far as the journal goes back.
pub(crate) fn policies(dispatcher: &Dispatcher) -> Result<PolicyReply, JournalError> {
    let change = |(time_s, by, choice): (f64, String, PolicyChoice)| PolicyChange {
        time_s: dispatcher.clock.epoch_unix_s() + time_s,
        by,
        policy: choice.name,
        settings: choice.settings.into_iter().collect(),
    };
    let mut changes: Vec<PolicyChange> = dispatcher.log.journal.policies()?.into_iter().map(change).collect();
    if changes.is_empty()
        && let Some(choice) = dispatcher.log.state.policy.clone()
    {
        changes.push(change((0.0, String::new(), choice)));
    }
    Ok(PolicyReply { changes })
}

/// What the head is and does.
pub(crate) fn info(dispatcher: &Dispatcher) -> InfoReply {
    let state = dispatcher.engine.state();
    let counts = state.counts();
    let gone =
        dispatcher.log.state.left.iter().filter(|(_, is_over)| **is_over).map(|(&node, _)| NodeId(node));
    let gone_devices: u32 = gone.clone().map(|node| state.topology().node(node).spec.devices).sum();
    InfoReply {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        policy: dispatcher.log.state.policy.as_ref().map(|choice| choice.name.clone()).unwrap_or_default(),
        jobs_live: counts.waiting + counts.held + counts.placed + counts.stopping,
        jobs_ended: counts.ended,
        nodes: (state.topology().nodes().len() - gone.count()) as u32,
        devices: state.topology().device_count() - gone_devices,
        devices_free: state.schedule().free_count(),
        epoch_s: dispatcher.clock.epoch_unix_s(),
        alerts: dispatcher.alerts.to_wire(),
        ..InfoReply::default()
    }
}
