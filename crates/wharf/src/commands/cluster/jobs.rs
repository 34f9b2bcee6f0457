//! What people ask about jobs.

use std::io::Write as _;

use serde::Serialize;
use wharf_proto::change_jobs_request::Change;
use wharf_proto::{ChangeJobsRequest, JobPhase, JobSummary, ListJobsRequest, LogsRequest};

use super::client::with;
use crate::args::{ChangeArgs, JobArgs, JobsArgs, LogsArgs, OutputFormat};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// A job as JSON.
#[derive(Serialize)]
struct JobRow {
    job_id: u32,
    name: String,
    user: String,
    phase: &'static str,
    devices: u32,
    nodes: Vec<String>,
    submit_s: f64,
    start_s: Option<f64>,
    end_s: Option<f64>,
    exit_code: Option<i32>,
    preemptions: u32,
    iterations_done: f64,
    priority: i32,
}

impl From<JobSummary> for JobRow {
    fn from(job: JobSummary) -> Self {
        let happened = |time_s: f64| (time_s > 0.0).then_some(time_s);
        Self {
            phase: phase_name(job.phase()),
            start_s: happened(job.start_s),
            end_s: happened(job.end_s),
            exit_code: (job.end_s > 0.0).then_some(job.exit_code),
            nodes: job.placement.into_iter().map(|share| share.node).collect(),
            job_id: job.job_id,
            name: job.name,
            user: job.user,
            devices: job.devices,
            submit_s: job.submit_s,
            preemptions: job.preemptions,
            iterations_done: job.iterations_done,
            priority: job.priority,
        }
    }
}

fn phase_name(phase: JobPhase) -> &'static str {
    match phase {
        JobPhase::Waiting => "waiting",
        JobPhase::Held => "held",
        JobPhase::Placed => "placed",
        JobPhase::Running => "running",
        JobPhase::Stopping => "stopping",
        JobPhase::Finished => "finished",
        JobPhase::Failed => "failed",
        JobPhase::Cancelled => "cancelled",
    }
}

/// Lists jobs.
pub(in crate::commands) fn jobs(args: &JobsArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let request = ListJobsRequest { live_only: !args.all, ..ListJobsRequest::default() };
    let jobs = with(&args.home, async |client| Ok(client.list_jobs(request).await?))?;
    let rows: Vec<JobRow> = jobs.into_iter().map(JobRow::from).collect();
    if terminal.format == OutputFormat::Json {
        terminal.json(&serde_json::json!({ "schema": 1, "jobs": rows }))?;
        return Ok(Exit::Ok);
    }
    let mut grid = Grid::new(["job", "name", "user", "phase", "devices", "nodes", "exit"]);
    for row in &rows {
        let exit = row.exit_code.map(|code| code.to_string()).unwrap_or_default();
        let (id, devices) = (row.job_id.to_string(), row.devices.to_string());
        grid.push([&id, &row.name, &row.user, row.phase, &devices, &row.nodes.join(","), &exit]);
    }
    terminal.grid(&grid)?;
    Ok(Exit::Ok)
}

/// Shows one job with its history.
pub(in crate::commands) fn job(args: &JobArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let detail = with(&args.home, async |client| Ok(client.get_job(args.job).await?))?;
    let history: Vec<_> = detail
        .history
        .iter()
        .map(|entry| serde_json::json!({ "time_s": entry.time_s, "event": entry.what }))
        .collect();
    let row = JobRow::from(detail.summary.unwrap_or_default());
    let command = detail.spec.map(|spec| spec.command).unwrap_or_default();
    let document = serde_json::json!({ "schema": 1, "job": row, "command": command, "history": history });
    match terminal.format {
        OutputFormat::Json => terminal.json(&document)?,
        OutputFormat::Table | OutputFormat::Plain => terminal.fields(&document)?,
    }
    Ok(Exit::Ok)
}

/// Says why a job is where it is.
pub(in crate::commands) fn explain(args: &JobArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let reason = with(&args.home, async |client| Ok(client.explain(args.job).await?))?;
    match terminal.format {
        OutputFormat::Json => {
            terminal.json(&serde_json::json!({ "schema": 1, "job": args.job, "reason": reason }))?;
        }
        OutputFormat::Table | OutputFormat::Plain => terminal.data(&(reason + "\n"))?,
    }
    Ok(Exit::Ok)
}

/// Prints a job's output, and follows it where asked to.
pub(in crate::commands) fn logs(args: &LogsArgs, _terminal: &Terminal) -> Result<Exit, CliError> {
    let request = LogsRequest { job_id: args.job, rank: args.rank, follow: args.follow };
    with(&args.home, async |client| {
        let mut output = client.logs(request).await?;
        let mut out = std::io::stdout();
        while let Some(data) = output.next().await? {
            out.write_all(&data).and_then(|()| out.flush()).map_err(CliError::stdout)?;
        }
        Ok(Exit::Ok)
    })
}

fn change(args: &ChangeArgs, change: Change, terminal: &Terminal) -> Result<Exit, CliError> {
    let request = ChangeJobsRequest { change: change.into(), job_ids: args.jobs.clone(), priority: 0 };
    let refused = with(&args.home, async |client| Ok(client.change_jobs(request).await?))?;
    for refusal in &refused {
        terminal.warn(&format!("job {}: {}", refusal.job_id, refusal.reason));
    }
    match refused.is_empty() {
        true => Ok(Exit::Ok),
        false => Err(CliError::usage(format!(
            "{} of {} jobs were left as they are",
            refused.len(),
            args.jobs.len()
        ))),
    }
}

/// Cancels jobs.
pub(in crate::commands) fn cancel(args: &ChangeArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    change(args, Change::Cancel, terminal)
}

/// Keeps waiting jobs from starting.
pub(in crate::commands) fn hold(args: &ChangeArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    change(args, Change::Hold, terminal)
}

/// Lets held jobs start.
pub(in crate::commands) fn release(args: &ChangeArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    change(args, Change::Release, terminal)
}

/// Makes running jobs begin again.
pub(in crate::commands) fn requeue(args: &ChangeArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    change(args, Change::Requeue, terminal)
}
