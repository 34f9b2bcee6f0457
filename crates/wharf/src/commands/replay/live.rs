//! The replay itself: real processes on a cluster that is started for it, or that runs already.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use wharf_client::Client;
use wharf_core::{ClusterSpec, NodeSpec};
use wharf_proto::change_jobs_request::Change;
use wharf_proto::{
    ChangeJobsRequest, Checkpoint, HistoryEntry, JobDetail, JobPhase, JobSpec, ListJobsRequest, LogsRequest,
};
use wharf_report::cluster::Record;

use super::jobs;
use super::plan::Plan;
use crate::commands::cluster::{self, Embedded, Hurry, Interruptions, WorkerPlan};
use crate::error::{CliError, ErrorKind};
use crate::output::Terminal;

/// How often it is checked how far the jobs are.
const LOOK: Duration = Duration::from_millis(250);
/// From the start of a cluster to the trace's beginning.
const LEAD_S: f64 = 0.5;
/// Where the policy is called in rounds, what the trace has at the beginning of a round is submitted this much before: a
/// simulator's arrivals are in time for it.
const ROUND_LEAD_S: f64 = 0.05;
/// Longest name of a node, in characters.
const NODE_NAME_MAX: usize = 64;
/// Starts that are measured; the middle one counts.
const SAMPLES: usize = 5;

/// What a head has recorded of the jobs of a trace.
pub(super) struct Lived {
    /// In the trace's order.
    pub(super) jobs: Vec<JobDetail>,
    pub(super) record: Record,
    /// The trace's beginning, in seconds since the Unix epoch.
    pub(super) began_s: f64,
}

/// Starts a cluster for a plan and stops it, whatever happens in between.
pub(super) async fn embedded<T>(
    plan: &cluster::Plan,
    interruptions: &Interruptions,
    terminal: &Terminal,
    within: impl AsyncFnOnce(&Client) -> Result<T, CliError>,
) -> Result<Option<T>, CliError> {
    let cluster = Embedded::start(plan, &terminal.quieter()).await?;
    let work = async { within(&Client::connect(&plan.home).await?).await.map(Some) };
    let done = tokio::select! {
        done = work => done,
        () = interruptions.clone().reach(1) => Ok(None),
    };
    // What still runs is thrown away with its folder: it needs no grace.
    cluster.stop(Hurry::AtOnce).await?;
    done
}

/// The cluster that a plan is replayed on, in a folder.
pub(super) fn cluster_plan(plan: &Plan, start_cost_s: f64, folder: &Path) -> cluster::Plan {
    let worker = |(node, name): (&NodeSpec, String)| WorkerPlan {
        node: name,
        devices: Some(format!("{}:{}", node.device_type, node.devices)),
        switch: node.switch,
        pool: node.pool.to_string(),
        network_interface: plan.network_interface.clone(),
    };
    cluster::Plan {
        home: folder.join("home"),
        workers: plan.cluster.nodes.iter().zip(node_names(&plan.cluster)).map(worker).collect(),
        policy: Some(plan.policy.name.to_owned()),
        set: plan.settings(start_cost_s).iter().map(|(key, value)| format!("{key}={value}")).collect(),
        seed: plan.seed,
        profile: plan.profile.as_ref().map(|(path, _)| path.clone()),
        http: None,
    }
}

/// Names that a head accepts for the nodes of a cluster: their own, with `-` for characters such as the `:` before a port; numbers where
/// those are not unique.
fn node_names(cluster: &ClusterSpec) -> Vec<String> {
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

/// Measures how long it takes from a launch to the first iteration.
pub(super) async fn start_cost_s(client: &Client, folder: &Path) -> Result<f64, CliError> {
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
        let placed_s = moment_of(&client.get_job(id).await?.history, "job_placed");
        let cost = placed_s.zip(began_at(&said)).map(|(placed_s, began_s)| (began_s - placed_s).max(0.0));
        costs.push(cost.filter(|_| ended.phase() == JobPhase::Finished).ok_or_else(|| {
            CliError::new(ErrorKind::Internal, "cannot measure the start cost")
                .hint(format!("the trial is {}; its output: {}", ended.phase().word(), said.trim()))
                .hint("give it with `--start-cost SECONDS`")
        })?);
    }
    costs.sort_by(f64::total_cmp);
    Ok(costs[SAMPLES / 2])
}

/// When a record of that name was first written.
fn moment_of(history: &[HistoryEntry], name: &str) -> Option<f64> {
    let start = format!("{{\"{name}\"");
    history.iter().find(|entry| entry.what.starts_with(&start)).map(|entry| entry.time_s)
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

/// Submits each job at its time and returns when all have ended, or it is time to stop.
pub(super) async fn replay(
    client: &Client,
    plan: &Plan,
    folder: &Path,
    interruptions: &Interruptions,
    terminal: &Terminal,
) -> Result<Option<Lived>, CliError> {
    let lead_s = lead_s(plan.period_s, cluster::unix_s() - client.info().await?.epoch_s);
    let (began, began_s) = (Instant::now() + Duration::from_secs_f64(lead_s), cluster::unix_s() + lead_s);
    let ids = tokio::sync::Mutex::new(Vec::new());
    let submitting = async {
        for (at, together) in jobs::arrivals(&plan.trace.jobs) {
            sleep_until(began + Duration::from_secs_f64(at.seconds())).await;
            let specs = together.iter().map(|job| placed_in(jobs::paced(job, began_s), folder)).collect();
            let taken = client.submit(specs).await?;
            ids.lock().await.extend(taken);
        }
        Ok::<(), CliError>(())
    };
    let following = follow(client, &ids, plan.trace.jobs.len(), terminal);
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
        () = interruptions.clone().reach(1) => true,
    };
    let ids = ids.into_inner();
    let ended_s = cluster::unix_s();
    cancel_live(client, &ids).await?;
    if is_interrupted {
        return Ok(None);
    }
    let nodes = client.list_all_nodes().await?;
    let mut lived = Vec::new();
    for &id in &ids {
        lived.push(client.get_job(id).await?);
    }
    let mut record = cluster::record_of(nodes, lived.iter().cloned());
    record.now_s = ended_s;
    Ok(Some(Lived { jobs: lived, record, began_s }))
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

/// Shows how far it is until all jobs have ended.
async fn follow(
    client: &Client,
    ids: &tokio::sync::Mutex<Vec<u32>>,
    count: usize,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let progress = terminal.progress(count as u64, "jobs");
    let mut shown = 0;
    loop {
        let job_ids = ids.lock().await.clone();
        // No ids would mean all jobs.
        if !job_ids.is_empty() {
            let jobs = client.list_jobs(ListJobsRequest { job_ids, ..ListJobsRequest::default() }).await?;
            let ended = jobs.iter().filter(|job| job.end_s > 0.0).count();
            progress.add((ended - shown) as u64);
            shown = ended;
        }
        if shown == count {
            progress.finish();
            return Ok(());
        }
        sleep(LOOK).await;
    }
}

/// Cancels what is not over, and returns when it is: its files can go then.
async fn cancel_live(client: &Client, ids: &[u32]) -> Result<(), CliError> {
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
