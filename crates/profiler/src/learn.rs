//! How long the iterations of a head's jobs took.

use std::collections::BTreeMap;

use wharf_client::{Client, ClientError};
use wharf_core::Plan;
use wharf_perf::{Locality, Place, Workload, plan_name};
use wharf_profile::{Facts, Key, Records};
use wharf_proto::job_event::Event;
use wharf_proto::{JobDetail, JobFilter, JobTimed, NodeSummary};

/// Runs that are alike, together.
#[derive(Debug, Default)]
struct Sum {
    iterations: f64,
    span_s: f64,
    jobs: Vec<u32>,
    /// Of the last run, in seconds since the Unix epoch.
    end_s: f64,
}

/// How long iterations took in the jobs of a head, as records of a profile.
///
/// # Errors
/// [`ClientError`] if the head does not answer.
pub async fn learn(client: &Client) -> Result<Records, ClientError> {
    let nodes = client.list_all_nodes().await?;
    let mut sums = BTreeMap::new();
    let mut details = client.list_details(JobFilter::default()).await?;
    while let Some(detail) = details.message().await.map_err(ClientError::from)? {
        add(&detail, &nodes, &mut sums);
    }
    let mut records = Records::default();
    for (key, sum) in sums {
        records.insert(key, facts(&sum));
    }
    Ok(records)
}

/// Adds the runs of a job that names its model.
fn add(detail: &JobDetail, nodes: &[NodeSummary], sums: &mut BTreeMap<Key, Sum>) {
    let Some(spec) = detail.spec.as_ref().filter(|spec| !spec.model.is_empty()) else { return };
    let batch_size = (spec.batch_size > 0).then_some(spec.batch_size);
    let workload = Workload { model: spec.model.as_str().into(), batch_size };
    for entry in &detail.history {
        let Some(Event::JobTimed(timed)) = entry.happened() else { continue };
        if timed.span_s <= 0.0 || timed.iterations <= 0.0 {
            continue;
        }
        let plan = timed
            .plan
            .map(|plan| plan_name(Plan { stages: plan.stages, data: plan.data, tensor: plan.tensor }));
        let place = Place {
            device_type: timed.device_type.as_str().into(),
            devices: timed.devices,
            locality: locality(timed, nodes),
        };
        let key = Key { workload: workload.clone(), place, plan: plan.unwrap_or_default(), beside: vec![] };
        let sum = sums.entry(key).or_default();
        sum.iterations += timed.iterations;
        sum.span_s += timed.span_s;
        sum.end_s = sum.end_s.max(entry.time_s);
        sum.jobs.extend(detail.summary.as_ref().map(|job| job.job_id));
    }
}

/// Whether the devices lay on more nodes than would have held them.
fn locality(timed: &JobTimed, nodes: &[NodeSummary]) -> Locality {
    let largest =
        nodes.iter().filter(|node| node.device_type == timed.device_type).map(|node| node.devices).max();
    let needed = timed.devices.div_ceil(largest.unwrap_or(timed.devices).max(1));
    if timed.nodes > needed { Locality::Spread } else { Locality::Packed }
}

fn facts(sum: &Sum) -> Facts {
    let jobs: Vec<String> = sum.jobs.iter().map(u32::to_string).collect();
    let time = jiff::Timestamp::from_second(sum.end_s as i64);
    Facts {
        iterations_per_s: sum.iterations / sum.span_s,
        memory_mib: None,
        is_estimate: false,
        source: format!("iterations of jobs {}: {}", jobs.join(", "), sum.iterations),
        recorded: time.map(|time| time.to_string()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use wharf_proto::{HistoryEntry, JobEvent, JobSpec, JobSummary, NoDetails, Plan as WirePlan};

    use super::*;

    fn detail(job_id: u32, model: &str, history: &[Option<Event>]) -> JobDetail {
        let entry = |event: &Option<Event>| HistoryEntry {
            time_s: 1.7e9,
            event: Some(JobEvent { job_id, event: event.clone() }),
            ..HistoryEntry::default()
        };
        JobDetail {
            summary: Some(JobSummary { job_id, ..JobSummary::default() }),
            spec: Some(JobSpec { model: model.to_owned(), batch_size: 64, ..JobSpec::default() }),
            history: history.iter().map(entry).collect(),
            ..JobDetail::default()
        }
    }

    #[test]
    fn runs_that_are_alike_count_together() {
        let timed = |nodes: u32, iterations: f64, span_s: f64| {
            Some(Event::JobTimed(JobTimed {
                device_type: "a40".to_owned(),
                devices: 2,
                nodes,
                plan: Some(WirePlan { stages: 2, data: 1, tensor: 1 }),
                iterations,
                span_s,
            }))
        };
        let node = NodeSummary { device_type: "a40".to_owned(), devices: 2, ..NodeSummary::default() };
        let mut sums = BTreeMap::new();
        for (job, model, runs) in [
            (3, "gpt-1.3b", [timed(1, 10.0, 5.0), timed(1, 30.0, 5.0)]),
            (4, "gpt-1.3b", [timed(2, 10.0, 20.0), Some(Event::JobHeld(NoDetails {}))]),
            (5, "", [timed(1, 10.0, 1.0), None]),
        ] {
            add(&detail(job, model, &runs), std::slice::from_ref(&node), &mut sums);
        }
        let found: Vec<(Locality, String, f64)> = sums
            .iter()
            .map(|(key, sum)| (key.place.locality, key.plan.clone(), facts(sum).iterations_per_s))
            .collect();
        let plan = || "pp2.dp1.tp1".to_owned();
        assert_eq!(found, [(Locality::Packed, plan(), 4.0), (Locality::Spread, plan(), 0.5)]);
        let first = facts(sums.values().next().unwrap());
        assert_eq!(first.source, "iterations of jobs 3, 3: 40");
        assert!(first.recorded.starts_with("2023-11-14T"), "{}", first.recorded);
    }
}
