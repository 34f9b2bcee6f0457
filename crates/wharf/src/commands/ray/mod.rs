//! Jobs of a Ray cluster that is there already, through Ray's Jobs API: another executor than Wharf's own workers.

mod http;
mod job;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use hyper::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use self::http::Address;
pub(super) use self::job::RayJob;
use super::cluster::runtime;
use crate::args::{OutputFormat, RayCommand, SubmitArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// How often a job is checked. Ray has a stream of its output too, but not in all versions.
const LOOK: Duration = Duration::from_millis(500);
/// What a job that was stopped exits with, as if by a signal.
const CODE_STOPPED: u8 = 143;

/// A job as Ray tells it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Told {
    submission_id: Option<String>,
    status: String,
    entrypoint: String,
    message: Option<String>,
    driver_exit_code: Option<i32>,
    /// Milliseconds since the Unix epoch.
    start_time: Option<f64>,
    end_time: Option<f64>,
    metadata: Option<std::collections::BTreeMap<String, String>>,
}

impl Told {
    fn is_over(&self) -> bool {
        matches!(self.status.as_str(), "SUCCEEDED" | "FAILED" | "STOPPED")
    }

    /// As a job of Wharf's own would exit.
    fn exit(&self) -> Exit {
        match self.status.as_str() {
            "SUCCEEDED" => Exit::Ok,
            "STOPPED" => Exit::Passed(CODE_STOPPED),
            _ => {
                let code = self.driver_exit_code.filter(|&code| code != 0).unwrap_or(1);
                Exit::Passed(u8::try_from(code).unwrap_or(1))
            }
        }
    }
}

#[derive(Debug, Deserialize)]
struct Taken {
    submission_id: String,
}

#[derive(Debug, Deserialize)]
struct Logs {
    logs: String,
}

/// A cluster's Jobs API.
struct Api {
    address: Address,
    token: Option<String>,
}

impl Api {
    fn new(address: &str) -> Result<Self, CliError> {
        Ok(Self { address: Address::parse(address)?, token: token()? })
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<T, CliError> {
        let (status, answer) = self.address.ask(method, path, body, self.token.as_deref()).await?;
        let said = || String::from_utf8_lossy(&answer).trim().chars().take(500).collect::<String>();
        match status {
            200..300 => serde_json::from_slice(&answer).map_err(|error| {
                CliError::input("invalid job in the response of the Ray cluster").caused_by(error)
            }),
            401 | 403 => Err(CliError::usage("the Ray cluster requires a token").hint(
                "set RAY_AUTH_TOKEN_PATH to the token file; in Wharf's Ray jobs the driver's environment contains it",
            )),
            404 => Err(CliError::usage(format!("not found in the Ray cluster: {}", said()))),
            _ => Err(CliError::usage(format!("rejected by the Ray cluster ({status}): {}", said()))),
        }
    }

    async fn submit(&self, job: &RayJob) -> Result<String, CliError> {
        let body = serde_json::to_vec(job)
            .map_err(|error| CliError::new(ErrorKind::Internal, "cannot write JSON").caused_by(error))?;
        Ok(self.ask::<Taken>(Method::POST, "/api/jobs/", body).await?.submission_id)
    }

    async fn status(&self, job: &str) -> Result<Told, CliError> {
        self.ask(Method::GET, &path(job, "")?, vec![]).await
    }

    async fn logs(&self, job: &str) -> Result<String, CliError> {
        Ok(self.ask::<Logs>(Method::GET, &path(job, "/logs")?, vec![]).await?.logs)
    }

    /// Shows what a job says until it has ended.
    async fn follow(&self, job: &str) -> Result<Told, CliError> {
        let mut shown = 0;
        loop {
            // Checked before its output: what it said last is not missed.
            let told = self.status(job).await?;
            let logs = self.logs(job).await?;
            let mut out = std::io::stdout();
            let news = logs.get(shown..).unwrap_or_default();
            out.write_all(news.as_bytes()).and_then(|()| out.flush()).map_err(CliError::stdout)?;
            shown = shown.max(logs.len());
            if told.is_over() {
                return Ok(told);
            }
            sleep(LOOK).await;
        }
    }

    async fn wait(&self, job: &str) -> Result<Told, CliError> {
        loop {
            let told = self.status(job).await?;
            if told.is_over() {
                return Ok(told);
            }
            sleep(LOOK).await;
        }
    }
}

/// What is asked about a job; its name is a part of an address.
fn path(job: &str, what: &str) -> Result<String, CliError> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    if job.is_empty() || !job.chars().all(is_plain) {
        return Err(CliError::usage(format!("`{job}` is not a Ray job id")));
    }
    Ok(format!("/api/jobs/{job}{what}"))
}

/// The token that Ray's own clients would show.
fn token() -> Result<Option<String>, CliError> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(token) = variable("RAY_AUTH_TOKEN").and_then(|token| token.into_string().ok()) {
        return Ok(Some(token));
    }
    let (path, is_named) = match (variable("RAY_AUTH_TOKEN_PATH"), variable("HOME")) {
        (Some(path), _) => (PathBuf::from(path), true),
        (None, Some(home)) => (PathBuf::from(home).join(".ray/auth_token"), false),
        (None, None) => return Ok(None),
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if is_named => Err(CliError::read(&path, error)),
        // Most clusters want none.
        Err(_) => Ok(None),
    }
}

/// `wharf ray`
pub(super) fn execute(command: &RayCommand, terminal: &Terminal) -> Result<Exit, CliError> {
    match command {
        RayCommand::List(args) => list(&args.ray_address, terminal),
        RayCommand::Status(args) => {
            let api = Api::new(&args.ray_address)?;
            let told = runtime()?.block_on(api.status(&args.job))?;
            match terminal.format {
                OutputFormat::Json => terminal.json(&serde_json::json!({ "schema": 1, "job": told }))?,
                OutputFormat::Table | OutputFormat::Plain | OutputFormat::Csv => terminal.fields(&told)?,
            }
            Ok(Exit::Ok)
        }
        RayCommand::Logs(args) => {
            let api = Api::new(&args.job.ray_address)?;
            if args.follow {
                return Ok(runtime()?.block_on(api.follow(&args.job.job))?.exit());
            }
            terminal.raw(&runtime()?.block_on(api.logs(&args.job.job))?)?;
            Ok(Exit::Ok)
        }
        RayCommand::Stop(args) => {
            let api = Api::new(&args.ray_address)?;
            let path = path(&args.job, "/stop")?;
            runtime()?.block_on(api.ask::<serde_json::Value>(Method::POST, &path, b"{}".to_vec()))?;
            Ok(Exit::Ok)
        }
    }
}

fn list(address: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let api = Api::new(address)?;
    let all: Vec<Told> = runtime()?.block_on(api.ask(Method::GET, "/api/jobs/", vec![]))?;
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
        let mut taken = Vec::new();
        for job in &jobs {
            let api = Api::new(&job.address)?;
            let id = api.submit(job).await?;
            taken.push((api, id));
        }
        let ids: Vec<&str> = taken.iter().map(|(_, id)| id.as_str()).collect();
        match (args.follow, terminal.format) {
            (true, _) => terminal.note(&format!("job {}", ids.join(" "))),
            (false, OutputFormat::Json) => {
                terminal.json(&serde_json::json!({ "schema": 1, "ray_job_ids": ids }))?
            }
            (false, _) => terminal.data(&(ids.join("\n") + "\n"))?,
        }
        let mut exit = Exit::Ok;
        for (api, id) in taken.iter().filter(|_| args.follow || args.wait) {
            let told = if args.follow { api.follow(id).await? } else { api.wait(id).await? };
            if let Some(message) = told.message.as_ref().filter(|_| told.exit() != Exit::Ok) {
                terminal.note(&format!("job {id}: {}", message.lines().next().unwrap_or_default()));
            }
            if exit == Exit::Ok {
                exit = told.exit();
            }
        }
        Ok(exit)
    })
}
