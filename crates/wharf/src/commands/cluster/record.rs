//! What a cluster has recorded, in words and for a report.

use serde_json::Value;
use wharf_client::{Client, ClientError};
use wharf_core::{DEVICES_PER_NODE_MAX, DeviceSet, NodeId, NodeShare, Reshape, Topology};
use wharf_proto::{HistoryEntry, JobDetail, JobFilter, JobPhase, JobSummary, NodeSummary};
use wharf_report::cluster::{Record, RecordedJob, RecordedNode, Stay};

use crate::error::CliError;

/// Everything about all jobs of a cluster.
pub(in crate::commands) async fn record(client: &Client) -> Result<Record, CliError> {
    // Histories name nodes by their number among all that ever joined.
    let nodes = client.list_all_nodes().await?;
    let mut jobs = Vec::new();
    let mut details = client.list_details(JobFilter::default()).await?;
    while let Some(detail) = details.message().await.map_err(ClientError::from)? {
        jobs.push(detail);
    }
    Ok(record_of(nodes, jobs))
}

/// What these jobs did on these nodes.
pub(in crate::commands) fn record_of(
    nodes: Vec<NodeSummary>,
    jobs: impl IntoIterator<Item = JobDetail>,
) -> Record {
    let node = |node: NodeSummary| RecordedNode {
        name: node.name,
        device_type: node.device_type,
        devices: node.devices,
    };
    let jobs = jobs.into_iter().map(recorded).collect();
    Record { nodes: nodes.into_iter().map(node).collect(), jobs, now_s: unix_s() }
}

/// Seconds since the Unix epoch.
pub(in crate::commands) fn unix_s() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// A job in a line. One that has finished and never reported its iterations has made those that it declared.
pub(super) fn summary(detail: &JobDetail) -> JobSummary {
    let mut job = detail.summary.clone().unwrap_or_default();
    if let Some(spec) = detail.spec.as_ref().filter(|_| job.phase() == JobPhase::Finished) {
        if job.iterations == 0.0 {
            job.iterations = spec.iterations;
        }
        if job.iterations_done == 0.0 {
            job.iterations_done = spec.iterations;
        }
    }
    job
}

fn recorded(detail: JobDetail) -> RecordedJob {
    let job = summary(&detail);
    let spec = detail.spec.unwrap_or_default();
    RecordedJob {
        id: job.job_id,
        devices: job.devices,
        iterations: spec.iterations,
        iteration_ms: spec.iteration_ms,
        iterations_done: job.iterations_done,
        state: job.phase().word().to_owned(),
        is_finished: job.phase() == JobPhase::Finished,
        submit_s: job.submit_s,
        end_s: (job.end_s > 0.0).then_some(job.end_s),
        preemptions: job.preemptions,
        stays: stays(&detail.history),
        deadline_s: (spec.deadline_s > 0.0).then_some(spec.deadline_s),
        name: job.name,
        user: job.user,
    }
}

/// The name and the content of a record in a history.
fn parts(entry: &HistoryEntry) -> Option<(String, Value)> {
    let Ok(Value::Object(record)) = serde_json::from_str(&entry.what) else { return None };
    record.into_iter().next()
}

/// Where a job was: from its start, or its placement where it did not get that far, until it was stopped or over.
fn stays(history: &[HistoryEntry]) -> Vec<Stay> {
    let mut stays: Vec<Stay> = Vec::new();
    let close = |stays: &mut Vec<Stay>, end_s: f64| {
        if let Some(stay) = stays.last_mut().filter(|stay| stay.end_s.is_none()) {
            stay.end_s = Some(end_s);
        }
    };
    for entry in history {
        let Some((name, record)) = parts(entry) else { continue };
        match name.as_str() {
            "job_placed" => {
                close(&mut stays, entry.time_s);
                let shares = serde_json::from_value(record["shares"].clone()).unwrap_or_default();
                stays.push(Stay { shares, start_s: entry.time_s, end_s: None });
            }
            "job_launched" => {
                if let Some(stay) = stays.last_mut().filter(|stay| stay.end_s.is_none()) {
                    stay.start_s = entry.time_s;
                }
            }
            "job_stopped" | "job_ended" => close(&mut stays, entry.time_s),
            _ => {}
        }
    }
    stays
}

/// A history in words: what is known of each moment, and how a placement differs from the one before it.
pub(super) fn described(history: &[HistoryEntry], nodes: &[NodeSummary]) -> Vec<String> {
    let cluster = record_of(nodes.to_vec(), []).cluster();
    let topology = Topology::new(&cluster);
    let mut before: Vec<NodeShare> = Vec::new();
    let mut told = |entry: &HistoryEntry| {
        let text = describe(entry, nodes);
        let Some(after) = placement(entry, nodes.len()) else { return text };
        let reshape = Reshape::between(&topology, &before, &after);
        let (was, is) = (given(&topology, &before), given(&topology, &after));
        before = after;
        match reshape {
            Some(Reshape::Moved) => format!("{text}, moved"),
            Some(reshape) => format!("{text}, {reshape} from {was} to {is}"),
            None => text,
        }
    };
    history.iter().map(&mut told).collect()
}

/// Where a job was placed, if that is what an entry tells.
fn placement(entry: &HistoryEntry, nodes: usize) -> Option<Vec<NodeShare>> {
    let (_, record) = parts(entry).filter(|(name, _)| name == "job_placed")?;
    let shares: Vec<(u32, Vec<u32>)> = serde_json::from_value(record["shares"].clone()).ok()?;
    let share = |(node, devices): (u32, Vec<u32>)| {
        let mut set = DeviceSet::EMPTY;
        let held = devices.into_iter().filter(|device| *device < DEVICES_PER_NODE_MAX);
        held.for_each(|device| set.insert(device));
        NodeShare { node: NodeId(node), devices: set }
    };
    Some(shares.into_iter().filter(|(node, _)| (*node as usize) < nodes).map(share).collect())
}

/// `4 × a40`.
fn given(topology: &Topology, placement: &[NodeShare]) -> String {
    let count: u32 = placement.iter().map(|share| share.devices.len()).sum();
    match topology.type_of(placement) {
        Some(kind) => format!("{count} × {}", topology.types()[kind.index()]),
        None => format!("{count} devices"),
    }
}

/// A parallel plan in words.
pub(super) fn plan_words(stages: u32, data: u32, tensor: u32) -> String {
    format!("{stages} pipeline × {data} data × {tensor} tensor")
}

/// A record of a history in words; what is not known stays as it is.
fn describe(entry: &HistoryEntry, nodes: &[NodeSummary]) -> String {
    let Some((name, record)) = parts(entry) else { return entry.what.clone() };
    let text = |key: &str| record[key].as_str().unwrap_or_default().replace('_', " ");
    match name.as_str() {
        "job_submitted" | "array_submitted" => "submitted".to_owned(),
        "job_placed" => {
            let shares: Vec<(usize, Vec<u32>)> =
                serde_json::from_value(record["shares"].clone()).unwrap_or_default();
            let share = |(node, devices): &(usize, Vec<u32>)| {
                let name = nodes.get(*node).map_or("?", |node| node.name.as_str());
                let devices: Vec<String> = devices.iter().map(u32::to_string).collect();
                format!("{name}:{}", devices.join(","))
            };
            format!("placed on {}", shares.iter().map(share).collect::<Vec<_>>().join(" "))
        }
        "job_launched" => "started".to_owned(),
        "job_stopping" => format!("stopping: {}", text("why")),
        "job_saved" => format!("saved its work: {} iterations are safe", record["done"]),
        "job_gave_way" => match record["to"].as_u64() {
            Some(to) => format!("makes room for job {to}: {}", text("chosen")),
            None => format!("makes room for others: {}", text("chosen")),
        },
        "job_replaced" => format!("job {} gets devices that it leaves", record["by"]),
        "job_stopped" => format!("stopped, {} iterations are safe", record["done"]),
        "job_held" => "held".to_owned(),
        "job_released" => "released".to_owned(),
        "job_reprioritised" => format!("given priority {}", record["priority"]),
        "job_noted" => record["reason"].as_str().unwrap_or_default().to_owned(),
        "job_changed" | "array_changed" => {
            let field = |key: &str| record[key].as_str().unwrap_or_default();
            format!("{} requested by {}", field("change"), field("by"))
        }
        "hold_wanted" => "held on request".to_owned(),
        "hold_lifted" => "no longer held on request".to_owned(),
        "job_retried" => "to be run again".to_owned(),
        "job_caused" => {
            let node = record["node"].as_u64().and_then(|node| nodes.get(usize::try_from(node).ok()?));
            let node = node.map_or_else(String::new, |node| format!(" on {}", node.name));
            let code = record["code"].as_i64().map_or_else(String::new, |code| format!(", exit code {code}"));
            format!("cause: {}{node}{code}", record["cause"].as_str().unwrap_or_default())
        }
        "job_stalled" => text("reason"),
        "job_planned" => match serde_json::from_value::<(u32, u32, u32)>(record["plan"].clone()) {
            Ok((stages, data, tensor)) => format!("to run as {}", plan_words(stages, data, tensor)),
            Err(_) => "to run as it likes".to_owned(),
        },
        "job_delayed" => "waits a little before it is run again".to_owned(),
        "job_measured" => {
            let told = record["metrics"].as_object().into_iter().flatten();
            let told: Vec<String> = told.map(|(name, value)| format!("{name} {value}")).collect();
            let remarks = record["remarks"].as_array().into_iter().flatten().filter_map(|one| one.as_str());
            let remarks: String = remarks.map(|remark| format!("; {remark}")).collect();
            format!("last metrics: {}{remarks}", told.join(", "))
        }
        "job_timed" => {
            let number = |key: &str| record[key].as_f64().unwrap_or_default();
            let each_s = number("span_s") / number("iterations");
            let on = (record["devices"].as_u64().unwrap_or_default(), text("device_type"));
            format!("{} iterations took {each_s:.3} s each on {} x {}", number("iterations"), on.0, on.1)
        }
        "job_watched" => {
            let seconds = |key: &str| record[key].as_f64().unwrap_or_default();
            let (watched_s, idle_s) = (seconds("watched_s"), seconds("idle_s"));
            let (done, total) = (seconds("iterations"), seconds("total"));
            let of = if total > 0.0 { format!(" of {total:.0}") } else { String::new() };
            let done = (done > 0.0).then(|| format!("its trainer reported {done:.0}{of} iterations"));
            let idle = (watched_s > 0.0)
                .then(|| format!("its devices were idle for {idle_s:.0} of {watched_s:.0} s"));
            done.into_iter().chain(idle).collect::<Vec<_>>().join("; ")
        }
        "job_ended" => match &record["end"] {
            Value::String(end) => end.replace('_', " "),
            end => format!("failed with exit code {}", end["failed"]["code"]),
        },
        _ => entry.what.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> Vec<HistoryEntry> {
        let entry = |time_s: f64, what: &str| HistoryEntry { time_s, what: what.to_owned() };
        vec![
            entry(1.0, r#"{"job_submitted":{"job":0,"spec":{}}}"#),
            entry(2.0, r#"{"job_placed":{"job":0,"generation":1,"shares":[[1,[0,3]]]}}"#),
            entry(2.0, r#"{"job_planned":{"job":0,"plan":[1,2,1]}}"#),
            entry(3.0, r#"{"job_launched":{"job":0,"ready":3.0,"iteration_s":0.1}}"#),
            entry(4.0, r#"{"job_saved":{"job":0,"done":10.0}}"#),
            entry(5.0, r#"{"job_gave_way":{"job":0,"to":7,"chosen":"least_unsaved_work"}}"#),
            entry(5.0, r#"{"job_stopping":{"job":0,"why":"preempted"}}"#),
            entry(5.0, r#"{"job_replaced":{"job":0,"by":7}}"#),
            entry(6.0, r#"{"job_stopped":{"job":0,"done":20.0}}"#),
            entry(7.0, r#"{"job_placed":{"job":0,"generation":2,"shares":[[0,[0]],[1,[1]]]}}"#),
            entry(8.0, r#"{"job_placed":{"job":0,"generation":3,"shares":[[1,[0,1,2]]]}}"#),
            entry(8.5, r#"{"job_placed":{"job":0,"generation":4,"shares":[[2,[0]]]}}"#),
            entry(8.7, r#"{"job_changed":{"job":0,"change":"requeue","by":"ann"}}"#),
            entry(9.0, r#"{"job_ended":{"job":0,"end":{"failed":{"code":3}}}}"#),
        ]
    }

    #[test]
    fn history_becomes_stays() {
        let stays: Vec<_> =
            stays(&history()).into_iter().map(|stay| (stay.shares.len(), stay.start_s, stay.end_s)).collect();
        let expected = [(1, 3.0, Some(6.0)), (2, 7.0, Some(8.0)), (1, 8.0, Some(8.5)), (1, 8.5, Some(9.0))];
        assert_eq!(stays, expected);
    }

    #[test]
    fn history_is_reported_in_words() {
        let node = |name: &str, kind: &str| NodeSummary {
            name: name.to_owned(),
            device_type: kind.to_owned(),
            devices: 4,
            ..NodeSummary::default()
        };
        let nodes = [node("left", "v100"), node("right", "v100"), node("third", "k80")];
        let told = described(&history(), &nodes);
        let expected = [
            "submitted",
            "placed on right:0,3",
            "to run as 1 pipeline × 2 data × 1 tensor",
            "started",
            "saved its work: 10.0 iterations are safe",
            "makes room for job 7: least unsaved work",
            "stopping: preempted",
            "job 7 gets devices that it leaves",
            "stopped, 20.0 iterations are safe",
            "placed on left:0 right:1, moved",
            "placed on right:0,1,2, grown from 2 × v100 to 3 × v100",
            "placed on third:0, changed in type from 3 × v100 to 1 × k80",
            "requeue requested by ann",
            "failed with exit code 3",
        ];
        assert_eq!(told, expected);
    }
}
