//! Errors of existing Ray clusters.

use std::io;
use std::path::PathBuf;

use wharf_tls::ExchangeError;

use super::http::PATIENCE;

/// Why a Ray cluster does not do its part.
#[derive(Debug, thiserror::Error)]
pub enum RayError {
    /// The address is malformed.
    #[error("`{text}` is not the address of a Ray dashboard")]
    Address {
        /// The text.
        text: String,
    },
    /// The id of a job is malformed.
    #[error("`{text}` is not a Ray job id")]
    JobId {
        /// The text.
        text: String,
    },
    /// There is no response.
    #[error("the Ray cluster at {address} does not answer")]
    Unreached {
        /// Its dashboard.
        address: String,
        /// Why not.
        #[source]
        source: NoResponse,
    },
    /// The token is missing or not valid.
    #[error("the Ray cluster requires a token")]
    Token,
    /// The file of the token is not readable.
    #[error("cannot read `{}`", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// There is no such job.
    #[error("not found in the Ray cluster: {message}")]
    NotFound {
        /// The message of the cluster.
        message: String,
    },
    /// The cluster refuses.
    #[error("rejected by the Ray cluster ({status}): {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The message of the cluster.
        message: String,
    },
    /// The response is of an unknown form.
    #[error("invalid job in the response of the Ray cluster")]
    Malformed(#[source] serde_json::Error),
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum NoResponse {
    /// The time limit has passed.
    #[error("no response within {} s", PATIENCE.as_secs())]
    Silent,
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] io::Error),
    /// The connection broke.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// The request is malformed.
    #[error(transparent)]
    Request(#[from] hyper::http::Error),
}
