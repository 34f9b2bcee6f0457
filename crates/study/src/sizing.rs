//! Sizing: the least number of nodes of one kind that serves a trace within targets.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::Serialize;
use wharf_core::{ClusterSpec, NodeSpec};
use wharf_perf::{Profile, relative_speeds};
use wharf_report::stats::{percentile, sorted};
use wharf_report::{RunLabels, Summary};
use wharf_sim::{NoRecorder, Outcome, Preset, RunError, RunSpec, Settings};
use wharf_trace::Trace;

/// A number of a run; there is none where no job has finished.
type Measure = fn(&Measured) -> Option<f64>;

/// The metrics that can be targets, by name.
const METRICS: &[(&str, Measure)] = &[
    ("avg_jct", |run| run.summary.avg_jct_s),
    ("p95_jct", |run| run.summary.p95_jct_s),
    ("p99_jct", |run| run.summary.p99_jct_s),
    ("avg_wait", |run| run.summary.avg_queue_s),
    ("p95_wait", |run| percentile(&run.waits_s, 0.95, run.outcome.rules)),
    ("max_wait", |run| run.waits_s.last().copied()),
    ("makespan", |run| run.summary.makespan_s),
];

/// A run with its metrics.
struct Measured {
    outcome: Outcome,
    summary: Summary,
    /// Seconds that each job was submitted but not running, ascending.
    waits_s: Vec<f64>,
}

/// The largest value that a metric may have.
#[derive(Clone, Debug)]
pub struct Target {
    name: &'static str,
    measure: Measure,
    most_s: f64,
}

impl Target {
    /// A target for a metric; `None` where no metric that can be a target has that name.
    pub fn new(metric: &str, most_s: f64) -> Option<Self> {
        let &(name, measure) = METRICS.iter().find(|(known, _)| *known == metric)?;
        Some(Self { name, measure, most_s })
    }

    /// The metrics that can be targets.
    pub fn metrics() -> impl Iterator<Item = &'static str> {
        METRICS.iter().map(|&(name, _)| name)
    }
}

/// A kind of node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeKind {
    /// The device type.
    pub device_type: String,
    /// Number of devices of a node.
    pub devices: NonZeroU32,
}

impl NodeKind {
    fn spec(&self, index: u32) -> NodeSpec {
        let mut nodes = ClusterSpec::uniform(&self.device_type, 1, self.devices.get()).nodes;
        NodeSpec { name: format!("n{index}").into(), ..nodes.remove(0) }
    }
}

/// One kind of node, and the number of nodes that reaches all targets.
#[derive(Clone, Debug, Serialize)]
pub struct SizeAnswer {
    /// The kind, as TYPE:COUNT.
    pub node: String,
    /// `None` where no number up to the limit reaches the targets.
    pub nodes: Option<u32>,
    /// Number of devices of all nodes.
    pub devices: Option<u32>,
    /// The values of the targets' metrics.
    pub reached_s: BTreeMap<String, f64>,
    /// Share of the devices' time that is used.
    pub utilization: Option<f64>,
    /// Price of all devices.
    pub price_per_hour: Option<f64>,
    /// Price until the last job of the trace ends.
    pub price: Option<f64>,
    /// Speed of the jobs relative to the type that their own times hold for; `None` without a profile.
    pub relative_speed: Option<f64>,
}

/// A search for the least number of nodes.
pub struct Sizing<'a> {
    /// The targets.
    pub targets: Vec<Target>,
    /// The throughput profile.
    pub profile: Option<Profile>,
    /// Whether the profile is the built-in one, whose prices do not count.
    pub is_builtin: bool,
    /// Prices of an hour of a device, by type.
    pub prices: BTreeMap<String, f64>,
    /// The settings of the policy.
    pub settings: Settings,
    /// The rules.
    pub preset: Preset,
    /// The jobs.
    pub trace: Trace,
    /// The policy.
    pub policy: &'a str,
    /// The largest number of nodes that is tried.
    pub nodes_max: u32,
}

/// The profile of a comparison of kinds of nodes that is given none: types are compared as those of a mixed cluster.
pub fn builtin_profile(kinds: &[NodeKind], trace: &Trace) -> Option<Profile> {
    let cluster = ClusterSpec::of(kinds.iter().map(|kind| kind.spec(0)).collect());
    wharf_perf::analytic::profile_for(&cluster, &trace.jobs)
}

impl Sizing<'_> {
    /// Finds the least number of nodes of each kind. Calls `tried` with each number that is simulated, and whether it is enough.
    ///
    /// # Errors
    /// [`RunError`] where a run cannot be simulated.
    pub fn answers(
        &self,
        kinds: &[NodeKind],
        mut tried: impl FnMut(&NodeKind, u32, bool),
    ) -> Result<Vec<SizeAnswer>, RunError> {
        let types: Vec<&str> = kinds.iter().map(|kind| kind.device_type.as_str()).collect();
        let speeds = self.profile.as_ref().map(|profile| relative_speeds(profile, &self.trace.jobs, &types));
        let mut answers = Vec::new();
        for (index, kind) in kinds.iter().enumerate() {
            let relative_speed = speeds.as_ref().and_then(|speeds| speeds[index]);
            answers.push(SizeAnswer { relative_speed, ..self.answer(kind, &mut tried)? });
        }
        Ok(answers)
    }

    fn answer(
        &self,
        kind: &NodeKind,
        tried: &mut impl FnMut(&NodeKind, u32, bool),
    ) -> Result<SizeAnswer, RunError> {
        let devices = kind.devices.get();
        let mut answer = SizeAnswer {
            node: format!("{}:{devices}", kind.device_type),
            nodes: None,
            devices: None,
            reached_s: BTreeMap::new(),
            utilization: None,
            price_per_hour: None,
            price: None,
            relative_speed: None,
        };
        let Some((nodes, run)) = self.least(kind, tried)? else { return Ok(answer) };
        let reached = |target: &Target| Some((target.name.to_owned(), (target.measure)(&run)?));
        answer.nodes = Some(nodes);
        answer.devices = Some(nodes * devices);
        answer.reached_s = self.targets.iter().filter_map(reached).collect();
        answer.utilization = run.summary.gpu_utilization;
        // Speeds are assumed where none are given, prices are not.
        let known = || self.profile.as_ref().filter(|_| !self.is_builtin)?.price(&kind.device_type);
        let price = self.prices.get(&kind.device_type).copied().or_else(known);
        answer.price_per_hour = price.map(|price| price * f64::from(nodes * devices));
        answer.price = answer.price_per_hour.and_then(|price| Some(price * run.summary.makespan_s? / 3600.0));
        Ok(answer)
    }

    /// The least number of nodes that reaches all targets: doubled until it does, then halved in between.
    fn least(
        &self,
        kind: &NodeKind,
        tried: &mut impl FnMut(&NodeKind, u32, bool),
    ) -> Result<Option<(u32, Measured)>, RunError> {
        let mut too_few = 0;
        let mut best = None;
        let mut nodes = 1;
        while best.is_none() && nodes <= self.nodes_max {
            best = self.simulate(kind, nodes, tried)?.map(|run| (nodes, run));
            if best.is_none() {
                too_few = nodes;
                nodes = if nodes < self.nodes_max {
                    nodes.saturating_mul(2).min(self.nodes_max)
                } else {
                    nodes + 1
                };
            }
        }
        let Some((mut enough, mut run)) = best else { return Ok(None) };
        while enough - too_few > 1 {
            let middle = too_few + (enough - too_few) / 2;
            match self.simulate(kind, middle, tried)? {
                Some(better) => (enough, run) = (middle, better),
                None => too_few = middle,
            }
        }
        Ok(Some((enough, run)))
    }

    /// The run on so many nodes, if it reaches all targets.
    fn simulate(
        &self,
        kind: &NodeKind,
        nodes: u32,
        tried: &mut impl FnMut(&NodeKind, u32, bool),
    ) -> Result<Option<Measured>, RunError> {
        let cluster = ClusterSpec::of((0..nodes).map(|index| kind.spec(index)).collect());
        let spec = RunSpec {
            trace: &self.trace,
            cluster: &cluster,
            policy: self.policy,
            preset: &self.preset,
            settings: &self.settings,
            seed: 0,
            profile: self.profile.as_ref(),
            rounds: None,
            failures: None,
        };
        let outcome = match wharf_sim::run(&spec, &mut NoRecorder) {
            Ok(outcome) => outcome,
            // A gang is larger than all of it: more nodes may help.
            Err(RunError::ImpossibleGang { .. } | RunError::Unmet { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let labels = RunLabels {
            policy: self.policy.to_owned(),
            trace: self.trace.name.clone(),
            preset: self.preset.name.clone(),
            cluster: format!("{}:{nodes}x{}", kind.device_type, kind.devices),
            seed: 0,
        };
        let waits_s = sorted(outcome.jobs.iter().map(|job| job.queue_s));
        let summary = Summary::new(labels, &outcome, 0.0);
        let is_whole = summary.finished == summary.jobs;
        let run = Measured { outcome, summary, waits_s };
        let reaches =
            |target: &Target| (target.measure)(&run).is_some_and(|reached_s| reached_s <= target.most_s);
        let is_enough = is_whole && self.targets.iter().all(reaches);
        tried(kind, nodes, is_enough);
        Ok(is_enough.then_some(run))
    }
}
