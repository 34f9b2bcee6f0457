//! Steps of jobs as `sacct`, `squeue -s` and `scontrol` show them.

use crate::grammar::accounting::{Level, Usage};
use crate::grammar::hostlist;
use crate::grammar::outcome::{Outcome, State};
use crate::grammar::squeue::Job;
use wharf_proto::{JobDetail, JobSpec, StepSummary};

use super::view;

/// A script or a step.
pub(super) struct StepRow {
    pub(super) job: Job,
    pub(super) level: Level,
    pub(super) tasks: u32,
    pub(super) usage: Option<Usage>,
}

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
pub(super) fn rows(job: &Job, detail: &JobDetail, spec: &JobSpec) -> Vec<StepRow> {
    let summary = detail.summary.clone().unwrap_or_default();
    let Some(batch) = spec.batch.as_ref().filter(|_| summary.run_s > 0.0) else { return Vec::new() };
    let of = |suffix: &str| Job {
        id: format!("{}.{suffix}", job.id),
        partition: String::new(),
        user: String::new(),
        ..job.clone()
    };
    let mut rows = Vec::new();
    if !batch.is_allocation {
        let first = summary.placement.first();
        let script = Job {
            name: "batch".to_owned(),
            // A script that is stopped at the limit was cancelled, whatever its job did.
            state: if job.state == State::Timeout { State::Cancelled } else { job.state },
            nodes: 1,
            nodelist: first.map(|share| share.node.clone()).unwrap_or_default(),
            cpus: first.map_or(1, |share| share.devices.len() as u32),
            ..of("batch")
        };
        rows.push(StepRow { job: script, level: Level::Batch, tasks: 1, usage: None });
    }
    let is_over = view::outcome(&summary).is_some();
    let step_row = |step: &StepSummary| {
        let ended = outcome(step);
        let end_s = if step.end_s > 0.0 { step.end_s } else { view::now_s() };
        Job {
            name: step.name.clone(),
            state: match ended {
                Some(outcome) => outcome.state(),
                // Its end was not reported, and there is no more output.
                None if is_over => State::Cancelled,
                None => State::Running,
            },
            nodes: step.nodes.len() as u32,
            nodelist: hostlist::compress(&step.nodes),
            cpus: step.tasks * batch.cpus_per_task.max(1),
            used_s: (end_s - step.start_s).max(0.0) as u64,
            times: [view::moment(step.start_s), view::moment(step.start_s), view::moment(step.end_s)],
            exit: ended.map_or_else(|| "0:0".to_owned(), |outcome| outcome.exit().to_string()),
            ..of(&step.id.to_string())
        }
    };
    rows.extend(detail.steps.iter().map(|step| StepRow {
        job: step_row(step),
        level: Level::Step,
        tasks: step.tasks,
        usage: None,
    }));
    rows
}
