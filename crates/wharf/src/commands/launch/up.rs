//! `wharf up`: brings a cluster to where its file says it should be.

use std::time::Instant;

use serde_json::json;
use wharf_launch::Launcher;
use wharf_launch::phase::{Phase, Restart};
use wharf_launch::up::{Options, Planned, PlannedMachine, Report, UpError};

use super::{
    failed_provider, folder, interruptible, launcher, prepared, read, refuse_blockers, tell_failure, unknown,
    unusable,
};
use crate::args::{OutputFormat, UpArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::interrupt;
use crate::output::grid::Grid;
use crate::output::{Terminal, confirm, counted};

/// Does what the arguments say.
///
/// # Errors
/// The file is wrong, another process changes the cluster, or no node could be started.
pub(in crate::commands) fn up(args: &UpArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let mut cluster = read(&args.launched.file, terminal)?;
    refuse_blockers(&args.launched.file, &cluster)?;
    if let Some(min_workers) = args.min_workers {
        cluster.min_workers = min_workers.min(cluster.nodes.len() - 1);
    }
    if args.check {
        let found = match cluster.warnings.len() {
            0 => "no problems".to_owned(),
            count => counted(count, "warning"),
        };
        terminal.note(&format!(
            "{}: cluster {} with {}, {found}",
            args.launched.file.display(),
            cluster.name,
            counted(cluster.nodes.len(), "node"),
        ));
        return Ok(Exit::Ok);
    }
    let restart = match (args.no_restart, args.restart_only) {
        (true, _) => Restart::Never,
        (_, true) => Restart::Only,
        _ => Restart::IfChanged,
    };
    let folder = folder(&args.launched, &cluster)?;
    if args.dry_run {
        let planned = wharf_launch::up::plan(&prepared(cluster, folder, terminal)?, restart);
        show_plan(&planned.map_err(|error| failed(&error))?, terminal)?;
        return Ok(Exit::Ok);
    }
    let known = folder.load().map_err(|error| unusable(&error))?;
    let is_gone = |name: &&String| !cluster.nodes.iter().any(|node| node.name == **name);
    let gone: Vec<&str> = known.keys().filter(is_gone).map(String::as_str).collect();
    if !gone.is_empty() {
        let question = format!("the file no longer contains {}: stop these nodes?", gone.join(", "));
        if !confirm(&question, args.yes, terminal)? {
            return Ok(Exit::Ok);
        }
    }
    let other = wharf_launch::replaced(&cluster, &known);
    if !other.is_empty() {
        let names: Vec<&str> = other.iter().map(|record| record.node.name.as_str()).collect();
        let question =
            format!("the specification of the machines of {} has changed: replace them?", names.join(", "));
        if !confirm(&question, args.yes, terminal)? {
            return Ok(Exit::Ok);
        }
    }
    let (launcher, lock) = launcher(cluster, folder, "wharf up", terminal)?;
    let start = Instant::now();
    let options = Options { restart, parallel: args.parallel };
    let work = wharf_launch::up::up(launcher.clone(), options);
    let Some(report) = interruptible(work)? else {
        terminal.note("interrupted; repeat `wharf up` to continue");
        return Ok(interrupt::handled().unwrap_or(Exit::Ok));
    };
    let report = report.map_err(|error| failed(&error))?;
    drop(lock);
    conclude(&launcher, &report, start, terminal)
}

pub(super) fn failed(error: &UpError) -> CliError {
    match error {
        UpError::Known(error) => unknown(error),
        UpError::Files(error) => CliError::from_error(ErrorKind::Input, error),
        UpError::Run(error) => CliError::from_error(ErrorKind::Input, error),
        UpError::Machines(error) => failed_provider(error),
        UpError::Synced(_) => CliError::from_error(ErrorKind::Input, error),
    }
}

fn show_plan(planned: &[Planned], terminal: &Terminal) -> Result<(), CliError> {
    if terminal.format == OutputFormat::Json {
        let phases = |node: &Planned| -> Vec<_> {
            let phases = node.phases.iter();
            phases
                .map(|due| json!({"phase": due.phase.to_string(), "due": due.is_due, "reason": due.reason}))
                .collect()
        };
        let machine = |node: &Planned| {
            node.machine.map(|machine| match machine {
                PlannedMachine::Made => "made",
                PlannedMachine::Replaced => "replaced",
                PlannedMachine::Kept => "kept",
            })
        };
        let nodes: Vec<_> = planned
            .iter()
            .map(|node| json!({"node": node.node, "machine": machine(node), "phases": phases(node)}))
            .collect();
        return terminal.json(&json!({"schema": 1, "nodes": nodes}));
    }
    let mut grid = Grid::new(["node", "phase", "", "why"]);
    for node in planned {
        match node.machine {
            None => {}
            Some(PlannedMachine::Made) => grid.push([&node.node, "machine", "would be created", "unknown"]),
            Some(PlannedMachine::Replaced) => {
                grid.push([&node.node, "machine", "would be replaced", "specification changed"]);
            }
            Some(PlannedMachine::Kept) => grid.push([&node.node, "machine", "-", "there"]),
        }
        for due in &node.phases {
            let verdict = if due.is_due { "would run" } else { "-" };
            grid.push([&node.node, &due.phase.to_string(), verdict, due.reason]);
        }
    }
    terminal.grid(&grid)
}

/// States the outcome of the nodes, and how to continue.
fn conclude(
    launcher: &Launcher,
    report: &Report,
    start: Instant,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    for outcome in &report.nodes {
        if let Err(error) = &outcome.result {
            tell_failure(launcher, &outcome.node, error, terminal);
        }
    }
    for outcome in &report.gone {
        if let Err(error) = &outcome.result {
            tell_failure(launcher, &outcome.node, error, terminal);
        }
    }
    show(report, terminal)?;
    let is_up = |index: usize| report.nodes.get(index).is_some_and(|outcome| outcome.result.is_ok());
    if !is_up(0) {
        terminal
            .note("the head did not start, so no worker was started; fix the problem and repeat `wharf up`");
        return Ok(Exit::HeadFailed);
    }
    let workers = (1..report.nodes.len()).filter(|&index| is_up(index)).count();
    let total = launcher.cluster.nodes.len();
    let seconds = start.elapsed().as_secs_f64();
    terminal.note(&format!(
        "{}: {} of {total} nodes are up after {seconds:.1} s",
        launcher.cluster.name,
        workers + 1
    ));
    if launcher.folder.client().exists() {
        terminal.note(&format!("to use it: export WHARF_HOME={}", launcher.folder.client().display()));
    }
    let has_gone = report.gone.iter().all(|outcome| outcome.result.is_ok());
    if workers < launcher.cluster.min_workers || !has_gone {
        terminal.note("repeat `wharf up` for the failed nodes");
        return Ok(Exit::NodesFailed);
    }
    Ok(Exit::Ok)
}

fn show(report: &Report, terminal: &Terminal) -> Result<(), CliError> {
    let done = |phases: &[Phase]| -> Vec<String> { phases.iter().map(ToString::to_string).collect() };
    if terminal.format == OutputFormat::Json {
        let nodes: Vec<_> = report
            .nodes
            .iter()
            .map(|outcome| match &outcome.result {
                Ok(phases) => json!({"node": outcome.node, "up": true, "phases": done(phases)}),
                Err(error) => json!({"node": outcome.node, "up": false, "error": error.told()}),
            })
            .collect();
        return terminal.json(&json!({"schema": 1, "nodes": nodes}));
    }
    let mut grid = Grid::new(["node", "state", "phases"]);
    for outcome in &report.nodes {
        match &outcome.result {
            Ok(phases) => grid.push([&outcome.node, "up", &done(phases).join(",")]),
            Err(_) => grid.push([&outcome.node, "failed", ""]),
        }
    }
    terminal.grid(&grid)
}
