//! `wharf sim`

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::Path;

use wharf_document::shell::line;
use wharf_sim::Settings;
use wharf_sim::sweep::parallel::thread_count;
use wharf_sim::{FailureList, Measure, RunError};
use wharf_study::{Batch, OutDir, Outputs, PageFile, PreparedBatch, Results, distinct};

use crate::args::SimArgs;
use crate::error::{CliError, translate};
use crate::exit::Exit;
use crate::input;
use crate::output::Terminal;

/// Stands for every policy.
const ALL: &str = "all";

/// Simulates, prints the summaries, and writes files where asked to.
///
/// # Errors
/// Whatever is wrong with the inputs, or with the outputs.
pub(super) fn execute(args: &SimArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let batch = resolve(args, terminal)?;
    if let Some(job) = &args.explain {
        return super::explain::simulated(&batch, job, terminal);
    }
    let prepared = batch.prepare()?;
    // Before the work, so that a directory that cannot be written is known in a moment.
    let outputs = Outputs {
        dir: args.out.as_deref().map(OutDir::new).transpose()?,
        page: args.report.as_deref().map(PageFile::new).transpose()?,
    };
    let results = run(&batch, prepared, outputs, terminal)?;
    terminal.report(&results.report)?;
    terminal.sparklines(&results.sparks)?;
    if let Some(out) = &args.out {
        terminal.note(&format!("results are in `{}`", out.display()));
    }
    if let Some(page) = &args.report {
        terminal.note(&format!("the report is `{}`", page.display()));
    }
    Ok(Exit::Ok)
}

/// Runs a batch with a progress bar, and warns of unfinished jobs.
pub(super) fn run(
    batch: &Batch,
    prepared: PreparedBatch<'_>,
    outputs: Outputs,
    terminal: &Terminal,
) -> Result<Results, CliError> {
    let steps = (batch.trace.jobs.len() * batch.policies.len()) as u64;
    let progress = terminal.progress(steps, "jobs");
    let results =
        prepared.run(outputs, &command_line(), terminal.is_watched(), &|finished| progress.add(finished))?;
    progress.finish();
    results.unfinished().iter().for_each(|warning| terminal.warn(warning));
    Ok(results)
}

/// What the arguments mean. Names come before files: a typing error is told without reading a large trace.
pub(super) fn resolve(args: &SimArgs, terminal: &Terminal) -> Result<Batch, CliError> {
    let mut policies = distinct(&args.policy)?;
    let measure = args.measure.as_deref().map(str::parse::<Measure>).transpose();
    let measure = measure.map_err(|error| translate::measure(&error))?;
    let settings = input::settings(&args.set)?;
    let format = args.format.as_deref().map(input::format).transpose()?;
    let preset = input::preset(&args.preset)?;
    let format = format.or(preset.trace_format());
    if policies == [ALL] {
        policies = super::policies::names(&preset);
    }
    let mut settings = input::settings_by_policy(&settings, &policies, &preset, terminal)?;
    // What came through a pipe is gone.
    let again = match args.trace == Path::new("-") {
        true => BTreeMap::new(),
        false => settings.iter().map(|(policy, set)| (policy.clone(), again(args, set))).collect(),
    };
    if let Some(failures) = &args.failures {
        for settings in settings.values_mut() {
            input::add_failures(failures, settings)?;
        }
    }
    let (cluster_name, cluster) = input::cluster(&args.cluster)?;
    let mut failures = BTreeMap::new();
    for (policy, settings) in &settings {
        let list = FailureList::of_settings(settings, &cluster)
            .map_err(|error| translate::run(&RunError::Failures(error)))?;
        failures.extend(list.map(|list| (policy.clone(), list)));
    }
    let trace = input::trace(&args.trace, format, terminal)?;
    measure
        .map_or(Ok(()), |measure| measure.check(&trace.jobs))
        .map_err(|error| translate::measure(&error))?;
    input::note_pools(&trace, &cluster, terminal);
    let profile = args.profile.as_deref().map(input::profile).transpose()?;
    let limits = args.limits.as_deref().map(input::limits).transpose()?.map(|(_, limits)| limits);
    let threads = thread_count(args.threads);
    Ok(Batch {
        trace,
        cluster_name,
        cluster,
        preset,
        settings,
        limits,
        seed: args.seed,
        profile,
        rounds: args.rounds.map(NonZeroU64::get),
        failures,
        measure,
        policies,
        threads,
        again,
    })
}

/// The options that repeat a run with these settings, without its policy.
fn again(args: &SimArgs, settings: &Settings) -> Vec<String> {
    let path = |path: &Path| path.display().to_string();
    let mut words: Vec<String> = Vec::new();
    let mut add = |name: &str, value: String| words.extend([name.to_owned(), value]);
    add("--trace", path(&args.trace));
    add("--cluster", args.cluster.clone());
    add("--preset", args.preset.clone());
    for (key, value) in settings.iter() {
        add("--set", format!("{key}={value}"));
    }
    let optional = [
        ("--failures", args.failures.clone()),
        ("--profile", args.profile.as_deref().map(path)),
        ("--rounds", args.rounds.map(|rounds| rounds.to_string())),
        ("--measure", args.measure.clone()),
        ("--limits", args.limits.as_deref().map(path)),
        ("--format", args.format.clone()),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            add(name, value);
        }
    }
    add("--seed", args.seed.to_string());
    words
}

/// The command line as typed, for the report.
pub(super) fn command_line() -> String {
    // What is no text cannot be written into a page either.
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    line(std::iter::once("wharf").chain(words.iter().map(String::as_str)))
}
