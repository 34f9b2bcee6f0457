//! Other policies on what is there now: simulated in the head's process, but never by its dispatcher.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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
/// A browser waits no longer.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Ends a comparison whose browser has gone away, or has waited long enough.
struct Awaited(Arc<AtomicBool>);

impl Drop for Awaited {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What would become of the jobs that are there under other policies: `?policies=fifo,srtf`. Without, which policies there are.
pub(super) async fn compare(who: Who, State(site): State<Arc<Site>>, RawQuery(query): RawQuery) -> Answer {
    let request = ask(&site, &who.identity, "Export", ExportRequest { past_max: PAST_MAX, typed: true })?;
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
    let busy = || Refused::from(Status::unavailable("another comparison is running; try again later"));
    let permit = site.comparisons.clone().try_acquire_owned().map_err(|_| busy())?;
    let exported = site.cluster.export(request).await?.into_inner();
    let compared = awaited(TIME_MAX, move |is_given_up| {
        let compared = (comparing.run)(exported, &wanted, is_given_up);
        drop(permit);
        compared
    });
    let compared = compared.await?;
    let runs = compared.map_err(|error| Status::internal(error.to_string()))?;
    Json::of(&json!({ "jobs": jobs, "runs": runs }))
}

/// Does what takes its time on another thread. The flag is set when it takes longer than `limit`, and when the future is dropped
/// because the client has disconnected.
async fn awaited<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
) -> Result<T, Status> {
    let awaited = Awaited(Arc::default());
    let is_given_up = awaited.0.clone();
    let done = tokio::task::spawn_blocking(move || work(&is_given_up));
    let too_long = |_| {
        let limit = limit.as_secs();
        Status::deadline_exceeded(format!(
            "not done after {limit} s: compare fewer policies, or use `wharf whatif`"
        ))
    };
    let done = tokio::time::timeout(limit, done).await.map_err(too_long)?;
    done.map_err(|error| Status::internal(error.to_string()))
}

/// The policies that a query names: known ones only.
fn wanted(list: &str, known: &[String]) -> Result<Vec<String>, Refused> {
    let names: Vec<String> = list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        return Err(Refused::bad(format!("`{unknown}` is no policy that can be compared here")));
    }
    if names.len() > POLICIES_MAX {
        return Err(Refused::bad(format!("{} policies requested, at most {POLICIES_MAX}", names.len())));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use wharf_proto::tonic::Code;

    use super::*;

    /// Work without an end, that states when it was given up.
    fn endless(ended: mpsc::Sender<()>) -> impl FnOnce(&AtomicBool) + Send + 'static {
        move |is_given_up| {
            while !is_given_up.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            let _ = ended.send(());
        }
    }

    #[tokio::test]
    async fn work_ends_at_its_time_limit_or_when_the_client_disconnects() {
        assert_eq!(awaited(TIME_MAX, |_| 7).await.unwrap(), 7);
        let (sender, ended) = mpsc::channel();
        let refused = awaited(Duration::from_millis(5), endless(sender)).await.unwrap_err();
        assert_eq!(refused.code(), Code::DeadlineExceeded);
        ended.recv().unwrap();
        let (sender, ended) = mpsc::channel();
        let asked = tokio::spawn(awaited(TIME_MAX, endless(sender)));
        tokio::task::yield_now().await;
        asked.abort();
        assert!(asked.await.unwrap_err().is_cancelled());
        // Work that had not begun when it was dropped never does, which drops its sender.
        let _ = ended.recv();
    }
}
