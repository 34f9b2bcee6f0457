//! A Slurm through slurmrestd, over a socket of this machine or over HTTP with a token.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use wharf_tls::{ExchangeError, exchange};

use super::{Answer, Filter, JobState, Queue, QueueError, QueueJob, Submission};

const NAME: &str = "slurmrestd";
const PATIENCE: Duration = Duration::from_secs(60);
/// Largest response; the jobs of a large cluster are some tens of megabytes.
const RESPONSE_BYTES_MAX: usize = 1 << 30;
/// Its parts of the contract that are used here are the same up to 0.0.38.
const VERSION: &str = "v0.0.38";
/// Slurm's number for a job that is not there.
const INVALID_JOB_ID: i64 = 2017;
/// Slurm 22.05's daemon closes one connection in some thousands; a question may be put again.
const TRIES: usize = 4;

/// Where slurmrestd is, and who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestTarget {
    /// A socket: slurmrestd knows by itself who asks.
    Socket(PathBuf),
    /// An address, with a user and a file that holds the token, which is read again each time.
    Address {
        /// `HOST:PORT`
        address: String,
        /// Whose token it is.
        user: String,
        /// The file.
        token_file: PathBuf,
    },
}

/// A Slurm behind slurmrestd.
#[derive(Clone, Debug)]
pub struct RestQueue {
    target: RestTarget,
}

impl RestQueue {
    /// A queue there.
    #[must_use]
    pub fn new(target: RestTarget) -> Self {
        Self { target }
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, QueueError> {
        // A submission is not repeated: it may have been taken.
        let tries = if method == Method::POST { 1 } else { TRIES };
        let exchange = async {
            let mut answer = self.exchange(method.clone(), path, body.clone()).await;
            for _ in 1..tries {
                if !matches!(answer, Err(QueueError::Cut { .. })) {
                    break;
                }
                answer = self.exchange(method.clone(), path, body.clone()).await;
            }
            answer
        };
        tokio::time::timeout(PATIENCE, exchange)
            .await
            .map_err(|_| QueueError::Silent { what: NAME, limit: PATIENCE })?
    }

    async fn exchange(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, QueueError> {
        let mut request = Request::builder().method(method).uri(format!("/slurm/{VERSION}/{path}"));
        request = request.header(CONTENT_TYPE, "application/json");
        match &self.target {
            RestTarget::Socket(path) => {
                let stream = UnixStream::connect(path).await.map_err(|error| self.unreached(error))?;
                let request = request.header(HOST, "localhost");
                send(stream, request.body(bytes(body)).map_err(malformed)?).await
            }
            RestTarget::Address { address, user, token_file } => {
                let token = tokio::fs::read_to_string(token_file).await;
                let token = token.map_err(|source| QueueError::Token { path: token_file.clone(), source })?;
                // As `scontrol token` prints it, or the bare token.
                let token = token.trim().trim_start_matches("SLURM_JWT=");
                let stream = TcpStream::connect(address).await.map_err(|error| self.unreached(error))?;
                let request = request.header(HOST, address.as_str());
                let request = request.header("X-SLURM-USER-NAME", user.as_str());
                let request = request.header("X-SLURM-USER-TOKEN", token);
                send(stream, request.body(bytes(body)).map_err(malformed)?).await
            }
        }
    }

    fn unreached(&self, source: io::Error) -> QueueError {
        let place = match &self.target {
            RestTarget::Socket(path) => path.display().to_string(),
            RestTarget::Address { address, .. } => address.clone(),
        };
        QueueError::Unreached { place, source }
    }
}

fn bytes(body: Option<Value>) -> Full<Bytes> {
    Full::new(body.map(|body| Bytes::from(body.to_string())).unwrap_or_default())
}

fn malformed(error: impl std::fmt::Display) -> QueueError {
    QueueError::Malformed { what: NAME, message: error.to_string() }
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Value, QueueError> {
    let response = exchange(stream, request, RESPONSE_BYTES_MAX).await.map_err(|error| match error {
        ExchangeError::Http(source) => QueueError::Cut { source },
        too_large @ ExchangeError::TooLarge { .. } => malformed(too_large),
    })?;
    let (status, body) = (response.status(), response.body());
    let parsed: Value = match serde_json::from_slice(body) {
        Ok(parsed) => parsed,
        // Its answer to rejected requests.
        Err(_) if !status.is_success() => {
            let message = format!("{status} {}", String::from_utf8_lossy(body).trim());
            return Err(QueueError::Refused { what: NAME, message: message.trim().to_owned() });
        }
        Err(error) => return Err(malformed(error)),
    };
    let errors = parsed["errors"].as_array().cloned().unwrap_or_default();
    if errors.is_empty() && status.is_success() {
        return Ok(parsed);
    }
    let code = |error: &Value| error["error_number"].as_i64().or(error["error_code"].as_i64());
    if errors.iter().any(|error| code(error) == Some(INVALID_JOB_ID)) {
        return Ok(Value::Null);
    }
    let text = |error: &Value| {
        let said = error["error"].as_str().or(error["description"].as_str());
        said.unwrap_or("an error without words").to_owned()
    };
    let message = errors.iter().map(text).collect::<Vec<_>>().join("; ");
    let message = if message.is_empty() { status.to_string() } else { message };
    Err(QueueError::Refused { what: NAME, message })
}

/// A job as slurmrestd takes it.
fn body(submission: &Submission) -> Result<Value, QueueError> {
    if !submission.extra.is_empty() {
        return Err(QueueError::Unsupported {
            what: "slurmrestd takes no options of sbatch; leave them out, or use sbatch",
        });
    }
    let mut job = json!({
        "name": submission.name,
        "nodes": [submission.nodes.max(1), submission.nodes.max(1)],
        "environment": submission.env,
        "current_working_directory": submission.workdir.to_string_lossy(),
        "requeue": submission.requeue,
        "hold": submission.hold,
    });
    let texts = [
        ("comment", &submission.comment),
        ("partition", &submission.partition),
        ("account", &submission.account),
        ("qos", &submission.qos),
        ("gres", &submission.gres),
        ("array", &submission.array),
        ("standard_output", &submission.output),
        ("standard_error", &submission.error),
    ];
    for (key, value) in texts.into_iter().filter(|(_, value)| !value.is_empty()) {
        job[key] = json!(value);
    }
    let numbers = [
        ("time_limit", u64::from(submission.limit_min)),
        ("tasks_per_node", submission.tasks_per_node.into()),
        ("cpus_per_task", submission.cpus.into()),
        ("memory_per_node", submission.memory_mib),
    ];
    for (key, value) in numbers.into_iter().filter(|(_, value)| *value > 0) {
        job[key] = json!(value);
    }
    Ok(json!({ "script": submission.script, "job": job }))
}

/// A job as slurmrestd shows it.
fn job(value: &Value) -> Option<QueueJob> {
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let moment = |key: &str| value[key].as_f64().filter(|seconds| *seconds > 0.0);
    let id = value["job_id"].as_u64()?;
    let array = value["array_job_id"].as_u64().filter(|array| *array > 0);
    let id = match (array, value["array_task_id"].as_u64()) {
        (Some(array), Some(index)) => format!("{array}_{index}"),
        _ => id.to_string(),
    };
    Some(QueueJob {
        id,
        state: JobState::of_word(value["job_state"].as_str()?),
        start_s: moment("start_time"),
        end_s: moment("end_time"),
        reason: text("state_reason"),
        nodes: text("nodes"),
        comment: text("comment"),
        wait_status: value["exit_code"].as_i64().and_then(|status| i32::try_from(status).ok()).unwrap_or(0),
    })
}

impl Queue for RestQueue {
    fn submit<'a>(&'a self, submission: &'a Submission) -> Answer<'a, String> {
        Box::pin(async move {
            let answer = self.ask(Method::POST, "job/submit", Some(body(submission)?)).await?;
            let id = answer["job_id"].as_u64().filter(|id| *id > 0);
            id.map(|id| id.to_string()).ok_or_else(|| malformed("it names no job"))
        })
    }

    fn list<'a>(&'a self, filter: &'a Filter) -> Answer<'a, Vec<QueueJob>> {
        Box::pin(async move {
            let path = match filter {
                Filter::Name(_) => "jobs".to_owned(),
                Filter::Id(id) => format!("job/{id}"),
            };
            let answer = self.ask(Method::GET, &path, None).await?;
            let jobs = answer["jobs"].as_array().cloned().unwrap_or_default();
            let is_wanted = |value: &&Value| match filter {
                Filter::Name(name) => value["name"].as_str() == Some(name),
                Filter::Id(_) => true,
            };
            Ok(jobs.iter().filter(is_wanted).filter_map(job).collect())
        })
    }

    fn cancel<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        Box::pin(async move { self.ask(Method::DELETE, &format!("job/{id}"), None).await.map(drop) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_leave_out_what_was_not_asked_for() {
        let submission =
            Submission { name: "p".into(), gres: "gpu:1".into(), nodes: 2, ..Submission::default() };
        let made = body(&submission).unwrap();
        assert_eq!(made["job"]["gres"], "gpu:1");
        assert_eq!(made["job"]["nodes"], json!([2, 2]));
        assert!(made["job"].get("account").is_none() && made["job"].get("time_limit").is_none());
        let extra = Submission { extra: vec!["--exclusive".into()], ..submission };
        assert!(matches!(body(&extra), Err(QueueError::Unsupported { .. })));
    }

    #[test]
    fn elements_of_arrays_have_both_numbers() {
        let shown = json!({ "job_id": 24, "array_job_id": 23, "array_task_id": 1, "job_state": "RUNNING", "exit_code": 0 });
        assert_eq!(job(&shown).unwrap().id, "23_1");
        let alone = json!({ "job_id": 24, "array_job_id": 0, "array_task_id": null, "job_state": "FAILED", "exit_code": 768 });
        let found = job(&alone).unwrap();
        assert_eq!((found.id.as_str(), found.exit_code()), ("24", 3));
    }
}
