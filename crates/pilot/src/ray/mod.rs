//! Jobs of an existing Ray cluster, through Ray's Jobs API.

mod error;
mod http;
mod job;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use hyper::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use self::http::Address;

pub use error::{NoResponse, RayError};
pub use job::RayJob;

/// Polling interval of a job. Ray has a stream of its output too, but not in all versions.
const LOOK: Duration = Duration::from_millis(500);
/// Exit code of a stopped job, as if by a signal.
const CODE_STOPPED: u8 = 143;
/// Longest message of a refusal, in characters.
const MESSAGE_MAX: usize = 500;

/// The status of a job, as Ray returns it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct RayStatus {
    /// Its id.
    pub submission_id: Option<String>,
    /// `PENDING`, `RUNNING`, `SUCCEEDED`, `FAILED` or `STOPPED`.
    pub status: String,
    /// Its command line.
    pub entrypoint: String,
    /// Why it failed.
    pub message: Option<String>,
    driver_exit_code: Option<i32>,
    /// Milliseconds since the Unix epoch.
    start_time: Option<f64>,
    end_time: Option<f64>,
    metadata: Option<BTreeMap<String, String>>,
}

impl RayStatus {
    fn is_over(&self) -> bool {
        matches!(self.status.as_str(), "SUCCEEDED" | "FAILED" | "STOPPED")
    }

    /// The exit code of a job of Wharf's own that ended like this.
    pub fn exit_code(&self) -> u8 {
        match self.status.as_str() {
            "SUCCEEDED" => 0,
            "STOPPED" => CODE_STOPPED,
            _ => {
                let code = self.driver_exit_code.filter(|&code| code != 0).unwrap_or(1);
                u8::try_from(code).unwrap_or(1)
            }
        }
    }
}

#[derive(Debug, Deserialize)]
struct Submitted {
    submission_id: String,
}

#[derive(Debug, Deserialize)]
struct Logs {
    logs: String,
}

/// A client of a cluster's Jobs API.
pub struct RayClient {
    address: Address,
    token: Option<String>,
}

impl RayClient {
    /// A client of the cluster at an address such as `http://host:8265`, with the token that Ray's own clients would use.
    ///
    /// # Errors
    /// [`RayError::Address`] and [`RayError::TokenFile`].
    pub fn new(address: &str) -> Result<Self, RayError> {
        Ok(Self { address: Address::parse(address)?, token: token()? })
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<T, RayError> {
        let (status, body) = self.address.send(method, path, body, self.token.as_deref()).await?;
        let message = || String::from_utf8_lossy(&body).trim().chars().take(MESSAGE_MAX).collect();
        match status {
            200..300 => serde_json::from_slice(&body).map_err(RayError::Malformed),
            401 | 403 => Err(RayError::Token),
            404 => Err(RayError::NotFound { message: message() }),
            _ => Err(RayError::Refused { status, message: message() }),
        }
    }

    /// Submits a job and returns its id.
    ///
    /// # Errors
    /// [`RayError`]
    pub async fn submit(&self, job: &RayJob) -> Result<String, RayError> {
        let body = serde_json::to_vec(job).map_err(RayError::Malformed)?;
        Ok(self.send::<Submitted>(Method::POST, "/api/jobs/", body).await?.submission_id)
    }

    /// All jobs of the cluster.
    ///
    /// # Errors
    /// [`RayError`]
    pub async fn list(&self) -> Result<Vec<RayStatus>, RayError> {
        self.send(Method::GET, "/api/jobs/", vec![]).await
    }

    /// The status of a job.
    ///
    /// # Errors
    /// [`RayError`]
    pub async fn status(&self, job: &str) -> Result<RayStatus, RayError> {
        self.send(Method::GET, &path(job, "")?, vec![]).await
    }

    /// The output of a job so far.
    ///
    /// # Errors
    /// [`RayError`]
    pub async fn logs(&self, job: &str) -> Result<String, RayError> {
        Ok(self.send::<Logs>(Method::GET, &path(job, "/logs")?, vec![]).await?.logs)
    }

    /// Stops a job.
    ///
    /// # Errors
    /// [`RayError`]
    pub async fn stop(&self, job: &str) -> Result<(), RayError> {
        let _: serde_json::Value = self.send(Method::POST, &path(job, "/stop")?, b"{}".to_vec()).await?;
        Ok(())
    }

    /// Waits for the end of a job, and passes new output to `print`.
    ///
    /// # Errors
    /// [`RayError`], and the errors of `print`.
    pub async fn follow<E: From<RayError>>(
        &self,
        job: &str,
        mut print: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<RayStatus, E> {
        let mut printed = 0;
        loop {
            // Before its output, so that no last lines are missed.
            let status = self.status(job).await?;
            let logs = self.logs(job).await?;
            print(logs.get(printed..).unwrap_or_default())?;
            printed = printed.max(logs.len());
            if status.is_over() {
                return Ok(status);
            }
            sleep(LOOK).await;
        }
    }

    /// Waits for the end of a job.
    ///
    /// # Errors
    /// [`RayError`]
    pub async fn wait(&self, job: &str) -> Result<RayStatus, RayError> {
        loop {
            let status = self.status(job).await?;
            if status.is_over() {
                return Ok(status);
            }
            sleep(LOOK).await;
        }
    }
}

/// The path of a request about a job, whose id is a part of it.
fn path(job: &str, what: &str) -> Result<String, RayError> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    if job.is_empty() || !job.chars().all(is_plain) {
        return Err(RayError::JobId { text: job.to_owned() });
    }
    Ok(format!("/api/jobs/{job}{what}"))
}

/// The token that Ray's own clients would use.
fn token() -> Result<Option<String>, RayError> {
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
        Err(source) if is_named => Err(RayError::TokenFile { path, source }),
        // Most clusters want none.
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_becomes_an_exit_code() {
        for (status, code, expected) in [
            ("SUCCEEDED", None, 0),
            ("STOPPED", Some(-15), 143),
            ("FAILED", Some(3), 3),
            ("FAILED", Some(0), 1),
            ("FAILED", Some(-9), 1),
            ("FAILED", None, 1),
        ] {
            let ended =
                RayStatus { status: status.to_owned(), driver_exit_code: code, ..RayStatus::default() };
            assert_eq!(ended.exit_code(), expected, "{status} {code:?}");
        }
    }

    #[test]
    fn job_id_that_is_no_part_of_a_path_is_refused() {
        assert_eq!(path("raysubmit_1", "/logs").unwrap(), "/api/jobs/raysubmit_1/logs");
        for text in ["", "a/../b", "a?b", "a b"] {
            assert!(matches!(path(text, ""), Err(RayError::JobId { .. })), "{text}");
        }
    }
}
