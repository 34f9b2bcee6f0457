//! What people ask of a head.

use std::io::Write as _;

use serde::Serialize;
use wharf_proto::change_jobs_request::Change;
use wharf_proto::cluster_client::ClusterClient;
use wharf_proto::tonic::metadata::MetadataValue;
use wharf_proto::tonic::service::Interceptor;
use wharf_proto::tonic::service::interceptor::InterceptedService;
use wharf_proto::tonic::transport::Channel;
use wharf_proto::tonic::{Code, Request, Status};
use wharf_proto::{
    ChangeJobsRequest, Dependency, ExplainRequest, Gang, GetJobRequest, JobPhase, JobSpec, JobSummary,
    ListJobsRequest, ListNodesRequest, LogsRequest, SubmitRequest, WaitRequest, dependency, node_summary,
};

use super::daemon::runtime;
use super::home::Home;
use crate::args::{ChangeArgs, HomeArgs, JobArgs, JobsArgs, LogsArgs, NodesArgs, OutputFormat, SubmitArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::output::Terminal;
use crate::output::grid::Grid;

type Client = ClusterClient<InterceptedService<Channel, Token>>;

/// Shows the token with every request.
#[derive(Clone)]
struct Token(MetadataValue<wharf_proto::tonic::metadata::Ascii>);

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}

/// Connects and asks.
fn with<T>(
    args: &HomeArgs,
    ask: impl AsyncFnOnce(&mut Client) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let (address, token) = Home::new(args)?.head()?;
    let token = format!("Bearer {token}").parse().map_err(|_| {
        CliError::input("the token of the cluster is not one").hint("is the folder really a head's?")
    })?;
    runtime()?.block_on(async {
        let away = |error: wharf_proto::tonic::transport::Error| {
            CliError::from_error(ErrorKind::Input, &error).hint("is `wharf head` running?")
        };
        let endpoint = Channel::from_shared(address).map_err(|error| CliError::input(error.to_string()))?;
        let channel = endpoint.connect().await.map_err(away)?;
        ask(&mut ClusterClient::with_interceptor(channel, Token(token))).await
    })
}

fn refused(status: Status) -> CliError {
    let kind = match status.code() {
        Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition => ErrorKind::Usage,
        _ => ErrorKind::Input,
    };
    CliError::new(kind, status.message())
}

/// Hands a job in, and waits for it where asked to.
pub(in crate::commands) fn submit(args: &SubmitArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let request = SubmitRequest { jobs: vec![spec(args)?] };
    with(&args.home, async |client| {
        let ids = client.submit(request).await.map_err(refused)?.into_inner().job_ids;
        let text: Vec<String> = ids.iter().map(u32::to_string).collect();
        match terminal.format {
            OutputFormat::Json => terminal.json(&serde_json::json!({ "schema": 1, "job_ids": ids }))?,
            OutputFormat::Table | OutputFormat::Plain => terminal.data(&(text.join("\n") + "\n"))?,
        }
        if !args.wait {
            return Ok(Exit::Ok);
        }
        let mut worst = 0;
        for job_id in ids {
            let reply = client.wait(WaitRequest { job_id }).await.map_err(refused)?.into_inner();
            let code = reply.summary.map_or(1, |summary| summary.exit_code);
            if worst == 0 {
                worst = code;
            }
        }
        Ok(Exit::Passed(u8::try_from(worst & 0xff).unwrap_or(1)))
    })
}

fn spec(args: &SubmitArgs) -> Result<JobSpec, CliError> {
    let program = args.command.first().map(String::as_str).unwrap_or_default();
    let after = |kind: dependency::Kind, ids: &[u32]| {
        ids.iter()
            .map(|&job_id| Dependency { kind: kind.into(), job_id, array_index: None })
            .collect::<Vec<_>>()
    };
    let workdir = std::env::current_dir()
        .map_err(|error| CliError::input("there is no working directory").caused_by(error))?;
    Ok(JobSpec {
        name: args.name.clone().unwrap_or_else(|| program.to_owned()),
        user: std::env::var("USER").unwrap_or_default(),
        gang: Some(Gang { devices: args.gang, device_types: args.types.clone(), ..Gang::default() }),
        command: args.command.clone(),
        workdir: workdir.to_string_lossy().into_owned(),
        output: args.output_file.clone().unwrap_or_default(),
        priority: args.priority,
        time_limit_s: args.time_limit.unwrap_or_default(),
        dependencies: [
            after(dependency::Kind::AfterOk, &args.after_ok),
            after(dependency::Kind::AfterAny, &args.after_any),
        ]
        .concat(),
        retries: args.retries,
        grace_s: 10.0,
        held: args.held,
        array: args.array.clone(),
        ..JobSpec::default()
    })
}

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
        JobPhase::TimedOut => "timed-out",
    }
}

/// Lists jobs.
pub(in crate::commands) fn jobs(args: &JobsArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let request = ListJobsRequest { live_only: !args.all, ..ListJobsRequest::default() };
    let jobs = with(&args.home, async |client| {
        Ok(client.list_jobs(request).await.map_err(refused)?.into_inner().jobs)
    })?;
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
    let request = GetJobRequest { job_id: args.job };
    let detail =
        with(&args.home, async |client| Ok(client.get_job(request).await.map_err(refused)?.into_inner()))?;
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
    let request = ExplainRequest { job_id: args.job };
    let reply =
        with(&args.home, async |client| Ok(client.explain(request).await.map_err(refused)?.into_inner()))?;
    match terminal.format {
        OutputFormat::Json => {
            terminal.json(&serde_json::json!({ "schema": 1, "job": args.job, "reason": reply.reason }))?;
        }
        OutputFormat::Table | OutputFormat::Plain => terminal.data(&(reply.reason + "\n"))?,
    }
    Ok(Exit::Ok)
}

/// Prints a job's output, and follows it where asked to.
pub(in crate::commands) fn logs(args: &LogsArgs, _terminal: &Terminal) -> Result<Exit, CliError> {
    let request = LogsRequest { job_id: args.job, rank: args.rank, follow: args.follow };
    with(&args.home, async |client| {
        let mut chunks = client.logs(request).await.map_err(refused)?.into_inner();
        let mut out = std::io::stdout();
        while let Some(chunk) = chunks.message().await.map_err(refused)? {
            out.write_all(&chunk.data).and_then(|()| out.flush()).map_err(CliError::stdout)?;
        }
        Ok(Exit::Ok)
    })
}

fn change(args: &ChangeArgs, change: Change, terminal: &Terminal) -> Result<Exit, CliError> {
    let job_ids = args.jobs.clone();
    let request = ChangeJobsRequest { change: change.into(), job_ids, ..ChangeJobsRequest::default() };
    let reply = with(&args.home, async |client| {
        Ok(client.change_jobs(request).await.map_err(refused)?.into_inner())
    })?;
    for refusal in &reply.refused {
        terminal.warn(&format!("job {}: {}", refusal.job_id, refusal.reason));
    }
    match reply.refused.is_empty() {
        true => Ok(Exit::Ok),
        false => Err(CliError::usage(format!(
            "{} of {} jobs were left as they are",
            reply.refused.len(),
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

/// Lists nodes.
pub(in crate::commands) fn nodes(args: &NodesArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let nodes = with(&args.home, async |client| {
        Ok(client.list_nodes(ListNodesRequest {}).await.map_err(refused)?.into_inner().nodes)
    })?;
    let health = |node: &wharf_proto::NodeSummary| match node.health() {
        node_summary::Health::Up => "up",
        node_summary::Health::Cordoned => "cordoned",
        node_summary::Health::Draining => "draining",
        node_summary::Health::Lost => "lost",
    };
    if terminal.format == OutputFormat::Json {
        let rows: Vec<_> = nodes
            .iter()
            .map(|node| {
                serde_json::json!({
                    "name": node.name, "health": health(node), "device_type": node.device_type,
                    "devices": node.devices, "free": node.free, "job_ids": node.job_ids,
                })
            })
            .collect();
        terminal.json(&serde_json::json!({ "schema": 1, "nodes": rows }))?;
        return Ok(Exit::Ok);
    }
    let mut grid = Grid::new(["node", "health", "type", "devices", "free", "jobs"]);
    for node in &nodes {
        let jobs: Vec<String> = node.job_ids.iter().map(u32::to_string).collect();
        let (devices, free) = (node.devices.to_string(), node.free.to_string());
        grid.push([&node.name, health(node), &node.device_type, &devices, &free, &jobs.join(",")]);
    }
    terminal.grid(&grid)?;
    Ok(Exit::Ok)
}
