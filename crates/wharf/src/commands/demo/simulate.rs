//! `wharf demo --simulate`: all policies on a generated trace.

use std::collections::BTreeMap;

use wharf_report::files::REPORT_HTML;
use wharf_reproduce::policies;
use wharf_sim::sweep::parallel::thread_count;
use wharf_sim::{RunError, RunSpec, Settings, check};
use wharf_study::{Batch, OutDir, Outputs};
use wharf_trace::{Durations, Format, GangMix, GeneratorSettings, MixError, Rate, generate, write_trace};

use crate::args::DemoArgs;
use crate::commands::sim;
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::input;
use crate::output::Terminal;

/// Jobs where no number is given.
const JOBS: u64 = 500;
/// The generated trace, among the results.
const TRACE_FILE: &str = "trace.csv";

/// Generates a trace, runs every policy on it, prints the comparison and writes the report.
///
/// # Errors
/// Whatever is wrong with the arguments, or with the outputs.
pub(super) fn execute(args: &DemoArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let batch = resolve(args)?;
    let out = OutDir::new(&args.out)?;
    let mut text = Vec::new();
    write_trace(&batch.trace, Format::NATIVE_CSV, &mut text)
        .map_err(|error| CliError::new(ErrorKind::Internal, "cannot write the trace").caused_by(error))?;
    out.write(TRACE_FILE.as_ref(), &text)?;
    let jobs = batch.trace.jobs.len();
    terminal.note(&format!(
        "{} policies on {jobs} generated jobs, cluster {}",
        batch.policies.len(),
        args.cluster
    ));
    let outputs = Outputs { dir: Some(out), page: None };
    let results = sim::run(&batch, batch.prepare()?, outputs, terminal)?;
    terminal.report(&results.report)?;
    terminal.sparklines(&results.sparks)?;
    let dir = args.out.display();
    terminal.note(&format!("the report is `{dir}/{REPORT_HTML}`, the trace `{dir}/{TRACE_FILE}`"));
    terminal.note(&format!(
        "try next: wharf sim --trace {dir}/{TRACE_FILE} --cluster {} --policy srtf,las --seed {}",
        args.cluster, args.seed
    ));
    Ok(Exit::Ok)
}

fn resolve(args: &DemoArgs) -> Result<Batch, CliError> {
    let preset = input::preset("wharf")?;
    let (cluster_name, cluster) = input::cluster(&args.cluster)?;
    let settings = workload(args, cluster.device_count())?;
    let trace = generate(&settings).map_err(|error| CliError::from_error(ErrorKind::Usage, &error))?;
    let settings = Settings::default();
    let runs_here = |policy: &&str| {
        let spec = RunSpec {
            trace: &trace,
            cluster: &cluster,
            policy,
            preset: &preset,
            settings: &settings,
            seed: args.seed,
            profile: None,
            rounds: None,
            failures: None,
        };
        !matches!(check(&spec), Err(RunError::NotInPreset { .. }))
    };
    let policies = policies().map(|policy| policy.name).filter(runs_here).map(str::to_owned).collect();
    let threads = thread_count(args.threads);
    Ok(Batch {
        trace,
        cluster_name,
        cluster,
        preset,
        settings: BTreeMap::new(),
        limits: None,
        seed: args.seed,
        profile: None,
        rounds: None,
        failures: BTreeMap::new(),
        measure: None,
        policies,
        threads,
        again: BTreeMap::new(),
    })
}

/// More work than the cluster can do at once, in jobs short enough to see the end: there policies differ most.
fn workload(args: &DemoArgs, devices: u32) -> Result<GeneratorSettings, CliError> {
    const HOUR_S: f64 = 3600.0;
    let jobs = args.jobs.unwrap_or(JOBS);
    let too_many = || CliError::usage(format!("`--jobs` is {jobs}, but must be from 1 to {}", u32::MAX));
    let usage = |error: MixError| CliError::from_error(ErrorKind::Usage, &error);
    let mix: GangMix = "muri".parse().map_err(usage)?;
    let sizes = mix.sizes().iter().copied().filter(|&(size, _)| size <= devices).collect();
    Ok(GeneratorSettings {
        name: "demo".to_owned(),
        seed: args.seed,
        job_count: u32::try_from(jobs).map_err(|_| too_many())?,
        rate: Rate::Load { devices, load: 1.2 },
        gangs: GangMix::try_new(sizes).map_err(usage)?,
        durations: Durations { tail_from_s: 4.0 * HOUR_S, max_s: 24.0 * HOUR_S, ..Durations::default() },
        ..GeneratorSettings::default()
    })
}
