//! Whether the head lives, whether it can serve, and what it counts.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use super::Site;
use super::census::census;
use super::login::Who;
use super::refused::Refused;

/// How long the dispatcher may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The loop that decides goes round.
pub(super) async fn alive(State(site): State<Arc<Site>>) -> Response {
    match site.meter.is_stalled() {
        false => (StatusCode::OK, "ok\n").into_response(),
        true => {
            let text =
                format!("the scheduling loop has stalled for {:.0} s\n", site.meter.busy_for().as_secs_f64());
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

/// It answers, and what it says is durable.
pub(super) async fn ready(State(site): State<Arc<Site>>) -> Response {
    match timeout(PATIENCE, site.cluster.ask(|_| ())).await {
        Ok(Ok(())) => (StatusCode::OK, "ready\n").into_response(),
        Ok(Err(_)) => (StatusCode::SERVICE_UNAVAILABLE, "the head is stopping\n").into_response(),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the dispatcher does not answer\n").into_response(),
    }
}

/// All counters, for all users with a token.
pub(super) async fn metrics(_: Who, State(site): State<Arc<Site>>) -> Result<Response, Refused> {
    // Where the dispatcher does not answer, that it does not is what has to be told.
    let counted = timeout(PATIENCE, site.cluster.ask(census)).await.ok().and_then(Result::ok);
    let text = site.meter.render(counted.as_ref());
    let text = text.map_err(|_| wharf_proto::tonic::Status::internal("the metrics cannot be written"))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}
