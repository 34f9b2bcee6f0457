//! `wharf explain`: what a job waits for, who is ahead, what would let it start, and when it will.

use wharf_core::{Command, Engine, JobId, JobSpec, NodeShare, NodeSpec, Phase, Regime, Time};
use wharf_job::JobNumber;
use wharf_sim::forecast::{CONFIDENCE, Forecast, forecast};
use wharf_sim::{Recorder, go_on};

use super::super::connect::with;
use super::super::jobs::id_of;
use super::super::regime;
use super::{Foresight, PAST_MAX, SEED};
use crate::args::{ExplainJobArgs, OutputFormat};
use crate::error::{CliError, translate};
use crate::exit::Exit;
use crate::moment;
use crate::output::Terminal;

/// More nodes than a job needs that are tried.
const NODES_FOR_OTHERS: u32 = 3;

/// Running jobs whose ends are tried.
const ENDS_TRIED_MAX: usize = 200;

/// States why a job is where it is, and what is to come.
pub(in crate::commands) fn explain(args: &ExplainJobArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let number: JobNumber = args.job.parse().map_err(|error| {
        CliError::usage(format!("invalid job id `{}`: {error}", args.job))
            .hint("for a job of a simulated run, use `--run DIR`")
    })?;
    let (id, reason, foresight) = with(&args.home, async |client| {
        let id = id_of(client, number).await?;
        // The state first: if the job has started meanwhile, the reason states this.
        let foresight = Foresight::ask(client, PAST_MAX).await?;
        Ok((id, client.explain(id).await?, foresight))
    })?;
    let waiting = foresight.number(id).filter(|&job| {
        let is_waiting = foresight.state.job(job).phase == Phase::Waiting;
        is_waiting || foresight.live.waits(&foresight.ids).contains_key(&job)
    });
    let outlook = waiting.map(|job| Outlook::new(&foresight, job)).transpose()?;
    match terminal.format {
        OutputFormat::Json => {
            let outlook = outlook.map(|outlook| outlook.json(&foresight));
            let document =
                serde_json::json!({ "schema": 1, "job": id, "reason": reason, "outlook": outlook });
            terminal.json(&document)?;
        }
        OutputFormat::Table | OutputFormat::Plain | OutputFormat::Csv => {
            let more = outlook.map(|outlook| outlook.text(&foresight)).unwrap_or_default();
            terminal.data(&format!("{reason}\n{more}"))?;
        }
    }
    Ok(Exit::Ok)
}

/// What is to come for a job that waits.
struct Outlook {
    /// Jobs that wait now and are expected to start before it, as people call them.
    ahead: Vec<String>,
    /// What would let it start at once, each by itself.
    now_if: Vec<String>,
    start: Forecast,
}

/// Notes who starts before a job.
struct Before {
    job: JobId,
    started: Vec<JobId>,
    is_satisfied: bool,
}

impl Recorder for Before {
    fn is_satisfied(&self) -> bool {
        self.is_satisfied
    }

    fn started(&mut self, _time: Time, job: JobId, _placement: &[NodeShare], _group: &[JobId]) {
        if job == self.job {
            self.is_satisfied = true;
        } else if !self.is_satisfied {
            self.started.push(job);
        }
    }
}

impl Outlook {
    fn new(foresight: &Foresight, job: JobId) -> Result<Self, CliError> {
        let choice = foresight.live.policy();
        let present = foresight.present();
        let (start, before) = foresight.knowing(&choice, |known| {
            let start = forecast(&present, known, &[job], SEED)?.remove(&job);
            let mut before = Before { job, started: Vec::new(), is_satisfied: false };
            let expected = wharf_sim::forecast::expected(&present, known, SEED);
            go_on(expected, known.policy, (known.make)()?, &mut before)?;
            Ok((start, before))
        })?;
        let mut ahead: Vec<String> = before
            .started
            .iter()
            .filter(|other| matches!(foresight.state.job(**other).phase, Phase::Waiting | Phase::Held))
            .map(|other| foresight.name(*other))
            .collect();
        let mut seen = std::collections::BTreeSet::new();
        ahead.retain(|name| seen.insert(name.clone()));
        let start = start.unwrap_or(Forecast { median: None, low: None, high: None });
        Ok(Self { ahead, now_if: now_if(foresight, job)?, start })
    }

    fn text(&self, foresight: &Foresight) -> String {
        let mut text = String::new();
        if !self.ahead.is_empty() {
            text += &format!("ahead:     {}\n", wharf_report::human::jobs(&self.ahead));
        }
        for (index, way) in self.now_if.iter().enumerate() {
            text += &format!("{}{way}\n", if index == 0 { "now with:  " } else { "       or  " });
        }
        let away = |time: Time| wharf_report::human::duration(time.since(foresight.now()));
        let at = |time: Time| moment::local(foresight.unix_s(time));
        text += &match (self.start.median, self.start.low, self.start.high) {
            (Some(median), Some(low), Some(high)) => format!(
                "expected:  {} (in {}), with {:.0} % certainty in {} to {}\n",
                at(median),
                away(median),
                100.0 * CONFIDENCE,
                away(low),
                away(high)
            ),
            (Some(median), Some(low), None) => format!(
                "expected:  {} (in {}), not before {} from now; it may take much longer\n",
                at(median),
                away(median),
                away(low)
            ),
            _ => "expected:  no start is predicted with the current nodes\n".to_owned(),
        };
        text
    }

    fn json(&self, foresight: &Foresight) -> serde_json::Value {
        let unix_s = |time: Option<Time>| time.map(|time| foresight.unix_s(time));
        serde_json::json!({
            "ahead": self.ahead,
            "now_with": self.now_if,
            "start_s": unix_s(self.start.median),
            "start_low_s": unix_s(self.start.low),
            "start_high_s": unix_s(self.start.high),
            "confidence": CONFIDENCE,
        })
    }
}

/// What would let a job start at once: found by trying it on a copy.
fn now_if(foresight: &Foresight, job: JobId) -> Result<Vec<String>, CliError> {
    let choice = foresight.live.policy();
    let (rules, settings) = (regime::rules()?, regime::settings(&choice)?);
    let make = || -> Result<Regime, CliError> {
        let made = wharf_sim::regime(&rules, &choice.name, &settings, SEED);
        Ok(foresight.live.govern(made.map_err(|error| translate::run(&error))?.0))
    };
    let starts = |commands: &[Command]| -> Result<bool, CliError> {
        let mut engine = Engine::resume(foresight.now(), foresight.state.clone(), make()?);
        for command in commands {
            if engine.handle(foresight.now(), command.clone(), &mut ()).is_err() {
                return Ok(false);
            }
        }
        engine.settle(foresight.now(), &mut ());
        Ok(engine.state().schedule().placement(job).is_some())
    };
    let mut ways = Vec::new();
    if foresight.state.job(job).phase == Phase::Held {
        return Ok(ways);
    }
    let priorities = foresight.state.jobs().map(|(_, spec, _)| spec.priority);
    let priority = priorities.max().unwrap_or(0).saturating_add(1);
    if starts(&[Command::SetPriority { job, priority }])? {
        ways.push(format!("a priority of {priority}"));
    }
    for ended in ends(foresight, job).into_iter().take(ENDS_TRIED_MAX) {
        let generation = foresight.state.job(ended).generation;
        if starts(&[Command::JobExited { job: ended, generation, code: 0 }])? {
            ways.push(format!("the end of job {}", foresight.name(ended)));
            break;
        }
    }
    if let Some(node) = like(foresight, foresight.state.spec(job)) {
        // Those who are ahead take some of them.
        let count_max =
            foresight.state.spec(job).gang.devices.div_ceil(node.devices.max(1)) + NODES_FOR_OTHERS;
        for count in 1..=count_max {
            let more: Vec<Command> = (0..count)
                .map(|index| Command::AddNode(NodeSpec { name: format!("+{index}").into(), ..node.clone() }))
                .collect();
            if starts(&more)? {
                let nodes =
                    if count == 1 { "one more node".to_owned() } else { format!("{count} more nodes") };
                ways.push(format!("{nodes} like {} ({}:{})", node.name, node.device_type, node.devices));
                break;
            }
        }
    }
    Ok(ways)
}

/// Running jobs, those that hold the fewest devices first among those that hold enough.
fn ends(foresight: &Foresight, job: JobId) -> Vec<JobId> {
    let needed = foresight.state.spec(job).gang.devices;
    let running = foresight.state.jobs().filter(|(_, _, life)| life.phase == Phase::Running);
    let mut running: Vec<(bool, u32, JobId)> =
        running.map(|(other, spec, _)| (spec.gang.devices < needed, spec.gang.devices, other)).collect();
    running.sort_unstable();
    running.into_iter().map(|(_, _, other)| other).collect()
}

/// A node of the kind that a job may use, with the most devices.
fn like(foresight: &Foresight, spec: &JobSpec) -> Option<NodeSpec> {
    let allows = |node: &&NodeSpec| {
        spec.gang.allows(&node.device_type) && spec.gang.needs.as_ref().is_none_or(|needs| needs.allow(node))
    };
    let nodes = foresight.live.nodes.iter().map(|node| &node.spec);
    nodes.filter(allows).max_by_key(|node| node.devices).cloned()
}
