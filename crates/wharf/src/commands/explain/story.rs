//! A job's history in words, as `wharf explain` has them for a job of a cluster.

use serde::Serialize;
use wharf_core::{JobId, JobSpec, Names, NodeShare, Reason, Time, Topology, made_room, reshaped};
use wharf_report::human;
use wharf_sim::{HistoryEvent, JobHistory, Outcome};

use crate::commands::cluster::listed;
use crate::runner::Batch;

/// What happened to a job in a run.
#[derive(Debug, Serialize)]
pub(super) struct Story {
    pub(super) policy: String,
    pub(super) job: String,
    pub(super) devices: Option<u32>,
    /// Whether it is known why the job waited.
    pub(super) has_reasons: bool,
    pub(super) events: Vec<Line>,
    /// Jobs that were started while it waited, where it waits still.
    pub(super) ahead: Vec<String>,
    pub(super) is_finished: bool,
}

/// One event.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub(super) t: f64,
    pub(super) event: &'static str,
    pub(super) text: String,
    /// Jobs that were started while it waited.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) ahead: Vec<String>,
    /// Whether the line before says the same but for numbers.
    #[serde(skip)]
    is_repeated: bool,
}

impl Line {
    pub(super) fn new(t: f64, event: &'static str, text: String) -> Self {
        Self { t, event, text, ahead: Vec::new(), is_repeated: false }
    }

    /// The same with the jobs that were started while it waited.
    pub(super) fn after(self, ahead: Vec<String>) -> Self {
        Self { ahead, ..self }
    }
}

/// Jobs by their names in the trace, moments since its beginning.
struct Called<'a>(&'a [JobSpec]);

impl Called<'_> {
    fn name(&self, job: JobId) -> String {
        self.0.get(job.index()).map_or_else(|| job.to_string(), |spec| spec.name.to_string())
    }

    fn names(&self, jobs: &[JobId]) -> Vec<String> {
        jobs.iter().map(|&job| self.name(job)).collect()
    }
}

impl Names for Called<'_> {
    fn job(&self, job: JobId) -> String {
        format!("job {}", self.name(job))
    }

    fn moment(&self, time: Time) -> String {
        human::duration(time.seconds())
    }
}

impl Story {
    pub(super) fn new(batch: &Batch, policy: &str, history: &JobHistory, outcome: &Outcome) -> Self {
        let called = Called(&batch.trace.jobs);
        let topology = Topology::new(&batch.cluster);
        let job = history.job();
        let devices = batch.trace.jobs.get(job.index()).map(|spec| spec.gang.devices);
        let mut last_reason: Option<&Reason> = None;
        let mut events = Vec::new();
        for (time, event) in history.events() {
            let mut line = line(&called, &topology, *time, event, devices);
            if let HistoryEvent::Waits(reason) = event {
                let is_same = |last: &Reason| std::mem::discriminant(last) == std::mem::discriminant(reason);
                line.is_repeated = last_reason.is_some_and(is_same);
                last_reason = Some(reason);
            } else {
                last_reason = None;
            }
            events.push(line);
        }
        Self {
            policy: policy.to_owned(),
            job: called.name(job),
            devices,
            has_reasons: batch.preset.rules().is_some(),
            events,
            ahead: called.names(history.ahead()),
            is_finished: outcome.jobs.get(job.index()).is_some_and(|record| record.end.is_some()),
        }
    }

    /// The story for people.
    pub(super) fn text(&self) -> String {
        let devices = self.devices.map_or_else(String::new, |devices| match devices {
            1 => ", 1 device".to_owned(),
            devices => format!(", {devices} devices"),
        });
        let mut text = format!("job {}{devices}, under {}\n", self.job, self.policy);
        let mut last = "";
        let is_last = |index: usize| self.events.get(index + 1).is_none_or(|next| !next.is_repeated);
        for (index, line) in self.events.iter().enumerate() {
            // Of many reasons that differ in their numbers only, the first and the last.
            if line.is_repeated && (!is_last(index) || line.text == last) {
                continue;
            }
            last = &line.text;
            if !line.ahead.is_empty() {
                text += &format!("{:>10}  ahead: {}\n", "", listed(&line.ahead));
            }
            text += &format!("{:>10}  {}\n", human::duration(line.t), line.text);
        }
        if !self.is_finished {
            if !self.ahead.is_empty() {
                text += &format!("{:>10}  ahead: {}\n", "", listed(&self.ahead));
            }
            text += &format!("{:>10}  not finished when the run ended\n", "");
        }
        if !self.has_reasons {
            text += &format!("{:>10}  (wait reasons are not available: starts and stops only)\n", "");
        }
        text
    }
}

fn line(
    called: &Called<'_>,
    topology: &Topology,
    time: Time,
    event: &HistoryEvent,
    devices: Option<u32>,
) -> Line {
    let t = time.seconds();
    match event {
        HistoryEvent::Submitted => Line::new(t, "submitted", "it is submitted".to_owned()),
        HistoryEvent::Waits(reason) => Line::new(t, "waits", format!("waits: {}", reason.told(called))),
        HistoryEvent::Started { placement, beside, ahead, reshaped: change } => {
            let name = |share: &NodeShare| share_text(&topology.node(share.node).spec.name, share);
            let nodes: Vec<String> = placement.iter().map(name).collect();
            let mut text = runs_on(&nodes, devices);
            if !beside.is_empty() {
                text += &format!(", beside {}", listed(&called.names(beside)));
            }
            if let Some(change) = change {
                let told = reshaped(topology, change.reshape, &change.before, placement, change.to, called);
                text += &format!("; {told}");
            }
            Line::new(t, "started", text).after(called.names(ahead))
        }
        HistoryEvent::Preempted(Some((to, chosen))) => {
            Line::new(t, "preempted", made_room(*to, chosen, called))
        }
        HistoryEvent::Preempted(None) => Line::new(t, "preempted", "the policy stopped it".to_owned()),
        HistoryEvent::Interrupted { node } => {
            let name = node.map(|node| topology.node(node).spec.name.to_string());
            Line::new(t, "interrupted", interrupted(name.as_deref()))
        }
        HistoryEvent::Finished => Line::new(t, "finished", "it is finished".to_owned()),
    }
}

/// The devices that a job runs on, or their number where the simulated scheduler assigns none of its own.
pub(super) fn runs_on(nodes: &[String], devices: Option<u32>) -> String {
    match devices {
        _ if !nodes.is_empty() => format!("it runs on {}", nodes.join(" + ")),
        Some(1) => "it runs on 1 device".to_owned(),
        Some(devices) => format!("it runs on {devices} devices"),
        None => "it runs".to_owned(),
    }
}

pub(super) fn interrupted(node: Option<&str>) -> String {
    node.map_or_else(|| "a node was lost".to_owned(), |node| format!("node {node} was lost"))
}

/// Devices of a node: `gpu-0:0,1`.
pub(super) fn share_text(node: &str, share: &NodeShare) -> String {
    let devices: Vec<String> = share.devices.iter().map(|device| device.to_string()).collect();
    format!("{node}:{}", devices.join(","))
}
