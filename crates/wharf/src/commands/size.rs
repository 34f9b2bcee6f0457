//! `wharf size`: how many nodes of which kind serve a trace well enough.

use std::collections::BTreeMap;

use serde::Serialize;
use wharf_core::{ClusterSpec, NodeSpec};
use wharf_external::Program;
use wharf_job::Seconds;
use wharf_perf::{Profile, relative_speeds};
use wharf_report::stats::{percentile, sorted};
use wharf_report::{RunLabels, Summary, human};
use wharf_sim::{NoRecorder, Outcome, Preset, RunError, RunSpec, Settings};
use wharf_trace::Trace;

use crate::args::{OutputFormat, SizeArgs};
use crate::error::{CliError, translate};
use crate::exit::Exit;
use crate::input;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// Reads a number off a run; there is none where no job has finished.
type Measure = fn(&Measured) -> Option<f64>;

/// What can be asked for, by name, and how it is read off.
const METRICS: &[(&str, Measure)] = &[
    ("avg_jct", |run| run.summary.avg_jct_s),
    ("p95_jct", |run| run.summary.p95_jct_s),
    ("p99_jct", |run| run.summary.p99_jct_s),
    ("avg_wait", |run| run.summary.avg_queue_s),
    ("p95_wait", |run| percentile(&run.waits_s, 0.95, run.outcome.rules)),
    ("max_wait", |run| run.waits_s.last().copied()),
    ("makespan", |run| run.summary.makespan_s),
];

/// A run and what can be asked of it.
struct Measured {
    outcome: Outcome,
    summary: Summary,
    /// Seconds that each job was submitted but not running, ascending.
    waits_s: Vec<f64>,
}

struct Target {
    name: String,
    measure: Measure,
    most_s: f64,
}

/// One kind of node, and how many of them do.
#[derive(Serialize)]
struct Answer {
    node: String,
    /// `None` where no number up to the limit does.
    nodes: Option<u32>,
    devices: Option<u32>,
    reached_s: BTreeMap<String, f64>,
    utilization: Option<f64>,
    price_per_hour: Option<f64>,
    /// For as long as the trace takes.
    price: Option<f64>,
    /// How much faster the jobs run on such devices than on the type that their own times hold for; `None` without a profile.
    relative_speed: Option<f64>,
}

/// Finds the least number of nodes of each kind and compares them.
///
/// # Errors
/// Whatever is wrong with the inputs.
pub(super) fn execute(args: &SizeArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    // Names come before files: a typing error is told without reading a large trace.
    if !Program::is_named(&args.policy) {
        wharf_reproduce::find(&args.policy).map_err(|error| translate::policy(&error))?;
    }
    let nodes = args.node.iter().map(|text| input::devices(text)).collect::<Result<Vec<_>, _>>()?;
    let targets = args.target.iter().map(|text| target(text)).collect::<Result<_, _>>()?;
    let given = args.profile.as_deref().map(input::profile).transpose()?;
    let trace = input::trace(&args.trace, None, terminal)?;
    // The kinds are compared as the types of a mixed cluster are, each by itself.
    let all =
        ClusterSpec { nodes: nodes.iter().map(|(kind, devices)| node_spec(kind, *devices, 0)).collect() };
    let is_builtin = given.is_none();
    let profile = given.or_else(|| wharf_perf::analytic::profile_for(&all, &trace.jobs));
    let types: Vec<&str> = nodes.iter().map(|(kind, _)| &**kind).collect();
    let speeds = profile.as_ref().map(|profile| relative_speeds(profile, &trace.jobs, &types));
    let search = Search {
        targets,
        profile,
        is_builtin,
        prices: args.price.iter().map(|text| price(text)).collect::<Result<_, _>>()?,
        settings: input::settings(&args.set)?,
        preset: input::preset("wharf")?,
        trace,
        policy: &args.policy,
        nodes_max: args.nodes_max,
    };
    let mut answers = Vec::new();
    for (index, (text, (kind, devices))) in args.node.iter().zip(&nodes).enumerate() {
        let answer = search.answer(text, kind, *devices, terminal)?;
        answers.push(Answer { relative_speed: speeds.as_ref().and_then(|speeds| speeds[index]), ..answer });
    }
    show(&search, &answers, terminal)?;
    if answers.iter().all(|answer| answer.nodes.is_none()) {
        return Err(CliError::input("no tested number of nodes reaches the target")
            .hint("more nodes do not help jobs that run longer than the target"));
    }
    Ok(Exit::Ok)
}

struct Search<'a> {
    targets: Vec<Target>,
    profile: Option<Profile>,
    /// Whether the profile, where there is one, is the built-in one.
    is_builtin: bool,
    prices: BTreeMap<String, f64>,
    settings: Settings,
    preset: Preset,
    trace: Trace,
    policy: &'a str,
    nodes_max: u32,
}

impl Search<'_> {
    fn answer(&self, text: &str, kind: &str, devices: u32, terminal: &Terminal) -> Result<Answer, CliError> {
        let mut answer = Answer {
            node: text.to_owned(),
            nodes: None,
            devices: None,
            reached_s: BTreeMap::new(),
            utilization: None,
            price_per_hour: None,
            price: None,
            relative_speed: None,
        };
        let Some((nodes, run)) = self.least(kind, devices, terminal)? else { return Ok(answer) };
        let reached = |target: &Target| Some((target.name.clone(), (target.measure)(&run)?));
        answer.nodes = Some(nodes);
        answer.devices = Some(nodes * devices);
        answer.reached_s = self.targets.iter().filter_map(reached).collect();
        answer.utilization = run.summary.gpu_utilization;
        // Speeds are assumed where none are given, prices are not.
        let known = || self.profile.as_ref().filter(|_| !self.is_builtin)?.price(kind);
        let price = self.prices.get(kind).copied().or_else(known);
        answer.price_per_hour = price.map(|price| price * f64::from(nodes * devices));
        answer.price = answer.price_per_hour.and_then(|price| Some(price * run.summary.makespan_s? / 3600.0));
        Ok(answer)
    }

    /// The least number of nodes that reaches all targets: doubled until it does, then halved in between.
    fn least(
        &self,
        kind: &str,
        devices: u32,
        terminal: &Terminal,
    ) -> Result<Option<(u32, Measured)>, CliError> {
        let mut too_few = 0;
        let mut best = None;
        let mut nodes = 1;
        while best.is_none() && nodes <= self.nodes_max {
            best = self.try_out(kind, devices, nodes, terminal)?.map(|run| (nodes, run));
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
            match self.try_out(kind, devices, middle, terminal)? {
                Some(better) => (enough, run) = (middle, better),
                None => too_few = middle,
            }
        }
        Ok(Some((enough, run)))
    }

    /// The run on so many nodes, if it reaches all targets.
    fn try_out(
        &self,
        kind: &str,
        devices: u32,
        nodes: u32,
        terminal: &Terminal,
    ) -> Result<Option<Measured>, CliError> {
        let cluster =
            ClusterSpec { nodes: (0..nodes).map(|index| node_spec(kind, devices, index)).collect() };
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
            Err(RunError::ImpossibleGang { .. }) => return Ok(None),
            Err(error) => return Err(translate::run(&error)),
        };
        let labels = RunLabels {
            policy: self.policy.to_owned(),
            trace: self.trace.name.clone(),
            preset: self.preset.name.clone(),
            cluster: format!("{kind}:{nodes}x{devices}"),
            seed: 0,
        };
        let waits_s = sorted(outcome.jobs.iter().map(|job| job.queue_s));
        let summary = Summary::new(labels, &outcome, 0.0);
        let is_whole = summary.finished == summary.jobs;
        let run = Measured { outcome, summary, waits_s };
        let reaches =
            |target: &Target| (target.measure)(&run).is_some_and(|reached_s| reached_s <= target.most_s);
        let is_enough = is_whole && self.targets.iter().all(reaches);
        terminal.detail(&format!(
            "{nodes} nodes of {kind}:{devices}: {}",
            if is_enough { "enough" } else { "too few" }
        ));
        Ok(is_enough.then_some(run))
    }
}

fn node_spec(kind: &str, devices: u32, index: u32) -> NodeSpec {
    NodeSpec { name: format!("n{index}").into(), ..ClusterSpec::uniform(kind, 1, devices).nodes.remove(0) }
}

fn target(text: &str) -> Result<Target, CliError> {
    let names = || METRICS.iter().map(|&(name, _)| name);
    let wrong = |what: String| CliError::usage(what).hint("for example `--target p95_wait=1h`");
    let Some((name, most)) = text.split_once('=') else {
        return Err(wrong(format!("`--target {text}` is not of the form METRIC=DURATION")));
    };
    let Some(&(_, measure)) = METRICS.iter().find(|(known, _)| *known == name) else {
        return Err(wrong(format!("`{name}` cannot be a target"))
            .hint_nearest(name, names())
            .hint(format!("there are {}", names().collect::<Vec<_>>().join(", "))));
    };
    let most: Seconds = most.parse().map_err(|error| wrong(format!("`--target {text}`: {error}")))?;
    Ok(Target { name: name.to_owned(), measure, most_s: most.0 })
}

fn price(text: &str) -> Result<(String, f64), CliError> {
    let parsed = text.split_once('=').and_then(|(kind, price)| Some((kind, price.parse::<f64>().ok()?)));
    match parsed.filter(|(_, price)| price.is_finite() && *price >= 0.0) {
        Some((kind, price)) => Ok((kind.to_owned(), price)),
        None => Err(CliError::usage(format!("`--price {text}` is not of the form TYPE=PRICE"))
            .hint("for example `--price a100=2.5`, for an hour of one device")),
    }
}

fn show(search: &Search<'_>, answers: &[Answer], terminal: &Terminal) -> Result<(), CliError> {
    if terminal.format == OutputFormat::Json {
        return terminal
            .json(&serde_json::json!({ "schema": 1, "policy": search.policy, "answers": answers }));
    }
    let mut grid =
        Grid::new(["node", "speed", "nodes", "devices", "reached", "utilization", "per hour", "in all"]);
    for answer in answers {
        let none = || "-".to_owned();
        let number = |value: Option<u32>| value.map_or_else(none, |value| value.to_string());
        let money = |value: Option<f64>| value.map_or_else(none, |value| format!("{value:.2}"));
        let reached = |(name, &reached_s): (&String, &f64)| format!("{name} {}", human::duration(reached_s));
        let reached: Vec<String> = answer.reached_s.iter().map(reached).collect();
        grid.push([
            &answer.node,
            &answer.relative_speed.map_or_else(none, |speed| format!("{speed:.2}")),
            &number(answer.nodes),
            &number(answer.devices),
            &reached.join(", "),
            &answer.utilization.map_or_else(none, human::percent),
            &money(answer.price_per_hour),
            &money(answer.price),
        ]);
    }
    terminal.grid(&grid)?;
    if let Some(profile) = &search.profile {
        let reference = profile.told_reference().map_or("the profile's reference type", |name| &**name);
        let whose = if search.is_builtin { "the built-in profile" } else { "the profile" };
        terminal.note(&format!(
            "speeds are relative to the type of a job's own times (the first requested one, or {reference}), by {whose}"
        ));
    } else if answers.len() > 1 {
        terminal.note("no profile for these types: jobs are assumed to run equally fast on all of them");
    }
    for answer in answers.iter().filter(|answer| answer.nodes.is_none()) {
        terminal.note(&format!("up to {} nodes of {} are not enough", search.nodes_max, answer.node));
    }
    Ok(())
}
