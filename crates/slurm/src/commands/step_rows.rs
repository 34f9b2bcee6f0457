//! Steps of jobs as `sacct` and `scontrol` tell of them.

use crate::grammar::hostlist;
use crate::grammar::outcome::{Outcome, State};
use crate::grammar::squeue::Job;
use wharf_proto::{JobDetail, StepSummary};

use super::view;

/// How a step ended; none while it runs.
fn outcome(step: &StepSummary) -> Option<Outcome> {
    match (step.end_s > 0.0, step.signal) {
        (false, _) => None,
        (true, 0) => Some(Outcome::Exited(step.exit_code)),
        (true, signal) => Some(Outcome::Killed(signal)),
    }
}

/// The worst that any step of a job ended with.
pub(super) fn derived(steps: &[StepSummary]) -> String {
    let worst = steps.iter().max_by_key(|step| (step.exit_code, step.signal));
    worst.and_then(outcome).map_or_else(|| "0:0".to_owned(), |outcome| outcome.exit().to_string())
}

/// The rows below a job's own: its script's, where it has one, and those of its steps.
pub(super) fn rows(job: &Job, detail: &JobDetail) -> Vec<Job> {
    let summary = detail.summary.clone().unwrap_or_default();
    let batch = detail.spec.as_ref().and_then(|spec| spec.batch.as_ref());
    if batch.is_none() || summary.run_s <= 0.0 {
        return Vec::new();
    }
    let of = |suffix: &str| Job {
        id: format!("{}.{suffix}", job.id),
        partition: String::new(),
        user: String::new(),
        ..job.clone()
    };
    let mut rows = Vec::new();
    if batch.is_some_and(|batch| !batch.is_allocation) {
        let first = summary.placement.first();
        rows.push(Job {
            name: "batch".to_owned(),
            // A script that is stopped at the limit was cancelled, whatever its job did.
            state: if job.state == State::Timeout { State::Cancelled } else { job.state },
            nodes: 1,
            nodelist: first.map(|share| share.node.clone()).unwrap_or_default(),
            cpus: first.map_or(1, |share| share.devices.len() as u32),
            ..of("batch")
        });
    }
    let each = batch.map_or(1, |batch| batch.cpus_per_task.max(1));
    for step in &detail.steps {
        let ended = outcome(step);
        let end_s = if step.end_s > 0.0 { step.end_s } else { view::now_s() };
        let is_over = view::outcome(&summary).is_some();
        rows.push(Job {
            name: step.name.clone(),
            state: match ended {
                Some(outcome) => outcome.state(),
                // Its end was not reported, and there is no more output.
                None if is_over => State::Cancelled,
                None => State::Running,
            },
            nodes: step.nodes.len() as u32,
            nodelist: hostlist::compress(&step.nodes),
            cpus: step.tasks * each,
            used_s: (end_s - step.start_s).max(0.0) as u64,
            times: [view::moment(step.start_s), view::moment(step.start_s), view::moment(step.end_s)],
            exit: ended.map_or_else(|| "0:0".to_owned(), |outcome| outcome.exit().to_string()),
            ..of(&step.id.to_string())
        });
    }
    rows
}
