//! The head over HTTP: health, metrics, the dashboard and what it asks.
//!
//! - `login`: tokens become sessions, requests become identities;
//! - `health`: liveness, readiness, metrics;
//! - `api`: what the dashboard asks; each question is an rpc of the contract, with that rpc's rights; `rows`: the answers as JSON;
//! - `compare`: other policies on what is there now;
//! - `hub`: what changes, as it changes;
//! - `pages`: the dashboard itself, which is in the program.

mod api;
mod census;
mod compare;
mod health;
mod hub;
mod login;
mod pages;
mod refused;
mod rows;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, map_response};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use wharf_proto::Exported;
use wharf_proto::tonic::codegen::Service as _;

use crate::auth::Access;
use crate::dispatcher::head_metrics::Meter;
use crate::rpc::connections::{ConnectionCaps, Door, Link};
use crate::rpc::service::Shared;
use crate::server::HeadError;
use hub::Hub;
use login::Sessions;

/// The longest body of a request.
const BODY_MAX: usize = 64 * 1024;
/// How long the header of a request may take, also the next one of an open connection; and its body.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The page may run its own scripts, use its own style and ask its own head: nothing else, not even text as markup.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
    trusted-types 'none'";

/// When a waiting job is expected to start, in seconds since the Unix epoch; what is not in sight is `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Foreseen {
    /// The job.
    pub job: u32,
    /// As likely before as after.
    pub median_s: Option<f64>,
    /// Not before, with the forecast's confidence.
    pub low_s: Option<f64>,
    /// Not after, likewise.
    pub high_s: Option<f64>,
}

/// A simulation of what the head exports that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct SimulationError {
    /// Why, in one line with hints.
    pub reason: String,
}

/// States when jobs are expected to start, from what the head exports. It may take its time: the dispatcher does not wait for it.
pub type Foresee = Arc<dyn Fn(Exported, &[u32]) -> Result<Vec<Foreseen>, SimulationError> + Send + Sync>;

/// What would become of the jobs that are there under each of some policies: one object for each, the present policy first. It ends
/// soon after the flag is set: the client has disconnected.
pub type Compare =
    Arc<dyn Fn(Exported, &[String], &AtomicBool) -> Result<serde_json::Value, SimulationError> + Send + Sync>;

/// Compares policies on what is there now.
#[derive(Clone)]
pub struct Comparing {
    /// Which there are; no others are passed on.
    pub policies: Vec<String>,
    /// Does it. It may take its time: the dispatcher does not wait for it.
    pub run: Compare,
}

/// How a head serves browsers.
#[derive(Clone)]
pub struct HttpConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Without TLS, also where others could listen in. On loopback there is none in any case.
    pub is_plain: bool,
    /// Read-only for all users.
    pub is_read_only: bool,
    /// What knows the future.
    pub foresee: Option<Foresee>,
    /// What compares policies.
    pub compare: Option<Comparing>,
}

impl HttpConfig {
    /// Whether the connection is private.
    pub fn has_tls(&self) -> bool {
        !self.is_plain && !self.listen.ip().is_loopback()
    }
}

/// What all requests need.
pub(crate) struct Site {
    cluster: Shared,
    access: Arc<Access>,
    meter: Arc<Meter>,
    sessions: Sessions,
    hub: Hub,
    is_read_only: bool,
    foresee: Option<Foresee>,
    /// One forecast at a time: it is nothing but work.
    forecasts: Arc<Semaphore>,
    compare: Option<Comparing>,
    /// One comparison at a time, likewise.
    comparisons: Arc<Semaphore>,
}

/// A site that serves until it is dropped.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Begins to serve.
pub(crate) async fn serve(
    config: HttpConfig,
    caps: ConnectionCaps,
    cluster: Shared,
    access: Arc<Access>,
    meter: Arc<Meter>,
) -> Result<Serving, HeadError> {
    let tls = if config.has_tls() { Some(access.browser_tls().map_err(HeadError::Tls)?) } else { None };
    let listening = |source| HeadError::Listen { address: config.listen, source };
    let door = Door::open(config.listen, tls, caps).await.map_err(listening)?;
    let address = door.address();
    let (hub, feed) = Hub::new(Shared(cluster.0.clone()), &meter);
    let site = Arc::new(Site {
        cluster,
        access,
        meter,
        sessions: Sessions::default(),
        hub,
        is_read_only: config.is_read_only,
        foresee: config.foresee,
        forecasts: Arc::new(Semaphore::new(1)),
        compare: config.compare,
        comparisons: Arc::new(Semaphore::new(1)),
    });
    let serving = tokio::spawn(accept(door, router(site)));
    Ok(Serving { address, tasks: [serving, tokio::spawn(feed)] })
}

/// Serves connections until it is dropped, and them with it.
async fn accept(mut door: Door, router: Router) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            link = door.accept() => match link {
                Some(link) => drop(connections.spawn(serve_link(link, router.clone()))),
                None => return,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve_link(link: Link, router: Router) {
    let peer = link.peer();
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer.clone());
        router.clone().call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(BODY_MAX)
        .serve_connection(TokioIo::new(link), service);
    // A broken connection ends for its client only.
    let _ = connection.await;
}

/// Reads the body of a request before anything is done with it, within its bounds.
async fn read_body(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, BODY_MAX)).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(parts, bytes.into())).await,
        Ok(Err(_)) => StatusCode::PAYLOAD_TOO_LARGE.into_response(),
        Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}

fn router(site: Arc<Site>) -> Router {
    Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/api/login", post(login::log_in))
        .route("/api/logout", post(login::log_out))
        .route("/api/session", get(api::session))
        .route("/api/jobs", get(api::jobs))
        .route("/api/jobs/change", post(api::change_jobs))
        .route("/api/jobs/{id}", get(api::job))
        .route("/api/jobs/{id}/logs", get(api::logs))
        .route("/api/curves", get(api::curves))
        .route("/api/reasons", get(api::reasons))
        .route("/api/forecast", get(api::forecast))
        .route("/api/compare", get(compare::compare))
        .route("/api/nodes", get(api::nodes))
        .route("/api/nodes/change", post(api::change_node))
        .route("/api/policy", get(api::policy))
        .route("/api/usage", get(api::usage))
        .route("/api/limits", get(api::limits))
        .route("/api/events", get(api::events))
        .route("/api/stream", get(hub::stream))
        .fallback(pages::page)
        .layer(from_fn(read_body))
        .layer(map_response(harden))
        .with_state(site)
}

/// What every answer says to browsers.
async fn harden(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    // Answers must not be cached; the page itself sets its own headers.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn every_route_is_in_the_book_and_none_else() {
        let between = |text: &'static str, from: &str, to: char| -> BTreeSet<String> {
            let parts = text.split(from).skip(1);
            parts.filter_map(|part| part.split(to).next()).map(str::to_owned).collect()
        };
        let routes = include_str!("mod.rs").lines().filter_map(|line| {
            let (path, method) = line.trim().strip_prefix(".route(\"")?.split_once("\", ")?;
            let method = if method.starts_with("post") { "POST" } else { "GET" };
            Some(format!("{method} {path}"))
        });
        let book = between(include_str!("../../../../docs/http.md"), "\n### `", '`');
        assert_eq!(routes.collect::<BTreeSet<String>>(), book);
    }
}
