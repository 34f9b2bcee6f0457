//! `wharf ray`: jobs of an existing Ray cluster.

use std::io::Write as _;

use wharf_pilot::ray::{RayClient, RayError, RayJob, RayStatus};

use super::cluster::runtime;
use crate::args::{OutputFormat, RayCommand, SubmitArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::output::Terminal;
use crate::output::grid::Grid;

impl From<RayError> for CliError {
    fn from(error: RayError) -> Self {
        let kind = match &error {
            RayError::Unreached { .. } | RayError::TokenFile { .. } | RayError::Malformed(_) => {
                ErrorKind::Input
            }
            _ => ErrorKind::Usage,
        };
        let hint = match &error {
            RayError::Address { .. } => "expected http://host:8265 or https://host",
            RayError::Unreached { .. } => {
                "check that its dashboard runs: it needs `ray[default]`, and `--dashboard-host` for other machines"
            }
            RayError::Token => {
                "set RAY_AUTH_TOKEN_PATH to the token file; in Wharf's Ray jobs the driver's environment contains it"
            }
            _ => return Self::from_error(kind, &error),
        };
        Self::from_error(kind, &error).hint(hint)
    }
}

/// The exit code that a job is passed on with.
fn exit(status: &RayStatus) -> Exit {
    match status.exit_code() {
        0 => Exit::Ok,
        code => Exit::Passed(code),
    }
}

/// Prints the output of a job until it is over.
async fn follow(api: &RayClient, job: &str) -> Result<RayStatus, CliError> {
    api.follow(job, |news| {
        let mut out = std::io::stdout();
        out.write_all(news.as_bytes()).and_then(|()| out.flush()).map_err(CliError::stdout)
    })
    .await
}

/// `wharf ray`
pub(super) fn execute(command: &RayCommand, terminal: &Terminal) -> Result<Exit, CliError> {
    match command {
        RayCommand::List(args) => list(&args.ray_address, terminal),
        RayCommand::Status(args) => {
            let api = RayClient::new(&args.ray_address)?;
            let status = runtime()?.block_on(api.status(&args.job))?;
            match terminal.format {
                OutputFormat::Json => terminal.json(&serde_json::json!({ "schema": 1, "job": status }))?,
                OutputFormat::Table | OutputFormat::Plain | OutputFormat::Csv => terminal.fields(&status)?,
            }
            Ok(Exit::Ok)
        }
        RayCommand::Logs(args) => {
            let api = RayClient::new(&args.job.ray_address)?;
            if args.follow {
                return Ok(exit(&runtime()?.block_on(follow(&api, &args.job.job))?));
            }
            terminal.raw(&runtime()?.block_on(api.logs(&args.job.job))?)?;
            Ok(Exit::Ok)
        }
        RayCommand::Stop(args) => {
            let api = RayClient::new(&args.ray_address)?;
            runtime()?.block_on(api.stop(&args.job))?;
            Ok(Exit::Ok)
        }
    }
}

fn list(address: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let api = RayClient::new(address)?;
    let all = runtime()?.block_on(api.list())?;
    if terminal.format == OutputFormat::Json {
        terminal.json(&serde_json::json!({ "schema": 1, "jobs": all }))?;
        return Ok(Exit::Ok);
    }
    let mut grid = Grid::new(["job", "status", "entrypoint"]);
    for job in &all {
        grid.push([job.submission_id.as_deref().unwrap_or_default(), &job.status, &job.entrypoint]);
    }
    terminal.grid(&grid)?;
    Ok(Exit::Ok)
}

/// `wharf submit` for jobs whose executor is a Ray cluster.
pub(super) fn submit(
    args: &SubmitArgs,
    jobs: Vec<Option<RayJob>>,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let count = jobs.len();
    let jobs: Vec<RayJob> = jobs.into_iter().flatten().collect();
    if jobs.len() < count {
        return Err(CliError::usage("cannot mix jobs for a Ray cluster with others")
            .hint("submit them from two files"));
    }
    if args.job.user.is_some() {
        return Err(CliError::usage("user: a Ray cluster runs every job as its own user; remove `--user`"));
    }
    if args.follow && count > 1 {
        return Err(CliError::usage("`--follow` requires a single job")
            .hint("use `--wait`, and `wharf ray logs --follow JOB` for one of them"));
    }
    runtime()?.block_on(async {
        let mut submitted = Vec::new();
        for job in &jobs {
            let api = RayClient::new(&job.address)?;
            let id = api.submit(job).await?;
            submitted.push((api, id));
        }
        let ids: Vec<&str> = submitted.iter().map(|(_, id)| id.as_str()).collect();
        match (args.follow, terminal.format) {
            (true, _) => terminal.note(&format!("job {}", ids.join(" "))),
            (false, OutputFormat::Json) => {
                terminal.json(&serde_json::json!({ "schema": 1, "ray_job_ids": ids }))?
            }
            (false, _) => terminal.data(&(ids.join("\n") + "\n"))?,
        }
        let mut first = Exit::Ok;
        for (api, id) in submitted.iter().filter(|_| args.follow || args.wait) {
            let ended = if args.follow { follow(api, id).await? } else { api.wait(id).await? };
            if let Some(message) = ended.message.as_ref().filter(|_| ended.exit_code() != 0) {
                terminal.note(&format!("job {id}: {}", message.lines().next().unwrap_or_default()));
            }
            if first == Exit::Ok {
                first = exit(&ended);
            }
        }
        Ok(first)
    })
}
