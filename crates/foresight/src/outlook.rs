//! The outlook of a waiting job: the jobs ahead of it, what would let it start at once, and when it will start.

use wharf_core::{Command, Engine, JobId, JobSpec, NodeShare, NodeSpec, Phase, Regime, Time};
use wharf_sim::forecast::{CONFIDENCE, Forecast, expected, forecast};
use wharf_sim::{Recorder, go_on};

use crate::{Foresight, ForesightError, SEED, regime};

/// More nodes than a job needs that are tried.
const NODES_FOR_OTHERS: u32 = 3;

/// Running jobs whose ends are tried.
const ENDS_TRIED_MAX: usize = 200;

/// The outlook of a waiting job.
pub struct Outlook {
    /// Jobs that wait now and are expected to start before it, by their numbers.
    pub ahead: Vec<String>,
    /// Changes that would let it start at once, each by itself.
    pub now_if: Vec<String>,
    /// The expected start.
    pub start: Forecast,
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
    /// Simulates the future of a job.
    ///
    /// # Errors
    /// [`ForesightError::Run`] where the simulation fails.
    pub fn new(foresight: &Foresight, job: JobId) -> Result<Self, ForesightError> {
        let choice = foresight.policy();
        let present = foresight.present();
        let (start, before) = foresight.simulate(&choice, |known| {
            let start = forecast(&present, known, &[job], SEED)?.remove(&job);
            let mut before = Before { job, started: Vec::new(), is_satisfied: false };
            let present = expected(&present, known, SEED);
            go_on(present, known.policy, (known.make)()?, &mut before)?;
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

    /// The document of `wharf explain --output json`.
    pub fn json(&self, foresight: &Foresight) -> serde_json::Value {
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

/// Changes that would let a job start at once, each tried on a copy of the state.
fn now_if(foresight: &Foresight, job: JobId) -> Result<Vec<String>, ForesightError> {
    let choice = foresight.policy();
    let make = || -> Result<Regime, ForesightError> {
        Ok(foresight.live.govern(regime::seeded(&choice, SEED, None)?))
    };
    let starts = |commands: &[Command]| -> Result<bool, ForesightError> {
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
