//! What happened to a job in a run, in words: simulated now, simulated again from a stored run, or read from its events.

mod events;
mod rerun;

use serde::Serialize;
use wharf_core::{JobId, JobSpec, Names, NodeShare, Reason, Time, Topology, made_room, reshaped};
use wharf_report::human;
use wharf_sim::nearest::nearest;
use wharf_sim::{HistoryEvent, JobHistory, Outcome};

use crate::{Batch, StudyError};
pub use events::read;
pub use rerun::{command, planned, simulate_again};

/// What happened to a job in a run.
#[derive(Debug, Serialize)]
pub struct Story {
    /// The policy of the run.
    pub policy: String,
    /// Name of the job in the trace.
    pub job: String,
    /// Devices that it requested.
    pub devices: Option<u32>,
    /// Whether it is known why the job waited.
    pub has_reasons: bool,
    /// In order.
    pub events: Vec<Line>,
    /// Jobs that were started while it waited, where it waits still.
    pub ahead: Vec<String>,
    /// Whether it finished within the run.
    pub is_finished: bool,
}

/// One event.
#[derive(Debug, Serialize)]
pub struct Line {
    /// Seconds since the trace began.
    pub t: f64,
    /// What happened, in a word.
    pub event: &'static str,
    /// The same as a sentence.
    pub text: String,
    /// Jobs that were started while it waited.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ahead: Vec<String>,
    /// Whether the line before says the same but for numbers.
    #[serde(skip)]
    is_repeated: bool,
}

impl Line {
    pub(crate) fn new(t: f64, event: &'static str, text: String) -> Self {
        Self { t, event, text, ahead: Vec::new(), is_repeated: false }
    }

    /// The same with the jobs that were started while it waited.
    pub(crate) fn after(self, ahead: Vec<String>) -> Self {
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
    /// Simulates a policy of a batch and explains a job under it.
    ///
    /// # Errors
    /// If there is no such job, or the run fails.
    pub fn simulated(batch: &Batch, policy: &str, job: &str) -> Result<Self, StudyError> {
        let mut history = JobHistory::new(find_job(batch, job)?);
        let (outcome, _) = batch.prepare_run(policy)?.simulate(&mut history)?;
        Ok(Self::new(batch, policy, &history, &outcome))
    }

    fn new(batch: &Batch, policy: &str, history: &JobHistory, outcome: &Outcome) -> Self {
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
    pub fn text(&self) -> String {
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
                text += &format!("{:>10}  ahead: {}\n", "", human::jobs(&line.ahead));
            }
            text += &format!("{:>10}  {}\n", human::duration(line.t), line.text);
        }
        if !self.is_finished {
            if !self.ahead.is_empty() {
                text += &format!("{:>10}  ahead: {}\n", "", human::jobs(&self.ahead));
            }
            text += &format!("{:>10}  not finished when the run ended\n", "");
        }
        if !self.has_reasons {
            text += &format!("{:>10}  (wait reasons are not available: starts and stops only)\n", "");
        }
        text
    }
}

/// The job of that name in the trace.
fn find_job(batch: &Batch, job: &str) -> Result<JobId, StudyError> {
    let names = || batch.trace.jobs.iter().map(|spec| &*spec.name);
    names().position(|name| name == job).map(JobId::from_index).ok_or_else(|| StudyError::UnknownJob {
        job: job.to_owned(),
        trace: batch.trace.name.clone(),
        nearest: nearest(job, names()).map(str::to_owned),
    })
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
                text += &format!(", beside {}", human::jobs(&called.names(beside)));
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
fn runs_on(nodes: &[String], devices: Option<u32>) -> String {
    match devices {
        _ if !nodes.is_empty() => format!("it runs on {}", nodes.join(" + ")),
        Some(1) => "it runs on 1 device".to_owned(),
        Some(devices) => format!("it runs on {devices} devices"),
        None => "it runs".to_owned(),
    }
}

fn interrupted(node: Option<&str>) -> String {
    node.map_or_else(|| "a node was lost".to_owned(), |node| format!("node {node} was lost"))
}

/// Devices of a node: `gpu-0:0,1`.
fn share_text(node: &str, share: &NodeShare) -> String {
    let devices: Vec<String> = share.devices.iter().map(|device| device.to_string()).collect();
    format!("{node}:{}", devices.join(","))
}
