//! What is said to a program and what it may answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wharf_core::{DeviceTypeId, JobId, Knowledge, NodeId, NodeShare, Phase, View};

/// The version of these messages.
pub(crate) const PROTOCOL: u32 = 1;

/// What a program is asked.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Question<'a> {
    /// First of all: what it needs to know before it begins.
    Hello { protocol: u32, seed: u64, settings: &'a BTreeMap<String, String> },
    /// What to change now.
    Schedule(News<'a>),
}

/// What has changed since a program was last asked; everything where it was not asked before.
#[derive(Debug, Serialize)]
pub(crate) struct News<'a> {
    pub(crate) now: f64,
    /// Nodes that are new, or whose free devices are others than before.
    pub(crate) nodes: Vec<Node<'a>>,
    /// Jobs that are new, or in another state than before.
    pub(crate) jobs: Vec<Job<'a>>,
    /// Jobs that have ended, or held.
    pub(crate) gone: Vec<u32>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Node<'a> {
    id: u32,
    name: &'a str,
    device_type: &'a str,
    pool: &'a str,
    switch: u32,
    devices: u32,
    /// Whether jobs can be started there.
    up: bool,
    /// Devices that no job has.
    free: Vec<u32>,
}

impl<'a> Node<'a> {
    pub(crate) fn of(view: &View<'a>, node: NodeId) -> Self {
        let (spec, schedule) = (&view.topology().node(node).spec, view.schedule());
        Self {
            id: node.0,
            name: &spec.name,
            device_type: &spec.device_type,
            pool: &spec.pool,
            switch: spec.switch,
            devices: spec.devices,
            up: schedule.is_up(node) && !schedule.is_closed(node),
            free: schedule.free(node).iter().collect(),
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Job<'a> {
    id: u32,
    name: &'a str,
    user: Option<&'a str>,
    state: &'static str,
    submit: f64,
    devices: u32,
    devices_min: u32,
    devices_max: u32,
    /// Types it may run on, best first; all where there is none.
    device_types: Vec<&'a str>,
    priority: i32,
    weight: f64,
    deadline: Option<f64>,
    model: Option<&'a str>,
    batch_size: Option<u32>,
    preemptions: u32,
    placement: Vec<Share>,
    /// Seconds with devices so far; they continue while it has some.
    attained_s: f64,
    /// Iterations done so far, the next ones from `runs_from` on, one every `iteration_s`.
    done: f64,
    runs_from: Option<f64>,
    iteration_s: Option<f64>,
    /// Iterations in all; only to programs that may know.
    iterations: Option<f64>,
    /// Iterations a second on the gang it asks for, by device type.
    speeds: BTreeMap<&'a str, f64>,
}

impl<'a> Job<'a> {
    pub(crate) fn of(view: &View<'a>, knowledge: Knowledge, job: JobId) -> Self {
        let (spec, life, now) = (view.spec(job), view.job(job), view.now);
        let is_running = life.phase == Phase::Running;
        let placement = view.schedule().placement(job).unwrap_or_default();
        Self {
            id: job.0,
            name: &spec.name,
            user: spec.user.as_deref(),
            // What is being stopped can be started elsewhere: to a policy it waits.
            state: if placement.is_empty() { "waiting" } else { "running" },
            submit: spec.submit.seconds(),
            devices: spec.gang.devices,
            devices_min: spec.gang.devices_min,
            devices_max: spec.gang.devices_max,
            device_types: spec.gang.device_types.iter().map(|kind| &**kind).collect(),
            priority: spec.priority,
            weight: spec.weight,
            deadline: spec.deadline.map(wharf_core::Time::seconds),
            model: spec.model.as_deref(),
            batch_size: spec.batch_size,
            preemptions: life.preemptions,
            placement: placement.iter().map(Share::of).collect(),
            attained_s: life.attained_s(now),
            done: life.done(now),
            runs_from: is_running.then(|| life.since().max(now).seconds()),
            iteration_s: is_running.then(|| life.iteration_s()),
            iterations: (knowledge == Knowledge::Durations).then_some(spec.iterations),
            speeds: speeds(view, job),
        }
    }
}

/// How fast a job is on each type that it may use.
fn speeds<'a>(view: &View<'a>, job: JobId) -> BTreeMap<&'a str, f64> {
    let (spec, topology) = (view.spec(job), view.topology());
    let types = topology.types().iter().enumerate().filter(|(_, name)| spec.gang.allows(name));
    let speed = |index| {
        let kind = DeviceTypeId::from_index(index);
        view.perf().speed(topology, spec, kind, spec.gang.devices, &[])
    };
    types.map(|(index, name)| (&**name, speed(index))).filter(|(_, speed)| speed.is_finite()).collect()
}

/// Devices of one node.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Share {
    pub(crate) node: u32,
    pub(crate) devices: Vec<u32>,
}

impl Share {
    fn of(share: &NodeShare) -> Self {
        Self { node: share.node.0, devices: share.devices.iter().collect() }
    }
}

/// What a program says of itself.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Welcome {
    pub(crate) protocol: u32,
    #[serde(default)]
    pub(crate) knows: Knows,
}

/// What a program asks to be informed of jobs' lengths.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Knows {
    #[default]
    Attained,
    Durations,
}

/// A program that cannot continue states why, instead of any answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Refusal {
    pub(crate) error: String,
}

/// What is to change: first what is stopped, then what is started, in this order.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Changes {
    pub(crate) stop: Vec<Stop>,
    pub(crate) start: Vec<Start>,
    /// When to be asked again even if nothing happens.
    pub(crate) wake_at: Option<f64>,
    /// Why jobs wait, for people.
    pub(crate) reasons: BTreeMap<u32, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stop {
    pub(crate) job: u32,
    /// The job that is to have its devices.
    #[serde(rename = "for", default)]
    pub(crate) heir: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Start {
    pub(crate) job: u32,
    /// How many devices, of a job that runs on several numbers of them.
    #[serde(default)]
    pub(crate) devices: Option<u32>,
    /// Exactly these; where they are not named, free ones are found by the placement strategy, and where there are none the job waits.
    #[serde(default)]
    pub(crate) placement: Option<Vec<Share>>,
}
