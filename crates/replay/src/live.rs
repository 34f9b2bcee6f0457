//! The replay itself: the jobs of a trace, submitted to a head at their times.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use wharf_client::{Client, unix_s};
use wharf_core::{ClusterSpec, NodeSpec};
use wharf_proto::change_jobs_request::Change;
use wharf_proto::job_event::Event;
use wharf_proto::{
    ChangeJobsRequest, Checkpoint, HistoryEntry, JobDetail, JobPhase, JobSpec, ListJobsRequest, LogsRequest,
    NodeSummary,
};

use crate::{ReplayError, ReplayPlan, jobs};

/// Polling interval of the jobs' phases.
const LOOK: Duration = Duration::from_millis(250);
/// From the start of a cluster to the trace's beginning.
const LEAD_S: f64 = 0.5;
/// Where the policy is called in rounds, jobs that the trace submits at the beginning of a round are submitted this much earlier: a
/// simulator's arrivals are in time for it.
const ROUND_LEAD_S: f64 = 0.05;
/// Longest name of a node, in characters.
const NODE_NAME_MAX: usize = 64;
/// Starts that are measured; the median counts.
const SAMPLES: usize = 5;

/// A head's record of the jobs of a trace.
pub struct Replayed {
    /// In the trace's order.
    pub jobs: Vec<JobDetail>,
    /// All nodes that ever joined.
    pub nodes: Vec<NodeSummary>,
    /// The trace's beginning, in seconds since the Unix epoch.
    pub began_s: f64,
    /// The end of the replay, in seconds since the Unix epoch.
    pub ended_s: f64,
}

/// Names that a head accepts for the nodes of a cluster: their own, with `-` for characters such as the `:` before a port; numbers where
/// those are not unique.
pub fn node_names(cluster: &ClusterSpec) -> Vec<String> {
    let allowed = |character: char| match character {
        '.' | '_' | '-' => character,
        _ if character.is_ascii_alphanumeric() => character,
        _ => '-',
    };
    let name = |node: &NodeSpec| {
        let name: String = node.name.chars().map(allowed).take(NODE_NAME_MAX).collect();
        name.trim_start_matches(['-', '.']).to_owned()
    };
    let names: Vec<String> = cluster.nodes.iter().map(name).collect();
    let distinct: BTreeSet<&String> = names.iter().filter(|name| !name.is_empty()).collect();
    if distinct.len() == names.len() {
        return names;
    }
    (0..names.len()).map(|index| format!("n{index}")).collect()
}

/// Measures the seconds from a launch to the first iteration.
///
/// # Errors
/// [`ReplayError::StartCost`] where the trial job does not run, and [`ReplayError::Client`].
pub async fn start_cost_s(client: &Client, folder: &Path) -> Result<f64, ReplayError> {
    let mut costs = Vec::new();
    for _ in 0..SAMPLES {
        let trial = JobSpec {
            name: "start-cost".to_owned(),
            iterations: 1.0,
            iteration_ms: 100.0,
            paced: true,
            ..JobSpec::default()
        };
        let ids = client.submit(vec![placed_in(trial, folder)]).await?;
        let id = ids.first().copied().unwrap_or_default();
        let ended = client.wait(id).await?;
        let mut output =
            client.logs(LogsRequest { job_id: id, rank: 0, follow: true, generation: 0 }).await?;
        let mut said = Vec::new();
        while let Some(part) = output.next().await? {
            said.extend(part);
        }
        let said = String::from_utf8_lossy(&said).into_owned();
        let placed_s = placed_at(&client.get_job(id).await?.history);
        let cost = placed_s.zip(began_at(&said)).map(|(placed_s, began_s)| (began_s - placed_s).max(0.0));
        costs.push(cost.filter(|_| ended.phase() == JobPhase::Finished).ok_or_else(|| {
            ReplayError::StartCost { phase: ended.phase().word(), output: said.trim().to_owned() }
        })?);
    }
    costs.sort_by(f64::total_cmp);
    Ok(costs[SAMPLES / 2])
}

/// When a job was first placed.
fn placed_at(history: &[HistoryEntry]) -> Option<f64> {
    let placed = |entry: &&HistoryEntry| matches!(entry.happened(), Some(Event::JobPlaced(_)));
    history.iter().find(placed).map(|entry| entry.time_s)
}

/// When the paced trainer states that it began, in seconds since the Unix epoch.
fn began_at(said: &str) -> Option<f64> {
    said.lines().find_map(|line| line.strip_prefix("began at ")?.split(' ').next()?.parse().ok())
}

/// A job that leaves everything in one folder, which is made where it runs; only the one above has to be there.
fn placed_in(spec: JobSpec, folder: &Path) -> JobSpec {
    let dir = folder.join("checkpoints").to_string_lossy().into_owned();
    JobSpec {
        workdir: folder.parent().unwrap_or(folder).to_string_lossy().into_owned(),
        checkpoint: Some(Checkpoint { dir, ..Checkpoint::default() }),
        ..spec
    }
}

/// Submits each job at its time, and returns when all are over or the cutoff is reached; `None` where `interrupted` comes first. Calls
/// `progress` with the number of jobs that have ended since the last call.
///
/// # Errors
/// [`ReplayError::Client`].
pub async fn replay(
    client: &Client,
    plan: &ReplayPlan,
    folder: &Path,
    interrupted: impl Future<Output = ()>,
    progress: impl Fn(u64),
) -> Result<Option<Replayed>, ReplayError> {
    let lead_s = lead_s(plan.period_s, unix_s() - client.info().await?.epoch_s);
    let (began, began_s) = (Instant::now() + Duration::from_secs_f64(lead_s), unix_s() + lead_s);
    let ids = tokio::sync::Mutex::new(Vec::new());
    let submitting = async {
        for (at, together) in jobs::arrivals(&plan.trace.jobs) {
            sleep_until(began + Duration::from_secs_f64(at.seconds())).await;
            let specs = together.iter().map(|job| placed_in(jobs::paced(job, began_s), folder)).collect();
            let accepted = client.submit(specs).await?;
            ids.lock().await.extend(accepted);
        }
        Ok::<(), ReplayError>(())
    };
    let following = follow(client, &ids, plan.trace.jobs.len(), progress);
    let all = async { tokio::try_join!(submitting, following).map(drop) };
    let cutoff = async {
        match plan.cutoff_s {
            Some(cutoff_s) => sleep_until(began + Duration::from_secs_f64(cutoff_s)).await,
            None => std::future::pending().await,
        }
    };
    let is_interrupted = tokio::select! {
        done = all => done.map(|()| false)?,
        () = cutoff => false,
        () = interrupted => true,
    };
    let ids = ids.into_inner();
    let ended_s = unix_s();
    cancel_live(client, &ids).await?;
    if is_interrupted {
        return Ok(None);
    }
    let nodes = client.list_all_nodes().await?;
    let mut jobs = Vec::new();
    for &id in &ids {
        jobs.push(client.get_job(id).await?);
    }
    Ok(Some(Replayed { jobs, nodes, began_s, ended_s }))
}

/// How long until the beginning: where there are rounds, until just before one.
fn lead_s(period_s: Option<f64>, engine_s: f64) -> f64 {
    match period_s {
        None => LEAD_S,
        Some(period_s) => {
            let earliest = engine_s + LEAD_S + ROUND_LEAD_S;
            (earliest / period_s).ceil() * period_s - ROUND_LEAD_S - engine_s
        }
    }
}

/// Returns when all jobs are over.
async fn follow(
    client: &Client,
    ids: &tokio::sync::Mutex<Vec<u32>>,
    count: usize,
    progress: impl Fn(u64),
) -> Result<(), ReplayError> {
    let mut shown = 0;
    loop {
        let job_ids = ids.lock().await.clone();
        // No ids would mean all jobs.
        if !job_ids.is_empty() {
            let jobs = client.list_jobs(ListJobsRequest { job_ids, ..ListJobsRequest::default() }).await?;
            let ended = jobs.iter().filter(|job| job.end_s > 0.0).count();
            progress((ended - shown) as u64);
            shown = ended;
        }
        if shown == count {
            return Ok(());
        }
        sleep(LOOK).await;
    }
}

/// Cancels jobs that are not over, and returns when they are: their files can be removed then.
async fn cancel_live(client: &Client, ids: &[u32]) -> Result<(), ReplayError> {
    if ids.is_empty() {
        return Ok(());
    }
    let filter = ListJobsRequest { job_ids: ids.to_vec(), ..ListJobsRequest::default() };
    let jobs = client.list_jobs(filter).await?;
    let live: Vec<u32> = jobs.iter().filter(|job| job.end_s == 0.0).map(|job| job.job_id).collect();
    if live.is_empty() {
        return Ok(());
    }
    let request = ChangeJobsRequest {
        change: Change::Cancel.into(),
        job_ids: live.clone(),
        ..ChangeJobsRequest::default()
    };
    // One that was just faster needs no cancelling.
    client.change_jobs(request).await?;
    for id in live {
        client.wait(id).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginning_is_just_before_a_round() {
        assert_eq!(lead_s(None, 7.0), LEAD_S);
        for engine_s in [0.0, 3.0, 9.4, 9.46, 9.99] {
            let at = engine_s + lead_s(Some(10.0), engine_s) + ROUND_LEAD_S;
            let expected = if engine_s + LEAD_S + ROUND_LEAD_S <= 10.0 { 10.0 } else { 20.0 };
            assert!((at - expected).abs() < 1e-9, "{engine_s}: {at}");
            assert!(lead_s(Some(10.0), engine_s) >= LEAD_S - 1e-9);
        }
    }

    #[test]
    fn node_names_are_valid_and_unique() {
        let names = |names: &[&str]| {
            let mut cluster = ClusterSpec::uniform("a40", names.len() as u32, 2);
            cluster.nodes.iter_mut().zip(names).for_each(|(node, name)| node.name = (*name).into());
            node_names(&cluster)
        };
        assert_eq!(names(&["10.2.64.81:4160", "10.2.64.82:4160"]), ["10.2.64.81-4160", "10.2.64.82-4160"]);
        assert_eq!(names(&["node_01", "gpu a"]), ["node_01", "gpu-a"]);
        assert_eq!(names(&["fe80::1", "fe80--1"]), ["n0", "n1"]);
        assert_eq!(names(&["..", "b"]), ["n0", "n1"]);
        assert_eq!(names(&[&"x".repeat(80)])[0].len(), 64);
    }

    #[test]
    fn beginning_is_read_from_the_output() {
        let said = "some warning\nbegan at 1700000000.125 with 0 of 5 iterations\ndone at 1700000009 ...\n";
        assert_eq!(began_at(said), Some(1_700_000_000.125));
        assert_eq!(began_at("nothing"), None);
    }
}
