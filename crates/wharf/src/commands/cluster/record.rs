//! What a cluster has recorded, in words and for a report.

use wharf_client::{Client, ClientError, unix_s};
use wharf_core::{DEVICES_PER_NODE_MAX, DeviceSet, NodeId, NodeShare, Reshape, Topology};
use wharf_curve::Number;
use wharf_proto::job_event::Event;
use wharf_proto::recorded_end::Outcome;
use wharf_proto::{
    HistoryEntry, JobDetail, JobFilter, JobPhase, JobPlaced, JobSummary, JobTimed, JobWatched, NodeDevices,
    NodeSummary,
};
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

/// Where a job was: from its start, or its placement where it did not get that far, until it was stopped or over.
fn stays(history: &[HistoryEntry]) -> Vec<Stay> {
    let mut stays: Vec<Stay> = Vec::new();
    let close = |stays: &mut Vec<Stay>, end_s: f64| {
        if let Some(stay) = stays.last_mut().filter(|stay| stay.end_s.is_none()) {
            stay.end_s = Some(end_s);
        }
    };
    for entry in history {
        match entry.happened() {
            Some(Event::JobPlaced(placed)) => {
                close(&mut stays, entry.time_s);
                let shares = placed.shares.iter().map(|share| (share.node, share.devices.clone())).collect();
                stays.push(Stay { shares, start_s: entry.time_s, end_s: None });
            }
            Some(Event::JobLaunched(_)) => {
                if let Some(stay) = stays.last_mut().filter(|stay| stay.end_s.is_none()) {
                    stay.start_s = entry.time_s;
                }
            }
            Some(Event::JobStopped(_) | Event::JobEnded(_)) => close(&mut stays, entry.time_s),
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
    let Some(Event::JobPlaced(placed)) = entry.happened() else { return None };
    let share = |share: &NodeDevices| {
        let mut set = DeviceSet::EMPTY;
        let held = share.devices.iter().filter(|device| **device < DEVICES_PER_NODE_MAX);
        held.for_each(|&device| set.insert(device));
        NodeShare::new(NodeId(share.node), set)
    };
    Some(placed.shares.iter().filter(|share| (share.node as usize) < nodes).map(share).collect())
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

/// An event in words. Events of heads without typed events stay as they are.
fn describe(entry: &HistoryEntry, nodes: &[NodeSummary]) -> String {
    let Some(event) = entry.happened() else { return entry.what.clone() };
    let word = |name: &str| name.to_lowercase().replace('_', " ");
    match event {
        Event::JobSubmitted(_) | Event::ArraySubmitted(_) => "submitted".to_owned(),
        Event::JobPlaced(placed) => placed_words(placed, nodes),
        Event::JobLaunched(_) => "started".to_owned(),
        Event::JobRated(iteration_s) => format!("an iteration takes {iteration_s:.3} s from now on"),
        Event::JobStopping(stopping) => format!("stopping: {}", word(stopping.why().as_str_name())),
        Event::JobSaved(done) => format!("saved its work: {} iterations are safe", number(*done)),
        Event::JobGaveWay(gave) => {
            let others = gave.to.map_or_else(|| "others".to_owned(), |to| format!("job {to}"));
            format!("makes room for {others}: {}", word(gave.chosen().as_str_name()))
        }
        Event::JobReplaced(by) => format!("job {by} gets devices that it leaves"),
        Event::JobStopped(done) => format!("stopped, {} iterations are safe", number(*done)),
        Event::JobHeld(_) => "held".to_owned(),
        Event::JobReleased(_) => "released".to_owned(),
        Event::JobReprioritised(priority) => format!("given priority {priority}"),
        Event::JobNoted(reason) => reason.clone(),
        Event::JobChanged(change) | Event::ArrayChanged(change) => {
            format!("{} requested by {}", change.change, change.by)
        }
        Event::HoldWanted(_) => "held on request".to_owned(),
        Event::HoldLifted(_) => "no longer held on request".to_owned(),
        Event::JobRetried(_) => "to be run again".to_owned(),
        Event::JobCaused(caused) => {
            let node = caused.node.and_then(|node| nodes.get(usize::try_from(node).ok()?));
            let node = node.map_or_else(String::new, |node| format!(" on {}", node.name));
            let code = caused.code.map_or_else(String::new, |code| format!(", exit code {code}"));
            format!("cause: {}{node}{code}", caused.cause().word())
        }
        Event::JobSignalled(signal) => format!("ended by signal {signal}"),
        Event::JobStalled(reason) => reason.clone(),
        Event::JobPlanned(planned) => match &planned.plan {
            Some(plan) => format!("to run as {}", plan_words(plan.stages, plan.data, plan.tensor)),
            None => "to run as it likes".to_owned(),
        },
        Event::JobDelayed(_) => "waits a little before it is run again".to_owned(),
        Event::JobMeasured(measured) => {
            let metric = |(name, value): (&String, &f64)| format!("{name} {}", number(*value));
            let metrics: Vec<String> = measured.metrics.iter().map(metric).collect();
            let remarks: String = measured.remarks.iter().map(|remark| format!("; {remark}")).collect();
            format!("last metrics: {}{remarks}", metrics.join(", "))
        }
        Event::JobTimed(timed) => timed_words(timed),
        Event::JobWatched(watched) => watched_words(watched),
        Event::JobAmended(_) => "changed".to_owned(),
        Event::JobEnded(end) => match end.outcome() {
            Outcome::Failed => format!("failed with exit code {}", end.exit_code),
            outcome => word(outcome.as_str_name()),
        },
    }
}

/// A number as in JSON, `10.0` for a whole one.
fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:?}") } else { Number(value).to_string() }
}

fn placed_words(placed: &JobPlaced, nodes: &[NodeSummary]) -> String {
    let share = |share: &NodeDevices| {
        let name = nodes.get(share.node as usize).map_or("?", |node| node.name.as_str());
        let devices: Vec<String> = share.devices.iter().map(u32::to_string).collect();
        format!("{name}:{}", devices.join(","))
    };
    format!("placed on {}", placed.shares.iter().map(share).collect::<Vec<_>>().join(" "))
}

fn timed_words(timed: &JobTimed) -> String {
    let (iterations, each_s) = (timed.iterations, timed.span_s / timed.iterations);
    format!("{iterations} iterations took {each_s:.3} s each on {} x {}", timed.devices, timed.device_type)
}

fn watched_words(watched: &JobWatched) -> String {
    let of = watched
        .total
        .filter(|total| *total > 0.0)
        .map_or_else(String::new, |total| format!(" of {total:.0}"));
    let done = (watched.iterations > 0.0)
        .then(|| format!("its trainer reported {:.0}{of} iterations", watched.iterations));
    let idle = (watched.watched_s > 0.0)
        .then(|| format!("its devices were idle for {:.0} of {:.0} s", watched.idle_s, watched.watched_s));
    done.into_iter().chain(idle).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use wharf_proto::gave_way::Chosen;
    use wharf_proto::job_stopping::Why;
    use wharf_proto::{
        GaveWay, JobEvent, JobLaunched, JobPlanned, JobStopping, Plan, RecordedEnd, RecordedSpec,
        RequestedChange,
    };

    use super::*;

    fn history() -> Vec<HistoryEntry> {
        let entry = |time_s: f64, event: Event| HistoryEntry {
            time_s,
            event: Some(JobEvent { job_id: 0, event: Some(event) }),
            ..HistoryEntry::default()
        };
        let placed = |generation: u32, shares: &[(u32, &[u32])]| {
            let share = |&(node, devices): &(u32, &[u32])| NodeDevices { node, devices: devices.to_vec() };
            Event::JobPlaced(JobPlaced { generation, shares: shares.iter().map(share).collect() })
        };
        let gave = GaveWay { to: Some(7), chosen: Chosen::LeastUnsavedWork.into() };
        let plan = Some(Plan { stages: 1, data: 2, tensor: 1 });
        let change = RequestedChange { change: "requeue".to_owned(), by: "ann".to_owned() };
        vec![
            entry(1.0, Event::JobSubmitted(RecordedSpec::default())),
            entry(2.0, placed(1, &[(1, &[0, 3])])),
            entry(2.0, Event::JobPlanned(JobPlanned { plan })),
            entry(3.0, Event::JobLaunched(JobLaunched { ready_s: 3.0, iteration_s: 0.1 })),
            entry(4.0, Event::JobSaved(10.0)),
            entry(5.0, Event::JobGaveWay(gave)),
            entry(5.0, Event::JobStopping(JobStopping { why: Why::Preempted.into() })),
            entry(5.0, Event::JobReplaced(7)),
            entry(6.0, Event::JobStopped(20.0)),
            entry(7.0, placed(2, &[(0, &[0]), (1, &[1])])),
            entry(8.0, placed(3, &[(1, &[0, 1, 2])])),
            entry(8.5, placed(4, &[(2, &[0])])),
            entry(8.7, Event::JobChanged(change)),
            entry(9.0, Event::JobEnded(RecordedEnd { outcome: Outcome::Failed.into(), exit_code: 3 })),
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
