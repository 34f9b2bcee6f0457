//! Other policies on what is there now: simulated in the head's process, but never by its dispatcher.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use serde_json::json;
use wharf_proto::ExportRequest;
use wharf_proto::cluster_server::Cluster as _;
use wharf_proto::tonic::Status;

use super::Site;
use super::api::{Answer, Json, PAST_MAX, ask, live_jobs};
use super::login::Who;
use super::refused::Refused;

/// Policies that are compared at once, beside the present one.
const POLICIES_MAX: usize = 6;
/// Jobs that are not over, beyond which a comparison takes too long.
const JOBS_MAX: u32 = 2000;

/// What would become of the jobs that are there under other policies: `?policies=fifo,srtf`. Without, which policies there are.
pub(super) async fn compare(who: Who, State(site): State<Arc<Site>>, RawQuery(query): RawQuery) -> Answer {
    let request = ask(&who.identity, "Export", ExportRequest { past_max: PAST_MAX })?;
    let Some(comparing) = site.compare.clone() else { return Json::of(&json!({ "policies": [] })) };
    let Some(list) = query.as_deref().and_then(|query| query.strip_prefix("policies=")) else {
        return Json::of(
            &json!({ "policies": comparing.policies, "at_once": POLICIES_MAX, "jobs_max": JOBS_MAX }),
        );
    };
    let wanted = wanted(list, &comparing.policies)?;
    let jobs = live_jobs(&site).await?;
    if jobs > JOBS_MAX {
        return Err(Refused::bad(format!(
            "{jobs} jobs are too many to compare here, at most {JOBS_MAX}: `wharf whatif` has the time"
        )));
    }
    let busy =
        || Refused::from(Status::unavailable("another comparison is under way: try again when it is done"));
    let permit = site.comparisons.clone().try_acquire_owned().map_err(|_| busy())?;
    let exported = site.cluster.export(request).await?.into_inner();
    let compared = tokio::task::spawn_blocking(move || {
        let compared = (comparing.run)(exported, &wanted);
        drop(permit);
        compared
    });
    let compared = compared.await.map_err(|error| Status::internal(error.to_string()))?;
    Json::of(&json!({ "jobs": jobs, "runs": compared.map_err(Status::internal)? }))
}

/// The policies that a query names: known ones only.
fn wanted(list: &str, known: &[String]) -> Result<Vec<String>, Refused> {
    let names: Vec<String> = list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        return Err(Refused::bad(format!("`{unknown}` is no policy that can be compared here")));
    }
    if names.len() > POLICIES_MAX {
        return Err(Refused::bad(format!(
            "{} policies are too many at once, at most {POLICIES_MAX}",
            names.len()
        )));
    }
    Ok(names)
}
