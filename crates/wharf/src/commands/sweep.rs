//! `wharf sweep`: a scenario file on all cores, resumed where it was left.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use wharf_sim::sweep::parallel::thread_count;
use wharf_sim::sweep::{PlannedRun, Scenario, SweepError, SweepPlan, execute as run_plan};
use wharf_study::sweep::{RunStore, SweepReport, build_version};

use super::compare::versions_differ;
use super::sim::command_line;
use crate::args::{OutputFormat, SweepArgs};
use crate::error::{CliError, translate};
use crate::exit::Exit;
use crate::input;
use crate::interrupt;
use crate::output::grid::Grid;
use crate::output::{Terminal, counted};

/// Runs what is not stored, prints the table and writes table and plots.
///
/// # Errors
/// Whatever is wrong with the scenario, its inputs or the outputs.
pub(super) fn execute(args: &SweepArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let plan = plan(args)?;
    for note in &plan.notes {
        terminal.warn(&format!("{}:{}: {}", note.file, note.line, note.message));
    }
    if args.dry_run {
        list(&plan, terminal)?;
        return Ok(Exit::Ok);
    }
    let out = args.out.clone().unwrap_or_else(|| Path::new("wharf-sweep").join(&plan.name));
    let report = run(&plan, args, &out, terminal)?;
    let written = report.write(&out, command_line())?;
    if !written.versions.is_empty() {
        terminal.warn(&versions_differ(&written));
    }
    match terminal.format {
        OutputFormat::Json => terminal.json(&report)?,
        OutputFormat::Plain | OutputFormat::Csv => terminal.rows(&report.report().table().to_plain())?,
        OutputFormat::Table => terminal.data(&report.to_text())?,
    }
    terminal.note(&format!("results are in `{}`", out.display()));
    Ok(Exit::Ok)
}

/// The runs of the arguments' scenario.
///
/// # Errors
/// Whatever is wrong with the scenario or its inputs.
pub(super) fn plan(args: &SweepArgs) -> Result<SweepPlan, CliError> {
    let scenario = Scenario::load(&args.file).map_err(|error| translate::scenario(&error))?;
    let beside = args.file.parent().unwrap_or_else(|| Path::new("")).to_owned();
    let data = args.data.clone().unwrap_or(beside);
    let profile = args.profile.as_deref().map(input::profile).transpose()?;
    SweepPlan::profiled(&scenario, &data, &build_version()?, profile)
        .map_err(|error| translate::scenario(&error))
}

fn run(plan: &SweepPlan, args: &SweepArgs, out: &Path, terminal: &Terminal) -> Result<SweepReport, CliError> {
    let progress = terminal.progress(plan.runs.len() as u64, "runs");
    let on_done = || progress.add(1);
    let store = RunStore::open(out, args.fresh, command_line(), &on_done)?;
    interrupt::say_when_interrupted(format!(
        "finished runs are kept in `{}`; the same command continues",
        out.display()
    ));
    let kept = run_plan(plan, thread_count(args.jobs), &store).map_err(|error| match error {
        SweepError::Keep(error) => error.into(),
        SweepError::Run { source, .. } => translate::run(&source),
    })?;
    progress.finish();
    let (stored, total) = (store.stored_count(), plan.runs.len());
    terminal.note(&match stored {
        0 => counted(total, "run"),
        _ => format!("{}, {stored} of them stored earlier", counted(total, "run")),
    });
    Ok(SweepReport::new(plan, &kept))
}

#[derive(Serialize)]
struct PlanDocument<'a> {
    schema: u32,
    name: &'a str,
    runs: Vec<PlannedDocument<'a>>,
}

#[derive(Serialize)]
struct PlannedDocument<'a> {
    policy: &'a str,
    settings: BTreeMap<&'a str, &'a str>,
    trace: &'a str,
    cluster: &'a str,
    preset: &'a str,
    seed: u64,
    key: String,
}

impl<'a> PlanDocument<'a> {
    fn new(plan: &'a SweepPlan) -> Self {
        let run = |run: &'a PlannedRun| PlannedDocument {
            policy: &run.policy,
            settings: run.settings.iter().collect(),
            trace: &run.trace.name,
            cluster: &run.cluster.name,
            preset: &run.preset.name,
            seed: run.seed,
            key: run.key.to_string(),
        };
        Self { schema: 1, name: &plan.name, runs: plan.runs.iter().map(run).collect() }
    }
}

/// What would be run.
fn list(plan: &SweepPlan, terminal: &Terminal) -> Result<(), CliError> {
    if terminal.format == OutputFormat::Json {
        return terminal.json(&PlanDocument::new(plan));
    }
    let mut grid = Grid::new(["policy", "trace", "cluster", "preset", "seed", "key"]);
    for run in &plan.runs {
        let label =
            std::iter::once(run.policy.clone()).chain(run.settings.iter().map(|(k, v)| format!(" {k}={v}")));
        let label: String = label.collect();
        let (seed, key) = (run.seed.to_string(), run.key.to_string());
        grid.push([&label, &run.trace.name, &run.cluster.name, &run.preset.name, &seed, &key]);
    }
    terminal.grid(&grid)?;
    terminal.note(&counted(plan.runs.len(), "run"));
    Ok(())
}
