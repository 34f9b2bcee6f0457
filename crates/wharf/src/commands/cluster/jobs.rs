//! What people ask about jobs.

use std::collections::BTreeMap;

use serde::Serialize;
use wharf_client::{Client, unix_s};
use wharf_core::Reshapes;
use wharf_curve::Number;
use wharf_job::{Array, JobNumber, elements, event_json, shown};
use wharf_proto::{JobPhase, JobSummary, ListJobsRequest, Plan};
use wharf_report::human;

use super::connect::with;
use super::filter::filter;
use super::frame::progress;
use super::record::{described, plan_words, summary};
use super::top::EXPLAIN_MAX;
use crate::args::{JobArgs, JobsArgs, OutputFormat};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// A parallel plan as JSON.
#[derive(Serialize)]
struct PlanRow {
    stages: u32,
    data: u32,
    tensor: u32,
}

/// A job as JSON.
#[derive(Serialize)]
struct JobRow {
    job_id: u32,
    /// The array's first job, of an element.
    array_job: Option<u32>,
    array_index: Option<u32>,
    #[serde(skip)]
    number: String,
    name: String,
    user: String,
    phase: &'static str,
    devices: u32,
    /// Of the placement that it has, or had last.
    devices_given: u32,
    device_type: String,
    plan: Option<PlanRow>,
    nodes: Vec<String>,
    submit_s: f64,
    start_s: Option<f64>,
    end_s: Option<f64>,
    /// From the first start to the end, or until now.
    elapsed_s: Option<f64>,
    exit_code: Option<i32>,
    preemptions: u32,
    /// How often it was started on other devices than the last time.
    shrinks: u32,
    grows: u32,
    type_changes: u32,
    moves: u32,
    deadline_s: Option<f64>,
    /// `met` or `missed`; empty where it has none, or may still be done in time.
    deadline: &'static str,
    iterations: Option<f64>,
    iterations_done: f64,
    /// The share that is done.
    progress: Option<f64>,
    metrics: BTreeMap<String, Number>,
    /// What else is to be known about it.
    remarks: Vec<String>,
    priority: i32,
    account: String,
    pool: String,
    /// What brought its last run to its end before its work was done.
    cause: &'static str,
    /// How often each cause has struck.
    causes: BTreeMap<&'static str, u32>,
    /// When it may start again after a failure.
    retry_s: Option<f64>,
    reason: String,
}

impl JobRow {
    fn new(job: JobSummary, now_s: f64) -> Self {
        let happened = |time_s: f64| (time_s > 0.0).then_some(time_s);
        let (start_s, end_s) = (happened(job.start_s), happened(job.end_s));
        let iterations = happened(job.iterations);
        let number = JobNumber::of(&job).to_string();
        let reshapes = job.reshapes.unwrap_or_default();
        let deadline_s = happened(job.deadline_s);
        let is_finished = job.phase() == JobPhase::Finished;
        Self {
            phase: job.phase().word(),
            cause: job.cause().word(),
            elapsed_s: start_s.map(|start_s| (end_s.unwrap_or(now_s) - start_s).max(0.0)),
            exit_code: end_s.map(|_| job.exit_code),
            progress: iterations.map(|_| progress(&job)),
            start_s,
            end_s,
            iterations,
            devices_given: job.placement.iter().map(|share| share.devices.len() as u32).sum(),
            device_type: job.device_type,
            plan: job.plan.map(|Plan { stages, data, tensor }| PlanRow { stages, data, tensor }),
            nodes: job.placement.into_iter().map(|share| share.node).collect(),
            metrics: job.metrics.into_iter().map(|(name, value)| (name, Number(value))).collect(),
            remarks: job.remarks,
            number,
            array_job: job.array_index.map(|_| job.array_job),
            array_index: job.array_index,
            job_id: job.job_id,
            name: job.name,
            user: job.user,
            devices: job.devices,
            submit_s: job.submit_s,
            preemptions: job.preemptions,
            shrinks: reshapes.shrinks,
            grows: reshapes.grows,
            type_changes: reshapes.type_changes,
            moves: reshapes.moves,
            deadline: deadline_s.map_or("", |deadline_s| met(deadline_s, end_s, is_finished, now_s)),
            deadline_s,
            iterations_done: job.iterations_done,
            priority: job.priority,
            causes: job.causes.iter().map(|one| (one.cause().word(), one.count)).collect(),
            retry_s: happened(job.retry_s),
            account: job.account,
            pool: job.pool,
            reason: job.explanation.unwrap_or(job.reason),
        }
    }

    /// The devices that it has, or had last; before that those that it asks for.
    fn devices_text(&self) -> String {
        let shown = if self.devices_given > 0 { self.devices_given } else { self.devices };
        shown.to_string()
    }

    /// What it has, or had last: `4 × a40`.
    fn given_text(&self) -> String {
        match self.devices_given {
            0 => String::new(),
            given => format!("{given} × {}", self.device_type),
        }
    }

    fn changes_text(&self) -> String {
        let Self { shrinks, grows, type_changes, moves, .. } = *self;
        Reshapes { shrinks, grows, type_changes, moves }.to_string()
    }

    fn plan_text(&self) -> String {
        self.plan.as_ref().map_or_else(String::new, |plan| plan_words(plan.stages, plan.data, plan.tensor))
    }

    fn progress_text(&self) -> String {
        match self.progress {
            Some(share) => human::percent(share),
            None if self.iterations_done > 0.0 => format!("{} it", human::number(self.iterations_done)),
            None => String::new(),
        }
    }
}

/// Whether a job with a deadline was done in time; empty where that is still open.
fn met(deadline_s: f64, end_s: Option<f64>, is_finished: bool, now_s: f64) -> &'static str {
    match end_s {
        Some(end_s) if is_finished && end_s <= deadline_s => "met",
        None if now_s <= deadline_s => "",
        _ => "missed",
    }
}

/// Lists jobs.
pub(in crate::commands) fn jobs(args: &JobsArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let asked = &args.filter;
    let says_when = asked.since.is_some() || asked.until.is_some() || asked.cause.is_some();
    let live_only = !args.all && asked.state.is_empty() && !says_when;
    let jobs = with(&args.home, async |client| {
        let filter = Some(filter(client, asked).await?);
        let request =
            ListJobsRequest { live_only, filter, explain_max: EXPLAIN_MAX, ..ListJobsRequest::default() };
        Ok(client.list_jobs(request).await?)
    })?;
    let mut rows: Vec<JobRow> = jobs.into_iter().map(|job| JobRow::new(job, unix_s())).collect();
    let terminal = &terminal.with_csv(args.csv);
    if terminal.format == OutputFormat::Table {
        rows = collapsed(rows);
    }
    if terminal.format == OutputFormat::Json {
        terminal.json(&serde_json::json!({ "schema": 1, "jobs": rows }))?;
        return Ok(Exit::Ok);
    }
    let mut grid = Grid::new([
        "job", "name", "user", "phase", "devices", "nodes", "progress", "elapsed", "exit", "cause", "reason",
    ]);
    for row in &rows {
        let exit = row.exit_code.map(|code| code.to_string()).unwrap_or_default();
        let devices = row.devices_text();
        let elapsed = row.elapsed_s.map(human::duration).unwrap_or_default();
        let (nodes, progress) = (row.nodes.join(","), row.progress_text());
        let cells = [
            &row.number,
            &row.name,
            &row.user,
            row.phase,
            &devices,
            &nodes,
            &progress,
            &elapsed,
            &exit,
            row.cause,
            &row.reason,
        ];
        grid.push(cells);
    }
    terminal.grid(&grid)?;
    Ok(Exit::Ok)
}

/// Elements of one array that wait, one after the other, as one row.
fn collapsed(rows: Vec<JobRow>) -> Vec<JobRow> {
    let is_waiting = |row: &JobRow| row.array_index.is_some() && matches!(row.phase, "waiting" | "held");
    let key = |row: &JobRow| (is_waiting(row), row.array_job, row.phase);
    let mut groups: Vec<(JobRow, Vec<u32>)> = Vec::new();
    for row in rows {
        match groups.last_mut().filter(|(first, _)| is_waiting(&row) && key(first) == key(&row)) {
            Some((_, indexes)) => indexes.extend(row.array_index),
            None => {
                let indexes = row.array_index.into_iter().collect();
                groups.push((row, indexes));
            }
        }
    }
    let named = |(mut row, indexes): (JobRow, Vec<u32>)| {
        if let Some(job) = row.array_job {
            row.number = elements(job, indexes);
        }
        row
    };
    groups.into_iter().map(named).collect()
}

/// The id of a job by what people call it.
pub(super) async fn id_of(client: &Client, number: JobNumber) -> Result<u32, CliError> {
    let Some(index) = number.index else { return Ok(number.job) };
    let detail = client.get_job(number.job).await?;
    let indexes = detail.spec.map(|spec| spec.array).unwrap_or_default();
    let is_first = detail.summary.is_some_and(|job| job.array_index.is_some() && job.array_job == job.job_id);
    let offset = indexes.binary_search(&index).ok().filter(|_| is_first);
    let id = offset.and_then(|offset| number.job.checked_add(u32::try_from(offset).ok()?));
    id.ok_or_else(|| {
        let error = CliError::usage(format!("there is no job {number}"));
        match (is_first, Array::new(indexes)) {
            (true, Ok(indexes)) => error.hint(format!("the array {} has the indexes {indexes}", number.job)),
            _ => error.hint(format!("job {} is not the first of an array", number.job)),
        }
    })
}

/// Shows one job with its history.
pub(in crate::commands) fn job(args: &JobArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let (detail, nodes) = with(&args.home, async |client| {
        let id = id_of(client, args.job).await?;
        Ok((client.get_job(id).await?, client.list_all_nodes().await?))
    })?;
    let row = JobRow::new(summary(&detail), unix_s());
    let container = detail.spec.as_ref().and_then(|spec| spec.container.as_ref()).map(shown::container);
    let command = detail.spec.map(|spec| spec.command).unwrap_or_default();
    let checkpoint_dir = detail.checkpoint_dir;
    let texts = described(&detail.history, &nodes);
    let entries = detail.history.iter().zip(&texts);
    let history: Vec<_> = entries
        .clone()
        .map(|(entry, text)| {
            serde_json::json!({ "time_s": entry.time_s, "event": event_json(entry), "text": text })
        })
        .collect();
    if terminal.format != OutputFormat::Table {
        let mut document =
            serde_json::json!({ "schema": 1, "job": row, "command": command, "history": history });
        if !checkpoint_dir.is_empty() {
            document["checkpoint_dir"] = serde_json::json!(checkpoint_dir);
        }
        if let Some(container) = &container {
            document["container"] = serde_json::json!(container);
        }
        match terminal.format {
            OutputFormat::Json => terminal.json(&document)?,
            OutputFormat::Table | OutputFormat::Plain | OutputFormat::Csv => terminal.fields(&document)?,
        }
        return Ok(Exit::Ok);
    }
    let mut grid = Grid::new(["field", "value"]);
    let causes: Vec<String> = row.causes.iter().map(|(cause, count)| format!("{count} × {cause}")).collect();
    let metrics: Vec<String> = row.metrics.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let fields = [
        ("job", row.number.clone()),
        ("name", row.name.clone()),
        ("user", row.user.clone()),
        ("account", row.account.clone()),
        ("phase", row.phase.to_owned()),
        ("cause", row.cause.to_owned()),
        ("reason", row.reason.clone()),
        ("devices", row.devices.to_string()),
        ("given", row.given_text()),
        ("plan", row.plan_text()),
        ("nodes", row.nodes.join(",")),
        ("progress", row.progress_text()),
        ("elapsed", row.elapsed_s.map(human::duration).unwrap_or_default()),
        ("metrics", metrics.join(", ")),
        ("remarks", row.remarks.join("; ")),
        ("interruptions", causes.join(", ")),
        ("preemptions", row.preemptions.to_string()),
        ("changes", row.changes_text()),
        ("deadline", row.deadline.to_owned()),
        ("priority", row.priority.to_string()),
        ("exit code", row.exit_code.map(|code| code.to_string()).unwrap_or_default()),
        ("command", command.join(" ")),
        ("checkpoints", checkpoint_dir),
        ("container", container.map(container_text).unwrap_or_default()),
    ];
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        grid.push([name, value]);
    }
    for (entry, text) in entries {
        let after = human::duration((entry.time_s - row.submit_s).max(0.0));
        grid.push([&format!("after {after}"), text]);
    }
    terminal.grid(&grid)?;
    Ok(Exit::Ok)
}

/// A container's fields in a line.
fn container_text(fields: serde_json::Map<String, serde_json::Value>) -> String {
    let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    fields.iter().map(|(name, value)| format!("{name} {}", text(value))).collect::<Vec<_>>().join(", ")
}
