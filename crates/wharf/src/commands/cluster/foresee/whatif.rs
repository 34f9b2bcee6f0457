//! `wharf whatif`: what is, or was, under other policies and on other machines.

use std::sync::atomic::{AtomicBool, Ordering};

use wharf_core::{JobEnd, NodeImage, NodeSpec, Phase};
use wharf_head::PolicyChoice;
use wharf_report::{Metric, Report, RunLabels, Summary};
use wharf_sim::forecast::expected;
use wharf_sim::{NoRecorder, Recorder, go_on};

use super::super::connect::with;
use super::super::regime;
use super::history::{Window, window};
use super::{Foresight, PAST_MAX, SEED};
use crate::args::WhatIfArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::input;
use crate::output::Terminal;

/// Simulates under each policy and compares.
pub(in crate::commands) fn whatif(args: &WhatIfArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let past_max = if args.since.is_some() { u32::MAX } else { PAST_MAX };
    let mut foresight = with(&args.home, async |client| Foresight::ask(client, past_max).await)?;
    let choices = choices(args, &foresight)?;
    change_nodes(args, &mut foresight)?;
    let runs = match args.since {
        Some(since) => over_again(&window(&foresight, Some(since.0)), &choices, terminal)?,
        None => each(&choices, terminal, |choice| go_on_with(&foresight, choice, &mut NoRecorder))?,
    };
    terminal.report(&Report::new(runs))?;
    terminal.note(match args.since {
        Some(_) => "`as it was` is the actual run; the others are simulated from an empty cluster",
        None => "current jobs, with lengths estimated from similar ones; no new jobs arrive",
    });
    Ok(Exit::Ok)
}

/// The jobs that are there now under other policies, beside the one that decides, for the dashboard. The names are those of policies
/// that are built in: the only program that runs on the head's machine by this is the one that decides there already.
pub(super) fn compare(
    foresight: &Foresight,
    policies: &[String],
    is_given_up: &AtomicBool,
) -> Result<serde_json::Value, CliError> {
    let mut choices = vec![foresight.live.policy()];
    for name in policies.iter().filter(|name| **name != foresight.live.policy().name) {
        choices.push(regime::choice(Some(name), &[])?);
    }
    let (mut runs, mut failed) = (Vec::new(), Vec::new());
    for choice in choices {
        match go_on_with(foresight, &choice, &mut Until(is_given_up)) {
            Ok(run) => runs.push(run),
            Err(error) => {
                failed.push(serde_json::json!({ "policy": choice.name, "error": error.one_line() }));
            }
        }
        if is_given_up.load(Ordering::Relaxed) {
            return Err(CliError::new(ErrorKind::BrokenPipe, "the client has disconnected"));
        }
    }
    let best = wharf_report::compare::winners(&runs);
    let told = |(run, best): (&Summary, [bool; Metric::ALL.len()])| {
        let best: Vec<&str> =
            Metric::ALL.iter().zip(best).filter(|(_, best)| *best).map(|(m, _)| m.name()).collect();
        serde_json::json!({ "run": run, "best": best })
    };
    Ok(runs.iter().zip(best).map(told).chain(failed).collect())
}

/// Ends a run when a flag is set.
struct Until<'a>(&'a AtomicBool);

impl Recorder for Until<'_> {
    fn is_satisfied(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

fn choices(args: &WhatIfArgs, foresight: &Foresight) -> Result<Vec<PolicyChoice>, CliError> {
    let now = foresight.live.policy();
    if args.policy.is_empty() {
        let set = regime::choice(Some(&now.name), &args.set)?;
        return Ok(vec![if args.set.is_empty() { now } else { set }]);
    }
    let choice = |name: &String| match *name == now.name && args.set.is_empty() {
        // As it decides now, with all its settings.
        true => Ok(now.clone()),
        false => regime::choice(Some(name), &args.set),
    };
    let choices: Vec<PolicyChoice> = args.policy.iter().map(choice).collect::<Result<_, _>>()?;
    choices.iter().try_for_each(|choice| regime::make(choice).map(drop))?;
    Ok(choices)
}

/// Adds nodes that are not there and takes out those that are to be done without.
fn change_nodes(args: &WhatIfArgs, foresight: &mut Foresight) -> Result<(), CliError> {
    for name in &args.drain {
        let known: Vec<String> = foresight.live.nodes.iter().map(|node| node.spec.name.to_string()).collect();
        let node = foresight.live.nodes.iter_mut().find(|node| *node.spec.name == **name);
        let Some(node) = node else {
            return Err(CliError::usage(format!("there is no node `{name}`"))
                .hint_nearest(name, known.iter().map(String::as_str)));
        };
        node.is_cordoned = true;
        let drained = foresight.live.nodes.iter().position(|node| *node.spec.name == **name);
        for job in &mut foresight.live.jobs {
            let is_there = |share: &wharf_core::NodeShare| Some(share.node.index()) == drained;
            let placement = job.image.placement.as_deref().unwrap_or_default();
            if placement.iter().any(is_there) && job.image.ending.is_none() {
                // Its jobs have saved and wait.
                job.image.attained_s += foresight.live.now.since(job.image.placed_at);
                (job.image.phase, job.image.placement) = (Phase::Waiting, None);
                job.image.preemptions += 1;
            }
        }
    }
    for text in &args.add_nodes {
        let (_, cluster) = input::cluster(text)?;
        let first = foresight.live.nodes.len();
        let more = cluster.nodes.into_iter().enumerate().map(|(index, spec)| NodeImage {
            spec: NodeSpec { name: format!("new-{}", first + index).into(), ..spec },
            is_there: true,
            is_cordoned: false,
            is_closed: false,
            broken: wharf_core::DeviceSet::EMPTY,
        });
        foresight.live.nodes.extend(more);
    }
    (foresight.state, foresight.ids) = foresight.live.present();
    Ok(())
}

fn labels(policy: &str, trace: &str, devices: u32) -> RunLabels {
    RunLabels {
        policy: policy.to_owned(),
        trace: trace.to_owned(),
        preset: "wharf".to_owned(),
        cluster: format!("{devices} devices"),
        seed: SEED,
    }
}

fn go_on_with(
    foresight: &Foresight,
    choice: &PolicyChoice,
    recorder: &mut dyn Recorder,
) -> Result<Summary, CliError> {
    let outcome = foresight.knowing(choice, |known| {
        let present = expected(&foresight.present(), known, SEED);
        go_on(present, known.policy, (known.make)()?, recorder)
    })?;
    let labels = labels(&choice.name, "from now on", outcome.device_count);
    Ok(Summary::new(labels, &outcome, 0.0))
}

fn over_again(
    window: &Window,
    choices: &[PolicyChoice],
    terminal: &Terminal,
) -> Result<Vec<Summary>, CliError> {
    let devices = window.cluster.device_count();
    let simulated = each(choices, terminal, |choice| {
        Ok(Summary::new(labels(&choice.name, "history", devices), &window.simulate(choice)?, 0.0))
    });
    let mut runs = vec![Summary::new(labels("as it was", "history", devices), &window.outcome(), 0.0)];
    runs.extend(simulated?);
    Ok(runs)
}

/// One policy after the other, with a progress bar.
fn each(
    choices: &[PolicyChoice],
    terminal: &Terminal,
    mut simulate: impl FnMut(&PolicyChoice) -> Result<Summary, CliError>,
) -> Result<Vec<Summary>, CliError> {
    let progress = terminal.progress(choices.len() as u64, "policies");
    let mut runs = Vec::with_capacity(choices.len());
    for choice in choices {
        runs.push(simulate(choice)?);
        progress.add(1);
    }
    progress.finish();
    Ok(runs)
}

/// Whether a job came to an end of its own.
pub(super) fn has_run(end: JobEnd) -> bool {
    !matches!(end, JobEnd::Cancelled | JobEnd::Rejected)
}
