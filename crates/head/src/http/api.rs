//! What the dashboard asks. Each question is an rpc of the contract, asked as that person, with that rpc's rights.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_stream::StreamExt as _;
use wharf_core::JobId;
use wharf_proto::change_jobs_request::Change;
use wharf_proto::cluster_server::Cluster as _;
use wharf_proto::tonic::{Request, Status};
use wharf_proto::{
    ChangeJobsRequest, ChangeNodeRequest, ExportRequest, GetJobRequest, GetLimitsRequest, GetPolicyRequest,
    InfoRequest, ListJobsRequest, ListNodesRequest, LogsRequest, MetricsRequest, UsageRequest,
    change_node_request, usage_request,
};

use super::login::Who;
use super::refused::Refused;
use super::rows::{self, JobRow};
use super::{Foreseen, Site};
use crate::auth::{Identity, check_rpc, redact_record, role_name};
use crate::dispatcher::Dispatcher;
use crate::journal::Reader;
use crate::query::views;

/// Jobs that have ended and still listed; those beyond are found by their number.
const ENDED_MAX: usize = 10_000;
/// Jobs that the dispatcher describes at once, so that it is never busy with it for long.
const PAGE: usize = 500;
/// Jobs whose reasons are told at once.
const REASONS_MAX: usize = 100;
const EVENTS_MAX: u32 = 500;
/// Jobs that are not over, beyond which nothing is foreseen; and those that have ended and tell about the others.
const FORESEEN_MAX: u32 = 3000;
pub(super) const PAST_MAX: u32 = 2000;

pub(super) type Answer = Result<Json, Refused>;
type TheSite = State<Arc<Site>>;

/// A text that is JSON.
pub(super) struct Json(pub(super) String);

impl Json {
    pub(super) fn of(value: &impl Serialize) -> Answer {
        let text = serde_json::to_string(value).map_err(|error| Status::internal(error.to_string()))?;
        Ok(Self(text))
    }
}

impl IntoResponse for Json {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, "application/json")], self.0).into_response()
    }
}

/// A request of the contract, if the role may make it.
pub(super) fn ask<T>(site: &Site, identity: &Identity, rpc: &str, message: T) -> Result<Request<T>, Status> {
    must(site, identity, rpc)?;
    let mut request = Request::new(message);
    request.extensions_mut().insert(identity.clone());
    Ok(request)
}

/// Fails where a role may not make a request of the contract; refusals are recorded.
fn must(site: &Site, identity: &Identity, rpc: &str) -> Result<(), Status> {
    let checked = check_rpc(&format!("/wharf.v1.Cluster/{rpc}"), identity);
    let audit = &site.access.audit;
    checked.inspect_err(|status| audit.refusal(Some(identity), identity.address, rpc, status))
}

/// The number that a query has under a name.
fn number(query: Option<&str>, name: &str) -> Option<i64> {
    let mut pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).and_then(|(_, value)| value.parse().ok())
}

/// A user and their permissions.
pub(super) fn session_of(site: &Site, identity: &Identity) -> Value {
    json!({
        "user": identity.user,
        "role": role_name(identity.role),
        "scope": identity.scope.name(),
        "read_only": site.is_read_only,
        "version": env!("CARGO_PKG_VERSION"),
    })
}

/// The user who is logged in, if any.
pub(super) async fn session(who: Result<Who, Refused>, State(site): TheSite) -> Answer {
    Json::of(&who.map_or_else(|_| json!({ "user": null }), |who| session_of(&site, &who.identity)))
}

/// All jobs that are not over, and the latest of those that are.
pub(super) async fn jobs(who: Who, State(site): TheSite) -> Answer {
    let listed = |dispatcher: &Dispatcher| {
        let state = dispatcher.engine.state();
        let over = state.jobs().filter(|(_, _, life)| life.is_ended()).count();
        let mut skipped = over.saturating_sub(ENDED_MAX);
        let mut is_listed = |is_ended: bool| {
            let is_skipped = is_ended && skipped > 0;
            skipped -= usize::from(is_skipped);
            !is_skipped
        };
        let jobs = state.jobs().filter(|(_, _, life)| is_listed(life.is_ended()));
        jobs.map(|(job, _, _)| job.0).collect::<Vec<u32>>()
    };
    let ids = site.cluster.ask(listed).await?;
    let mut found = Vec::with_capacity(ids.len());
    for page in ids.chunks(PAGE) {
        let request = ListJobsRequest { job_ids: page.to_vec(), ..ListJobsRequest::default() };
        let page = site.cluster.list_jobs(ask(&site, &who.identity, "ListJobs", request)?).await?;
        found.extend(page.into_inner().jobs.into_iter().map(JobRow::from));
    }
    Json::of(&found)
}

/// One job with all that is known of it.
pub(super) async fn job(who: Who, State(site): TheSite, Path(id): Path<u32>) -> Answer {
    let request = ask(&site, &who.identity, "GetJob", GetJobRequest { job_id: id, typed: false })?;
    let detail = site.cluster.get_job(request).await?.into_inner();
    let identity = who.identity.clone();
    let reason =
        site.cluster.ask(move |dispatcher| views::explain_to(dispatcher, JobId(id), &identity)).await?;
    let owner = detail.summary.as_ref().map(|summary| summary.user.clone()).unwrap_or_default();
    let is_own = who.identity.may_read(&owner);
    let history: Vec<Value> =
        detail.history.iter().map(|entry| rows::event(entry.time_s, &entry.what)).collect();
    Json::of(&json!({
        "job": detail.summary.map(JobRow::from),
        "own": is_own,
        "changeable": who.identity.may_change(&owner),
        "spec": detail.spec.as_ref().filter(|_| is_own).map(rows::spec),
        "history": history,
        "steps": detail.steps.iter().map(rows::step).collect::<Vec<_>>(),
        "explanation": reason,
    }))
}

/// Why jobs are where they are: `?jobs=1,2,3`.
pub(super) async fn reasons(who: Who, State(site): TheSite, RawQuery(query): RawQuery) -> Answer {
    must(&site, &who.identity, "Explain")?;
    let (ids, identity) = (named(query.as_deref())?, who.identity);
    let told = move |dispatcher: &Dispatcher| -> Value {
        let known = ids.into_iter().filter(|&id| dispatcher.engine.state().has_job(JobId(id)));
        known
            .map(|id| (id.to_string(), Value::from(views::explain_to(dispatcher, JobId(id), &identity))))
            .collect()
    };
    Json::of(&site.cluster.ask(told).await?)
}

/// The stored metrics of jobs: `?jobs=1,2,3`.
pub(super) async fn curves(who: Who, State(site): TheSite, RawQuery(query): RawQuery) -> Answer {
    let job_ids = named(query.as_deref())?;
    let request = MetricsRequest { job_ids, elements_only: true, ..MetricsRequest::default() };
    let mut found =
        site.cluster.get_metrics(ask(&site, &who.identity, "GetMetrics", request)?).await?.into_inner();
    let mut jobs = Vec::new();
    while let Some(job) = found.next().await {
        jobs.push(rows::curves(&job?));
    }
    Json::of(&jobs)
}

/// When jobs that wait are expected to start: `?jobs=1,2,3`. Where there are too many to foresee anything in time, nothing is.
pub(super) async fn forecast(who: Who, State(site): TheSite, RawQuery(query): RawQuery) -> Answer {
    let ids = named(query.as_deref())?;
    let Some(foresee) = site.foresee.clone() else { return Json::of(&json!({})) };
    let permit =
        site.forecasts.clone().acquire_owned().await.map_err(|error| Status::internal(error.to_string()))?;
    if live_jobs(&site).await? > FORESEEN_MAX {
        return Json::of(&json!({}));
    }
    let request = ask(&site, &who.identity, "Export", ExportRequest { past_max: PAST_MAX, typed: true })?;
    let exported = site.cluster.export(request).await?.into_inner();
    let foreseen = tokio::task::spawn_blocking(move || {
        let foreseen = foresee(exported, &ids);
        drop(permit);
        foreseen
    });
    let foreseen = foreseen.await.map_err(|error| Status::internal(error.to_string()))?;
    let foreseen = foreseen.map_err(|error| Status::internal(error.to_string()))?;
    let told = |one: &Foreseen| {
        let short = |time: Option<f64>| time.map(rows::short);
        (
            one.job.to_string(),
            json!({ "start": short(one.median_s), "low": short(one.low_s), "high": short(one.high_s) }),
        )
    };
    Json::of(&foreseen.iter().map(told).collect::<Value>())
}

/// How many jobs are not over.
pub(super) async fn live_jobs(site: &Site) -> Result<u32, Status> {
    let count = site.cluster.ask(|dispatcher| {
        let counts = dispatcher.engine.state().counts();
        counts.waiting + counts.held + counts.placed + counts.stopping
    });
    count.await
}

/// The jobs that a query names.
fn named(query: Option<&str>) -> Result<Vec<u32>, Refused> {
    let list = query
        .and_then(|query| query.strip_prefix("jobs="))
        .ok_or_else(|| Refused::bad("missing parameter: ?jobs=1,2,3"))?;
    Ok(list.split(',').take(REASONS_MAX).filter_map(|id| id.parse().ok()).collect())
}

/// A job's output, as it comes: `?rank=0&follow=1`.
pub(super) async fn logs(
    who: Who,
    State(site): TheSite,
    Path(id): Path<u32>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let rank = number(query.as_deref(), "rank").and_then(|rank| u32::try_from(rank).ok()).unwrap_or(0);
    let follow = number(query.as_deref(), "follow") == Some(1);
    let request = ask(&site, &who.identity, "Logs", LogsRequest { job_id: id, rank, follow, generation: 0 })?;
    let chunks = site.cluster.logs(request).await?.into_inner();
    let bytes = chunks.map(|chunk| chunk.map(|chunk| Bytes::from(chunk.data)).map_err(io::Error::other));
    let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    Ok(site.access.bound(&who.identity, (kind, Body::from_stream(bytes)).into_response()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    change: String,
    jobs: Vec<u32>,
    #[serde(default)]
    priority: i32,
}

/// Cancels, holds, releases, requeues or reprioritises jobs.
pub(super) async fn change_jobs(who: Who, State(site): TheSite, body: Bytes) -> Answer {
    must_not_be_read_only(&site)?;
    let wish: Wish = serde_json::from_slice(&body).map_err(|error| {
        Refused::bad(format!("a change is {{\"change\", \"jobs\", \"priority\"}}: {error}"))
    })?;
    let change = match wish.change.as_str() {
        "cancel" => Change::Cancel,
        "hold" => Change::Hold,
        "release" => Change::Release,
        "requeue" => Change::Requeue,
        "priority" => Change::Priority,
        other => {
            return Err(Refused::bad(format!(
                "`{other}` is no change: cancel, hold, release, requeue, priority are"
            )));
        }
    };
    let request = ChangeJobsRequest {
        change: change.into(),
        job_ids: wish.jobs,
        priority: wish.priority,
        elements_only: true,
        ..ChangeJobsRequest::default()
    };
    let reply =
        site.cluster.change_jobs(ask(&site, &who.identity, "ChangeJobs", request)?).await?.into_inner();
    let refused: Vec<Value> = reply
        .refused
        .iter()
        .map(|refusal| json!({ "job": refusal.job_id, "reason": refusal.reason }))
        .collect();
    Json::of(&json!({ "refused": refused }))
}

fn must_not_be_read_only(site: &Site) -> Result<(), Status> {
    match site.is_read_only {
        true => Err(Status::permission_denied("permission denied: this dashboard is read-only")),
        false => Ok(()),
    }
}

pub(super) async fn nodes(who: Who, State(site): TheSite) -> Answer {
    let reply = site
        .cluster
        .list_nodes(ask(&site, &who.identity, "ListNodes", ListNodesRequest { all: true })?)
        .await?;
    Json::of(&rows::nodes(reply.into_inner().nodes))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeWish {
    node: String,
    change: String,
    #[serde(default)]
    reason: String,
}

/// Cordons, drains or resumes a node.
pub(super) async fn change_node(who: Who, State(site): TheSite, body: Bytes) -> Answer {
    use change_node_request::Change;
    must_not_be_read_only(&site)?;
    let wish: NodeWish = serde_json::from_slice(&body).map_err(|error| {
        Refused::bad(format!("a change is {{\"node\", \"change\", \"reason\"}}: {error}"))
    })?;
    let change = match wish.change.as_str() {
        "cordon" => Change::Cordon,
        "drain" => Change::Drain,
        "resume" => Change::Resume,
        other => return Err(Refused::bad(format!("`{other}` is no change: cordon, drain, resume are"))),
    };
    let request = ChangeNodeRequest { node: wish.node, change: change.into(), reason: wish.reason };
    site.cluster.change_node(ask(&site, &who.identity, "ChangeNode", request)?).await?;
    Json::of(&json!({}))
}

/// Who decides, who decided before, and the latest decisions.
pub(super) async fn policy(who: Who, State(site): TheSite) -> Answer {
    let changes =
        site.cluster.get_policy(ask(&site, &who.identity, "GetPolicy", GetPolicyRequest {})?).await?;
    let info = site.cluster.info(ask(&site, &who.identity, "Info", InfoRequest {})?).await?.into_inner();
    let (count, latest) = site
        .cluster
        .ask(|dispatcher| {
            let decisions = dispatcher.policy.decisions();
            (decisions.count(), decisions.latest().cloned().collect::<Vec<_>>())
        })
        .await?;
    let latest: Vec<Value> = latest.iter().rev().map(|one| rows::decided(one, info.epoch_s)).collect();
    Json::of(&json!({ "changes": rows::policies(changes.into_inner()), "count": count, "decisions": latest }))
}

/// Who used what: `?hours=24`; without, since ever.
pub(super) async fn usage(who: Who, State(site): TheSite, RawQuery(query): RawQuery) -> Answer {
    let hours = number(query.as_deref(), "hours").filter(|&hours| hours > 0);
    let since_s = hours.map(|hours| crate::dispatcher::clock::unix_s() - hours as f64 * 3600.0);
    let by = usage_request::By::User.into();
    let request = ask(&site, &who.identity, "Usage", UsageRequest { by, since_s, until_s: None })?;
    Json::of(&rows::usage(&site.cluster.usage(request).await?.into_inner()))
}

pub(super) async fn limits(who: Who, State(site): TheSite) -> Answer {
    let request = ask(&site, &who.identity, "GetLimits", GetLimitsRequest::default())?;
    Json::of(&rows::limits(site.cluster.get_limits(request).await?.into_inner()))
}

/// What happened, the latest first: `?before=SEQUENCE`. All users can also see it per job.
pub(super) async fn events(who: Who, State(site): TheSite, RawQuery(query): RawQuery) -> Answer {
    must(&site, &who.identity, "GetJob")?;
    let before = number(query.as_deref(), "before").unwrap_or(i64::MAX);
    let (path, epoch_unix_s) = site
        .cluster
        .ask(|dispatcher| (dispatcher.log.journal.path().to_owned(), dispatcher.clock.epoch_unix_s()))
        .await?;
    let read = move || Reader::open(&path)?.between(0, before, true, EVENTS_MAX);
    let read =
        tokio::task::spawn_blocking(read).await.map_err(|_| Status::unavailable("the head is stopping"))?;
    let read = read.map_err(|error| Status::internal(error.to_string()))?;
    Json::of(&read.iter().map(|line| numbered(line, epoch_unix_s)).collect::<Vec<_>>())
}

/// An event with its number in the journal.
pub(super) fn numbered((sequence, time_s, record): &(i64, f64, String), epoch_unix_s: f64) -> Value {
    let mut record = record.clone();
    // It is for all users alike.
    redact_record(&mut record);
    let mut event = rows::event(epoch_unix_s + time_s, &record);
    event["sequence"] = (*sequence).into();
    event
}
